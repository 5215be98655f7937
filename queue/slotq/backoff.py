"""How long to wait before the next attempt."""

from slotq.errors import InvalidValue


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
