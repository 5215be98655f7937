"""Calendar windows over the days that clocks are moved on, changed while jobs wait, and added up."""

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import msgspec
import pytest

from slotq import InvalidValue, Limit, Queue
from slotq.model import Window
from slotq.testing import ManualClock
from support.procs import TESTS
from support.starting import finish, start
from support.windows import MS, at, check_opens_at, enqueue, opening, run

YORK: Final = ZoneInfo("America/New_York")
SHANGHAI: Final = ZoneInfo("Asia/Shanghai")
HOUR: Final = timedelta(hours=1)


# Days of 23 and of 25 hours.

DAYS: Final = [
    (datetime(2026, 3, 8, tzinfo=YORK), 23),
    (datetime(2026, 11, 1, tzinfo=YORK), 25),
]


@pytest.mark.parametrize(("midnight", "hours"), DAYS)
def test_a_day_is_over_after_as_many_hours_as_it_has(
    queue: Queue, clock: ManualClock, midnight: datetime, hours: int
) -> None:
    queue.set_limit("k", max_starts=2, window="day", timezone="America/New_York")
    enqueue(queue, 9)
    at(clock, midnight)
    assert run(queue) == 2
    check_opens_at(queue, clock, midnight.astimezone(UTC) + hours * HOUR, 2)
    # The day after has 24.
    check_opens_at(queue, clock, midnight.astimezone(UTC) + (hours + 24) * HOUR, 2)


@pytest.mark.parametrize(("midnight", "hours"), DAYS)
def test_a_day_has_as_many_hours_that_let_one_start(
    queue: Queue, clock: ManualClock, midnight: datetime, hours: int
) -> None:
    queue.set_limit("k", max_starts=1, window="hour", timezone="America/New_York")
    enqueue(queue, 30)
    begin = midnight.astimezone(UTC)
    end = (midnight + timedelta(days=1)).astimezone(UTC)
    at(clock, begin)
    assert run(queue) == 1
    starts, opens = 1, opening(queue)
    while opens < end:
        check_opens_at(queue, clock, opens, 1)
        starts, opens = starts + 1, opening(queue)
    assert starts == hours
    assert opens == end


@pytest.mark.parametrize(("midnight", "hours"), DAYS)
def test_a_week_with_such_a_day_is_an_hour_off_too(
    queue: Queue, clock: ManualClock, midnight: datetime, hours: int
) -> None:
    """Both days are Sundays, the last of a week."""
    queue.set_limit("k", max_starts=1, window="week", timezone="America/New_York")
    enqueue(queue, 3)
    at(clock, midnight - timedelta(days=6))
    assert run(queue) == 1
    check_opens_at(queue, clock, midnight.astimezone(UTC) + hours * HOUR, 1)
    at(clock, midnight + timedelta(days=1) + MS)
    assert run(queue) == 0


# Weeks and months.


def test_a_week_begins_on_monday_of_its_zone(queue: Queue, clock: ManualClock) -> None:
    monday = datetime(2026, 5, 18, tzinfo=SHANGHAI)  # a Sunday still in UTC
    queue.set_limit("k", max_starts=1, window="week", timezone="Asia/Shanghai")
    enqueue(queue, 3)
    at(clock, monday - MS)
    assert run(queue) == 1
    at(clock, monday)
    assert run(queue) == 1
    check_opens_at(queue, clock, monday + timedelta(days=7), 1)


@pytest.mark.parametrize(
    ("month", "following"),
    [
        ((2026, 1), (2026, 2)),
        ((2026, 2), (2026, 3)),
        ((2028, 2), (2028, 3)),
        ((2026, 12), (2027, 1)),
    ],
)
def test_a_month_lasts_until_the_first_of_the_next(
    queue: Queue, clock: ManualClock, month: tuple[int, int], following: tuple[int, int]
) -> None:
    queue.set_limit("k", max_starts=1, window="month", timezone="Asia/Shanghai")
    enqueue(queue, 3)
    at(clock, datetime(*month, 1, tzinfo=SHANGHAI))
    assert run(queue) == 1
    check_opens_at(queue, clock, datetime(*following, 1, tzinfo=SHANGHAI), 1)


# Several limits of one key.


def test_all_limits_of_a_key_must_have_room(queue: Queue, clock: ManualClock) -> None:
    noon = datetime(2026, 5, 14, 12, tzinfo=UTC)
    at(clock, noon)
    queue.set_limit("k", max_running=2)
    queue.set_limit("k", max_starts=3, window=600, name="sliding")
    queue.set_limit("k", max_starts=4, window="hour", name="hourly")
    queue.set_limit("*", max_starts=6, window="day", timezone="Asia/Shanghai", name="daily")
    enqueue(queue, 20)
    running = start(queue, 9)
    assert len(running) == 2  # slots
    finish(queue, *running)
    assert run(queue) == 1  # sliding
    assert full(queue) == {"sliding"}
    check_opens_at(queue, clock, noon + timedelta(minutes=10), 1)  # hourly
    assert full(queue) == {"hourly"}
    check_opens_at(queue, clock, noon + HOUR, 2)  # daily, and slots: two are ended at once
    assert full(queue) == {"daily"}
    check_opens_at(queue, clock, datetime(2026, 5, 15, tzinfo=SHANGHAI), 2)


def full(queue: Queue) -> set[str]:
    """Return the names of the limits that ``why`` says are full."""
    first = queue.jobs(state="waiting")[0]
    (reason,) = (reason for reason in queue.why(first.id) if reason.kind == "window")
    entries = msgspec.convert(reason.data["limits"], list[dict[str, object]])
    limits = [entry["limit"] for entry in entries]
    return {limit.name for limit in limits if isinstance(limit, Limit)}


def test_of_full_windows_the_last_to_open_counts(queue: Queue, clock: ManualClock) -> None:
    at(clock, datetime(2026, 5, 14, 23, 50, tzinfo=UTC))
    queue.set_limit("k", max_starts=1, window="day", name="daily")
    queue.set_limit("k", max_starts=1, window=3_600, name="sliding")
    enqueue(queue, 3)
    assert run(queue) == 1
    check_opens_at(queue, clock, datetime(2026, 5, 15, 0, 50, tzinfo=UTC), 1)


# Changed while jobs wait.


@pytest.mark.parametrize(
    ("zone", "opens"),
    [
        ("Asia/Shanghai", datetime(2026, 5, 15, tzinfo=SHANGHAI)),
        ("America/New_York", datetime(2026, 5, 15, tzinfo=YORK)),
        (None, datetime(2026, 5, 15, tzinfo=UTC)),
    ],
)
def test_a_zone_changed_while_jobs_wait_moves_their_start(
    queue: Queue, clock: ManualClock, zone: str | None, opens: datetime
) -> None:
    at(clock, datetime(2026, 5, 14, 10, tzinfo=UTC))
    queue.set_limit("k", max_starts=2, window="day", timezone="Europe/Berlin")
    enqueue(queue, 6)
    assert run(queue) == 2
    assert opening(queue) == datetime(2026, 5, 15, tzinfo=ZoneInfo("Europe/Berlin"))
    queue.set_limit("k", timezone=zone)
    check_opens_at(queue, clock, opens, 2)
    check_opens_at(queue, clock, opens + timedelta(days=1), 2)


def test_a_zone_whose_day_began_after_the_starts_opens_at_once(
    queue: Queue, clock: ManualClock
) -> None:
    at(clock, datetime(2026, 5, 14, 15, 59, tzinfo=UTC))
    queue.set_limit("k", max_starts=2, window="day")
    enqueue(queue, 6)
    assert run(queue) == 2
    at(clock, datetime(2026, 5, 14, 16, 1, tzinfo=UTC))  # past midnight in Shanghai
    assert run(queue) == 0
    queue.set_limit("k", timezone="Asia/Shanghai")
    assert queue.key("k").next_start_at is None
    assert run(queue) == 2
    assert run(queue) == 0


@pytest.mark.parametrize(
    ("window", "opens"),
    [
        ("minute", datetime(2026, 5, 14, 10, 31, tzinfo=UTC)),
        ("hour", datetime(2026, 5, 14, 11, tzinfo=UTC)),
        ("week", datetime(2026, 5, 18, tzinfo=UTC)),
        ("month", datetime(2026, 6, 1, tzinfo=UTC)),
        (7_200, datetime(2026, 5, 14, 12, 30, 5, tzinfo=UTC)),
    ],
)
def test_a_window_changed_while_jobs_wait_moves_their_start(
    queue: Queue, clock: ManualClock, window: Window | float, opens: datetime
) -> None:
    at(clock, datetime(2026, 5, 14, 10, 30, 5, tzinfo=UTC))
    queue.set_limit("k", max_starts=2, window="day")
    enqueue(queue, 4)
    assert run(queue) == 2
    queue.set_limit("k", window=window)
    check_opens_at(queue, clock, opens, 2)


def test_a_sliding_window_made_a_calendar_one_counts_from_its_bound(
    queue: Queue, clock: ManualClock
) -> None:
    at(clock, datetime(2026, 5, 14, 23, 59, tzinfo=UTC))
    queue.set_limit("k", max_starts=2, window=3_600)
    enqueue(queue, 9)
    assert run(queue) == 2
    clock.advance(120_000)
    assert run(queue) == 0
    queue.set_limit("k", window="day")
    assert run(queue) == 2
    check_opens_at(queue, clock, datetime(2026, 5, 16, tzinfo=UTC), 2)


def test_more_starts_granted_while_jobs_wait_act_on_the_next_claim(
    queue: Queue, clock: ManualClock
) -> None:
    at(clock, datetime(2026, 5, 14, 10, tzinfo=UTC))
    queue.set_limit("k", max_starts=2, window="day")
    enqueue(queue, 9)
    assert run(queue) == 2
    queue.set_limit("k", max_starts=3)
    assert run(queue) == 1
    queue.set_limit("k", max_starts=1)
    check_opens_at(queue, clock, datetime(2026, 5, 15, tzinfo=UTC), 1)


# Field cases.


def test_a_sliding_window_has_no_edge_to_burst_across(queue: Queue, clock: ManualClock) -> None:
    """Field case 23: five late in one span of ten seconds, and the next ones."""
    base = datetime(2026, 5, 14, tzinfo=UTC)
    queue.set_limit("k", max_starts=5, window=10)
    starts = [9.0, 9.2, 9.4, 9.6, 9.9]
    for second in starts:
        at(clock, base + timedelta(seconds=second))
        enqueue(queue, 1)
        assert run(queue) == 1
    enqueue(queue, 20)
    for second in (10.1, 18.9):
        at(clock, base + timedelta(seconds=second))
        assert run(queue) == 0
    for second in starts:
        check_opens_at(queue, clock, base + timedelta(seconds=second + 10), 1)
        clock.advance(50)
        assert run(queue) == 0


def test_a_calendar_window_bursts_across_its_bound_by_design(
    queue: Queue, clock: ManualClock
) -> None:
    bound = datetime(2026, 5, 14, 10, 31, tzinfo=UTC)
    at(clock, bound - MS)
    queue.set_limit("k", max_starts=5, window="minute")
    enqueue(queue, 20)
    assert run(queue) == 5
    check_opens_at(queue, clock, bound, 5)


ASKING: Final = """
import json, sys, time
from slotq import Queue
from slotq.testing import ManualClock
from support.starting import finish, start
from support.windows import MS, at, check_opens_at, enqueue, opening, run

time.tzset()
clock = ManualClock()
with Queue("jobs.db", clock=clock) as queue:
    for line in sys.stdin:
        clock.set(int(line))
        claims = start(queue, 99)
        finish(queue, *claims)
        opens = queue.key("k").next_start_at
        retry_after = opens and opens.timestamp() - clock.now_ms() / 1000
        print(json.dumps([len(claims), retry_after, time.timezone]), flush=True)
"""


class Asking:
    """A process in a time zone of its own that starts what it can, at instants it is told."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, instant: datetime) -> tuple[int, float | None]:
        """Return how many started and ended, and after how many seconds more can."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{round(instant.timestamp() * 1000)}\n")
        self._process.stdin.flush()
        started, retry_after, self.zone_s = json.loads(self._process.stdout.readline())
        return started, retry_after


@contextmanager
def asking(folder: Path, zone: str) -> Generator[Asking]:
    process = subprocess.Popen(
        [sys.executable, "-c", ASKING],
        cwd=folder,
        env={"PYTHONPATH": str(TESTS), "TZ": zone},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield Asking(process)


def test_a_day_of_shanghai_is_that_in_processes_of_any_zone(tmp_path: Path) -> None:
    """Field case 26."""

    def local(day: int, hour: int, minute: int) -> datetime:
        return datetime(2026, 5, day, hour, minute, tzinfo=SHANGHAI)

    clock = ManualClock(round(local(14, 23, 0).timestamp() * 1000))
    with Queue(tmp_path / "jobs.db", clock=clock) as queue, ExitStack() as stack:
        queue.set_limit("k", max_starts=3, window="day", timezone="Asia/Shanghai")
        with pytest.raises(InvalidValue, match="timezone must be the IANA name"):
            queue.set_limit("k", timezone="Asia/Shangai")
        enqueue(queue, 20)
        one, other = (
            stack.enter_context(asking(tmp_path, zone)) for zone in ("UTC", "America/Los_Angeles")
        )
        assert one.ask(local(14, 23, 50)) == (3, 600)
        for process in (other, one):
            assert process.ask(local(14, 23, 59)) == (0, 60)
        assert other.ask(local(15, 0, 1)) == (3, 86_340)
        for hour, minute in ((0, 5), (8, 5), (23, 30)):
            rest = (24 - hour) * 3_600 - minute * 60
            for process in (one, other):
                assert process.ask(local(15, hour, minute)) == (0, rest)
        assert one.ask(local(16, 0, 0)) == (3, 86_400)
        assert (one.zone_s, other.zone_s) == (0, 8 * 3_600)
