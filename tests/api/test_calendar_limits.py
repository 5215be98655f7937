"""Windows of the calendar as programs set them: in a zone, merged, and counted from its bounds."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from slotq import InvalidValue, Limit, Queue
from slotq.testing import ManualClock
from support.starting import started
from support.windows import at, enqueue, run
from support.wrongly import wrongly

BERLIN = ZoneInfo("Europe/Berlin")


def calendar(limit: Limit) -> tuple[object, str | None]:
    return limit.window, limit.timezone


def test_a_day_begins_at_midnight_of_its_zone(queue: Queue, clock: ManualClock) -> None:
    at(clock, datetime(2026, 3, 28, 12, tzinfo=BERLIN))
    limit = queue.set_limit("k", max_starts=2, window="day", timezone="Europe/Berlin")
    assert calendar(limit) == ("day", "Europe/Berlin")
    enqueue(queue, 9)
    assert run(queue) == 2
    midnight = datetime(2026, 3, 29, tzinfo=BERLIN)
    key = queue.key("k")
    assert (key.starts, key.max_starts, key.window) == (2, 2, "day")
    assert key.next_start_at == midnight
    at(clock, midnight - timedelta(milliseconds=1))
    assert run(queue) == 0
    at(clock, midnight)
    assert run(queue) == 2
    # The clocks go forward on this day: it has 23 hours.
    after_23_hours = midnight.astimezone(UTC) + timedelta(hours=23)
    assert queue.key("k").next_start_at == after_23_hours
    clock.advance(23 * 3_600_000 - 1)
    assert run(queue) == 0
    clock.advance(1)
    assert run(queue) == 2


@pytest.mark.parametrize(
    ("window", "opens"),
    [
        ("minute", datetime(2026, 5, 14, 10, 32, tzinfo=UTC)),
        ("hour", datetime(2026, 5, 14, 11, tzinfo=UTC)),
        ("day", datetime(2026, 5, 15, tzinfo=UTC)),
        ("week", datetime(2026, 5, 18, tzinfo=UTC)),
        ("month", datetime(2026, 6, 1, tzinfo=UTC)),
    ],
)
def test_each_period_is_that_of_utc_unless_a_zone_is_named(
    queue: Queue, clock: ManualClock, window: str, opens: datetime
) -> None:
    at(clock, datetime(2026, 5, 14, 10, 31, 7, tzinfo=UTC))
    assert calendar(wrongly(queue.set_limit)("k", max_starts=1, window=window)) == (window, "UTC")
    enqueue(queue, 2)
    assert run(queue) == 1
    assert queue.key("k").next_start_at == opens
    at(clock, opens)
    assert run(queue) == 1


def test_a_zone_that_is_left_out_stays_and_none_is_utc(queue: Queue) -> None:
    queue.set_limit("k", max_starts=2, window="day", timezone="Europe/Berlin")
    assert calendar(queue.set_limit("k", max_starts=3)) == ("day", "Europe/Berlin")
    assert calendar(queue.set_limit("k", window="month")) == ("month", "Europe/Berlin")
    assert calendar(queue.set_limit("k", timezone="Asia/Tokyo")) == ("month", "Asia/Tokyo")
    assert calendar(queue.set_limit("k", timezone=None)) == ("month", "UTC")
    assert calendar(queue.set_limit("k", window=60)) == (60, None)
    assert calendar(queue.set_limit("k", window="day")) == ("day", "UTC")
    assert calendar(queue.set_limit("k", window=60, timezone=None)) == (60, None)


@pytest.mark.parametrize(
    "change",
    [
        {"window": 60},
        {"window": timedelta(days=1)},
        {},
        {"max_starts": None},
    ],
)
def test_a_zone_is_for_calendar_windows_only(queue: Queue, change: dict[str, object]) -> None:
    before = queue.set_limit("k", max_running=1, max_starts=5, window=60)
    with pytest.raises(InvalidValue, match="timezone is for a calendar window"):
        wrongly(queue.set_limit)("k", timezone="Europe/Berlin", **change)
    assert queue.limits() == [before]


@pytest.mark.parametrize(
    "zone", ["Europe/Nowhere", "", "../UTC", "europe berlin", "x" * 500, "a\0b", 7, b"UTC", True]
)
def test_an_unknown_zone_is_refused_before_anything_is_opened(queue: Queue, zone: object) -> None:
    with pytest.raises(InvalidValue, match=r"^timezone must"):
        wrongly(queue.set_limit)("k", max_starts=1, window="day", timezone=zone)
    assert not queue.path.exists()


@pytest.mark.parametrize("window", ["fortnight", "Day", "day ", "5m", ""])
def test_an_unknown_period_is_refused_with_those_that_are_known(queue: Queue, window: str) -> None:
    known = "must be a number of seconds, a timedelta, or one of minute, hour, day, week, month"
    with pytest.raises(InvalidValue, match=known):
        wrongly(queue.set_limit)("k", max_starts=1, window=window)


def test_a_sliding_and_a_calendar_window_of_one_key_add_up(
    queue: Queue, clock: ManualClock
) -> None:
    queue.set_limit("k", max_starts=1, window=60)
    queue.set_limit("k*", max_starts=2, window="day", name="daily")
    enqueue(queue, 9)
    assert started(queue, 9) == [1]
    clock.advance(60_000)
    assert started(queue, 9) == [2]
    clock.advance(60_000)
    assert started(queue, 9) == []
    assert queue.key("k").next_start_at == datetime(2026, 1, 2, tzinfo=UTC)
    assert {(limit.name, *calendar(limit)) for limit in queue.key("k").limits} == {
        ("", 60, None),
        ("daily", "day", "UTC"),
    }
