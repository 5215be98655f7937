"""Holds are starts like any other: sliding and calendar windows refuse them to the millisecond."""

import os
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from slotq import LimitExceeded, Queue
from slotq.testing import ManualClock
from support.windows import at

SHANGHAI = ZoneInfo("Asia/Shanghai")


def take(queue: Queue) -> float:
    """Take a slot and give it back; return 0, or after how many seconds to try again."""
    try:
        queue.hold("k").acquire().release()
    except LimitExceeded as refused:
        return refused.retry_after if refused.reason == "max_starts" else -1
    return 0


def test_no_double_burst_across_the_edge_of_a_window(queue: Queue, clock: ManualClock) -> None:
    """Field case 23."""
    queue.set_limit("k", max_starts=5, window=10)
    began_ms = clock.now_ms()
    for ms in (9_000, 9_200, 9_400, 9_600, 9_900):
        clock.set(began_ms + ms)
        assert take(queue) == 0
    clock.set(began_ms + 10_100)
    assert take(queue) == 8.9
    clock.set(began_ms + 18_999)
    assert take(queue) == 0.001
    clock.set(began_ms + 19_000)
    assert take(queue) == 0
    clock.set(began_ms + 19_050)
    assert take(queue) == 0.15


def test_a_day_turns_over_at_its_own_midnight(queue: Queue, clock: ManualClock) -> None:
    """Field case 26."""
    queue.set_limit("k", max_starts=3, window="day", timezone="Asia/Shanghai")
    midnight = datetime(2026, 5, 15, tzinfo=SHANGHAI)
    at(clock, midnight - timedelta(minutes=10))
    assert [take(queue) for _ in range(3)] == [0, 0, 0]
    at(clock, midnight - timedelta(minutes=1))
    assert take(queue) == 60
    at(clock, midnight + timedelta(minutes=1))
    assert [take(queue) for _ in range(3)] == [0, 0, 0]
    for after in ({"minutes": 5}, {"hours": 8, "minutes": 5}, {"hours": 23, "minutes": 30}):
        now = timedelta(**after)
        at(clock, midnight + now)
        assert take(queue) == (timedelta(days=1) - now).total_seconds()


@pytest.mark.parametrize(("midnight", "hours"), [((2026, 3, 8), 23), ((2026, 11, 1), 25)])
def test_a_day_has_its_own_number_of_hours(
    queue: Queue, clock: ManualClock, midnight: tuple[int, int, int], hours: int
) -> None:
    zone = ZoneInfo("America/New_York")
    queue.set_limit("k", max_starts=1, window="day", timezone="America/New_York")
    at(clock, datetime(*midnight, tzinfo=zone))
    assert take(queue) == 0
    assert take(queue) == hours * 3_600


ASK = """
import sys, slotq
from slotq.testing import ManualClock
with slotq.Queue(sys.argv[1], clock=ManualClock(int(sys.argv[2]))) as queue:
    try:
        queue.hold("k").acquire()
    except slotq.LimitExceeded as refused:
        print(refused.retry_after)
"""


def test_processes_in_other_time_zones_agree(queue: Queue, clock: ManualClock) -> None:
    """Field case 26: the zone is that of the limit."""
    queue.set_limit("k", max_starts=1, window="day", timezone="Asia/Shanghai")
    at(clock, datetime(2026, 5, 15, 8, 5, tzinfo=SHANGHAI))
    assert take(queue) == 0
    told = [ask(queue.path, clock, zone) for zone in ("UTC", "America/Los_Angeles")]
    assert told == ["57300.0\n"] * 2


def ask(path: Path, clock: ManualClock, zone: str) -> str:
    command = [sys.executable, "-c", ASK, str(path), str(clock.now_ms())]
    return subprocess.run(
        command, env={**os.environ, "TZ": zone}, check=True, capture_output=True, text=True
    ).stdout
