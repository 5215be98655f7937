"""Rows of the file as the values that people see."""

import json
from datetime import UTC, datetime, timedelta
from typing import Final

from slotq import payload
from slotq.event import Event
from slotq.keys import literal, parse_subject
from slotq.model import HoldInfo, Job, Limit, ResultSource, Window, WorkerInfo, read_from
from slotq.store.transaction import Row

UNLIMITED: Final = 2_147_483_647
# Of a job in a list, which leaves out what can be large.
SHORT_COLUMNS: Final = 21
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def instant(ms: int) -> datetime:
    """Return an instant; exact, where a float of seconds would not be."""
    return _EPOCH + timedelta(milliseconds=ms)


def instant_or_none(ms: int | None) -> datetime | None:
    """Return an instant, or None."""
    return None if ms is None else _EPOCH + timedelta(milliseconds=ms)


def cap_or_none(cap: int) -> int | None:
    """Return a cap, or None for the number that stands for unlimited."""
    return None if cap == UNLIMITED else cap


def job_of(row: Row, source: ResultSource | None, *, is_new: bool = True) -> Job:
    """Return a job; a row without the long columns leaves those None."""
    is_short = len(row) == SHORT_COLUMNS
    args, kwargs = (None, None) if is_short else payload.decode_args(row[21], row[22])
    traceback, result = (None, None) if is_short else (row[23], row[24])
    job = Job(
        id=row[0],
        task=row[1],
        queue=row[2],
        key=row[3] or None,
        max_running=cap_or_none(row[4]),
        priority=-row[5],
        state=row[6],
        run_at=instant(row[7]),
        expires=instant_or_none(row[8]),
        attempt=row[9],
        max_attempts=row[10],
        created_at=instant(row[11]),
        started_at=instant_or_none(row[12]),
        finished_at=instant_or_none(row[13]),
        lease_until=instant_or_none(row[14]),
        worker=row[15],
        timeout=None if row[16] is None else seconds(row[16]),
        cancelling=bool(row[17]),
        progress=row[18],
        progress_text=row[19],
        error=row[20],
        args=args,
        kwargs=kwargs,
        traceback=traceback,
        result=None if result is None else payload.decode(result),
        is_new=is_new,
    )
    return read_from(source, job)


def limit_of(row: Row) -> Limit:
    """Return a limit."""
    kind, subject, name, max_running, max_starts, window_ms, unit, zone, version, at, by, code = row
    return Limit(
        key=None if kind == "queue" else as_given(kind, subject),
        queue=subject if kind == "queue" else None,
        name=name,
        max_running=max_running,
        max_starts=max_starts,
        window=window_of(window_ms, unit),
        timezone=zone,
        version=version,
        updated_at=instant(at),
        updated_by=by,
        declared=bool(code),
    )


def window_of(ms: int | None, unit: Window | None) -> float | Window | None:
    """Return a window as people give it: seconds, whole where they are, or a calendar period."""
    if ms is None:
        return unit
    return seconds(ms)


def seconds(ms: int) -> float:
    """Return a span in seconds, whole where it is."""
    return ms // 1000 if ms % 1000 == 0 else ms / 1000


def worker_of(row: Row) -> WorkerInfo:
    """Return a worker."""
    worker_id, pid, host, queues, slots, order, started_at, seen_at, tasks, running = row
    names: list[str] | None = json.loads(queues)
    known: list[str] = json.loads(tasks)
    return WorkerInfo(
        id=worker_id,
        pid=pid,
        host=host,
        queues=None if names is None else tuple(names),
        slots=slots,
        running=running,
        order=order,
        started_at=instant(started_at),
        seen_at=instant(seen_at),
        tasks=tuple(known),
    )


def hold_of(row: Row) -> HoldInfo:
    """Return a hold."""
    hold_id, key, slots, state, since, until, holder, label, job_id = row
    return HoldInfo(
        id=hold_id,
        key=key,
        slots=slots,
        state=state,
        acquired_at=instant(since),
        expires_at=instant(until) if state == "held" else None,
        holder=holder,
        label=label,
        job=job_id,
    )


def event_of(row: Row) -> Event:
    """Return an event."""
    event_id, at, kind, key, queue, job_id, text, by = row
    return Event(
        id=event_id,
        at=instant(at),
        kind=kind,
        key=key,
        queue=queue,
        job=job_id,
        text=text,
        by=by,
    )


def as_given(kind: str, subject: str) -> str:
    """Return a subject that means this row again when it is given to ``set_limit``."""
    if kind == "pattern":
        return subject
    again = parse_subject(subject)
    plain = again.kind == "key" and again.subject == subject
    return subject if plain else literal(subject)
