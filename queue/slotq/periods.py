"""Calendar windows: the minute, hour, day, week or month that an instant lies in."""

from bisect import bisect_left
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final, assert_never, get_args
from zoneinfo import ZoneInfo

from slotq import checks
from slotq.errors import InvalidValue
from slotq.model import Window

UNITS: Final[tuple[Window, ...]] = get_args(Window)

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
# Where clocks go back, a day is longer than 24 hours: 25 in most places, 27 at Casey
# station, and once 31, at Vostok station in 1994.
_LATER_MS: Final = 7 * _HOUR_MS

SPAN_MS: Final[dict[Window, int]] = {
    "minute": _MINUTE_MS,
    "hour": _HOUR_MS,
    "day": 24 * _HOUR_MS + _LATER_MS,
    "week": 7 * 24 * _HOUR_MS + _LATER_MS,
    "month": 31 * 24 * _HOUR_MS + _LATER_MS,
}
"""The longest that each period can be, in milliseconds."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
# The end of a period must be a date that exists, in every zone: so not the last year.
_LAST_MS: Final = checks.LAST_MS - 366 * 24 * _HOUR_MS


def period(unit: Window, zone: str | None, now_ms: int) -> tuple[int, int]:
    """Return the first instant of the period that now lies in, and of the one after it.

    Periods follow each other without a gap. Days, weeks (from Monday) and months begin with
    the first instant of their first local day, also where that day has no midnight. Minutes
    and hours are those of the local clock; one is cut short where the clock is moved by a
    part of an hour.

    Args:
        unit: "minute", "hour", "day", "week" or "month".
        zone: IANA name of the time zone; None is UTC.
        now_ms: Milliseconds since 1970-01-01 UTC.

    Raises:
        InvalidValue: If the unit or the zone is unknown, or now is not within the years
            1970 to 9998.
    """
    checks.choice("window", unit, UNITS)
    checks.integer("now_ms", now_ms, 0, _LAST_MS)
    where = _zone(zone)
    match unit:
        case "minute":
            return _of_clock(_MINUTE_MS, where, now_ms)
        case "hour":
            return _of_clock(_HOUR_MS, where, now_ms)
        case "day" | "week" | "month":
            return _of_calendar(unit, where, now_ms)
        case _:
            assert_never(unit)


def _zone(name: str | None) -> tzinfo:
    if name is None:
        return UTC
    try:
        return ZoneInfo(checks.text("timezone", name))
    # Besides its own error for an unknown name, it lets through what the file system says
    # of folders, and a ValueError for paths and for files that are no zones.
    except (KeyError, OSError, ValueError) as error:
        if isinstance(error, InvalidValue):
            raise
        problem = "must be the IANA name of a time zone, such as Europe/Paris"
        raise InvalidValue(name="timezone", problem=problem, value=name) from error


def _of_clock(span_ms: int, zone: tzinfo, now_ms: int) -> tuple[int, int]:
    offset_ms = _offset_ms(zone, now_ms)

    def is_shifted(at_ms: int) -> bool:
        # A clock moved by whole hours still strikes at the same instants.
        return (_offset_ms(zone, at_ms) - offset_ms) % span_ms != 0

    start_ms = now_ms - (now_ms + offset_ms) % span_ms
    end_ms = start_ms + span_ms
    if is_shifted(start_ms):
        start_ms = _first(start_ms, now_ms, lambda at_ms: not is_shifted(at_ms))
    if is_shifted(end_ms - 1):
        end_ms = _first(now_ms, end_ms - 1, is_shifted)
    return start_ms, end_ms


def _of_calendar(unit: Window, zone: tzinfo, now_ms: int) -> tuple[int, int]:
    first = _first_day(unit, _local(zone, now_ms).date())
    following = _day_after(unit, first)
    start_ms, end_ms = _first_instant(zone, first), _first_instant(zone, following)
    if now_ms >= end_ms:
        # The clock was put back over midnight: the old date is shown again, but the new
        # period has begun, and it does not begin twice.
        start_ms, end_ms = end_ms, _first_instant(zone, _day_after(unit, following))
    return start_ms, end_ms


def _first_day(unit: Window, day: date) -> date:
    if unit == "month":
        return day.replace(day=1)
    return day - timedelta(days=day.weekday()) if unit == "week" else day


def _day_after(unit: Window, first: date) -> date:
    if unit == "month":
        # 31 days after the first of a month always lie in the next one.
        return (first + timedelta(days=31)).replace(day=1)
    return first + timedelta(days=7 if unit == "week" else 1)


def _first_instant(zone: tzinfo, day: date) -> int:
    midnight = datetime.combine(day, time(), zone)
    # By the offset before and after a change of the clock, if there is one around midnight.
    before_ms, after_ms = _epoch_ms(midnight), _epoch_ms(midnight.replace(fold=1))
    if before_ms <= after_ms:
        return before_ms
    # The clock skips midnight: the day begins with the change, which lies between the two.
    offset_ms = _offset_ms(zone, before_ms)
    return _first(after_ms, before_ms, lambda at_ms: _offset_ms(zone, at_ms) == offset_ms)


def _first(low_ms: int, high_ms: int, holds: Callable[[int], bool]) -> int:
    # The first instant for which it holds, where it does at high_ms and at all before it
    # down to a single change: clocks are not moved twice within a few hours.
    return low_ms + bisect_left(range(low_ms, high_ms), x=True, key=holds)


def _local(zone: tzinfo, at_ms: int) -> datetime:
    return (_EPOCH + at_ms * _MILLISECOND).astimezone(zone)


def _offset_ms(zone: tzinfo, at_ms: int) -> int:
    return _epoch_ms(_local(zone, at_ms).replace(tzinfo=UTC)) - at_ms


def _epoch_ms(instant: datetime) -> int:
    return (instant - _EPOCH) // _MILLISECOND
