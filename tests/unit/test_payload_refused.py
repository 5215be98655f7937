"""What JSON would lose, change or choke on is refused, wherever in a value it hides."""

import math
import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotq.errors import InvalidValue
from slotq.payload import encode_args, encode_result

MIB = 1_048_576


@dataclass
class Box:
    inside: object
    note: str | None = None


@dataclass(slots=True)
class SlimBox:
    inside: object


class Cell(msgspec.Struct):
    inside: object
    note: str | None = None


class Row(msgspec.Struct, array_like=True, tag=True):
    inside: object


class Pair(NamedTuple):
    inside: object
    note: str | None = None


class Unending(Enum):
    NAN = math.nan
    UP = math.inf


class Color(Enum):
    RED = "red"


# Each puts a value into something; most have innocent company that looks like trouble.
WRAPPERS: list[Callable[[object], object]] = [
    lambda value: [value],
    lambda value: [1, None, "NaN", value, {"null": None}],
    lambda value: (value,),
    lambda value: ({"a": 1.5}, value),
    lambda value: {"a": value},
    lambda value: {"nan": None, "inf": 1, "b": value, 7: "x", date(2026, 1, 1): "Infinity"},
    lambda value: OrderedDict[str, object](a=[], b=value),
    Box,
    SlimBox,
    Cell,
    Row,
    Pair,
]


def wrapped(value: object, wrappers: list[Callable[[object], object]]) -> object:
    for wrap in wrappers:
        value = wrap(value)
    return value


SOME_WRAPPERS = st.lists(st.sampled_from(WRAPPERS), max_size=6)


def hidden(bad: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.builds(wrapped, bad, SOME_WRAPPERS)


def within(bad: Hashable) -> list[object]:
    """Also where only what can be hashed goes."""
    return [bad, {bad}, frozenset([bad, 1]), {bad: 1}, {"a": 1, bad: None}, {1: {bad: 1}}]


def check_refused(value: object, match: str) -> None:
    refusals: list[Callable[[], object]] = [
        lambda: encode_result(value, max_bytes=MIB),
        lambda: encode_args([1, value], {}, max_bytes=MIB),
        lambda: encode_args((), {"a": None, "b": value}, max_bytes=MIB),
    ]
    for refuse, name in zip(refusals, ["result", "args[1]", "argument b"], strict=True):
        with pytest.raises(InvalidValue, match=match) as caught:
            refuse()
        assert caught.value.name == name
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 600


UNENDING: list[Hashable] = [
    *(math.nan, -math.nan, math.inf, -math.inf, Unending.NAN, Unending.UP),
    *(Decimal("NaN"), Decimal("-NaN7"), Decimal("Infinity"), Decimal("-Infinity")),
]


@given(hidden(st.sampled_from([*(v for bad in UNENDING for v in within(bad)), Decimal("sNaN")])))
def test_numbers_without_an_end_are_refused(value: object) -> None:
    check_refused(value, "must contain finite numbers only")


@pytest.mark.parametrize("bad", UNENDING, ids=map(str, range(len(UNENDING))))
def test_numbers_without_an_end_are_refused_with_nothing_suspicious_beside_them(
    bad: Hashable,
) -> None:
    for value in [[bad], {"a": bad}, {bad}, {bad: 1}, {1: {bad: 1}}, Row(bad)]:
        check_refused(value, "must contain finite numbers only")


@given(hidden(st.sampled_from([Decimal("1E+500"), 1e308, -0.0, None, "nan", {"inf": "null"}])))
def test_innocent_values_in_the_same_places_are_accepted(value: object) -> None:
    encode_result(value, max_bytes=MIB)


FAR_ZONES = st.sampled_from(
    [
        timezone(timedelta(minutes=-44, seconds=-30)),
        timezone(timedelta(seconds=1)),
        timezone(timedelta(microseconds=-1)),
        timezone(timedelta(hours=5, milliseconds=1)),
    ]
)
OFF = (
    st.datetimes(timezones=FAR_ZONES)
    | st.times(timezones=FAR_ZONES)
    | st.datetimes(max_value=datetime(1890, 1, 1), timezones=st.just(ZoneInfo("Europe/Paris")))  # noqa: DTZ001 - hypothesis adds the zone
)


@given(hidden(OFF.flatmap(lambda bad: st.sampled_from(within(bad)))))
def test_times_that_json_would_shift_are_refused(value: object) -> None:
    check_refused(value, "whole minutes of offset from UTC only")


NEAR_ZONES = st.integers(-1_439, 1_439).map(lambda n: timezone(timedelta(minutes=n))) | st.just(UTC)


@given(hidden(st.datetimes(timezones=NEAR_ZONES) | st.times() | st.just(time(1, 2, tzinfo=UTC))))
def test_times_at_whole_minutes_are_accepted(value: object) -> None:
    encode_result(value, max_bytes=MIB)


KEY = UUID("12345678-1234-5678-1234-567812345678")
MERGED: list[object] = [
    {1: "a", "1": "b"},
    {-(2**70): "a", str(-(2**70)): "b"},
    {1.5: "a", "1.5": "b"},
    {date(2026, 1, 1): "a", "2026-01-01": "b"},
    {datetime(2026, 1, 1, tzinfo=UTC): "a", "2026-01-01T00:00:00Z": "b"},
    {KEY: "a", str(KEY): "b"},
    {b"a": "a", "YQ==": "b"},
    {Color.RED: None, "red": None},
    {Decimal("1.50"): "a", "1.50": "b"},
    {timedelta(0): "a", "P0D": "b"},
]


@given(hidden(st.sampled_from(MERGED)))
def test_keys_that_json_would_merge_are_refused(value: object) -> None:
    check_refused(value, "must not have keys that JSON would merge into one, such as '")


@given(
    st.dictionaries(st.integers(0, 9) | st.sampled_from("0123456789"), st.none(), max_size=6),
    SOME_WRAPPERS,
)
def test_number_and_text_keys_are_accepted_exactly_if_none_merge(
    mixed: dict[int | str, None], wrappers: list[Callable[[object], object]]
) -> None:
    value = wrapped(mixed, wrappers)
    if len({str(name) for name in mixed}) == len(mixed):
        encode_result(value, max_bytes=MIB)
    else:
        check_refused(value, "would merge")


@given(
    hidden(
        st.sampled_from([object(), len, 3 + 0j, range(3), iter([1]), int, ..., sys, {(1, 2): 3}])
    )
)
def test_what_json_has_no_form_for_is_refused(value: object) -> None:
    check_refused(value, r"cannot be written as JSON \(")


def with_surrogate(before: str, bad: str, after: str) -> list[object]:
    text = before + bad + after
    return within(text)


SURROGATES = st.builds(
    with_surrogate, st.text(max_size=3), st.characters(categories=["Cs"]), st.text(max_size=3)
)


@given(hidden(SURROGATES.flatmap(st.sampled_from)))
def test_lone_surrogates_are_refused(value: object) -> None:
    check_refused(value, "must not contain lone surrogates")


def test_lone_surrogates_in_the_name_of_an_argument_are_refused() -> None:
    with pytest.raises(InvalidValue, match="lone surrogates") as caught:
        encode_args([], {"a\udfff": 1}, max_bytes=MIB)
    assert str(caught.value).isprintable()


def test_values_that_contain_themselves_are_refused() -> None:
    a_list: list[object] = [1]
    a_list.append(a_list)
    a_dict: dict[str, object] = {"a": 1}
    a_dict["b"] = a_dict
    box = Box(inside=None)
    box.inside = (box,)
    round_about: list[object] = []
    round_about.append({"a": Cell(inside=(round_about,))})
    for value in (a_list, a_dict, box, round_about):
        check_refused(value, "must not contain itself, nor be nested more than 200 deep")


def test_integers_too_long_to_print_are_refused() -> None:
    check_refused(10**5_000, "cannot be written as JSON")
    check_refused([{"a": -(10**5_000)}], "cannot be written as JSON")


def test_raw_json_is_refused_if_it_would_not_come_back() -> None:
    for raw in (b"NaN", b"[1", b'{"a":1,"a":2}', b"[1, 2]", b"1e400"):
        check_refused([msgspec.Raw(raw)], r"cannot be written|would merge|would not come back")
