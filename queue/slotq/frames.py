"""What dashboards draw: history in buckets, and one consistent frame of a file.

Instants are aware datetimes in UTC; spans are seconds.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from slotq.model import HoldInfo, Key, QueueInfo, ReasonKind, WorkerInfo

KeyWhy = ReasonKind | Literal["open", "idle"]

FrameSort = Literal[
    "key", "waiting", "scheduled", "running", "held", "oldest", "next_start",
]  # fmt: skip
FRAME_SORTS: tuple[FrameSort, ...] = get_args(FrameSort)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryBucket:
    """What happened in one span of time.

    Attributes:
        at: When the span began.
        seconds: How long it is.
        starts: Runs of jobs that began; each attempt is one.
        finishes: Runs that succeeded.
        failures: Runs that failed, whether the job is tried again or not. What a dead worker left
            is not among them.
        waiting: Jobs that waited when somebody last looked in this span; None if nobody did.
        wait_p50: Seconds that half of its starts had waited since their ``run_at``, to within 20 %;
            None without a start.
        wait_p95: The same of 95 % of its starts.
    """

    at: datetime
    seconds: float
    starts: int
    finishes: int
    failures: int
    waiting: int | None
    wait_p50: float | None
    wait_p95: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow(Key):
    """A key in a frame: all that ``Key`` has, and what a table of keys needs.

    Attributes:
        why: Why none of its waiting jobs starts, in one word of ``Reason.kind``; ``open`` if the
            next one may start, ``scheduled`` if jobs wait for their time only, ``idle`` if none
            does.
        share: Its part of all slots in use in the file, 0 to 1.
    """

    why: KeyWhy
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """A frame's file in numbers.

    Attributes:
        scheduled: Jobs that wait for their time.
        waiting: Jobs that could start now but for limits and order.
        running: Jobs that run.
        failed: Those not pruned yet; counted up to 100,000.
        cancelled: Those not pruned yet; counted up to 100,000.
        held: Slots of live holds.
        keys: Keys with anything to remember.
        queues: Queues ever used.
        limits: Limit rows.
        workers: Registered workers that have been seen of late.
    """

    scheduled: int
    waiting: int
    running: int
    failed: int
    cancelled: int
    held: int
    keys: int
    queues: int
    limits: int
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One consistent frame of a file: all of it is of one instant.

    Attributes:
        at: The instant by which it was judged what has lapsed, ended or opened.
        totals: The file in numbers.
        keys: One page of keys.
        matching: How many keys there are over all pages.
        queues: Every queue, by name.
        workers: Registered workers that have been seen of late.
        holders: Live holds that have slots, the first to end first; at most 200.
        version: Changes with each commit; those of two readers have nothing to do with each other.
    """

    at: datetime
    totals: Totals
    keys: tuple[KeyRow, ...]
    matching: int
    queues: tuple[QueueInfo, ...]
    workers: tuple[WorkerInfo, ...]
    holders: tuple[HoldInfo, ...]
    version: int
