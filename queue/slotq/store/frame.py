"""One consistent frame of a file for a dashboard: totals, a page of keys, queues, workers, holders.

A frame never writes, so it judges by now what nobody has handled yet: a job whose lease has lapsed
does not run, a hold that has ended is gone, a window that has opened is open.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from slotq.frames import KeyRow, KeyWhy, Snapshot, Totals
from slotq.model import HoldInfo, QueueInfo, Window
from slotq.store import frame_queries as queries
from slotq.store import reads
from slotq.store.pages import Page, Shape, find
from slotq.store.rows import (
    cap_or_none,
    hold_of,
    instant,
    instant_or_none,
    limit_of,
    window_of,
    worker_of,
)
from slotq.store.transaction import Reader, Row
from slotq.store.workers import GONE_LEASES

MOST_HOLDERS: Final = 200
# What is due and nobody has handled: as much of each kind is judged by now; some 5 ms.
MOST_DUE: Final = 10_000
# Counting what has failed ends here, so that a frame costs the same however much did.
MOST_ENDED: Final = 100_000
# With more lanes, the oldest job of a queue is looked for only among those that are next in line.
EXACT_LANES: Final = 10_000


@dataclass(slots=True)
class _Line:
    """What waits, is scheduled and runs of a queue, or of a key in one queue."""

    waiting: int = 0
    scheduled: int = 0
    running: int = 0
    oldest: int | None = None

    def age(self, run_at: int | None) -> None:
        """Note a waiting job."""
        if run_at is not None and (self.oldest is None or run_at < self.oldest):
            self.oldest = run_at

    def add(self, other: "_Line") -> None:
        """Add what is to be added by now."""
        self.waiting += other.waiting
        self.scheduled += other.scheduled
        self.running += other.running
        self.age(other.oldest)


@dataclass(slots=True)
class _Due:
    """What has fallen due, and how it changes the lines: by queue, and by key and queue."""

    queues: defaultdict[int, _Line] = field(default_factory=lambda: defaultdict(_Line))
    keys: defaultdict[tuple[int, int], _Line] = field(default_factory=lambda: defaultdict(_Line))
    failed: int = 0
    cancelled: int = 0


class _Queue(NamedTuple):
    """A queue: the columns of FRAME_QUEUES."""

    id: int
    name: str
    running: int
    cap: int
    paused: int
    workers: int


def snapshot(reader: Reader, page: Page, shape: Shape, *, now: int, version: int) -> Snapshot:
    """Return a frame.

    Args:
        reader: Of the file.
        page: Which keys it shows.
        shape: What is remembered from the frame before.
        now: The instant, in milliseconds.
        version: Of the file.
    """
    due = _due(reader, now)
    counts = reader.rows(queries.FRAME_COUNTS, {"most": MOST_ENDED, "now": now})[0]
    failed, cancelled, held, keys, lanes, last_key, limits = counts
    seen = {"now": now, "leases": GONE_LEASES}
    found = [_Queue(*row) for row in reader.rows(queries.FRAME_QUEUES, seen)]
    lines = _lines(reader, found, due, is_exact=lanes <= EXACT_LANES)
    running = sum(line.running for line in lines.values())
    workers = tuple(worker_of(row) for row in reader.rows(queries.FRAME_WORKERS, seen))
    has_several = shape.has_several(reader, (lanes, keys, last_key))
    ids = find(reader, page, shape, now, has_several=has_several)
    by_now = {queue.id: queue._replace(running=lines[queue.id].running) for queue in found}
    rows = _rows(reader, ids, by_now, due, now=now, in_use=running + held)
    matching = keys
    if page.filter is not None:
        matching = reader.value(queries.FRAME_MATCHING, {"filter": page.filter})
    return Snapshot(
        at=instant(now),
        totals=Totals(
            scheduled=sum(line.scheduled for line in lines.values()),
            waiting=sum(line.waiting for line in lines.values()),
            running=running,
            failed=failed + due.failed,
            cancelled=cancelled + due.cancelled,
            held=held,
            keys=keys,
            queues=len(found),
            limits=limits,
            workers=len(workers),
        ),
        keys=rows,
        matching=matching,
        queues=tuple(_queue_of(queue, lines[queue.id]) for queue in found),
        workers=workers,
        holders=_holders(reader, now),
        version=version,
    )


def _due(reader: Reader, now: int) -> _Due:
    """Return what has fallen due and what it means, as far as anybody would handle it at once."""
    due = _Due()
    bounds = {"now": now, "most": MOST_DUE}
    for key, queue, is_tried_again, is_cancelled in reader.rows(queries.FRAME_LAPSED, bounds):
        due.cancelled += is_cancelled
        due.failed += not is_tried_again and not is_cancelled
        for line in (due.queues[queue], due.keys[key, queue]):
            line.running -= 1
            line.scheduled += is_tried_again
    for key, queue, state in reader.rows(queries.FRAME_EXPIRED, bounds):
        due.cancelled += 1
        for line in (due.queues[queue], due.keys[key, queue]):
            line.scheduled -= state == "scheduled"
            line.waiting -= state == "waiting"
    for key, queue, run_at in reader.rows(queries.FRAME_DUE, bounds):
        for line in (due.queues[queue], due.keys[key, queue]):
            line.scheduled -= 1
            line.waiting += 1
            line.age(run_at)
    return due


def _lines(
    reader: Reader, queues_: Sequence[_Queue], due: _Due, *, is_exact: bool
) -> dict[int, _Line]:
    found = {queue.id: _Line(running=queue.running) for queue in queues_}
    if len(found) == 1:
        rows = [(queues_[0].id, *reader.rows(queries.FRAME_LINE)[0])]
    else:
        rows = reader.rows(queries.FRAME_LINES)
    for queue, waiting, scheduled, oldest in rows:
        line = found[queue]
        line.waiting, line.scheduled, line.oldest = waiting or 0, scheduled or 0, oldest
    if is_exact:
        for queue, oldest in reader.rows(queries.FRAME_OLDEST):
            found[queue].oldest = oldest
    for queue, change in due.queues.items():
        found[queue].add(change)
    return found


def _queue_of(queue: _Queue, line: _Line) -> QueueInfo:
    return QueueInfo(
        name=queue.name,
        waiting=line.waiting,
        scheduled=line.scheduled,
        running=line.running,
        max_running=cap_or_none(queue.cap),
        paused=bool(queue.paused),
        oldest_waiting_at=instant_or_none(line.oldest if line.waiting else None),
        workers=queue.workers,
    )


def _holders(reader: Reader, now: int) -> tuple[HoldInfo, ...]:
    bounds = {"now": now, "most": MOST_HOLDERS}
    return tuple(hold_of(row) for row in reader.rows(queries.FRAME_HOLDERS, bounds))


class _Lane(NamedTuple):
    """A lane: the columns of PAGE_LANES."""

    key_id: int
    queue_id: int
    cap: int
    waiting: int
    scheduled: int
    running: int
    oldest: int | None


class _KeyState(NamedTuple):
    """A key: the columns of PAGE_KEYS."""

    id: int
    key: str
    cap: int
    seq: int
    opens_at: int | None
    paused: int


def _by_key(rows: Iterable[Row]) -> defaultdict[int, list[Row]]:
    found: defaultdict[int, list[Row]] = defaultdict(list)
    for row in rows:
        found[row[0]].append(row)
    return found


def _rows(
    reader: Reader,
    ids: Sequence[int],
    queues_: dict[int, _Queue],
    due: _Due,
    *,
    now: int,
    in_use: int,
) -> tuple[KeyRow, ...]:
    wanted = {"ids": json.dumps(ids)}
    lanes = _by_key(reader.rows(queries.PAGE_LANES, wanted))
    limits = _by_key(reader.rows(queries.PAGE_LIMITS, wanted))
    holds = _by_key(reader.rows(queries.PAGE_HOLDS, {**wanted, "now": now}))
    changes: defaultdict[int, dict[int, _Line]] = defaultdict(dict)
    for (key_id, queue), change in due.keys.items():
        changes[key_id][queue] = change
    rows: list[KeyRow] = []
    for key in (_KeyState(*row) for row in reader.rows(queries.PAGE_KEYS, wanted)):
        standing = _Standing(
            key,
            [_Lane(*row) for row in lanes[key.id]],
            holds[key.id],
            changes=changes[key.id],
            queues_=queues_,
            now=now,
        )
        rows.append(_row(reader, standing, limits[key.id], in_use))
    return tuple(rows)


class _Standing:
    """A key as it stands by now."""

    def __init__(
        self,
        key: _KeyState,
        lanes: Sequence[_Lane],
        holds: Sequence[Row],
        *,
        changes: dict[int, _Line],
        queues_: dict[int, _Queue],
        now: int,
    ) -> None:
        self.key = key
        self.now = now
        self.held = sum(row[2] for row in holds if row[1] == "held")
        self.has_line = any(row[1] == "waiting" for row in holds)
        self.opens_at = key.opens_at if key.opens_at is not None and key.opens_at > now else None
        # The lanes of one queue all say how many of the group run.
        self.of: dict[int, _Line] = {}
        for lane in lanes:
            line = self.of.setdefault(lane.queue_id, _Line(running=lane.running))
            line.add(_Line(lane.waiting, lane.scheduled, 0, lane.oldest))
        for queue, change in changes.items():
            self.of.setdefault(queue, _Line()).add(change)
        self.running = sum(line.running for line in self.of.values())
        self.waiting = sum(line.waiting for line in self.of.values())
        self.scheduled = sum(line.scheduled for line in self.of.values())
        self._lanes = lanes
        self._queues = queues_
        self._changes = changes

    def oldest(self) -> int | None:
        """Return the earliest instant of a waiting job."""
        instants = [line.oldest for line in self.of.values() if line.oldest is not None]
        return min(instants, default=None) if self.waiting else None

    def why(self) -> KeyWhy:
        """Return why nothing starts: first what keeps all of the key, then what keeps each lane."""
        if not self.waiting:
            return "scheduled" if self.scheduled else "idle"
        return next(self._obstacles())

    def _obstacles(self) -> Iterator[KeyWhy]:
        used = self.running + self.held
        queues = [self._queues[queue] for queue, line in self.of.items() if line.waiting > 0]
        served = [queue for queue in queues if queue.workers and not queue.paused]
        # Jobs that have just come of age are not told by lanes: theirs counts as open.
        caps = [lane.cap for lane in self._lanes if lane.waiting > 0] if not self._changes else []
        if self.key.paused or all(queue.paused for queue in queues):
            yield "paused"
        if not served:
            yield "no worker"
        if self.opens_at is not None:
            yield "window"
        if used >= self.key.cap:
            yield "slots"
        if caps and used >= max(caps):
            yield "own slots"
        if all(queue.running >= queue.cap for queue in served):
            yield "queue slots"
        if self.has_line:
            yield "held up"
        yield "open"


def _row(reader: Reader, standing: _Standing, limits: Sequence[Row], in_use: int) -> KeyRow:
    key = standing.key
    starts, max_starts, window = _window(reader, standing, limits)
    return KeyRow(
        key=key.key,
        running=standing.running,
        held=standing.held,
        waiting=standing.waiting,
        scheduled=standing.scheduled,
        oldest_waiting_at=instant_or_none(standing.oldest()),
        max_running=cap_or_none(key.cap),
        starts=starts,
        max_starts=max_starts,
        window=window,
        next_start_at=instant_or_none(standing.opens_at),
        paused=bool(key.paused),
        limits=tuple(sorted((limit_of(row[4:]) for row in limits), key=lambda limit: limit.name)),
        why=standing.why(),
        share=(standing.running + standing.held) / in_use if in_use else 0.0,
    )


def _window(
    reader: Reader, standing: _Standing, limits: Sequence[Row]
) -> tuple[int, int | None, float | Window | None]:
    """Return starts, max_starts and window of the window with the least room; None without one."""
    best: tuple[int, int | None, float | Window | None] = (0, None, None)
    for _, since, start, end, _, _, _, _, max_starts, window_ms, unit, *_ in limits:
        if max_starts is None:
            continue
        begin = standing.now - window_ms + 1 if window_ms is not None else start
        if end is not None and end <= standing.now:
            begin = end  # its period is over: nothing has started since
        seq = standing.key.seq
        starts = seq - reads.last_before(reader, standing.key.id, since, seq, begin)
        if best[1] is None or max_starts - starts < best[1] - best[0]:
            best = (starts, max_starts, window_of(window_ms, unit))
    return best
