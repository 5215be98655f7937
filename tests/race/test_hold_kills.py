"""A process with a hold dies: its slot is free soon, and not before the last that has it is gone."""

import os
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slotq import InvalidValue, LimitExceeded, Queue
from support import history, ledger
from support.fleet import is_gone
from support.probe_tasks import command
from support.procs import Process, until
from support.serving import count_commits, has_passed, has_succeeded, stop_between_writes

pytestmark = pytest.mark.slow

# What is promised with a worker alive.
NOTICED_S = 1.0
TTL_S = 2.0
WAIT = ["-c", "import sys, slotq; slotq.Queue(sys.argv[1]).hold('k', wait=60).acquire()"]
# Who waits counts for so long after its last call; the rest is for a busy machine.
GONE_S = 5.0 + 0.5


@contextmanager
def holder(queue: Queue, way: str, *options: str) -> Generator[Process]:
    """Run a program with a hold of "k", until the end of the block."""
    words = ["-m", "support.hold_keeper", str(queue.path), way, *options]
    with Process(words, queue.path.parent / f"holder-{way}") as process:
        until(lambda: "held\n" in process.text or not process.is_alive)
        assert process.is_alive, process.text
        yield process


@contextmanager
def worker(queue: Queue) -> Generator[Process]:
    with Process(command(queue.path), queue.path.parent / "worker") as process:
        until(queue.workers)
        yield process


@contextmanager
def one_slot(folder: Path) -> Generator[Queue]:
    """Make a queue whose key has one slot; this process has had a hold of it already."""
    with Queue(folder / "jobs.db", lock_timeout=30) as queue:
        queue.set_limit("k", max_running=1)
        ledger.keep(queue.path)
        with queue.hold("k"):
            pass
        yield queue
        for info in queue.holds():
            queue.release_hold(info.id)
        verdict = history.judge(ledger.read(queue.path), {"k": 1})
        assert verdict.broken == []
        assert verdict.peaks == {"k": 1}


def is_full(queue: Queue) -> bool:
    try:
        with queue.hold("k"):
            return False
    except LimitExceeded:
        return True


def test_the_slot_of_a_killed_holder_is_free_within_a_second_while_a_worker_lives(
    tmp_path: Path,
) -> None:
    """Field case 5: SIGKILL, and a TTL of ten minutes; a hold that waits gets it, then a job."""
    with one_slot(tmp_path) as queue, worker(queue), holder(queue, "keep") as held:
        queue.enqueue("mark", args=[1, "k"], key="k")
        until(has_passed(0.5))
        assert is_full(queue)
        killed_s = time.monotonic()
        held.kill()
        with queue.hold("k", wait=20):
            assert time.monotonic() - killed_s < NOTICED_S
        until(has_succeeded(queue, 1))


def test_without_a_worker_it_is_free_when_its_ttl_ends(tmp_path: Path) -> None:
    """Field case 5: not before, and to the millisecond; asked by who was there before it died."""
    with one_slot(tmp_path) as queue, holder(queue, "keep", "--ttl", str(TTL_S)) as held:
        (info,) = queue.holds()
        held.kill()
        assert is_full(queue)
        with pytest.raises(LimitExceeded) as caught:
            queue.hold("k").acquire()
        assert 0 < caught.value.retry_after <= TTL_S
        with queue.hold("k", wait=20) as mine:
            (now,) = queue.holds()
            assert now.id == mine.id
            assert info.expires_at is not None
            assert 0 <= (now.acquired_at - info.expires_at).total_seconds() < 0.1


def test_a_first_hold_that_is_undone_leaves_the_dead_to_a_worker(tmp_path: Path) -> None:
    with one_slot(tmp_path) as queue, holder(queue, "keep") as held:
        held.kill()
        with Queue(queue.path) as other, pytest.raises(InvalidValue):
            other.hold("k", slots=9).acquire()
        with worker(queue), queue.hold("k", wait=20):
            pass


def test_who_waits_alone_sleeps(tmp_path: Path) -> None:
    """It calls again every 1.6 s, and rings nobody, not even itself."""
    with (
        one_slot(tmp_path) as queue,
        queue.hold("k"),
        Process([*WAIT, str(queue.path)], tmp_path / "waiter") as waiter,
    ):
        until(lambda: len(queue.holds()) == 2)
        assert 1 <= count_commits(queue.path, 4) <= 4
        waiter.kill()


def test_who_comes_first_after_its_death_needs_neither_worker_nor_ttl(tmp_path: Path) -> None:
    """A process that takes its first hold buries those that are dead."""
    with one_slot(tmp_path) as queue, holder(queue, "keep") as held:
        held.kill()
        assert is_full(queue)
        with holder(queue, "keep"):
            assert is_full(queue)


def test_a_forked_child_keeps_the_slot_while_it_lives(tmp_path: Path) -> None:
    """It may do what the slot was taken for, though its parent was killed and a worker lives."""
    with one_slot(tmp_path) as queue, worker(queue), holder(queue, "fork") as held:
        (child,) = (int(line.split()[1]) for line in held.text.splitlines() if "child" in line)
        try:
            held.kill()
            until(has_passed(2 * NOTICED_S))
            assert is_full(queue)
            assert not is_gone(child)
        finally:
            os.kill(child, signal.SIGKILL)
        killed_s = time.monotonic()
        with queue.hold("k", wait=20):
            assert time.monotonic() - killed_s < NOTICED_S


def test_a_block_that_a_forked_child_leaves_frees_nothing(tmp_path: Path) -> None:
    with one_slot(tmp_path) as queue, worker(queue), holder(queue, "children") as held:
        until(lambda: "all have left" in held.text or not held.is_alive)
        until(has_passed(NOTICED_S))
        assert is_full(queue)
        (tmp_path / "leave").touch()
        until(lambda: "dropped" in held.text or not held.is_alive)
        assert held.is_alive, held.text
        assert held.text.count("dropped") == 1
        assert not is_full(queue)


def test_a_holder_that_is_only_stopped_keeps_its_slot_until_its_ttl_ends(tmp_path: Path) -> None:
    with (
        one_slot(tmp_path) as queue,
        worker(queue),
        holder(queue, "keep", "--ttl", str(TTL_S)) as held,
    ):
        stop_between_writes(held, queue.path)
        until(has_passed(TTL_S / 2))
        assert is_full(queue)
        until(lambda: not is_full(queue), patience_s=TTL_S)
        assert held.is_alive


def test_a_process_that_dies_in_line_stands_in_nobody_s_way_for_long(tmp_path: Path) -> None:
    """No worker sees that it is dead: it does not call again, and counts for five seconds."""
    words = ["-m", "support.hold_keeper", str(tmp_path / "jobs.db"), "wait"]
    with one_slot(tmp_path) as queue:
        hold = queue.hold("k").acquire()
        with Process(words, tmp_path / "dead") as dead:
            until(lambda: len(queue.holds()) == 2)
            dead.kill()
        killed_s = time.monotonic()
        hold.release()
        assert is_full(queue), "its place in line was gone at once"
        with queue.hold("k", wait=20):
            assert time.monotonic() - killed_s < GONE_S
