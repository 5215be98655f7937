"""How long to wait before the next attempt."""

import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final, TypeAlias, TypeGuard

from slotq import checks
from slotq.errors import InvalidValue

Wait: TypeAlias = float | timedelta
Given: TypeAlias = Wait | Sequence[Wait] | Callable[[int], Wait]
"""What the option ``backoff`` may be; see ``Options``."""
Backoff: TypeAlias = Callable[[int], int]
"""From the attempts made so far, from 1, to the milliseconds until the next."""

MOST_STEPS: Final = 1_000


def delay_ms(attempt: int, *, jitter: float, base_ms: int = 1_000, cap_ms: int = 3_600_000) -> int:
    """Return the wait after a failed attempt: doubling up to a cap, then shortened by chance.

    Args:
        attempt: Attempts already made, from 1.
        jitter: A random number, 0 up to but not including 1: the wait is 50 % to 100 % of
            the full one, so that jobs which failed together do not return together.
        base_ms: The full wait after the first attempt, in milliseconds, from 0.
        cap_ms: The longest full wait, in milliseconds, from 0.

    Returns:
        Milliseconds from half the full wait up to the full wait.

    Raises:
        InvalidValue: If a number is out of its range.
    """
    if attempt < 1:
        raise InvalidValue(name="attempt", problem="must be 1 or more", value=attempt)
    if not 0 <= jitter < 1:
        raise InvalidValue(name="jitter", problem="must be from 0 to below 1", value=jitter)
    if base_ms < 0 or cap_ms < 0:
        lower = min(base_ms, cap_ms)
        raise InvalidValue(name="backoff", problem="must be 0 or more ms", value=lower)
    # Capped before it is raised: 2 ** 1,000,000 is a number that nobody should compute.
    # From this many doublings on, even a base of 1 ms is over the cap.
    doublings = min(attempt - 1, cap_ms.bit_length())
    full_ms = min(cap_ms, base_ms << doublings)
    half_ms = full_ms // 2
    return full_ms - half_ms + int(half_ms * jitter)


def usual(attempt: int) -> int:
    """Return the wait of a task without a backoff of its own, in milliseconds."""
    return delay_ms(attempt, jitter=random.random())


def given(value: object) -> Backoff:
    """Return the backoff that an option means.

    Raises:
        InvalidValue: It is no wait, no list of waits and no function. What a function returns is
            checked when it is called.
    """
    if callable(value):
        function = value
        return lambda attempt: _wait_ms(function(attempt))
    if _is_list(value):
        if not 0 < len(value) <= MOST_STEPS:
            problem = f"must have 1 to {MOST_STEPS:,} waits, one for each attempt"
            raise InvalidValue(name="backoff", problem=problem, value=value)
        waits = [_wait_ms(each) for each in value]
        return lambda attempt: waits[min(attempt, len(waits)) - 1]
    wait_ms = _wait_ms(value)
    return lambda _: wait_ms


def _wait_ms(value: object) -> int:
    return checks.seconds_ms("backoff", value, low_ms=0, high_ms=checks.LONGEST_MS)


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, (list, tuple))
