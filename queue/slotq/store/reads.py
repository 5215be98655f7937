"""What people look at: jobs, keys, queues, workers, numbers. Never takes the write lock."""

from collections.abc import Mapping
from typing import Final, Literal

from slotq.errors import JobNotFound
from slotq.model import Job, Key, QueueInfo, ResultSource, Stats, Window, WorkerInfo
from slotq.store import queries, statements
from slotq.store.rows import (
    cap_or_none,
    instant_or_none,
    job_of,
    limit_of,
    window_of,
    worker_of,
)
from slotq.store.transaction import Reader

KeySort = Literal["key", "waiting", "running", "scheduled"]
KEY_SORTS: Final[tuple[KeySort, ...]] = ("key", "waiting", "running", "scheduled")


def job(reader: Reader, job_id: int, source: ResultSource | None, *, is_new: bool = True) -> Job:
    """Return a job with everything that is known of it.

    Raises:
        JobNotFound: There is none with this id.
    """
    row = reader.row(queries.GET_JOB, (job_id,))
    if row is None:
        raise JobNotFound(job_id=job_id)
    return job_of(row, source, is_new=is_new)


def jobs(
    reader: Reader,
    source: ResultSource | None,
    filters: Mapping[str, str | None],
    *,
    limit: int,
    after: int,
) -> list[Job]:
    """Return one page of jobs by id, without their long columns.

    Args:
        reader: Of the file.
        source: What the jobs ask for their end.
        filters: ``state``, ``key``, ``queue`` and ``task``, each None for any; the key "" means
            jobs without one.
        limit: Most jobs.
        after: Only jobs with a greater id.
    """
    sql = queries.LIST_JOBS
    if filters["state"] == "running":
        sql = queries.LIST_JOBS_RUNNING
    elif filters["key"]:
        sql = queries.LIST_JOBS_OF_KEY
    elif filters["state"] in {"failed", "cancelled"}:
        sql = queries.LIST_JOBS_UNSUCCESSFUL
    rows = reader.rows(sql, {**filters, "limit": limit, "after": after})
    return [job_of(row, source) for row in rows]


def ended(
    reader: Reader,
    source: ResultSource | None,
    filters: Mapping[str, str | None],
    *,
    since: int,
    limit: int,
    after: int,
) -> list[Job]:
    """Return jobs by their end, the oldest first, without their long columns.

    Args:
        reader: Of the file.
        source: What the jobs ask for their end.
        filters: As for ``jobs``.
        since: Only jobs that ended at this instant or later, in milliseconds.
        limit: Most jobs.
        after: Of those that ended at that instant, only jobs with a greater id.
    """
    wanted = {**filters, "since": since, "limit": limit, "after": after}
    return [job_of(row, source) for row in reader.rows(queries.LIST_JOBS_ENDED, wanted)]


def key(reader: Reader, name: str, now: int) -> Key:
    """Return a key as it stands; one that nothing is known of is idle."""
    limits = tuple(limit_of(row) for row in reader.rows(statements.LIMITS_FOR, (name,)))
    caps = [limit.max_running for limit in limits if limit.max_running is not None]
    found = reader.row(queries.KEY_COUNTS, (name,))
    if found is None:
        found = (-1, 0, 0, 0, 0, min(caps, default=None) or 2_147_483_647, 0, None, 0)
    key_id, held, running, waiting, scheduled, cap, seq, opens_at, paused = found
    starts, max_starts, window = _fullest_window(reader, key_id, seq, now)
    if max_starts is None:
        counting = [limit for limit in limits if limit.max_starts is not None]
        least = min(counting, key=lambda limit: limit.max_starts or 0, default=None)
        max_starts, window = (least.max_starts, least.window) if least else (None, None)
    return Key(
        key=name,
        running=running,
        held=held,
        waiting=waiting,
        scheduled=scheduled,
        oldest_waiting_at=instant_or_none(reader.value(queries.OLDEST_OF_KEY, (key_id,))),
        max_running=cap_or_none(cap),
        starts=starts,
        max_starts=max_starts,
        window=window,
        next_start_at=instant_or_none(
            opens_at if opens_at is not None and opens_at > now else None
        ),
        paused=bool(paused),
        limits=limits,
    )


def keys(reader: Reader, *, sort: KeySort, limit: int, now: int) -> list[Key]:
    """Return keys, the busiest first or by name."""
    names = reader.rows(queries.LIST_KEYS, {"sort": sort, "limit": limit})
    return [key(reader, name, now) for (name,) in names]


def queues(reader: Reader) -> list[QueueInfo]:
    """Return every queue, by name."""
    return [
        QueueInfo(
            name=name,
            waiting=waiting,
            scheduled=scheduled,
            running=running,
            max_running=cap_or_none(cap),
            paused=bool(paused),
            oldest_waiting_at=instant_or_none(oldest),
            workers=workers,
        )
        for name, waiting, scheduled, running, cap, paused, oldest, workers in reader.rows(
            queries.LIST_QUEUES
        )
    ]


def workers(reader: Reader) -> list[WorkerInfo]:
    """Return every registered worker."""
    return [worker_of(row) for row in reader.rows(statements.LIST_WORKERS)]


def stats(reader: Reader, *, file_bytes: int, log_bytes: int) -> Stats:
    """Return the whole file in numbers."""
    scheduled, waiting, running, held, keys, queues, limits, workers = reader.rows(
        queries.COUNT_ALL
    )[0]
    succeeded, failed, cancelled = reader.rows(queries.COUNT_FINISHED)[0]
    return Stats(
        scheduled=scheduled,
        waiting=waiting,
        running=running,
        succeeded=succeeded,
        failed=failed,
        cancelled=cancelled,
        held=held,
        keys=keys,
        queues=queues,
        limits=limits,
        workers=workers,
        file_bytes=file_bytes,
        log_bytes=log_bytes,
    )


def _fullest_window(
    reader: Reader, key_id: int, seq: int, now: int
) -> tuple[int, int | None, float | Window | None]:
    """Return starts, max_starts and window of the window with the least room; None without one."""
    best: tuple[int, int | None, float | Window | None] = (0, None, None)
    for max_starts, window_ms, unit, period_start, since in reader.rows(
        queries.KEY_WINDOWS, (key_id,)
    ):
        begin = period_start if window_ms is None else now - window_ms + 1
        starts = seq - last_before(reader, key_id, since, seq, begin)
        if best[1] is None or max_starts - starts < best[1] - best[0]:
            best = (starts, max_starts, window_of(window_ms, unit))
    return best


def last_before(reader: Reader, key_id: int, since: int, seq: int, begin: int) -> int:
    """Return the number of the last counted start before an instant; marks never fall in time."""
    low, high = since, seq
    while low < high:
        middle = (low + high + 1) // 2
        at: int | None = reader.value(queries.MARK_OF, (key_id, middle))
        if at is None or at < begin:
            low = middle
        else:
            high = middle - 1
    return low
