"""``qworker hold`` keeps its slots while the command runs, and tells if it loses them."""

import os
import shutil
import signal
import sqlite3
from datetime import datetime
from pathlib import Path

import pytest

import slotq
from slotq_app.cli.keeper import Keeper
from support.commands import DEADLINE_S, until
from support.gates import CODE, Gated, gated
from support.serving import has_passed
from support.stores import locked

LOST = 76
TTL_S = 1.0


def end_of(q: slotq.Queue) -> datetime:
    (info,) = q.holds(key="k")
    assert info.expires_at is not None
    return info.expires_at


def until_extended(q: slotq.Queue, end: datetime) -> datetime:
    until(lambda: end_of(q) != end, "it is extended")
    return end_of(q)


@pytest.mark.slow
def test_the_slot_is_kept_over_many_ttls(tmp_path: Path) -> None:
    with (
        slotq.Queue(tmp_path / "jobs.db") as q,
        gated("--max-running", "1", "--ttl", f"{TTL_S}s", folder=tmp_path) as command,
    ):
        assert command.pid
        first = last = end_of(q)
        for _ in range(6):
            last = until_extended(q, last)
        assert (last - first).total_seconds() > 1.5 * TTL_S
        assert command.end() == CODE
        assert command.qworker.said == ""


def lose(q: slotq.Queue, command: Gated) -> int:
    """Take a command's slot back; return its number once it has noticed."""
    assert command.pid
    (info,) = q.holds()
    q.release_hold(info.id)
    until(lambda: bool(command.qworker.said), "it is told")
    assert not command.qworker.has_ended
    return info.id


@pytest.mark.slow
def test_a_slot_that_is_lost_is_told_at_once(tmp_path: Path) -> None:
    with (
        slotq.Queue(tmp_path / "jobs.db") as q,
        gated("--max-running", "1", folder=tmp_path) as command,
    ):
        number = lose(q, command)
        with q.hold("k", max_running=1):
            assert command.end() == LOST
            assert len(q.holds()) == 1  # what somebody else has stays his
        what = f"hold {number} of key 'k' has ended: its slots may be others' by now"
        assert command.qworker.said == f"qworker: {what}; the command goes on\n"


@pytest.mark.slow
def test_one_that_was_stopped_for_longer_than_its_ttl_has_lost_the_slot(tmp_path: Path) -> None:
    with (
        slotq.Queue(tmp_path / "jobs.db") as q,
        gated("--max-running", "1", "--ttl", f"{TTL_S}s", folder=tmp_path) as command,
    ):
        processes = command.pid, command.qworker.pid
        for pid in processes:  # as Ctrl-Z does
            os.kill(pid, signal.SIGSTOP)
        with q.hold("k", max_running=1, wait=DEADLINE_S):
            for pid in processes:
                os.kill(pid, signal.SIGCONT)
            until(lambda: "has ended" in command.qworker.said, "it is told")
            assert command.end() == LOST
            assert len(q.holds()) == 1


@pytest.mark.slow
def test_keep_going_returns_the_commands_code(tmp_path: Path) -> None:
    with (
        slotq.Queue(tmp_path / "jobs.db") as q,
        gated("--max-running", "1", "--keep-going", folder=tmp_path) as command,
    ):
        lose(q, command)
        assert command.end() == CODE
        assert command.qworker.said.count("\n") == 1


def test_a_slot_that_is_found_lost_at_the_end_only_counts_too(tmp_path: Path) -> None:
    with (
        slotq.Queue(tmp_path / "jobs.db") as q,
        gated("--max-running", "1", folder=tmp_path) as command,
    ):
        assert command.pid
        (info,) = q.holds()
        q.release_hold(info.id)
        assert command.end() == LOST
        assert command.qworker.said.count("\n") == 1


@pytest.mark.slow
def test_a_file_that_is_deleted_loses_the_slot(tmp_path: Path) -> None:
    with gated("--max-running", "1", folder=tmp_path) as command:
        assert command.pid
        for path in tmp_path.glob("jobs.db*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        until(lambda: "deleted or replaced" in command.qworker.said, "it is told")
        assert command.end() == LOST
        assert "Traceback" not in command.qworker.said


@pytest.mark.slow
def test_a_file_that_is_busy_for_a_while_loses_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with slotq.Queue(tmp_path / "jobs.db", lock_timeout=0.05) as q:
        hold = q.hold("k", ttl=3).acquire()
        began = hold.expires_at
        with Keeper(q, hold, 3) as keeper:
            with locked(tmp_path / "jobs.db"):
                until(has_passed(1.6), "it was due, and could not be extended")
                assert hold.expires_at == began
            until(lambda: hold.expires_at != began, "it is extended")
            assert not keeper.is_lost
        hold.release()
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_a_file_that_is_busy_for_too_long_loses_the_slot(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with slotq.Queue(tmp_path / "jobs.db", lock_timeout=0.05) as q:
        hold = q.hold("k", ttl=0.5).acquire()
        with locked(tmp_path / "jobs.db"), Keeper(q, hold, 0.5) as keeper:
            until(lambda: keeper.is_lost, "it is lost")
    said = capfd.readouterr().err
    assert said.startswith("qworker: hold 1 ")
    assert said.endswith("; the command goes on\n")
    assert said.count("\n") == 1


@pytest.mark.slow
def test_what_keeps_it_from_being_extended_is_told_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with slotq.Queue(tmp_path / "jobs.db") as q:
        hold = q.hold("k", ttl=1.5).acquire()
        forbid = "CREATE TRIGGER forbid BEFORE UPDATE ON slotq_holds BEGIN SELECT raise(abort, 'no'); END"
        with sqlite3.connect(tmp_path / "jobs.db") as connection:
            connection.execute(forbid)
        connection.close()
        with Keeper(q, hold, 1.5) as keeper:
            until(lambda: keeper.is_lost, "it is lost")
    first, last = capfd.readouterr().err.splitlines()
    assert first.startswith("qworker: warning: hold 1 cannot be extended for now: ")
    assert last.endswith("; the command goes on")
