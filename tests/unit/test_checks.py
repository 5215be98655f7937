import enum
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotq import checks
from slotq.errors import InvalidValue


class Level(enum.IntEnum):
    THREE = 3


class Name(enum.StrEnum):
    ABC = "abc"


def broken_repr(self: object) -> str:
    raise RuntimeError


class Unprintable:
    __repr__ = broken_repr


def one_to_a_million(name: str, value: object) -> int:
    return checks.integer(name, value, 1, 1_000_000)


def up_to_a_day(name: str, value: object) -> int:
    return checks.seconds_ms(name, value, low_ms=1, high_ms=86_400_000)


def an_order(name: str, value: object) -> str:
    return checks.choice(name, value, ("fair", "fifo"))


# What a hurried caller, a form or a hostile payload may pass for any argument.
ODD: list[object] = [
    *(0, -1, 1, 3, 10**12, -(10**12), 10**400, 10**5_000, 1.5, -0.0, 1e-12, 1e308),
    *(math.nan, math.inf, -math.inf, Decimal(3), Fraction(1, 3), 3 + 0j, Level.THREE),
    *("", "3", "abc", "a\0b", "\ud800", "x" * 200, "x" * 201, "x" * 1_024, "x" * 1_025),
    *("é" * 1_024, "x" * 10**7, Name.ABC, b"", b"abc", bytearray(b"abc")),
    *(True, False, None, ..., object(), Unprintable(), int, len, [], [3], (), {}, {1, 2}),
    *(timedelta(0), timedelta(seconds=3), timedelta(microseconds=1), timedelta.max, timedelta.min),
    *(datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC), datetime.max, datetime.min),  # noqa: DTZ001, DTZ901 - naive is the point
    *(datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC), date(2026, 1, 1)),
]

CHECKS: dict[str, tuple[Callable[[str, object], object], list[object]]] = {
    # Each check with everything odd that it accepts, as it is returned.
    "integer": (lambda name, value: checks.integer(name, value, 0, 5), [0, 1, 3, 3]),
    "boolean": (checks.boolean, [True, False]),
    "seconds": (
        lambda name, value: checks.seconds_ms(name, value, low_ms=0, high_ms=86_400_000),
        [0, 1_000, 3_000, 1_500, 0, 1, 3_000, 0, 3_000, 1],
    ),
    "instant": (checks.instant_ms, [1_767_225_600_000, checks.LAST_MS]),
    "text": (checks.text, ["3", "abc", "x" * 200]),
    "key": (
        checks.key,
        ["", "3", "abc", "x" * 200, "x" * 201, "x" * 1_024, "é" * 1_024, ""],
    ),
    "choice": (lambda name, value: checks.choice(name, value, ("abc", "xyz")), ["abc"]),
}


@pytest.mark.parametrize("name", CHECKS)
def test_odd_values_are_accepted_as_listed_or_refused_in_one_line(name: str) -> None:
    check, expected = CHECKS[name]
    accepted: list[object] = []
    for value in ODD:
        try:
            accepted.append(check("some_name", value))
        except InvalidValue as error:
            line = str(error)
            assert line.startswith("some_name must ")
            assert line.isprintable()
            assert len(line) < 250
    assert accepted == expected
    assert [type(value) for value in accepted] == [type(value) for value in expected]


REFUSED: list[tuple[Callable[[str, object], object], object, str]] = [
    (
        one_to_a_million,
        True,
        "n must be an integer from 1 to 1,000,000, not True",
    ),
    (checks.boolean, 1, "n must be True or False, not 1"),
    (
        up_to_a_day,
        "60",
        "n must be a number of seconds from 0.001 to 86,400, or a timedelta, not '60'",
    ),
    (
        checks.instant_ms,
        datetime(2026, 1, 1),  # noqa: DTZ001 - naive is the point
        "n must say its time zone: pass datetime.now(UTC), or add tzinfo=, or .astimezone(), "
        "not datetime.datetime(2026, 1, 1, 0, 0)",
    ),
    (
        checks.instant_ms,
        datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        "n must lie within the years 1970 to 9999, UTC, "
        "not datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=datetime.timezone....",
    ),
    (checks.text, None, "n must be a str, not None"),
    (checks.text, "", "n must have 1 to 200 characters, this one has 0"),
    (checks.text, "x" * 201, "n must have 1 to 200 characters, this one has 201"),
    (checks.text, "a\0", r"n must not contain NUL, not 'a\x00'"),
    (checks.key, "a\udfff", r"n must not contain lone surrogates, not 'a\udfff'"),
    (checks.key, 42, "n must be a str or None, not 42"),
    (checks.key, "x" * 1_025, "n must have at most 1,024 characters, this one has 1,025"),
    (an_order, "lifo", "n must be one of fair, fifo, not 'lifo'"),
]


def test_refusals_say_what_is_allowed() -> None:
    for check, value, line in REFUSED:
        with pytest.raises(InvalidValue) as caught:
            check("n", value)
        assert str(caught.value) == line
        assert caught.value.name == "n"


@given(st.integers(), st.integers(), st.integers())
def test_integer_is_accepted_exactly_within_its_range(value: int, low: int, high: int) -> None:
    if low <= value <= high:
        assert checks.integer("n", value, low, high) == value
    else:
        with pytest.raises(InvalidValue):
            checks.integer("n", value, low, high)


def span(value: float | timedelta) -> int:
    return checks.seconds_ms("n", value, low_ms=-(10**14), high_ms=10**14)


@given(st.integers(-(10**14), 10**14))
def test_whole_milliseconds_survive_as_seconds(ms: int) -> None:
    assert span(ms / 1_000) == ms
    assert span(timedelta(milliseconds=ms)) == ms


@given(st.floats(-(10**10), 10**10))
def test_seconds_are_rounded_away_from_zero_by_less_than_a_millisecond(value: float) -> None:
    ms = span(value)
    assert (ms == 0) == (value == 0)
    exact_ms = abs(Fraction(value)) * 1_000
    noise_ms = exact_ms / 10**13
    assert -noise_ms <= abs(ms) - exact_ms < 1
    assert ms * value >= 0


@given(st.timedeltas(timedelta(days=-(10**5)), timedelta(days=10**5)))
def test_timedeltas_are_rounded_away_from_zero_exactly(value: timedelta) -> None:
    ms = span(value)
    assert abs(ms) == math.ceil(Fraction(abs(value) // timedelta(microseconds=1), 1_000))
    assert (ms >= 0) == (value >= timedelta(0))


def test_noise_of_floats_is_not_rounded_up() -> None:
    assert [span(value) for value in (0.1 + 0.2, 0.007, 1.1 * 3, 0.001)] == [300, 7, 3_300, 1]
    assert [span(value) for value in (0.3001, 0.0071, 3.3000001)] == [301, 8, 3_301]


@pytest.mark.parametrize("value", [0.0005, 1e-300, 5e-324, timedelta(microseconds=1)])
def test_a_tiny_span_is_one_millisecond_and_its_negative_does_not_pass_for_none(
    value: float | timedelta,
) -> None:
    assert checks.seconds_ms("n", value, low_ms=0, high_ms=10) == 1
    with pytest.raises(InvalidValue):
        checks.seconds_ms("n", -value, low_ms=0, high_ms=10)


AWARE = st.datetimes(
    timezones=st.sampled_from(
        [UTC, timezone(timedelta(hours=-23, minutes=-59)), ZoneInfo("Asia/Kathmandu")]
    )
)


@given(AWARE | st.datetimes(datetime(1969, 12, 31), datetime(1970, 1, 2), timezones=st.just(UTC)))  # noqa: DTZ001 - hypothesis adds the zone
def test_instants_are_whole_milliseconds_never_before_the_given_one(value: datetime) -> None:
    # Whole numbers throughout; subtraction of aware datetimes is exact.
    microseconds = (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    if 0 <= math.ceil(Fraction(microseconds, 1_000)) <= checks.LAST_MS:
        ms = checks.instant_ms("n", value)
        assert microseconds <= ms * 1_000 < microseconds + 1_000
    elif microseconds <= checks.LAST_MS * 1_000 + 999 and microseconds > 0:
        assert checks.instant_ms("n", value) == checks.LAST_MS
    else:
        with pytest.raises(InvalidValue, match="years 1970 to 9999"):
            checks.instant_ms("n", value)


@pytest.mark.parametrize("hours", [-12, 12])
def test_instants_at_both_ends_of_what_datetimes_can_say(hours: int) -> None:
    zone = timezone(timedelta(hours=hours))
    with pytest.raises(InvalidValue, match="years 1970 to 9999"):
        checks.instant_ms("n", datetime.min.replace(tzinfo=zone))
    last = datetime.max.replace(tzinfo=zone)
    if hours < 0:
        with pytest.raises(InvalidValue, match="years 1970 to 9999"):
            checks.instant_ms("n", last)
    else:
        assert checks.instant_ms("n", last) == checks.LAST_MS + 1 - 12 * 3_600_000


def test_last_instant_makes_a_datetime_again() -> None:
    last = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=checks.LAST_MS)
    assert checks.instant_ms("n", last) == checks.LAST_MS
    assert checks.instant_ms("n", datetime.max.replace(tzinfo=UTC)) == checks.LAST_MS


@given(st.text(min_size=1, max_size=200))
def test_texts_and_keys_come_back_byte_for_byte(value: str) -> None:
    if "\0" in value:
        with pytest.raises(InvalidValue, match="NUL"):
            checks.text("n", value)
        with pytest.raises(InvalidValue, match="NUL"):
            checks.key("n", value)
    else:
        assert checks.text("n", value) == value == checks.key("n", value)


@given(
    st.text(max_size=20),
    st.characters(categories=["Cs"]),
    st.text(st.characters(), max_size=20),
)
def test_lone_surrogates_are_refused_anywhere(before: str, surrogate: str, after: str) -> None:
    for check in (checks.text, checks.key):
        with pytest.raises(InvalidValue, match=r"surrogates|NUL"):
            check("n", before + surrogate + after)
