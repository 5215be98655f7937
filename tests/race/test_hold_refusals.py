"""A key that has room by one limit and not by another: nothing of it is taken, not for a moment."""

import json
import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slotq import LimitExceeded, Queue
from support.hold_load import command, released
from support.procs import until

THREADS = 32
TIMES = 32
SLOTS = 3
STARTS = 5


def zone_where_it_is_noon() -> str:
    """Return a zone whose day does not end during a test."""
    ahead = 12 - datetime.now(UTC).hour
    return f"Etc/GMT{-ahead:+d}"


def day_full(queue: Queue, _: ExitStack) -> tuple[int, int, int]:
    """Use up the day, with all slots free."""
    for _number in range(STARTS):
        queue.hold("k").acquire().release()
    return 0, 0, STARTS


def slots_full(queue: Queue, stack: ExitStack) -> tuple[int, int, int]:
    """Have all slots taken, with the day not over: one more start would fit."""
    queue.hold("k").acquire().release()
    for _number in range(SLOTS):
        stack.enter_context(queue.hold("k"))
    return 0, SLOTS, SLOTS + 1


@pytest.mark.parametrize(
    ("fill", "reason"), [(day_full, "max_starts"), (slots_full, "max_running")]
)
def test_a_refusal_moves_neither_count(
    tmp_path: Path, fill: Callable[[Queue, ExitStack], tuple[int, int, int]], reason: str
) -> None:
    """1,024 times by 32 threads, while another process looks."""
    with Queue(tmp_path / "jobs.db", lock_timeout=30) as queue, ExitStack() as stack:
        queue.set_limit("k", max_running=SLOTS)
        zone = zone_where_it_is_noon()
        queue.set_limit("k", name="daily", max_starts=STARTS, window="day", timezone=zone)
        counts = fill(queue, stack)
        with released(queue.path, [command(queue.path, "watch")]) as (watcher,):
            until((tmp_path / "looking").exists)
            refused = refuse(queue)
            (tmp_path / "done").touch()
            told = json.loads(watcher.finish())
        assert refused == [reason] * (THREADS * TIMES)
        assert told["seen"] == [list(counts)]
        assert told["looks"] > 20, "it hardly looked"
        key = queue.key("k")
        assert (key.running, key.held, key.starts) == counts


def refuse(queue: Queue) -> list[str]:
    """Ask for a hold with many threads; return the reasons of all refusals."""
    reasons: list[str] = []
    all_there = threading.Barrier(THREADS)

    def ask() -> None:
        all_there.wait()
        for _ in range(TIMES):
            try:
                queue.hold("k").acquire()
                reasons.append("taken")
            except LimitExceeded as error:
                reasons.append(error.reason)

    threads = [threading.Thread(target=ask) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    until(lambda: not any(thread.is_alive() for thread in threads))
    return reasons
