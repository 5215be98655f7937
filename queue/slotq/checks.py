"""Checks of arguments: each returns the value in the form the queue keeps, or refuses it.

Every check takes any object, names the argument in its one line and raises InvalidValue.
"""

import math
from datetime import UTC, datetime, timedelta
from typing import Final

from slotq.errors import InvalidValue

KEY_CHARACTERS: Final = 1_024
"""The longest key, in characters."""

LAST_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999: the latest instant that a datetime can say."""

LONGEST_MS: Final = 100 * 366 * 86_400_000
"""The longest span of anything: its sum with any instant of our time can be written."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
# Above this many seconds a float no longer tells milliseconds apart, and no range reaches it.
_MOST_SECONDS: Final = 2**43


def integer(name: str, value: object, low: int, high: int) -> int:
    """Return an integer from low to high; True, 1.0 and "1" are not integers."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        problem = f"must be an integer from {low:,} to {high:,}"
        raise InvalidValue(name=name, problem=problem, value=value)
    return int(value)


def number(name: str, value: object, low: float, high: float) -> float:
    """Return a finite number from low to high; True and "1" are not numbers."""
    # Not true of NaN either.
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        problem = f"must be a number from {low:,} to {high:,}"
        raise InvalidValue(name=name, problem=problem, value=value)
    return value


def boolean(name: str, value: object) -> bool:
    """Return True or False; 0, 1 and None are neither."""
    if not isinstance(value, bool):
        raise InvalidValue(name=name, problem="must be True or False", value=value)
    return value


def seconds_ms(name: str, value: object, *, low_ms: int, high_ms: int) -> int:
    """Return a span in milliseconds, given in seconds or as a timedelta.

    What is finer than a millisecond is rounded away from zero: a positive span never
    becomes 0, a negative one never passes for 0, and no wait is shorter than asked.

    Args:
        name: The argument.
        value: Seconds as int or float, or a timedelta.
        low_ms: The shortest span allowed, in milliseconds.
        high_ms: The longest span allowed, in milliseconds.
    """
    ms = _span_ms(value)
    if ms is None or not low_ms <= ms <= high_ms:
        low, high = _seconds(low_ms), _seconds(high_ms)
        problem = f"must be a number of seconds from {low} to {high}, or a timedelta"
        raise InvalidValue(name=name, problem=problem, value=value)
    return ms


def _span_ms(value: object) -> int | None:
    if isinstance(value, timedelta):
        microseconds = value // _MICROSECOND
        ms = -(-abs(microseconds) // 1_000)
        return ms if microseconds >= 0 else -ms
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # False for NaN too; and an int that fits no float is compared exactly.
    if not -_MOST_SECONDS <= value <= _MOST_SECONDS:
        return None
    if isinstance(value, int):
        return int(value) * 1_000
    exact_ms = abs(value) * 1_000
    ms = round(exact_ms)
    # 0.007 * 1000 is 7.000000000000001, and 0.1 + 0.2 is 0.30000000000000004: what differs
    # by the noise of floats only must not be rounded up.
    if not math.isclose(ms / 1_000, abs(value), rel_tol=1e-14):
        ms = math.ceil(exact_ms)
    return ms if value >= 0 else -ms


def _seconds(ms: int) -> str:
    return f"{ms // 1_000:,}" if ms % 1_000 == 0 else f"{ms / 1_000:,}"


def instant_ms(name: str, value: object) -> int:
    """Return an aware datetime as milliseconds since 1970-01-01 UTC, rounded up.

    Rounded up, because a job must not start before its instant.
    """
    if not isinstance(value, datetime):
        raise InvalidValue(name=name, problem="must be an aware datetime", value=value)
    if value.utcoffset() is None:
        problem = "must say its time zone: pass datetime.now(UTC), or add tzinfo=, or .astimezone()"
        raise InvalidValue(name=name, problem=problem, value=value)
    # Whole numbers throughout. timestamp() would round, and a shift to UTC could overflow.
    microseconds = (value - _EPOCH) // _MICROSECOND
    ms = -(-microseconds // 1_000)
    # The last microseconds of the year 9999, as in datetime.max, are not in the year 10000.
    if ms == LAST_MS + 1 and microseconds % 1_000:
        ms = LAST_MS
    if not 0 <= ms <= LAST_MS:
        problem = "must lie within the years 1970 to 9999, UTC"
        raise InvalidValue(name=name, problem=problem, value=value)
    return ms


def text(name: str, value: object, *, high: int = 200) -> str:
    """Return a str of 1 to high characters without NUL and lone surrogates."""
    if type(value) is not str:
        raise InvalidValue(name=name, problem="must be a str", value=value)
    if not 1 <= len(value) <= high:
        problem = f"must have 1 to {high:,} characters, this one has {len(value):,}"
        raise InvalidValue(name=name, problem=problem)
    return _storable(name, value)


def key(name: str, value: object) -> str:
    """Return a key as it is, byte for byte; None and "" both mean none and give ""."""
    if value is None:
        return ""
    if type(value) is not str:
        raise InvalidValue(name=name, problem="must be a str or None", value=value)
    if len(value) > KEY_CHARACTERS:
        problem = f"must have at most {KEY_CHARACTERS:,} characters, this one has {len(value):,}"
        raise InvalidValue(name=name, problem=problem)
    return _storable(name, value)


def _storable(name: str, value: str) -> str:
    # SQLite cuts texts at a NUL in places, and cannot store a lone surrogate at all.
    if "\0" in value:
        raise InvalidValue(name=name, problem="must not contain NUL", value=value)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            problem = "must not contain lone surrogates"
            raise InvalidValue(name=name, problem=problem, value=value) from error
    return value


def fitted(text: str, most: int) -> str:
    """Return text as it can be stored: without NUL, lone surrogates and, if it is long, its middle."""
    if len(text) > most:
        half = most // 2 - 3
        text = f"{text[:half]} ... {text[-half:]}"
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def choice(name: str, value: object, allowed: tuple[str, ...]) -> str:
    """Return one of the allowed words."""
    if type(value) is not str or value not in allowed:
        words = ", ".join(allowed)
        raise InvalidValue(name=name, problem=f"must be one of {words}", value=value)
    return value
