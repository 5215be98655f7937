"""An embedded job queue on SQLite with limits by key and fair claims."""

from slotq.clock import Clock, SystemClock
from slotq.errors import (
    FileReplaced,
    InvalidValue,
    JobCancelled,
    JobFailed,
    JobNotFound,
    NotAQueue,
    QueueBusy,
    SchemaTooNew,
    SlotqError,
    StoreError,
)
from slotq.jobqueue import Queue
from slotq.keys import ANY, key, literal
from slotq.model import Job, Key, Limit, QueueInfo, Stats, WorkerInfo
from slotq.options import Options
from slotq.policies import LimitHidden
from slotq.tasks import Task
from slotq.worker import Worker

__all__ = [
    "ANY",
    "Clock",
    "FileReplaced",
    "InvalidValue",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobNotFound",
    "Key",
    "Limit",
    "LimitHidden",
    "NotAQueue",
    "Options",
    "Queue",
    "QueueBusy",
    "QueueInfo",
    "SchemaTooNew",
    "SlotqError",
    "Stats",
    "StoreError",
    "SystemClock",
    "Task",
    "Worker",
    "WorkerInfo",
    "key",
    "literal",
]
