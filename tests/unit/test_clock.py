import time

from slotq.clock import Clock, SystemClock
from slotq.testing import ManualClock


def test_system_clock_says_milliseconds_of_the_host() -> None:
    before = time.time_ns() // 1_000_000
    now = SystemClock().now_ms()
    assert before <= now <= time.time_ns() // 1_000_000


def test_both_clocks_serve_as_one() -> None:
    clocks: list[Clock] = [SystemClock(), ManualClock()]
    assert all(isinstance(clock.now_ms(), int) for clock in clocks)
