"""Values come back from JSON as the types that annotations ask for."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import (
    Annotated,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Protocol,
    TypedDict,
    TypeVar,
    Union,
)
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotq.errors import InvalidValue
from slotq.payload import convert, decode, decode_args, encode_args, encode_result

MIB = 1_048_576
T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


@dataclass
class Address:
    street: str
    since: datetime
    tags: set[str] = field(default_factory=set[str])


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    home: Address | None = None


@dataclass
class Holder(Generic[T]):
    content: T


class Point(msgspec.Struct):
    x: int
    y: Decimal


class Tagged(msgspec.Struct, tag=True, array_like=True, omit_defaults=True):
    x: int = 0


class Order(TypedDict):
    number: int
    body: NotRequired[bytes]


class Pair(NamedTuple):
    left: UUID
    right: str = "none"


class Plain:
    pass


class Shape(Protocol):
    area: int


Name = NewType("Name", str)
NOW = datetime(2026, 3, 4, 5, 6, 7, 890_123, tzinfo=UTC)
ID = UUID("12345678-1234-5678-1234-567812345678")

CASES: list[tuple[object, object]] = [
    (NOW, datetime),
    (NOW.replace(tzinfo=None), datetime),
    (NOW.astimezone(timezone(timedelta(hours=-5, minutes=-45))), datetime),
    (date(2026, 3, 4), date),
    (time(5, 6, 7, 8), time),
    (timedelta(days=-1, microseconds=1), timedelta),
    (ID, UUID),
    (Decimal("1.10"), Decimal),
    (b"\0\xff", bytes),
    (bytearray(b"\0\xff"), bytearray),
    (Color.BLUE, Color),
    (Level.HIGH, Level),
    (Access.READ | Access.WRITE, Access),
    (Person("Ann", Address("High St", NOW, {"a", "b"})), Person),
    (Person("Ann"), Person),
    (Holder(ID), Holder[UUID]),
    (Point(1, Decimal(2)), Point),
    (Tagged(), Tagged),
    (Tagged(3), Tagged),
    ({"number": 1, "body": b"x"}, Order),
    ({"number": 1}, Order),
    (Pair(ID), Pair),
    ({1, 2}, set[int]),
    (frozenset([NOW]), frozenset[datetime]),
    ((1, "a", NOW), tuple[int, str, datetime]),
    ((1, 2, 3), tuple[int, ...]),
    ([ID], list[UUID]),
    ([1], Sequence[int]),
    (None, Optional[int]),  # noqa: UP045 - both spellings
    (3, int | None),
    (3, Union[int, str]),  # noqa: UP007 - both spellings
    ("3", int | str),
    (ID, UUID | int | None),
    ({1: "a", -(2**70): "b"}, dict[int, str]),
    ({1.5: "a"}, dict[float, str]),
    ({NOW: 1}, dict[datetime, int]),
    ({ID: 1}, dict[UUID, int]),
    ({Color.RED: 1}, dict[Color, int]),
    ({Level.LOW: 1}, dict[Level, int]),
    ({b"\xff": 1}, dict[bytes, int]),
    ({Decimal("1.50"): {2: [NOW]}}, dict[Decimal, dict[int, list[datetime]]]),
    ({"a": 1}, Mapping[str, int]),
    ("a", Literal["a", "b"]),
    ("a", Name),
    (7, Annotated[int, msgspec.Meta(ge=5)]),
    (2**70, int),
    ([1, {"a": None}], object),
    ([1], list),
    (True, bool),
]


@pytest.mark.parametrize(("value", "annotation"), CASES, ids=map(str, range(len(CASES))))
def test_values_come_back_as_annotated(value: object, annotation: object) -> None:
    back = convert(decode(encode_result(value, max_bytes=MIB)), annotation, "value")
    assert back == value
    assert type(back) is type(value)
    args, kwargs = decode_args(*encode_args([value], {"a": value}, max_bytes=MIB))
    assert convert(args[0], annotation, "value") == value
    assert convert(kwargs["a"], annotation, "value") == value


ZONES = st.integers(-1_439, 1_439).map(lambda n: timezone(timedelta(minutes=n)))


@given(
    st.tuples(
        st.datetimes(timezones=ZONES | st.none()),
        st.decimals(allow_nan=False, allow_infinity=False),
        st.binary(max_size=50),
        st.dictionaries(st.integers(), st.floats(allow_nan=False, allow_infinity=False)),
        st.sets(st.dates()),
        st.timedeltas(),
    )
)
def test_any_value_of_a_type_comes_back_as_itself(value: tuple[object, ...]) -> None:
    annotation = tuple[datetime, Decimal, bytes, dict[int, float], set[date], timedelta]
    assert convert(decode(encode_result(value, max_bytes=MIB)), annotation, "value") == value


MISFITS: list[tuple[object, object, str]] = [
    ("1", int, "tenant does not fit its annotation (Expected `int`, got `str`)"),
    (1, str, "tenant does not fit its annotation (Expected `str`, got `int`)"),
    (1, bool, "tenant does not fit its annotation (Expected `bool`, got `int`)"),
    (1.5, int, "tenant does not fit its annotation (Expected `int`, got `float`)"),
    (None, int, "tenant does not fit its annotation (Expected `int`, got `null`)"),
    (
        "yesterday",
        datetime,
        "tenant does not fit its annotation (Invalid RFC3339 encoded datetime)",
    ),
    ("green", Color, "tenant does not fit its annotation (Invalid enum value 'green')"),
    (
        [1, "x"],
        list[int],
        "tenant does not fit its annotation (Expected `int`, got `str` - at `$[1]`)",
    ),
    ({"x": 1}, Point, "tenant does not fit its annotation (Object missing required field `y`)"),
    ({"a": 1}, Plain, "tenant does not fit its annotation (Expected `Plain`, got `dict`)"),
]


def test_values_that_do_not_fit_are_refused_in_one_line() -> None:
    for value, annotation, line in MISFITS:
        with pytest.raises(InvalidValue) as caught:
            convert(value, annotation, "tenant")
        assert str(caught.value) == line


def test_annotations_that_nothing_can_be_read_into_are_refused_in_one_line() -> None:
    annotations: list[object] = [
        *("int", "Unknown", 5, ..., Mixed, Shape, datetime | str, dict[str, int] | Point),
        *(list["Unknown"], Point | Address, int | Plain),  # type: ignore[name-defined] # noqa: F821
    ]
    for annotation in annotations:
        with pytest.raises(
            InvalidValue, match="tenant has an annotation that JSON cannot"
        ) as caught:
            convert(3, annotation, "tenant")
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 600


def test_a_number_without_a_fraction_may_be_a_float() -> None:
    back = convert(decode("1"), float, "value")
    assert (back, type(back)) == (1.0, float)
