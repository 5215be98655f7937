"""What goes in comes out: arguments and results that JSON can carry."""

import tracemalloc
from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slotq import payload
from slotq.errors import InvalidValue
from slotq.payload import MAX_DEPTH, decode, decode_args, encode_args, encode_result

MIB = 1_048_576

TEXTS = st.text() | st.sampled_from(
    ["null", 'nan"', "NaN", "Infinity", "[[[[", "{", "\0", "\u2028"]
)
INTS = (
    st.integers() | st.integers(-(10**300), 10**300) | st.sampled_from([2**63, 2**64, -(2**63) - 1])
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | INTS | FLOATS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
@example(-0.0)
@example(5e-324)
@example(1.0)
@example(2**64)
@example(10**4_000)
def test_results_come_back_as_they_were(value: object) -> None:
    # By repr: -0.0 equals 0.0, True equals 1 and 1.0 equals 1.
    assert repr(decode(encode_result(value, max_bytes=MIB))) == repr(value)


@given(st.lists(JSON, max_size=3), st.dictionaries(TEXTS, JSON, max_size=3))
def test_arguments_come_back_as_they_were(args: list[object], kwargs: dict[str, object]) -> None:
    for given_args in (args, tuple(args)):
        texts = encode_args(given_args, kwargs, max_bytes=MIB)
        assert repr(decode_args(*texts)) == repr((args, kwargs))


def test_texts_are_compact_json() -> None:
    assert encode_args(["acme", 7], {"é": [None, 1.5]}, max_bytes=MIB) == (
        '["acme",7]',
        '{"é":[null,1.5]}',
    )
    assert encode_args((), {}, max_bytes=MIB) == ("[]", "{}")
    assert encode_result(None, max_bytes=MIB) == "null"


def size(texts: Sequence[str]) -> int:
    return sum(len(text.encode()) for text in texts)


@given(st.lists(JSON, max_size=3), st.dictionaries(TEXTS, JSON, max_size=3))
def test_the_cap_is_exact_and_counts_bytes(args: list[object], kwargs: dict[str, object]) -> None:
    exactly = size(encode_args(args, kwargs, max_bytes=MIB))
    encode_args(args, kwargs, max_bytes=exactly)
    with pytest.raises(InvalidValue, match=r"bytes as JSON, at most .* are allowed"):
        encode_args(args, kwargs, max_bytes=exactly - 1)


@given(JSON)
def test_the_cap_of_results_is_exact_and_counts_bytes(value: object) -> None:
    exactly = size([encode_result(value, max_bytes=MIB)])
    encode_result(value, max_bytes=exactly)
    with pytest.raises(
        InvalidValue, match=r"result takes .* bytes as JSON, at most .* are allowed"
    ):
        encode_result(value, max_bytes=exactly - 1)


@pytest.mark.parametrize("letter", ["x", "é", "😀", '"'])
def test_default_sized_texts_fit_exactly_and_not_by_one_more(letter: str) -> None:
    width = len(encode_result(letter, max_bytes=MIB).encode()) - 2
    most = letter * ((MIB - 4) // width)
    rest = "x" * (MIB - 4 - len(most) * width)
    assert size([encode_result([most + rest], max_bytes=MIB)]) == MIB
    for value in (
        [most + rest + "x"],
        {most + rest + "x": 1},
        (most, rest + "x"),
        most + letter * 4,
    ):
        with pytest.raises(InvalidValue, match=r"at most 1,048,576 are allowed"):
            encode_result(value, max_bytes=MIB)


def test_what_is_too_big_is_named() -> None:
    big = "x" * 100
    cases: list[tuple[Sequence[object], Mapping[str, object], str]] = [
        ([1, big], {}, "args[1] takes over 100 bytes as JSON, at most 99 are allowed"),
        ([1, [big]], {}, "args[1] takes 104 bytes as JSON, at most 99 are allowed"),
        (
            [],
            {"a": 1, "b": b"x" * 90},
            "argument b takes 122 bytes as JSON, at most 99 are allowed",
        ),
        (["x" * 50, "y" * 50], {}, "args takes 107 bytes as JSON, at most 99 are allowed"),
        (["x" * 50], {"b": "y" * 50}, "arguments take 112 bytes as JSON, at most 99 are allowed"),
    ]
    for args, kwargs, line in cases:
        with pytest.raises(InvalidValue) as caught:
            encode_args(args, kwargs, max_bytes=99)
        assert str(caught.value) == line


@pytest.mark.parametrize("kind", [str, bytes, bytearray])
def test_a_huge_text_is_refused_without_a_copy(kind: type[str | bytes | bytearray]) -> None:
    huge = "x" * 50_000_000 if kind is str else kind(50_000_000)
    tracemalloc.start()
    try:
        for refuse in (
            lambda: encode_args([huge], {}, max_bytes=MIB),
            lambda: encode_args([1], {"a": huge}, max_bytes=MIB),
            lambda: encode_result(huge, max_bytes=MIB),
        ):
            with pytest.raises(InvalidValue, match="takes over 50,000,000 bytes"):
                refuse()
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


def lists(depth: int) -> object:
    value: list[object] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def dicts(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = {"a": 1, "b": value}
    return value


def mixed(depth: int) -> object:
    value: object = "[[[[{{{{"
    for n in range(depth):
        value = ([value, "]"], (value,), {"k": value})[n % 3]
    return value


DEEP = pytest.mark.parametrize("nest", [lists, dicts, mixed])


@DEEP
def test_the_cap_of_depth_is_exact(nest: Callable[[int], object]) -> None:
    for depth in (1, MAX_DEPTH - 1, MAX_DEPTH):
        decode(encode_result(nest(depth), max_bytes=MIB))
        encode_args([nest(depth - 1)], {"a": nest(depth - 1)}, max_bytes=MIB)
    for depth in (MAX_DEPTH + 1, MAX_DEPTH + 2, 600, 100_000):
        with pytest.raises(InvalidValue, match="nor be nested more than 200 deep"):
            encode_result(nest(depth), max_bytes=100 * MIB)
        with pytest.raises(InvalidValue, match=r"^args"):
            encode_args([nest(depth - 1)], {}, max_bytes=100 * MIB)


@DEEP
def test_what_was_written_near_the_cap_is_read_with_little_stack_left(
    nest: Callable[[int], object],
) -> None:
    text = encode_result(nest(MAX_DEPTH), max_bytes=MIB)

    def read_below(frames: int) -> object:
        return read_below(frames - 1) if frames else decode(text)

    read_below(500)


def test_wide_values_are_not_deep() -> None:
    rows: list[object] = [{"a": [], "b": {}} for _ in range(1_000)]
    assert decode(encode_result(rows, max_bytes=MIB)) == rows


def test_texts_that_are_no_json_are_refused_in_one_line() -> None:
    texts = ["", "{", "[1,]", "NaN", "Infinity", "1e400", "'a'", '"\ud800"', r'"\ud800"', "\ufeff1"]
    for text in [*texts, "1 2", "[" * 100_000, "x" * 10_000_000]:
        with pytest.raises(InvalidValue, match="value must be JSON") as caught:
            decode(text)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 400


def test_stored_arguments_that_are_no_call_are_refused() -> None:
    assert decode_args("[1]", '{"a":2}') == ([1], {"a": 2})
    for texts in [("{}", "{}"), ("[]", "[]"), ("1", "{}"), ("[]", ""), ("", "{}"), ("[]", "null")]:
        with pytest.raises(InvalidValue, match="arguments must be a JSON list and a JSON object"):
            decode_args(*texts)


call: Callable[..., object] = payload.encode_args  # without the types, to pass wrong ones


def test_what_is_no_call_is_refused() -> None:
    for args in ("abc", b"abc", {"a": 1}, {1, 2}, None, 7, iter([1]), range(3)):
        with pytest.raises(InvalidValue, match="args must be a list or tuple, not"):
            call(args, {}, max_bytes=MIB)
    for kwargs in ([("a", 1)], "a", None, 7, {"a"}):
        with pytest.raises(InvalidValue, match="kwargs must be a dict, not"):
            call([], kwargs, max_bytes=MIB)
    for name in (1, None, b"a", ("a",), 1.5):
        with pytest.raises(InvalidValue, match="kwargs must have texts as names"):
            call([], {"x": 1, name: 1}, max_bytes=MIB)
