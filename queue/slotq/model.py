"""The nouns of the queue, as frozen values ready for JSON.

Instants are aware datetimes in UTC; None stands for "not yet" or "not set" and says so below.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, get_args

from slotq.errors import SlotqError

State = Literal["scheduled", "waiting", "running", "succeeded", "failed", "cancelled"]
STATES: tuple[State, ...] = ("scheduled", "waiting", "running", "succeeded", "failed", "cancelled")

Order = Literal["fair", "round-robin", "fifo"]
ORDERS: tuple[Order, ...] = ("fair", "round-robin", "fifo")

Window = Literal["minute", "hour", "day", "week", "month"]

ReasonKind = Literal[
    "paused", "no worker", "unknown task", "window", "slots", "own slots", "queue slots",
    "held up", "retry", "scheduled", "behind",
]  # fmt: skip
REASONS: tuple[ReasonKind, ...] = get_args(ReasonKind)


class ResultSource(Protocol):
    """What a job asks for its own end: the queue that it came from."""

    def wait_for(self, job_id: int, *, timeout: float | None) -> object:
        """Wait for a job to end and return its result."""
        ...

    async def await_for(self, job_id: int, *, timeout: float | None) -> object:  # noqa: ASYNC109
        """The same without blocking the event loop."""
        ...


class Sourced:
    """Where a value was read: kept beside its fields, which are data and nothing else."""

    __slots__ = ("_source",)
    _source: ResultSource | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Sourced):
    """One enqueued call of a task, as it stood when it was read.

    Attributes:
        id: Its number in this file, never given again.
        task: Name of its task.
        args: Positional arguments as JSON values; None where a list left them out.
        kwargs: Named arguments as JSON values; None where a list left them out.
        queue: Name of its queue.
        key: The key that it is limited by; None for none.
        max_running: Its own limit for its key; None for none.
        priority: Higher goes first; 0 is usual.
        state: ``scheduled``, ``waiting``, ``running``, ``succeeded``, ``failed`` or ``cancelled``.
        run_at: When it may start at the earliest.
        expires: When it may no longer start; None for never.
        attempt: Attempts begun so far.
        max_attempts: Attempts before it has failed.
        created_at: When it was enqueued.
        started_at: When its last attempt began; None before the first.
        finished_at: When it succeeded, failed or was cancelled; None before.
        lease_until: While it runs, until when its worker has it; else None.
        worker: The worker that has or last had it; None before the first.
        timeout: Seconds that its body may take; None for as long as it likes. A body in a thread
            that is over its time goes on, and keeps the job running.
        cancelling: Whether it runs and its end was asked for; it is over when its body has ended.
        progress: The share that its body says is done, 0 to 1; None if it has not said.
        progress_text: What its body says that it does; None if it has not said.
        error: What its last failed attempt raised, in one line; None without one.
        traceback: Where; None without one, or where a list left it out.
        result: What its body returned, as a JSON value; None before, without ``store_result``, or
            where a list left it out.
        is_new: False if ``dedupe`` found this one instead of storing another.
    """

    id: int
    task: str
    args: Sequence[object] | None
    kwargs: Mapping[str, object] | None
    queue: str
    key: str | None
    max_running: int | None
    priority: int
    state: State
    run_at: datetime
    expires: datetime | None
    attempt: int
    max_attempts: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    lease_until: datetime | None
    worker: int | None
    timeout: float | None
    cancelling: bool
    progress: float | None
    progress_text: str | None
    error: str | None
    traceback: str | None
    result: object
    is_new: bool = True

    def wait(self, *, timeout: float | None = None) -> object:
        """Wait until the job has ended.

        Args:
            timeout: Seconds; None to wait for as long as it takes.

        Returns:
            Its result, in the annotated type if its task is registered with this queue, else as a
            JSON value; None without ``store_result``.

        Raises:
            JobFailed: It failed for good.
            JobCancelled: It was cancelled or has expired.
            JobNotFound: It was deleted.
            TimeoutError: It has not ended in time.
        """
        return self._origin().wait_for(self.id, timeout=timeout)

    async def await_result(self, *, timeout: float | None = None) -> object:  # noqa: ASYNC109
        """Wait like ``wait``, without blocking the event loop."""
        return await self._origin().await_for(self.id, timeout=timeout)

    def _origin(self) -> ResultSource:
        # Absent from a job that was copied or sent to another process.
        source: ResultSource | None = getattr(self, "_source", None)
        if source is None:
            raise SlotqError(f"job {self.id} does not know its queue: ask Queue.job({self.id})")
        return source


def read_from(source: ResultSource | None, job: Job) -> Job:
    """Note which queue a job came from, for it to ask for its end."""
    object.__setattr__(job, "_source", source)
    return job


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """What a call for many jobs did and did not.

    Attributes:
        done: Ids of the jobs that it acted on, in the order given.
        refused: Why it left the others as they are, one line each, by id; jobs that do not exist
            are among them.
    """

    done: tuple[int, ...]
    refused: Mapping[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason that a job is not running.

    Attributes:
        kind: One of ``REASONS``.
        text: The reason in one line.
        until: When it is expected to be over; None if nothing says so.
        data: What belongs to it, by name; see ``Queue.why``.
    """

    kind: ReasonKind
    text: str
    until: datetime | None
    data: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A policy row: what one key, every key of a pattern, or a queue may do.

    Attributes:
        key: The key or the pattern, as given to ``set_limit``; None for a queue's limit.
        queue: The queue; None for a key's or a pattern's limit.
        name: Tells several limits of one key apart; limits of different names all must have room.
        max_running: Most slots in use at once, 1 to 1,000,000; None for no such limit.
        max_starts: Most starts within the window, 1 to 1,000,000; None for no such limit.
        window: Seconds of a sliding window, or the name of a calendar period; None without
            ``max_starts``.
        timezone: IANA zone of a calendar window; None for a sliding one.
        version: Edits so far, from 1.
        updated_at: The last edit.
        updated_by: Who made it, free text.
        declared: Whether code set it at start-up and nobody has edited it since.
    """

    key: str | None
    queue: str | None
    name: str
    max_running: int | None
    max_starts: int | None
    window: float | Window | None
    timezone: str | None
    version: int
    updated_at: datetime
    updated_by: str
    declared: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key as it stands: what it uses and what it may use.

    Attributes:
        key: The key, byte for byte.
        running: Running jobs, over all queues and processes.
        held: Slots of live holds; a limit looks at ``running + held``.
        waiting: Jobs that could start now but for limits and order.
        scheduled: Jobs that wait for their time.
        oldest_waiting_at: The earliest ``run_at`` of its waiting jobs; None without any.
        max_running: The least of its limits; None for unlimited.
        starts: Starts within ``window``; 0 without a window.
        max_starts: Of the window with the least room; None without a window.
        window: That window, in seconds or as a calendar period; None without one.
        next_start_at: When its full windows have room again; None while none is full.
        paused: Whether claims skip it.
        limits: The limits in force, one per name.
    """

    key: str
    running: int
    held: int
    waiting: int
    scheduled: int
    oldest_waiting_at: datetime | None
    max_running: int | None
    starts: int
    max_starts: int | None
    window: float | Window | None
    next_start_at: datetime | None
    paused: bool
    limits: tuple[Limit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInfo:
    """A queue as it stands.

    Attributes:
        name: Its name.
        waiting: Jobs that could start now but for limits and order.
        scheduled: Jobs that wait for their time.
        running: Jobs running in it, in all processes.
        max_running: The queue's own limit; None for unlimited.
        paused: Whether claims skip it.
        oldest_waiting_at: The earliest ``run_at`` of its waiting jobs; None without any.
        workers: Registered workers that serve it.
    """

    name: str
    waiting: int
    scheduled: int
    running: int
    max_running: int | None
    paused: bool
    oldest_waiting_at: datetime | None
    workers: int


HoldState = Literal["held", "waiting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldInfo:
    """A hold as it stands.

    Attributes:
        id: Its number in this file, never given again.
        key: The key.
        slots: How many of its slots.
        state: ``held``, or ``waiting`` for room.
        acquired_at: When it took its slots; while it waits, when it joined the line.
        expires_at: When its TTL ends; None while it waits.
        holder: Who has it: user@host:pid.
        label: What for, free text; "" for nothing said.
        job: The job in whose body it was taken; None outside one.
    """

    id: int
    key: str
    slots: int
    state: HoldState
    acquired_at: datetime
    expires_at: datetime | None
    holder: str
    label: str
    job: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """A registered worker process.

    Attributes:
        id: Its number in this file, never given again; ``Job.worker`` names it.
        pid: Process id on its host.
        host: Host name.
        queues: The queues that it serves; None for every queue.
        slots: How many jobs it runs at once.
        running: How many it runs now.
        order: In which order it claims.
        started_at: When it registered.
        seen_at: Its last heartbeat.
        tasks: Names of the tasks that it knows, sorted.
    """

    id: int
    pid: int
    host: str
    queues: tuple[str, ...] | None
    slots: int
    running: int
    order: Order
    started_at: datetime
    seen_at: datetime
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """The whole file in numbers.

    Attributes:
        scheduled: Jobs in this state; so the next five.
        waiting: See above.
        running: See above.
        succeeded: Those not pruned yet.
        failed: Those not pruned yet.
        cancelled: Those not pruned yet.
        held: Slots of live holds.
        keys: Keys with anything to remember.
        queues: Queues ever used.
        limits: Limit rows.
        workers: Registered workers.
        file_bytes: Size of the database file.
        log_bytes: Size of its write-ahead log.
    """

    scheduled: int
    waiting: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    held: int
    keys: int
    queues: int
    limits: int
    workers: int
    file_bytes: int
    log_bytes: int
