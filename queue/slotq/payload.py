"""Arguments and results as JSON: what is stored comes back as it was, or is refused.

msgspec writes NaN as null, two keys that look alike in JSON as one name given twice, and
some times shifted. None of it is what the caller meant, so each text is looked at before it
is accepted. C code does the looking; Python walks through a value only if its text is
suspicious.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, time, timedelta
from decimal import Decimal
from itertools import chain
from types import NoneType
from typing import Final, TypeAlias

import msgspec

from slotq.errors import InvalidValue, shown

MAX_DEPTH: Final = 200
"""How deep lists and dicts may be nested.

Reading takes as much of the interpreter's stack as writing did, and the worker may have
less of it left: what one process could store, another must be able to read.
"""

_Leaf: TypeAlias = str | float | Decimal | datetime | time | None
_Plain: TypeAlias = "dict[_Plain, _Plain] | list[_Plain] | tuple[_Plain, ...] | _Leaf"

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
_decode_list: Final = msgspec.json.Decoder(list[object]).decode
_decode_dict: Final = msgspec.json.Decoder(dict[str, object]).decode

# Values of these come back as they are, or make msgspec raise: nothing more to look at.
_PLAIN_TYPES: Final = frozenset({str, int, bool, NoneType})
_TEXT_TYPES: Final = (str, bytes, bytearray)
# What msgspec may write as something else without a word: NaN and the infinities as null, and
# an offset from UTC, such as Paris had until 1911, without its seconds.
_ALTERED_TYPES: Final = (float, Decimal, datetime, time)
_KEPT: Final = (Decimal, datetime, time)
_FINITE_ONLY: Final = "must contain finite numbers only"
_WHOLE_MINUTES: Final = "must contain times with whole minutes of offset from UTC only"
_OFFSET: Final = re.compile(r':\d\d"')
_MINUTE: Final = timedelta(minutes=1)
_NESTING_TYPES: Final = (dict, list, tuple)
_TOO_DEEP: Final = f"must not contain itself, nor be nested more than {MAX_DEPTH} deep"

_UNREADABLE: Final = (msgspec.MsgspecError, RecursionError, UnicodeError)


def encode_args(
    args: Sequence[object], kwargs: Mapping[str, object], *, max_bytes: int
) -> tuple[str, str]:
    """Return the arguments of a call as two JSON texts: a list, and an object by name.

    Args:
        args: The positional arguments, as a list or tuple.
        kwargs: The arguments by name, as a dict.
        max_bytes: The most that both texts together may take, in bytes of UTF-8.

    Raises:
        InvalidValue: If an argument cannot be written as JSON, would come back as something
            else (NaN, infinities, keys of one dict that JSON would merge, offsets from UTC
            with seconds), is nested more than 200 deep or contains itself, or if the
            arguments are too big.
    """
    _check_call(args, kwargs)
    try:
        args_text = _text("args", args, args, max_bytes) if args else "[]"
        kwargs_text = _text("kwargs", kwargs, kwargs.values(), max_bytes) if kwargs else "{}"
    except InvalidValue:
        # Only now is it worth the time to find out which argument it was.
        for name, value in _named(args, kwargs):
            _text(name, value, (value,), max_bytes)
        raise
    size = _size(args_text) + _size(kwargs_text)
    if size > max_bytes:
        raise _too_big("arguments", f"take {size:,}", max_bytes)
    return args_text, kwargs_text


def encode_result(value: object, *, max_bytes: int) -> str:
    """Return what a task returned as a JSON text, by the same rules as arguments.

    Args:
        value: The result.
        max_bytes: The most that the text may take, in bytes of UTF-8.

    Raises:
        InvalidValue: As encode_args.
    """
    return _text("result", value, (value,), max_bytes)


def decode(text: str) -> object:
    """Return the value of one JSON text.

    Raises:
        InvalidValue: If it is not JSON.
    """
    try:
        return _decode(text)
    except _UNREADABLE as error:
        raise InvalidValue(name="value", problem=f"must be JSON ({error})", value=text) from error


def decode_args(args_text: str, kwargs_text: str) -> tuple[list[object], dict[str, object]]:
    """Return the arguments that encode_args wrote: the positional ones, and those by name.

    Raises:
        InvalidValue: If the texts are not a JSON list and a JSON object.
    """
    try:
        return _decode_list(args_text), _decode_dict(kwargs_text)
    except _UNREADABLE as error:
        problem = f"must be a JSON list and a JSON object ({error})"
        raise InvalidValue(name="arguments", problem=problem) from error


def convert(value: object, annotation: object, what: str) -> object:
    """Return a decoded value as the type that its annotation asks for.

    A datetime was written as text, a set as a list: this brings them back. Nothing is
    guessed: the text "1" does not become the number 1, except as the key of a dict, which
    is always text in JSON.

    Args:
        value: What decode returned.
        annotation: A type, or any other annotation that msgspec supports.
        what: The name of the value in the error.

    Raises:
        InvalidValue: If the value does not fit, or no JSON can be read into the annotation.
    """
    try:
        return msgspec.convert(value, annotation, str_keys=True)
    except msgspec.ValidationError as error:
        problem = f"does not fit its annotation ({error})"
        raise InvalidValue(name=what, problem=problem) from error
    except (TypeError, ValueError, NameError, AttributeError, RecursionError) as error:
        problem = f"has an annotation that JSON cannot be read into: {shown(annotation)} ({error})"
        raise InvalidValue(name=what, problem=problem) from error


def _check_call(args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    if not isinstance(args, (list, tuple)):
        raise InvalidValue(name="args", problem="must be a list or tuple", value=args)
    if not isinstance(kwargs, dict):
        raise InvalidValue(name="kwargs", problem="must be a dict", value=kwargs)
    try:
        # Fails for a name that is not a text; JSON would turn 1 into "1".
        "".join(kwargs)
    except TypeError as error:
        raise InvalidValue(name="kwargs", problem="must have texts as names") from error


def _named(args: Sequence[object], kwargs: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for position, value in enumerate(args):
        yield f"args[{position}]", value
    for name, value in kwargs.items():
        yield f"argument {name}", value


def _too_big(name: str, takes: str, max_bytes: int) -> InvalidValue:
    problem = f"{takes} bytes as JSON, at most {max_bytes:,} are allowed"
    return InvalidValue(name=name, problem=problem)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _text(name: str, value: object, parts: Iterable[object], max_bytes: int) -> str:
    # The parts are what is in the value, one step down; or the value itself.
    try:
        is_plain = True
        for part in parts:
            if type(part) not in _PLAIN_TYPES:
                is_plain = False
            # Before it is written: a text of 1.1 GB need not be copied to be found too big.
            if isinstance(part, _TEXT_TYPES) and len(part) > max_bytes:
                raise _too_big(name, f"takes over {len(part):,}", max_bytes)
        raw = _encode(value)
        if len(raw) > max_bytes:
            raise _too_big(name, f"takes {len(raw):,}", max_bytes)
        text = raw.decode()
        if not is_plain:
            _check_text(name, value, text)
    except InvalidValue:
        raise
    except RecursionError as error:
        raise InvalidValue(name=name, problem=_TOO_DEEP) from error
    except UnicodeEncodeError as error:
        problem = "must not contain lone surrogates"
        raise InvalidValue(name=name, problem=problem) from error
    except (TypeError, ValueError, ArithmeticError, BufferError, msgspec.MsgspecError) as error:
        problem = f"cannot be written as JSON ({error})"
        raise InvalidValue(name=name, problem=problem) from error
    return text


def _check_text(name: str, value: object, text: str) -> None:
    if _is_suspicious(text):
        for item in chain.from_iterable(_levels(msgspec.to_builtins(value, builtin_types=_KEPT))):
            if isinstance(item, _ALTERED_TYPES) and (problem := _alteration(item)):
                raise InvalidValue(name=name, problem=problem, value=item)
    back = _decode(text)
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(back) > MAX_DEPTH:
        raise InvalidValue(name=name, problem=_TOO_DEEP)
    # Keys that JSON merges are in the text, and gone from what is read back.
    if _encode(back).decode() != text:
        raise _changed(name, text)


def _is_suspicious(text: str) -> bool:
    # What a number without an end leaves in a text: null from a float, its name where it is
    # a key, and Decimal's words. Then how a time with a time zone ends. Spelt out, as a loop
    # takes thrice as long.
    return (
        "null" in text
        or 'nan"' in text
        or 'inf"' in text
        or "NaN" in text
        or "Infinity" in text
        or 'Z"' in text
        or _OFFSET.search(text) is not None
    )


def _alteration(item: float | Decimal | datetime | time) -> str | None:
    if isinstance(item, datetime | time):
        offset = item.utcoffset()
        return _WHOLE_MINUTES if offset is not None and offset % _MINUTE else None
    # math.isfinite raises for the signalling NaN of Decimal.
    is_finite = item.is_finite() if isinstance(item, Decimal) else math.isfinite(item)
    return None if is_finite else _FINITE_ONLY


def _depth(value: _Plain) -> int:
    return sum(any(isinstance(item, _NESTING_TYPES) for item in level) for level in _levels(value))


def _levels(value: _Plain) -> Iterator[list[_Plain]]:
    # Level by level, so that no depth can exhaust the stack; it ends below the deepest one.
    level = [value]
    while level:
        yield level
        level = [
            child
            for item in level
            if isinstance(item, _NESTING_TYPES)
            for child in (chain(item, item.values()) if isinstance(item, dict) else item)
        ]


def _changed(name: str, text: str) -> InvalidValue:
    merged: list[str] = []

    def note_merged(pairs: list[tuple[str, object]]) -> None:
        names = Counter(name for name, _ in pairs)
        merged.extend(name for name, times in names.items() if times > 1)

    json.loads(text, object_pairs_hook=note_merged)
    if merged:
        problem = f"must not have keys that JSON would merge into one, such as {shown(merged[0])}"
    else:
        problem = "would not come back from JSON as it is"
    return InvalidValue(name=name, problem=problem)
