from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import get_args
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slotq import periods
from slotq.errors import InvalidValue
from slotq.model import Window
from slotq.periods import SPAN_MS, period

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
LAST = int(datetime(9998, 10, 1, tzinfo=UTC).timestamp() * 1_000)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Zones whose clocks did something odd since 1970, with instants near which they did.
ODD: dict[str, list[str]] = {
    "UTC": ["1970-01-01T00:00", "2000-02-29T00:00"],
    "Asia/Shanghai": ["1986-05-03T18:00", "2026-01-01T00:00"],
    "Asia/Kathmandu": ["1985-12-31T18:30", "2026-01-01T00:00"],  # +5:30 became +5:45
    "America/New_York": ["2026-03-08T07:00", "2026-11-01T06:00"],
    "Europe/Paris": ["2026-03-29T01:00", "2026-10-25T01:00"],
    "Australia/Lord_Howe": ["2026-04-04T15:00", "2026-10-03T15:30"],  # moved by 30 minutes
    "America/Sao_Paulo": ["2018-11-04T03:00", "2018-02-18T02:00"],  # at midnight
    "Africa/Cairo": ["2023-04-27T22:00", "2026-10-29T21:00"],  # at midnight
    "America/St_Johns": ["1988-04-03T03:31", "1988-10-30T02:31", "2006-10-29T02:31"],  # at 0:01
    "Antarctica/Casey": ["2010-03-04T15:00", "2020-10-03T16:01"],  # by 3 hours, over midnight
    "Antarctica/Vostok": ["1994-01-31T17:00", "1994-11-01T00:00"],  # by 7 hours
    "America/Caracas": ["2007-12-09T07:00", "2016-05-01T07:00"],  # -4 became -4:30 and back
    "Asia/Pyongyang": ["2015-08-14T15:00", "2018-05-04T15:00"],
    "Pacific/Apia": ["2011-12-30T10:00", "2010-09-26T11:00"],  # without 2011-12-30
    "Pacific/Kwajalein": ["1993-08-21T12:00"],  # without 1993-08-21
    "Africa/Monrovia": ["1972-01-07T00:44:30"],  # -0:44:30 before
    "Pacific/Kiritimati": ["1994-12-31T10:00", "2026-01-01T00:00"],
}


def ms(text: str, zone: str = "UTC") -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1_000)


def local(zone: str, at_ms: int) -> datetime:
    return (EPOCH + timedelta(milliseconds=at_ms)).astimezone(ZoneInfo(zone))


@st.composite
def moments(draw: st.DrawFn) -> tuple[str, int]:
    zone = draw(st.sampled_from(sorted(ODD)))
    if draw(st.booleans()):
        return zone, draw(st.integers(0, LAST))
    away = st.integers(-3 * DAY, 3 * DAY) | st.sampled_from([-1, 0, 1])
    away |= st.integers(-5, 5).map(lambda n: n * 30 * MINUTE)
    return zone, max(0, ms(draw(st.sampled_from(ODD[zone]))) + draw(away))


UNITS = st.sampled_from(get_args(Window))
WEEK_AND_MONTH: tuple[Window, Window] = ("week", "month")


@given(UNITS, moments())
def test_now_lies_in_its_period_and_no_period_is_longer_than_its_span(
    unit: Window, moment: tuple[str, int]
) -> None:
    start, end = period(unit, *moment)
    assert start <= moment[1] < end
    assert end - start <= SPAN_MS[unit]


@given(UNITS, moments())
def test_periods_tile(unit: Window, moment: tuple[str, int]) -> None:
    zone, now = moment
    start, end = period(unit, zone, now)
    assert period(unit, zone, end - 1) == (start, end)
    assert period(unit, zone, end)[0] == end
    if start >= 1:
        assert period(unit, zone, start) == (start, end)
        assert period(unit, zone, start - 1)[1] == start


@pytest.mark.parametrize("zone", sorted(ODD))
def test_days_begin_when_a_later_date_is_first_shown(zone: str) -> None:
    for text in ODD[zone]:
        middle_ms = ms(text)
        begins: list[int] = []
        latest = local(zone, middle_ms - 30 * HOUR).date()
        for at in range(middle_ms - 30 * HOUR, middle_ms + 30 * HOUR, MINUTE // 2):
            if local(zone, at).date() > latest:
                begins.append(at)
                latest = local(zone, at).date()
        assert len(begins) >= 2
        for start, end in pairwise(begins):
            for now in (start, start + 1, (start + end) // 2, end - 1):
                if now >= 0:
                    assert period("day", zone, now) == (start, end)


@given(moments())
def test_weeks_and_months_begin_with_their_first_day(moment: tuple[str, int]) -> None:
    zone, now = moment
    for unit in WEEK_AND_MONTH:
        for at in period(unit, zone, now):
            if at >= 0:
                assert period("day", zone, at)[0] == at
                first = local(zone, at).date()
                assert (first.weekday() == 0) if unit == "week" else (first.day == 1)


@given(moments())
@example(("Africa/Monrovia", 86_400_000))
def test_minutes_and_hours_are_those_of_the_local_clock(moment: tuple[str, int]) -> None:
    zone, now = moment
    units: list[tuple[Window, int]] = [("minute", MINUTE), ("hour", HOUR)]
    for unit, span in units:
        start, end = period(unit, zone, now)
        into = [
            (local(zone, at).replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1) % span
            for at in (start, now)
        ]
        # The clock has run on evenly from the start to now.
        assert (into[1] - into[0] - (now - start)) % span == 0
        if end - start == span:
            assert into[0] == 0
        else:
            # Cut short: only where the clock was moved by a part of the unit, at one end.
            ends = [local(zone, at).utcoffset() for at in (start - 1, start, end - 1, end)]
            at_start, inside, at_end = (
                (after - before) % timedelta(milliseconds=span)
                for before, after in pairwise(ends)
                if before is not None
                if after is not None
            )
            assert at_start or at_end
            assert not inside


LENGTHS: list[tuple[str, str, float]] = [
    ("America/New_York", "2026-03-07", 24),
    ("America/New_York", "2026-03-08", 23),
    ("America/New_York", "2026-11-01", 25),
    ("Australia/Lord_Howe", "2026-04-05", 24.5),
    ("Australia/Lord_Howe", "2026-10-04", 23.5),
    ("Asia/Shanghai", "2026-03-08", 24),
    ("America/Sao_Paulo", "2018-11-04", 23),
    ("America/Sao_Paulo", "2018-02-17", 25),
    ("Africa/Cairo", "2023-04-28", 23),
    ("Antarctica/Vostok", "1994-01-31", 31),
]


@pytest.mark.parametrize(("zone", "day", "hours"), LENGTHS)
def test_lengths_of_days(zone: str, day: str, hours: float) -> None:
    start, end = period("day", zone, ms(f"{day}T12:00", zone))
    assert end - start == hours * HOUR


def test_days_without_midnight_begin_with_their_first_instant() -> None:
    start, _ = period("day", "America/Sao_Paulo", ms("2018-11-04T12:00"))
    assert local("America/Sao_Paulo", start).isoformat() == "2018-11-04T01:00:00-02:00"
    start, _ = period("month", "Africa/Cairo", ms("2023-04-28T12:00"))
    assert local("Africa/Cairo", start).isoformat() == "2023-04-01T00:00:00+02:00"
    start, _ = period("day", "Africa/Cairo", ms("2023-04-28T12:00"))
    assert local("Africa/Cairo", start).isoformat() == "2023-04-28T01:00:00+03:00"


def test_a_date_that_never_was_is_no_period() -> None:
    start, end = period("day", "Pacific/Apia", ms("2011-12-29T12:00", "Pacific/Apia"))
    assert end - start == 24 * HOUR
    assert local("Pacific/Apia", end).date() == date(2011, 12, 31)


def test_a_date_shown_again_after_midnight_belongs_to_the_new_day() -> None:
    zone = "America/St_Johns"
    again = ms("2006-10-29T02:45")
    assert local(zone, again).date() == date(2006, 10, 28)
    start, _ = period("day", zone, again)
    assert local(zone, start).isoformat() == "2006-10-29T00:00:00-02:30"


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_no_zone_is_utc(zone: str | None) -> None:
    now = ms("2024-02-14T13:37:42.5")
    expected: dict[Window, tuple[str, str]] = {
        "minute": ("2024-02-14T13:37", "2024-02-14T13:38"),
        "hour": ("2024-02-14T13:00", "2024-02-14T14:00"),
        "day": ("2024-02-14", "2024-02-15"),
        "week": ("2024-02-12", "2024-02-19"),
        "month": ("2024-02-01", "2024-03-01"),
    }
    for unit, (start, end) in expected.items():
        assert period(unit, zone, now) == (ms(start), ms(end))


@given(st.integers(0, LAST))
def test_weeks_begin_on_monday_and_months_on_the_first(now: int) -> None:
    start, end = period("week", None, now)
    assert (local("UTC", start).weekday(), end - start) == (0, 7 * DAY)
    start, end = period("month", None, now)
    assert (local("UTC", start).day, local("UTC", end).day) == (1, 1)
    assert 28 * DAY <= end - start <= 31 * DAY


def test_hours_of_kathmandu_begin_at_a_quarter() -> None:
    start, end = period("hour", "Asia/Kathmandu", ms("2026-01-01T12:00"))
    assert (start, end) == (ms("2026-01-01T11:15"), ms("2026-01-01T12:15"))


def test_an_hour_is_cut_where_the_clock_moves_by_half_of_one() -> None:
    zone, moved = "Australia/Lord_Howe", ms("2026-04-04T15:00")
    assert period("hour", zone, moved - 1) == (moved - HOUR, moved)
    assert period("hour", zone, moved) == (moved, moved + HOUR // 2)
    assert period("minute", zone, moved) == (moved, moved + MINUTE)
    moved = ms("2026-10-03T15:30")
    assert period("hour", zone, moved - 1) == (moved - HOUR, moved)
    assert period("hour", zone, moved + MINUTE) == (moved, moved + HOUR // 2)
    # Here half an hour was left out in the middle of one: 23:30 was followed by 0:00.
    zone, moved = "Asia/Pyongyang", ms("2018-05-04T15:00")
    assert period("hour", zone, moved - MINUTE) == (moved - HOUR // 2, moved)
    assert period("hour", zone, moved) == (moved, moved + HOUR)


def test_an_hour_is_whole_where_the_clock_moves_by_whole_ones() -> None:
    start = ms("2006-10-29T02:30")
    for now in (start, start + MINUTE, start + HOUR - 1):  # moved at 2:31
        assert period("hour", "America/St_Johns", now) == (start, start + HOUR)


def test_the_longest_periods_are_as_long_as_their_spans() -> None:
    now = ms("1994-01-31T12:00")
    for unit in get_args(Window):
        start, end = period(unit, "Antarctica/Vostok", now)
        assert end - start == SPAN_MS[unit]


call: Callable[..., object] = period  # without the types, to pass wrong ones


def test_unknown_zones_are_refused_in_one_line() -> None:
    zones: list[object] = [
        *("", "Mars/Olympus", "America", "../etc/passwd", "/etc/localtime", "a\0b", "\ud800"),
        *("x" * 300, "tzdata.zi", "zone.tab", "Europe/Paris ", 3, b"UTC", UTC),
    ]
    for zone in zones:
        with pytest.raises(InvalidValue, match="timezone must ") as caught:
            call("day", zone, 0)
        assert str(caught.value).isprintable()


def test_unknown_units_and_instants_are_refused() -> None:
    for unit in ("year", "Day", "", None, 60):
        with pytest.raises(InvalidValue, match="window must be one of minute, hour, day, week"):
            call(unit, None, 0)
    for now in (-1, 253_402_300_800_000, 1.5, None, float("nan")):
        with pytest.raises(InvalidValue, match="now_ms must be an integer from 0 to"):
            call("day", None, now)


def test_every_unit_has_a_span() -> None:
    assert tuple(SPAN_MS) == get_args(Window) == periods.UNITS
