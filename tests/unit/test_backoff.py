import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotq.backoff import delay_ms
from slotq.errors import InvalidValue

JITTER = st.floats(0, 1, exclude_max=True)


@given(st.integers(1, 10**6), JITTER, st.integers(0, 10**7), st.integers(0, 10**9))
def test_wait_is_half_to_all_of_the_full_wait(
    attempt: int, jitter: float, base_ms: int, cap_ms: int
) -> None:
    full_ms = min(cap_ms, base_ms * 2 ** min(attempt - 1, 64))
    assert full_ms / 2 <= delay_ms(attempt, jitter=jitter, base_ms=base_ms, cap_ms=cap_ms)
    assert delay_ms(attempt, jitter=jitter, base_ms=base_ms, cap_ms=cap_ms) <= full_ms


@given(st.integers(1, 10**6), st.tuples(JITTER, JITTER))
def test_more_jitter_never_shortens_and_more_attempts_never_shorten(
    attempt: int, jitters: tuple[float, float]
) -> None:
    low, high = sorted(jitters)
    assert delay_ms(attempt, jitter=low) <= delay_ms(attempt, jitter=high)
    assert delay_ms(attempt, jitter=low) <= delay_ms(attempt + 1, jitter=low)


def test_waits_double_from_a_second_to_an_hour() -> None:
    waits = [delay_ms(attempt, jitter=0.5) for attempt in range(1, 16)]
    full = [min(3_600_000, 1_000 * 2**n) for n in range(15)]
    assert waits == [wait * 3 // 4 for wait in full]
    assert full[-1] == 3_600_000


@pytest.mark.parametrize("attempt", [60, 2_000, 10**6, 10**100])
def test_late_attempts_wait_for_the_cap(attempt: int) -> None:
    assert delay_ms(attempt, jitter=0) == 1_800_000
    assert delay_ms(attempt, jitter=0, base_ms=1, cap_ms=2**58) == 2**57
    assert delay_ms(attempt, jitter=0, base_ms=0) == 0


@pytest.mark.parametrize("jitter", [-0.1, 1.0, float("nan"), float("inf")])
def test_jitter_outside_its_range_is_refused(jitter: float) -> None:
    with pytest.raises(InvalidValue, match="jitter must be from 0 to below 1, not"):
        delay_ms(1, jitter=jitter)


def test_other_numbers_outside_their_range_are_refused() -> None:
    with pytest.raises(InvalidValue, match="attempt must be 1 or more, not 0"):
        delay_ms(0, jitter=0)
    with pytest.raises(InvalidValue, match="backoff must be 0 or more ms, not -1"):
        delay_ms(1, jitter=0, base_ms=-1)
    with pytest.raises(InvalidValue, match="backoff must be 0 or more ms, not -2"):
        delay_ms(1, jitter=0, cap_ms=-2)
