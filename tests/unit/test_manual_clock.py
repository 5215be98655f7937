from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from slotq.errors import InvalidValue
from slotq.testing import ManualClock


def test_manual_clock_stands_still() -> None:
    clock = ManualClock()
    start = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1_000)
    assert [clock.now_ms() for _ in range(3)] == [start] * 3


def test_manual_clock_moves_when_told() -> None:
    clock = ManualClock(5_000)
    clock.advance(250)
    assert clock.now_ms() == 5_250
    clock.advance(-1_250)
    assert clock.now_ms() == 4_000
    clock.set(7)
    assert clock.now_ms() == 7


@pytest.mark.parametrize("ms", [-8, 10**15, -(10**15)])
def test_manual_clock_stays_within_the_years_that_datetimes_know(ms: int) -> None:
    clock = ManualClock(7)
    with pytest.raises(InvalidValue):
        clock.advance(ms)
    with pytest.raises(InvalidValue):
        clock.set(ms)
    assert clock.now_ms() == 7


def test_no_move_is_lost_between_threads() -> None:
    clock = ManualClock(0)

    def push() -> None:
        for _ in range(1_000):
            clock.advance(1)

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(push) for _ in range(8)]:
            done.result()
    assert clock.now_ms() == 8_000
