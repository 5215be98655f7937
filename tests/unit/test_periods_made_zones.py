"""Periods in zones whose clock is moved once, at any instant and by any number of minutes.

No real zone has moved its clock from before to after midnight since 1970; one may.
"""

import struct
import zoneinfo
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import get_args
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from slotq.model import Window
from slotq.periods import SPAN_MS, period

MINUTE, HOUR = 60_000, 3_600_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NUMBERS = count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    made = tmp_path_factory.mktemp("zones")
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath([str(made)])
    yield made
    zoneinfo.reset_tzpath(before)


def make_zone(folder: Path, moved_ms: int, before_min: int, after_min: int) -> str:
    """Write a zone file (RFC 8536, version 1) and return the zone's name."""
    name = f"Made{next(NUMBERS)}"
    counts = struct.pack(">6l", 0, 0, 0, 2, 2, 4)
    # The first transition stands for the time before the one that matters.
    times = struct.pack(">2l2B", -(2**31), moved_ms // 1_000, 0, 1)
    types = struct.pack(">lBBlBB", before_min * 60, 0, 0, after_min * 60, 0, 0)
    data = b"TZif" + bytes(16) + counts + times + types + b"MAD\0"
    (folder / name).write_bytes(data)
    return name


def local(zone: str, at_ms: int) -> datetime:
    return (EPOCH + timedelta(milliseconds=at_ms)).astimezone(ZoneInfo(zone))


MOVED = st.integers(100_000, 20_000_000).map(lambda n: n * MINUTE)
OFFSETS = st.integers(-840, 840)


def near(moved_ms: int) -> st.SearchStrategy[int]:
    return st.integers(-30 * HOUR, 30 * HOUR).map(lambda away: moved_ms + away)


@given(MOVED.flatmap(lambda moved: st.tuples(st.just(moved), near(moved))), OFFSETS, OFFSETS)
@example((1_767_139_200_000, 1_767_139_200_000), 15, 75)
def test_periods_tile_wherever_a_clock_is_moved(
    folder: Path, instants: tuple[int, int], before_min: int, after_min: int
) -> None:
    moved, now = instants
    assume(before_min - after_min <= 7 * 60)  # more would make days longer than any was
    zone = make_zone(folder, moved, before_min, after_min)
    assert local(zone, moved - 1).utcoffset() == timedelta(minutes=before_min)
    assert local(zone, moved).utcoffset() == timedelta(minutes=after_min)
    for unit in get_args(Window):
        start, end = period(unit, zone, now)
        assert start <= now < end
        assert end - start <= SPAN_MS[unit]
        assert period(unit, zone, start) == period(unit, zone, end - 1) == (start, end)
        assert period(unit, zone, start - 1)[1] == start
        assert period(unit, zone, end)[0] == end


# In steps of five minutes, as every step of two days is looked at.
@given(
    MOVED.map(lambda ms: ms // (5 * MINUTE) * (5 * MINUTE)),
    OFFSETS.map(lambda n: n // 5 * 5),
    OFFSETS.map(lambda n: n // 5 * 5),
)
def test_days_begin_when_a_later_date_is_first_shown(
    folder: Path, moved: int, before_min: int, after_min: int
) -> None:
    zone = make_zone(folder, moved, before_min, after_min)
    latest = local(zone, moved - 27 * HOUR).date()
    for at in range(moved - 27 * HOUR, moved + 27 * HOUR, 5 * MINUTE):
        if local(zone, at).date() > latest:
            latest = local(zone, at).date()
            assert period("day", zone, at)[0] == at
            assert period("day", zone, at - 1)[1] == at


def test_a_day_begins_with_the_change_that_skips_its_midnight(folder: Path) -> None:
    moved = int(datetime(2026, 1, 1, 23, 30, tzinfo=UTC).timestamp() * 1_000)
    zone = make_zone(folder, moved, 0, 60)
    assert period("day", zone, moved)[0] == moved
    assert local(zone, moved).isoformat() == "2026-01-02T00:30:00+01:00"
