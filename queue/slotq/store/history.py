"""History for charts: counts per queue and key in buckets of time, kept for a while.

Waits are kept as a histogram whose bins grow by the square root of two from a millisecond on: what
is read from it is within 20 % of the truth, and a bucket of any number of starts is one short text.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, Literal, NamedTuple

from slotq.frames import HistoryBucket
from slotq.store import history_statements as statements
from slotq.store.rows import instant
from slotq.store.statements import FIND_QUEUE
from slotq.store.transaction import Reader, Row, Tx

Kind = Literal["queue", "key"]


class Grain(NamedTuple):
    """How fine the history of a kind is; what comes when a bucket is full is left out of it.

    Attributes:
        width_ms: The length of a bucket.
        keep_ms: How long one is kept.
        most: Queues or keys that are counted in one.
    """

    width_ms: int
    keep_ms: int
    most: int


GRAINS: Final[dict[Kind, Grain]] = {
    "queue": Grain(10_000, 7_200_000, 1_000),
    # 10,000 keys that all have something in each of 60 buckets are some 30 MB.
    "key": Grain(60_000, 3_600_000, 10_000),
}
# Buckets dropped in one transaction, of each kind: more than one can add.
SWEEP_BATCH: Final = 2_000


class Place(NamedTuple):
    """One bucket: of a queue by its name or number, or of a key by its number."""

    kind: Kind
    at: int
    ref: str | int


@dataclass(slots=True)
class Cell:
    """What is to be added to a bucket.

    Attributes:
        waits: How many starts had waited how long: by the bin of ``bin_of``.
        waiting: How many jobs wait; None to leave that as it is. A key's is looked up.
    """

    starts: int = 0
    finishes: int = 0
    failures: int = 0
    waits: dict[int, int] = field(default_factory=dict[int, int])
    waiting: int | None = None


def bucket(kind: Kind, now: int) -> int:
    """Return when the bucket of an instant began."""
    return now - now % GRAINS[kind].width_ms


def place(kind: Kind, now: int, ref: int) -> Place:
    """Return the bucket of an instant, of a queue or key by its number."""
    return Place(kind, bucket(kind, now), ref)


def bin_of(wait_ms: int) -> int:
    """Return the bin of a wait: 0 for none, else one more for each factor of the root of two."""
    return (wait_ms * wait_ms).bit_length() if wait_ms > 0 else 0


def seconds_of(number: int) -> float:
    """Return what stands for all waits of a bin: its geometric middle."""
    return 2.0 ** ((number - 0.5) / 2) / 1_000 if number else 0.0


def percentile(waits: Mapping[int, int], share: float) -> float | None:
    """Return how many seconds a share of the starts had waited at most; None without starts."""
    left = share * sum(waits.values())
    for number in sorted(waits):
        left -= waits[number]
        if left <= 0:
            return seconds_of(number)
    return None


def add(tx: Tx, cells: Mapping[Place, Cell]) -> None:
    """Add to buckets, as far as there is room in them."""
    by_bucket: dict[tuple[Kind, int], dict[int, Cell]] = defaultdict(dict)
    for place, cell in cells.items():
        ref = place.ref if isinstance(place.ref, int) else tx.value(FIND_QUEUE, (place.ref,))
        if ref is not None:
            by_bucket[place.kind, place.at][ref] = cell
    for (kind, at), refs in by_bucket.items():
        of = {"kind": kind, "at": at}
        known: dict[int, str] = dict(
            tx.rows(statements.WAITS_OF, {**of, "refs": json.dumps(list(refs))})
        )
        room = 0
        if len(known) < len(refs):
            most = GRAINS[kind].most
            room = most - int(tx.value(statements.COUNT_BUCKET, {**of, "most": most}))
        for ref, cell in refs.items():
            if ref not in known:
                if room <= 0:
                    continue
                room -= 1
            waits = _written(cell.waits, known.get(ref, ""))
            row = (kind, at, ref, cell.starts, cell.finishes, cell.failures, cell.waiting, waits)
            tx.run(statements.ADD_HISTORY, row)


def sweep(tx: Tx) -> None:
    """Drop buckets that are too old, and those that lie in the future: the clock was set back."""
    for kind, grain in GRAINS.items():
        tx.run(statements.DROP_OLD_HISTORY, (kind, tx.now - grain.keep_ms, SWEEP_BATCH))
        tx.run(statements.DROP_FUTURE_HISTORY, (kind, tx.now, SWEEP_BATCH))


def is_sampled(reader: Reader, at: int) -> bool:
    """Tell whether somebody has looked how many jobs wait in the bucket that began then."""
    return reader.row(statements.IS_SAMPLED, (at,)) is not None


def waiting(reader: Reader) -> dict[str, int]:
    """Return how many jobs wait in each queue in which any does."""
    return dict(reader.rows(statements.WAITING_BY_QUEUE))


def read(reader: Reader, kind: Kind, name: str | None, since: int, now: int) -> list[HistoryBucket]:
    """Return the buckets of a queue or a key, or those of all queues together; the oldest first.

    Args:
        reader: Of the file.
        kind: What is asked for.
        name: Which one; None for all queues.
        since: The bucket of this instant is the first, in milliseconds.
        now: The instant, in milliseconds; the last bucket is that in which it lies.
    """
    grain = GRAINS[kind]
    first = bucket(kind, max(since, now - grain.keep_ms + grain.width_ms))
    if name is None:
        rows = reader.rows(statements.HISTORY_OF_ALL, (first, now))
    else:
        sql = statements.HISTORY_OF_KEY if kind == "key" else statements.HISTORY_OF_QUEUE
        span = {"at": first, "width": grain.width_ms, "now": now}
        rows = reader.rows(sql, {**span, "name": name})
    return [
        _bucket(at, grain.width_ms, list(group))
        for at, group in groupby(sorted(rows, key=lambda row: row[0]), key=lambda row: row[0])
    ]


def _bucket(at: int, width_ms: int, rows: Sequence[Row]) -> HistoryBucket:
    waits: dict[int, int] = {}
    for row in rows:
        for number, count in _read(row[5]):
            waits[number] = waits.get(number, 0) + count
    looks = [row[4] for row in rows if row[4] is not None]
    return HistoryBucket(
        at=instant(at),
        seconds=width_ms / 1_000,
        starts=sum(row[1] for row in rows),
        finishes=sum(row[2] for row in rows),
        failures=sum(row[3] for row in rows),
        waiting=sum(looks) if looks else None,
        wait_p50=percentile(waits, 0.5),
        wait_p95=percentile(waits, 0.95),
    )


def _read(text: str) -> Iterator[tuple[int, int]]:
    for part in text.split(",") if text else ():
        number, _, count = part.partition(":")
        yield int(number), int(count)


def _written(waits: Mapping[int, int], before: str) -> str:
    if before:
        total = dict(_read(before))
        for number, count in waits.items():
            total[number] = total.get(number, 0) + count
        waits = total
    return ",".join(f"{number}:{count}" for number, count in waits.items())
