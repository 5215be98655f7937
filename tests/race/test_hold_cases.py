"""Field cases 2, 5, 9 and 19 with holds: one slot for one, and nobody sleeps through a free one."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from slotq import Queue, QueueBusy, Worker
from support import history, ledger
from support.commands import qworker
from support.history import Event
from support.hold_load import command, released
from support.probe_tasks import command as worker_command
from support.procs import Process, until
from support.serving import has_passed, has_succeeded, serving_in_thread
from support.stores import locked

pytestmark = pytest.mark.slow

PROCESSES = 8
BLOCKS = 25
HOLD_S = 0.02
# The longest that anybody who waits may sleep through a free slot.
IDLE_S = 0.5
AT_ONCE_S = 5.0
TTL_S = 1.5


@pytest.mark.parametrize("most", [1, 3])
def test_a_free_slot_that_eight_processes_see_is_held_by_one(tmp_path: Path, most: int) -> None:
    """Field case 2: 200 blocks of 20 ms by 8 processes that begin together."""
    with Queue(tmp_path / "jobs.db", lock_timeout=30) as queue:
        queue.set_limit("k", max_running=most)
        ledger.keep(queue.path)
        words = command(queue.path, "wait", "--times", str(BLOCKS), "--held", str(HOLD_S))
        with released(queue.path, [words] * PROCESSES) as programs:
            for program in programs:
                program.finish(60)
        seen = ledger.read(queue.path)
        told = history.read(tmp_path / "log")
        arrivals = [event for event in seen if event.kind == "enqueued"]
        for verdict in (
            history.judge(seen, {"k": most}),
            history.judge([*arrivals, *told], {"k": most}),
        ):
            assert verdict.broken == []
            assert verdict.peaks == {"k": most}
            assert len(verdict.starts) == PROCESSES * BLOCKS
            assert set(verdict.starts.values()) == {1}
        assert len({event.pid for event in told}) == PROCESSES


def releases(queue: Queue, hold_id: int) -> None:
    queue.release_hold(hold_id)


def releases_by_command(queue: Queue, hold_id: int) -> None:
    done = qworker("--db", str(queue.path), "holds", "release", str(hold_id), cwd=queue.path.parent)
    assert (done.code, done.err) == (0, ""), done


@pytest.mark.parametrize("release", [releases, releases_by_command])
def test_the_slot_of_a_hold_that_somebody_releases(
    tmp_path: Path, release: Callable[[Queue, int], None]
) -> None:
    """Field case 5: a job that waits for it starts at once."""
    with Queue(tmp_path / "jobs.db", lock_timeout=30) as queue:
        queue.set_limit("k", max_running=1)
        hold = queue.hold("k").acquire()
        assert hold.id is not None
        with Process(worker_command(queue.path), tmp_path / "worker"):
            until(queue.workers)
            queue.enqueue("mark", args=[1, "k"], key="k")
            until(has_passed(0.2))
            assert queue.stats().succeeded == 0
            release(queue, hold.id)
            until(has_succeeded(queue, 1), patience_s=AT_ONCE_S)


def test_the_slot_of_a_hold_whose_end_cannot_be_written(tmp_path: Path) -> None:
    """Field case 5: others keep the file locked for longer than the block's end waits; the slot is
    free when its TTL ends, with nobody's help."""
    with Queue(tmp_path / "jobs.db", lock_timeout=0.1) as queue:
        queue.set_limit("k", max_running=1)
        with Process(worker_command(queue.path), tmp_path / "worker"):
            until(queue.workers)
            with pytest.raises(QueueBusy), locked(queue.path), queue.hold("k", ttl=TTL_S) as hold:
                raise AssertionError(hold)
            hold = queue.hold("k", ttl=TTL_S).acquire()
            ends_at = hold.expires_at
            with locked(queue.path), pytest.raises(QueueBusy):
                hold.__exit__(None, None, None)
            job = queue.enqueue("mark", args=[1, "k"], key="k")
            until(has_succeeded(queue, 1), patience_s=TTL_S + AT_ONCE_S)
            started_at = queue.job(job.id).started_at
            assert started_at is not None
            assert ends_at is not None
            assert timedelta(0) <= started_at - ends_at < timedelta(seconds=IDLE_S)


def test_those_who_wait_are_in_soon_after_a_release(tmp_path: Path) -> None:
    """Field case 9: one waits in the same process and one in another, behind a TTL of 30 s."""
    with Queue(tmp_path / "jobs.db", lock_timeout=30) as queue:
        queue.set_limit("k", max_running=1)
        ledger.keep(queue.path)

        def wait() -> None:
            with queue.hold("k", wait=60):
                pass

        here = threading.Thread(target=wait)
        words = ["-m", "support.hold_keeper", str(queue.path), "wait"]
        with queue.hold("k", ttl=30):
            here.start()
            until(lambda: len(queue.holds()) == 2)
            there = Process(words, tmp_path / "there")
            until(lambda: len(queue.holds()) == 3)
            until(has_passed(1.0))  # past the moment at which both have just looked
        with there:
            until(lambda: "dropped" in there.text or not there.is_alive)
            here.join()
        seen = ledger.read(queue.path)
        assert history.judge(seen, {"k": 1}).broken == []
        released_at = next(event.at for event in seen if event.kind == "end")
        starts = [event.at for event in seen if event.kind == "start"]
        assert len(starts) == 3
        assert max(starts) - released_at <= IDLE_S * 1_000


@pytest.mark.parametrize(
    "rounds", [300, pytest.param(5_000, marks=[pytest.mark.soak, pytest.mark.timeout(300)])]
)
def test_no_slot_stays_free_while_a_hold_waits_for_it(tmp_path: Path, rounds: int) -> None:
    """Field case 9: releases cross with arrivals, in one process and between two."""
    with Queue(tmp_path / "jobs.db", lock_timeout=30) as queue:
        queue.set_limit("k", max_running=1)
        ledger.keep(queue.path)
        words = ("--threads", "2", "--times", str(rounds), "--held", "0")
        with released(queue.path, [command(queue.path, "wait", *words)] * 2) as programs:
            for program in programs:
                program.finish(240)
        seen = ledger.read(queue.path)
        assert history.judge(seen, {"k": 1}).broken == []
        assert longest_idle_ms(seen) <= IDLE_S * 1_000
        waited = sum(event.kind == "start" for event in seen)
        assert waited == 4 * rounds


def longest_idle_ms(events: list[Event]) -> int:
    """Return how long at most the slot was free while somebody stood in line for it."""
    line, free_since, longest = 0, 0, 0
    for event in events:
        match event.kind:
            case "enqueued":
                line += 1
                if line == 1:
                    free_since = max(free_since, event.at)
            case "start":
                line -= 1
                longest = max(longest, event.at - free_since)
            case "end":
                free_since = event.at
            case _:
                pass
    return longest


def test_a_body_that_finds_a_full_key_is_put_back_until_there_is_room(tmp_path: Path) -> None:
    """Field case 19: three workers, one start a second, and jobs of two attempts that take a hold:
    they use none of them for being refused, and come when they were told to."""
    count = 4
    with Queue(tmp_path / "jobs.db", lock_timeout=30) as queue:
        queue.stats()
        ledger.keep(queue.path)
        queue.set_limit("vendor", max_starts=1, window=1)

        @queue.task(name="call", max_attempts=2)
        def call() -> None:
            with queue.hold("vendor"):
                pass

        jobs = [call.enqueue() for _ in range(count)]
        workers = [Worker(queue, slots=1) for _ in range(3)]
        with (
            serving_in_thread(workers[0]),
            serving_in_thread(workers[1]),
            serving_in_thread(workers[2]),
        ):
            until(has_succeeded(queue, count))
        assert [queue.job(job.id).attempt for job in jobs] == [1] * count
        seen = ledger.read(queue.path)
        verdict = history.judge([event for event in seen if event.job <= 0])
        assert verdict.broken == []
        assert verdict.filled == {"vendor"}
        calls = [event.at for event in seen if event.kind == "start" and event.job < 0]
        assert len(calls) == count
        # One a second, and each soon after it could.
        assert 1_000 * (count - 1) <= calls[-1] - calls[0] < 1_000 * (count - 1) + 1_000 * IDLE_S
        runs = sum(event.kind == "start" and event.job > 0 for event in seen)
        assert runs > count, "nobody was refused"


def test_a_body_that_waits_for_what_it_has_itself_fails_at_once(tmp_path: Path) -> None:
    """Field case 19: put back it would be refused for ever."""
    with Queue(tmp_path / "jobs.db", lock_timeout=30) as queue:
        queue.set_limit("k", max_running=1)

        @queue.task(name="selfish", key="k", max_attempts=1)
        def selfish() -> None:
            with queue.hold("k", wait=600):
                pass

        job = selfish.enqueue()
        began_s = time.monotonic()
        with serving_in_thread(Worker(queue)):
            until(lambda: queue.job(job.id).finished_at, patience_s=AT_ONCE_S)
        assert time.monotonic() - began_s < AT_ONCE_S
        found = queue.job(job.id)
        assert (found.state, found.attempt) == ("failed", 1)
        assert "the job that asks has them itself" in (found.error or "")
        assert queue.holds() == []
