"""What a file holds, and every column that triggers keep, counted anew from the rows alone."""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple, TypeVar

from slotq.model import State, Window
from support.reference_limits import Subject, queue_subject, subject

UNLIMITED = 2_147_483_647


class JobRow(NamedTuple):
    """A job."""

    id: int
    lane_id: int
    queue_id: int
    key_id: int
    rank: int
    run_at: int
    state: State
    attempt: int
    max_attempts: int
    token: int
    misses: int
    expires_at: int | None
    created_at: int
    started_at: int | None
    finished_at: int | None
    lease_until: int | None
    lease_ms: int | None
    worker_id: int | None
    dedupe: str | None
    task: str
    cancelling: int
    error: str | None


class LaneRow(NamedTuple):
    """A lane; all but the first four columns are kept by triggers."""

    id: int
    queue_id: int
    key_id: int
    cap: int
    waiting: int
    scheduled: int
    running: int
    last_start: int
    open: int
    fair: int
    robin: int
    fifo: int
    head_rank: int | None
    head_run_at: int | None
    head_id: int | None


class KeyRow(NamedTuple):
    """A key."""

    id: int
    key: str
    running: int
    cap: int
    span: int
    seq: int
    opens_at: int | None
    queued: int
    paused: int


class QueueRow(NamedTuple):
    """A queue."""

    id: int
    queue: str
    cap: int
    paused: int
    running: int
    dry: int


class LimitRow(NamedTuple):
    """A limit."""

    id: int
    kind: str
    subject: str
    name: str
    max_running: int | None
    max_starts: int | None
    window_ms: int | None
    unit: Window | None
    zone: str | None
    span_ms: int | None
    period_start: int | None
    period_end: int | None
    version: int


class RuleRow(NamedTuple):
    """The limit in force for a key under a name."""

    key_id: int
    name: str
    limit_id: int
    since: int


class StartRow(NamedTuple):
    """A start mark."""

    key_id: int
    seq: int
    at: int


class HoldRow(NamedTuple):
    """A hold."""

    id: int
    key_id: int
    slots: int
    state: str
    since: int
    until: int
    ttl_ms: int
    cap: int
    job_id: int | None
    process: str
    ticket: int
    bell: str


AnyRow = TypeVar("AnyRow", JobRow, LaneRow, KeyRow, QueueRow, LimitRow, RuleRow, StartRow, HoldRow)


class Rows:
    """All rows of a file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        def read(kind: type[AnyRow], table: str) -> list[AnyRow]:
            columns = ", ".join(kind._fields)
            return [kind._make(row) for row in connection.execute(f"SELECT {columns} FROM {table}")]

        connection.execute("BEGIN")
        self.jobs = read(JobRow, "slotq_jobs")
        self.lanes = read(LaneRow, "slotq_lanes")
        self.keys = {row.id: row for row in read(KeyRow, "slotq_keys")}
        self.queues = {row.id: row for row in read(QueueRow, "slotq_queues")}
        self.limits = {row.id: row for row in read(LimitRow, "slotq_limits")}
        self.rules = read(RuleRow, "slotq_key_limits")
        self.starts = read(StartRow, "slotq_starts ORDER BY key_id, seq")
        self.holds = read(HoldRow, "slotq_holds")
        self.orders: tuple[int, int, int]
        (self.orders,) = connection.execute("SELECT fair, robin, fifo FROM slotq_orders").fetchall()
        self.clock: tuple[int, int | None]
        (self.clock,) = connection.execute("SELECT now, period_end FROM slotq_clock").fetchall()
        connection.execute("COMMIT")

    def counted(self, key_id: int) -> dict[int, int]:
        """Return the instant of each start of a key that is still kept, by its number."""
        counted: dict[int, int] = {}
        end = self.keys[key_id].seq + 1
        for mark in reversed([mark for mark in self.starts if mark.key_id == key_id]):
            counted |= dict.fromkeys(range(mark.seq, end), mark.at)
            end = mark.seq
        return counted

    def rules_of(self, key_id: int) -> Iterator[tuple[LimitRow, int]]:
        """Return the limits in force for a key, each with the start before it began to count."""
        return (
            (self.limits[rule.limit_id], rule.since) for rule in self.rules if rule.key_id == key_id
        )


@cache
def _subject(kind: str, text: str) -> Subject:
    if kind == "queue":
        return queue_subject(text)
    return subject(text if kind == "pattern" else text.replace("\\", "\\\\").replace("*", r"\*"))


def recount(rows: Rows, now: int | None) -> None:
    """Check what triggers keep.

    Args:
        rows: All rows.
        now: The instant, to look at windows too; None if the clock has gone back a little, since
            what had opened before stays open then.
    """
    wrong = [*_lanes(rows), *_keys(rows, now), *_queues(rows)]
    ends = [limit.period_end for limit in rows.limits.values() if limit.period_end is not None]
    if rows.clock[1] != min(ends, default=None):
        wrong.append(f"the clock's period_end is {rows.clock[1]}, not the first of {ends}")
    assert wrong == []


def _lanes(rows: Rows) -> Iterator[str]:
    waiting: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    scheduled: Counter[int] = Counter()
    running: Counter[tuple[int, int]] = Counter()
    for job in rows.jobs:
        scheduled[job.lane_id] += job.state == "scheduled"
        running[job.queue_id, job.key_id] += job.state == "running"
        if job.state == "waiting":
            waiting[job.lane_id].append((job.rank, job.run_at, job.id))
    for lane in rows.lanes:
        line = waiting[lane.id]
        key = rows.keys[lane.key_id]
        may_start = (
            not key.paused
            and key.queued == 0
            and key.opens_at is None
            and key.running < min(key.cap, lane.cap)
        )
        counted = (
            len(line),
            scheduled[lane.id],
            running[lane.queue_id, lane.key_id],
            may_start,
            rows.orders,
            min(line, default=(None, None, None)),
        )
        orders = (lane.fair, lane.robin, lane.fifo)
        head = (lane.head_rank, lane.head_run_at, lane.head_id)
        if (lane.waiting, lane.scheduled, lane.running, lane.open, orders, head) != counted:
            yield f"{lane} counts {counted}"


def _keys(rows: Rows, now: int | None) -> Iterator[str]:
    running: Counter[int] = Counter(job.key_id for job in rows.jobs if job.state == "running")
    queued: Counter[int] = Counter()
    for hold in rows.holds:
        running[hold.key_id] += hold.slots * (hold.state == "held")
        queued[hold.key_id] += hold.state == "waiting"
    in_force = {(rule.key_id, rule.name): rule.limit_id for rule in rows.rules}
    for key in rows.keys.values():
        if key.id == 0:
            counted = (0, 0, UNLIMITED, 0)
        else:
            rules = [limit for limit, _ in rows.rules_of(key.id)]
            caps = [limit.max_running for limit in rules if limit.max_running is not None]
            spans = [limit.span_ms for limit in rules if limit.span_ms is not None]
            counted = (
                running[key.id],
                queued[key.id],
                min(caps, default=UNLIMITED),
                max(spans, default=0),
            )
            of_key = {name: limit for (id_, name), limit in in_force.items() if id_ == key.id}
            if of_key != _best(rows, key.key):
                yield f"{key} is ruled by {of_key}, not by {_best(rows, key.key)}"
        if (key.running, key.queued, key.cap, key.span) != counted:
            yield f"{key} counts {counted}"
        instants = [mark.at for mark in rows.starts if mark.key_id == key.id]
        if instants != sorted(instants):
            yield f"{key}: marks fall in time: {instants}"
        if now is not None:
            full_until = key.opens_at if key.opens_at is not None and key.opens_at > now else None
            if full_until != _opens(rows, key.id, now):
                yield f"{key} at {now} opens at {_opens(rows, key.id, now)}"


def _best(rows: Rows, key: str) -> dict[str, int]:
    """Return the id of the most specific limit of each name."""
    found: dict[str, int] = {}

    def narrowest(limit: LimitRow) -> tuple[bool, int, str]:
        return limit.kind != "key", -_subject(limit.kind, limit.subject).literals, limit.subject

    for limit in sorted(rows.limits.values(), key=narrowest):
        if _subject(limit.kind, limit.subject).regex.fullmatch(key):
            found.setdefault(limit.name, limit.id)
    return found


def _opens(rows: Rows, key_id: int, now: int) -> int | None:
    """Return when all windows of a key have room for one more start."""
    counted = rows.counted(key_id)
    opens: list[int] = []
    for limit, since in rows.rules_of(key_id):
        if limit.max_starts is None:
            continue
        number = rows.keys[key_id].seq - limit.max_starts + 1
        at = counted.get(number)
        if at is None or number <= since:
            continue
        if limit.window_ms is not None:
            opens.append(at + limit.window_ms)
        elif limit.period_start is not None and limit.period_end is not None:
            opens += [limit.period_end] * (at >= limit.period_start)
    return max((at for at in opens if at > now), default=None)


def _queues(rows: Rows) -> Iterator[str]:
    running: Counter[int] = Counter(job.queue_id for job in rows.jobs if job.state == "running")
    for queue in rows.queues.values():
        limits = [
            limit.max_running
            for limit in rows.limits.values()
            if (limit.kind, limit.subject) == ("queue", queue.queue)
            and limit.max_running is not None
        ]
        if (queue.running, queue.cap) != (running[queue.id], min(limits, default=UNLIMITED)):
            yield f"{queue} counts {running[queue.id]} running, caps {limits}"


def check_starts(rows: Rows, job_ids: Iterable[int], now: int | None) -> None:
    """Check that jobs which have just started had room: no limit is passed, no window over-full.

    Args:
        rows: All rows.
        job_ids: The jobs.
        now: The instant; None to leave out the windows.
    """
    started = set(job_ids)
    running = [job for job in rows.jobs if job.state == "running"]
    for job in running:
        if job.id not in started or job.key_id == 0:
            continue
        slots = sum(other.key_id == job.key_id for other in running) + sum(
            hold.slots for hold in rows.holds if (hold.key_id, hold.state) == (job.key_id, "held")
        )
        for limit, since in rows.rules_of(job.key_id):
            assert limit.max_running is None or slots <= limit.max_running, (job, limit)
            if limit.max_starts is None or now is None:
                continue
            begin = now + 1 - limit.window_ms if limit.window_ms else limit.period_start
            assert begin is not None
            live = [
                number
                for number, at in rows.counted(job.key_id).items()
                if number > since and at >= begin
            ]
            assert len(live) <= limit.max_starts, (job, limit, live)
    for queue in {job.queue_id for job in running if job.id in started}:
        assert rows.queues[queue].running <= rows.queues[queue].cap, rows.queues[queue]
