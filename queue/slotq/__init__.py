"""An embedded job queue on SQLite with limits by key and fair claims."""

import typing

from slotq.clock import Clock, SystemClock
from slotq.current import CurrentJob, current_job
from slotq.declaring import declaring_only
from slotq.endings import Discard, Retry, Snooze
from slotq.errors import (
    EditConflict,
    FileReplaced,
    HoldExpired,
    InvalidValue,
    JobCancelled,
    JobFailed,
    JobNotFound,
    LimitExceeded,
    NotAQueue,
    QueueBusy,
    SchemaTooNew,
    SlotqError,
    StoreError,
)
from slotq.escapes import visible
from slotq.event import Event
from slotq.frames import HistoryBucket, KeyRow, Snapshot, Totals
from slotq.holding import Hold
from slotq.hooks import RunEvent
from slotq.jobqueue import Queue
from slotq.keys import ANY, key, literal
from slotq.model import Bulk, HoldInfo, Job, Key, Limit, QueueInfo, Reason, Stats, WorkerInfo
from slotq.options import Options
from slotq.policies import LimitHidden
from slotq.tasks import Task
from slotq.terms import LimitDifference, LimitParts, LimitTerms
from slotq.watching import Watcher, open_reader

if typing.TYPE_CHECKING:
    from slotq.worker import Worker

__all__ = [
    "ANY",
    "Bulk",
    "Clock",
    "CurrentJob",
    "Discard",
    "EditConflict",
    "Event",
    "FileReplaced",
    "HistoryBucket",
    "Hold",
    "HoldExpired",
    "HoldInfo",
    "InvalidValue",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobNotFound",
    "Key",
    "KeyRow",
    "Limit",
    "LimitDifference",
    "LimitExceeded",
    "LimitHidden",
    "LimitParts",
    "LimitTerms",
    "NotAQueue",
    "Options",
    "Queue",
    "QueueBusy",
    "QueueInfo",
    "Reason",
    "Retry",
    "RunEvent",
    "SchemaTooNew",
    "SlotqError",
    "Snapshot",
    "Snooze",
    "Stats",
    "StoreError",
    "SystemClock",
    "Task",
    "Totals",
    "Watcher",
    "Worker",
    "WorkerInfo",
    "current_job",
    "declaring_only",
    "key",
    "literal",
    "open_reader",
    "visible",
]

if not typing.TYPE_CHECKING:  # a type checker would take any name for one of this module

    def __getattr__(name: str) -> object:
        """Load what only workers need when it is asked for: asyncio costs as much as the rest."""
        if name != "Worker":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from slotq.worker import Worker  # noqa: PLC0415

        globals()[name] = Worker
        return Worker
