"""Starts under windows, on a clock that a test moves."""

from datetime import datetime, timedelta
from typing import Final

from slotq import Queue
from slotq.testing import ManualClock
from support.starting import finish, start

MS: Final = timedelta(milliseconds=1)


def at(clock: ManualClock, instant: datetime) -> None:
    clock.set(round(instant.timestamp() * 1000))


def enqueue(queue: Queue, count: int) -> None:
    for _ in range(count):
        queue.enqueue("t", key="k")


def run(queue: Queue) -> int:
    """Start all that can start, end it, and return how many there were."""
    running = start(queue, 99)
    finish(queue, *running)
    return len(running)


def opening(queue: Queue) -> datetime:
    """Return when the key opens, as ``key`` and ``why`` say alike."""
    opens = queue.key("k").next_start_at
    assert opens is not None
    first = queue.jobs(state="waiting")[0]
    (reason,) = (reason for reason in queue.why(first.id) if reason.kind == "window")
    assert reason.until == opens
    return opens


def check_opens_at(queue: Queue, clock: ManualClock, instant: datetime, count: int) -> None:
    """Check that so many jobs start then, and none a millisecond before."""
    assert opening(queue) == instant
    at(clock, instant - MS)
    assert run(queue) == 0
    at(clock, instant)
    assert run(queue) == count
