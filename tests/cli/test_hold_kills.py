"""A ``qworker hold`` that is killed: its command keeps the slot while it lives, until its TTL."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

import slotq
from support.commands import DEADLINE_S, started, until
from support.fleet import is_gone
from support.gates import Gated, gated
from support.serving import has_passed

# Longer than any test: what is free sooner is not free by its TTL.
LONG = ("--max-running", "1", "--ttl", "10m")
# By then a worker has looked for the dead more than once; and what is promised is a second.
LOOKED_S = 1.2
SOON_S = 3.0
APP = "import slotq\nq = slotq.Queue('jobs.db')\nq.task(name='app.work')(lambda: None)\n"


@pytest.fixture
def queue(tmp_path: Path) -> Generator[slotq.Queue]:
    (tmp_path / "app.py").write_text(APP)
    with slotq.Queue(tmp_path / "jobs.db") as made:
        made.set_limit("k", max_running=1)
        yield made


@contextmanager
def served(queue: slotq.Queue) -> Generator[None]:
    """Have a worker serve the file."""
    with started("run", "app:q", cwd=queue.path.parent):
        until(lambda: len(queue.workers()) == 1, "a worker serves")
        yield


def kill(command: Gated) -> None:
    """Kill what holds the slot; the command lives on."""
    assert command.pid
    command.qworker.signal(signal.SIGKILL)
    assert command.qworker.wait() == -signal.SIGKILL
    assert not is_gone(command.pid)


def is_free(queue: slotq.Queue) -> bool:
    """Tell whether somebody else can have the slot."""
    try:
        with queue.hold("k", ttl=1):
            return True
    except slotq.LimitExceeded:
        return False


@pytest.mark.slow
def test_a_command_keeps_the_slot_and_with_it_the_slot_is_gone(queue: slotq.Queue) -> None:
    with served(queue), gated(*LONG, folder=queue.path.parent) as command:
        kill(command)
        looked = has_passed(LOOKED_S)
        until(lambda: is_free(queue) or looked(), "a worker has looked for the dead")
        assert not is_free(queue)
        assert not is_gone(command.pid)
        command.let_go()
        soon = has_passed(SOON_S)
        until(lambda: is_free(queue) or soon(), "the slot is free")
        assert is_free(queue)
        assert queue.holds() == []


def test_without_a_worker_another_hold_finds_out(queue: slotq.Queue) -> None:
    folder = queue.path.parent
    with gated(*LONG, folder=folder) as command:
        kill(command)
        with gated(*LONG, folder=folder, name="b") as refused:
            assert refused.qworker.wait() == 75
        command.let_go()
    with gated(*LONG, folder=folder, name="c") as another:
        assert another.pid


@pytest.mark.slow
@pytest.mark.parametrize("has_worker", [True, False])
def test_a_slot_is_free_at_its_ttl_and_not_before(queue: slotq.Queue, has_worker: bool) -> None:
    ttl = ("--max-running", "1", "--ttl", "2s")
    with gated(*ttl, folder=queue.path.parent) as command:
        assert command.pid
        if has_worker:
            with served(queue):
                free_at, end = until_free(queue, command)
        else:
            free_at, end = until_free(queue, command)
        assert not is_gone(command.pid)
    assert end <= free_at
    assert (free_at - end).total_seconds() < SOON_S


def until_free(queue: slotq.Queue, command: Gated) -> tuple[datetime, datetime]:
    """Kill what holds the slot and wait for it; return when it was had, and when it ended."""
    kill(command)
    (info,) = queue.holds()
    assert info.expires_at is not None
    with queue.hold("k", wait=DEADLINE_S):
        return datetime.now(UTC), info.expires_at


@pytest.mark.slow
def test_both_killed_frees_the_slot_within_a_second(queue: slotq.Queue) -> None:
    with served(queue), gated(*LONG, folder=queue.path.parent) as command:
        kill(command)
        assert not is_free(queue)
        command.kill()
        soon = has_passed(SOON_S)
        until(lambda: is_free(queue) or soon(), "the slot is free")
        assert is_free(queue)


@pytest.mark.slow
def test_a_killed_one_that_waits_leaves_the_line(queue: slotq.Queue) -> None:
    folder = queue.path.parent
    with queue.hold("k") as held, gated(*LONG, "--wait", "inf", folder=folder) as command:
        until(lambda: len(queue.holds()) == 2, "it waits")
        command.qworker.signal(signal.SIGKILL)
        assert command.qworker.wait() == -signal.SIGKILL
        held.release()
        with queue.hold("k", wait=DEADLINE_S):
            assert not command.has_begun
