"""Holds at and past their end, and holds that nobody can be given."""

import contextlib
import math
import sqlite3
import threading
from datetime import UTC, datetime, timedelta

import pytest
from typing_extensions import override

from slotq import Hold, HoldExpired, InvalidValue, LimitExceeded, Queue
from slotq.testing import ManualClock
from support.wrongly import wrongly

START = datetime(2026, 1, 1, tzinfo=UTC)


def check_has_ended(*holds: Hold) -> None:
    for hold in holds:
        for act in (hold.extend, hold.release, hold.release):
            with pytest.raises(HoldExpired):
                act()


def test_a_late_holder_does_not_touch_who_came_after(queue: Queue, clock: ManualClock) -> None:
    """Field case 14, with a rival."""
    queue.set_limit("k", max_running=1)
    first = queue.hold("k", ttl=1).acquire()
    clock.advance(2_000)
    second = queue.hold("k", ttl=5).acquire()
    clock.advance(1_000)
    check_has_ended(first)
    assert [(info.id, info.expires_at) for info in queue.holds()] == [
        (second.id, START + timedelta(seconds=7))
    ]
    with pytest.raises(LimitExceeded) as caught:
        queue.hold("k").acquire()
    assert caught.value.retry_after == 4.0
    second.release()


@pytest.mark.parametrize("swept", [True, False])
def test_a_late_holder_gets_nothing_back_though_nobody_came(
    queue: Queue, clock: ManualClock, swept: bool
) -> None:
    """Field case 14, without a rival; whether or not the row is still there."""
    queue.set_limit("k", max_running=1)
    late = queue.hold("k", ttl=1).acquire()
    clock.advance(1_000)
    if swept:
        assert queue.key("k").held == 0
    check_has_ended(late)
    assert queue.holds() == []
    assert queue.hold("k").acquire().id != late.id


@pytest.mark.parametrize(("ms", "ends"), [(999, False), (1_000, True)])
def test_it_ends_at_its_end_to_the_millisecond(
    queue: Queue, clock: ManualClock, ms: int, ends: bool
) -> None:
    extended, released = (queue.hold("k", ttl=1).acquire() for _ in range(2))
    clock.advance(ms)
    assert (queue.holds() == []) == ends
    if ends:
        check_has_ended(extended, released)
    else:
        assert extended.extend(5) == START + timedelta(milliseconds=ms + 5_000)
        released.release()


def test_it_lasts_from_the_commit_however_long_the_file_was_locked(
    queue: Queue, clock: ManualClock
) -> None:
    """Field case 14: the file is locked for 3 s while somebody takes a slot for 1 s."""
    queue.hold("k").acquire().release()
    taken: list[Hold] = []
    thread = threading.Thread(target=lambda: taken.append(queue.hold("k", ttl=1).acquire()))
    with contextlib.closing(sqlite3.connect(queue.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        thread.start()
        clock.advance(3_000)
        assert taken == []
        other.execute("COMMIT")
    thread.join(20)
    (hold,) = taken
    assert hold.expires_at == START + timedelta(seconds=4)
    hold.release()


class Racing(ManualClock):
    """A clock on which two seconds go by whenever somebody looks."""

    @override
    def now_ms(self) -> int:
        self.advance(2_000)
        return super().now_ms()


def test_what_is_over_before_it_could_be_returned_is_not(queue: Queue) -> None:
    """Field case 14: the process was stopped between the commit and the return."""
    with Queue(queue.path, clock=Racing()) as late:
        with pytest.raises(HoldExpired):
            late.hold("k", ttl=1).acquire()
        with pytest.raises(HoldExpired), late.hold("k", ttl=1):
            pytest.fail("the block must not be entered")
        assert late.holds() == []
        late.hold("k", ttl=60).acquire().release()


BAD: list[object] = [0, -1, 1.5, "3", True, None, 10**12, math.nan, -math.inf]


@pytest.mark.parametrize("value", BAD, ids=repr)
@pytest.mark.parametrize("name", ["slots", "max_running", "ttl", "wait"])
def test_numbers_that_mean_nothing_are_refused(queue: Queue, name: str, value: object) -> None:
    """Field case 42: zero is never "unlimited", and nothing is stored."""
    is_time = name in {"ttl", "wait"}
    if (is_time and value == 1.5) or (name == "wait" and value == 0 and value is not False):
        with wrongly(queue.hold)("k", **{name: value}):
            return
    if name == "max_running" and value is None:
        with queue.hold("k", max_running=None):
            return
    with pytest.raises(InvalidValue, match=rf"^{name} must be") as caught:
        wrongly(queue.hold)("k", **{name: value})
    assert caught.value.name == name
    assert (queue.holds(), queue.keys()) == ([], [])


@pytest.mark.parametrize("wait", [0, math.inf])
@pytest.mark.parametrize("own", [True, False])
def test_five_slots_of_three_are_no_matter_of_time(queue: Queue, wait: float, own: bool) -> None:
    """Field case 42: it is refused as invalid, whatever is free, and stores nothing."""
    if not own:
        queue.set_limit("*", max_running=3)
    for taken in (0, 3):
        with contextlib.ExitStack() as held:
            for _ in range(taken):
                held.enter_context(queue.hold("k"))
            before = queue.holds()
            with pytest.raises(InvalidValue, match="slots can be 3 at most"):
                queue.hold("k", slots=5, max_running=3 if own else None, wait=wait).acquire()
            assert queue.holds() == before
            assert queue.stats().keys == bool(taken)


def test_extending_by_what_is_no_time_leaves_the_end(queue: Queue) -> None:
    """Field case 42: extend takes what ttl takes."""
    hold = queue.hold("k", ttl=60).acquire()
    for value in (*BAD, 86_400.001, math.inf):
        if value == 1.5:
            continue
        with pytest.raises(InvalidValue, match=r"^seconds must be"):
            wrongly(hold.extend)(value)
    assert queue.holds()[0].expires_at == hold.expires_at == START + timedelta(seconds=60)
    assert hold.extend(86_400) == START + timedelta(days=1)
    assert hold.extend(0.001) == START + timedelta(milliseconds=1)
