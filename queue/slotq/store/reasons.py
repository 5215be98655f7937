"""Why a job is not running: what the schema's own columns and views say of it, in words."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final, NamedTuple

from slotq.errors import SHOWN_CHARACTERS, JobNotFound, one_line
from slotq.model import REASONS, Reason, ReasonKind
from slotq.store import queries
from slotq.store.rows import instant, limit_of
from slotq.store.transaction import Reader
from slotq.store.workers import GONE_LEASES

# Of jobs, holds and workers a reason names no more: enough to go and look.
MOST_NAMED: Final = 20
# Counting what stands before a job ends here, so that it costs the same at any depth.
MOST_COUNTED: Final = 1_000


class _Standing(NamedTuple):
    """A job and what its start depends on: the columns of WHY_JOB."""

    id: int
    state: str
    task: str
    rank: int
    run_at: int
    attempt: int
    max_attempts: int
    misses: int
    error: str | None
    queue_id: int
    queue: str
    queue_paused: int
    queue_running: int
    queue_cap: int
    key_id: int
    key: str
    key_paused: int
    key_running: int
    key_cap: int
    own_cap: int
    holds_waiting: int
    opens_at: int | None
    is_open: int

    @property
    def is_put_back(self) -> bool:
        """Whether it waits since a worker came to it that does not know its task."""
        return self.state == "scheduled" and self.misses > 0


class _Holder(NamedTuple):
    """Who has slots, and until when: the columns of HOLDING_JOBS and HOLDING_HOLDS."""

    until: int
    id: int
    slots: int
    kind: str


def why(reader: Reader, job_id: int, now: int) -> list[Reason]:
    """Return every reason that a job does not run, in the order of ``REASONS``.

    Args:
        reader: Of the file, after what was due has been handled.
        job_id: The job.
        now: The instant, in milliseconds.

    Returns:
        The reasons; none for a job that runs or has ended.

    Raises:
        JobNotFound: There is none with this id.
    """
    row = reader.row(queries.WHY_JOB, (job_id,))
    if row is None:
        raise JobNotFound(job_id=job_id)
    job = _Standing(*row)
    if job.state not in {"scheduled", "waiting"}:
        return []
    reasons = [*_of_workers(reader, job, now), *_of_queue(reader, job)]
    # The view that lets jobs of this lane start tells whether its key does; the columns that it
    # looks at tell why not.
    if not job.is_open:
        reasons += _of_key(reader, job, now)
    if job.state == "scheduled":
        reasons.append(_later(job))
    else:
        reasons += _behind(reader, job, is_alone=not reasons)
    return sorted(reasons, key=lambda reason: REASONS.index(reason.kind))


def _of_workers(reader: Reader, job: _Standing, now: int) -> Iterator[Reason]:
    serving = reader.rows(
        queries.WORKERS_FOR,
        {"queue": job.queue, "task": job.task, "now": now, "leases": GONE_LEASES},
    )
    if not serving:
        yield _reason("no worker", f"no worker serves queue {_name(job.queue)}", queue=job.queue)
    elif not (job.is_put_back or any(knows for _, knows in serving)):
        text = f"no worker of queue {_name(job.queue)} knows task {_name(job.task)}"
        yield _reason("unknown task", text, task=job.task, queue=job.queue)


def _of_queue(reader: Reader, job: _Standing) -> Iterator[Reason]:
    if job.queue_paused:
        yield _reason("paused", f"queue {_name(job.queue)} is paused", queue=job.queue)
    if job.queue_running >= job.queue_cap:
        yield _full(
            "queue slots",
            f"queue {_name(job.queue)}",
            _holders(reader, queue_id=job.queue_id, over=job.queue_running - job.queue_cap),
            running=job.queue_running,
            cap=job.queue_cap,
            queue=job.queue,
        )


def _of_key(reader: Reader, job: _Standing, now: int) -> Iterator[Reason]:
    name = f"key {_name(job.key)}"
    if job.key_paused:
        yield _reason("paused", f"{name} is paused", key=job.key)
    if job.opens_at is not None:
        limits = [
            {"limit": limit_of(row[:-1]), "until": instant(row[-1])}
            for row in reader.rows(queries.KEY_OPENINGS, (job.key_id, now))
        ]
        text = f"{name} has no start left in its window"
        yield _reason("window", text, instant(job.opens_at), key=job.key, limits=limits)
    caps: tuple[tuple[ReasonKind, int], ...] = (
        ("slots", job.key_cap),
        ("own slots", job.own_cap),
    )
    for kind, cap in caps:
        if job.key_running >= cap:
            holders = _holders(reader, key_id=job.key_id, over=job.key_running - cap)
            yield _full(kind, name, holders, running=job.key_running, cap=cap, key=job.key)
    if job.holds_waiting:
        holds = [
            hold_id for (hold_id,) in reader.rows(queries.WAITING_HOLDS, (job.key_id, MOST_NAMED))
        ]
        text = f"holds that wait for {name} come first: {job.holds_waiting:,}"
        yield _reason("held up", text, key=job.key, waiting=job.holds_waiting, holds=holds)


def _later(job: _Standing) -> Reason:
    until = instant(job.run_at)
    if job.is_put_back:
        text = f"no worker that it came to knew task {_name(job.task)}"
        return _reason("unknown task", text, until, task=job.task, queue=job.queue)
    if job.attempt and job.error:
        text = f"attempt {job.attempt} of {job.max_attempts} failed: {one_line(job.error)}"
        counts = {"attempt": job.attempt, "max_attempts": job.max_attempts}
        return _reason("retry", text, until, error=job.error, **counts)
    return _reason("scheduled", "its time has not come", until)


def _behind(reader: Reader, job: _Standing, *, is_alone: bool) -> Iterator[Reason]:
    place = {"key": job.key_id, "queue": job.queue_id, "rank": job.rank, "run_at": job.run_at}
    ahead: int = reader.value(
        queries.COUNT_AHEAD, {**place, "id": job.id, "limit": MOST_COUNTED + 1}
    )
    if ahead > MOST_COUNTED:
        text = f"more than {MOST_COUNTED:,} of its group stand before it"
        yield _reason("behind", text, ahead=f"{MOST_COUNTED}+")
    elif ahead:
        text = f"{ahead:,} of its group stand{'s' * (ahead == 1)} before it"
        yield _reason("behind", text, ahead=ahead)
    elif is_alone:
        text = "it is the first of its group, and starts when a worker has a slot for it"
        yield _reason("behind", text, ahead=0)


def _full(
    kind: ReasonKind, name: str, holders: list[_Holder], *, running: int, cap: int, **of: str
) -> Reason:
    more = running - cap + 1
    until = None
    for holder in holders:
        more -= holder.slots
        if more <= 0:
            until = instant(holder.until)
            break
    named = [
        {holder.kind: holder.id, "slots": holder.slots, "until": instant(holder.until)}
        for holder in holders[:MOST_NAMED]
    ]
    if kind == "own slots":
        text = f"{name} has {running:,} slots in use, and the job's own limit is {cap:,}"
    else:
        text = f"{name} has {running:,} of {cap:,} slots in use"
    return _reason(kind, text, until, **of, running=running, max_running=cap, holders=named)


def _holders(
    reader: Reader, *, over: int, key_id: int | None = None, queue_id: int | None = None
) -> list[_Holder]:
    """Return who has slots, the first to end first: enough of them that one more would be free."""
    most = max(MOST_NAMED, over + 1)
    jobs = reader.rows(queries.HOLDING_JOBS, {"key": key_id, "queue": queue_id, "limit": most})
    holds = reader.rows(queries.HOLDING_HOLDS, {"key": key_id, "limit": most})
    return sorted(_Holder(*row) for row in (*jobs, *holds))


def _reason(
    kind: ReasonKind, text: str, until: datetime | None = None, /, **data: object
) -> Reason:
    return Reason(kind=kind, text=text, until=until, data=data)


def _name(text: str) -> str:
    return one_line(text, high=SHOWN_CHARACTERS)
