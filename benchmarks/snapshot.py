"""What a dashboard's frame costs on a large file, and what the history for its charts costs.

Goals: a frame of 50 keys takes half of all times at most 20 ms with 1,000,000 jobs of 100,000 keys,
somebody having committed before each; the history takes a worker at most 10 us a job, its keys being
any of 10,000, and at most 50 MB with 10,000 keys that all have something in each bucket. Ends with 1
if a goal is missed by half or more.
"""

import argparse
import contextlib
import itertools
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from filling import TERMS, built, open_file, parse_sizes, store
from floor import percentile
from slotq import Snapshot, open_reader
from slotq.current import Run
from slotq.store import history
from slotq.store.claims import Claim
from slotq.store.connection import Database
from slotq.store.history import GRAINS, Cell, Place
from slotq.store.leases import End, Success
from slotq.tally import BATCH, EVERY_MS, Tally

if TYPE_CHECKING:
    from slotq.model import State

SIZES: Final = "1000000x100000"
MOST_MS: Final = 20
MOST_US: Final = 10
MOST_MB: Final = 50
# By how much a goal may be missed before it counts as a failure: these are noisy figures.
SLACK: Final = 1.5

FRAMES: Final = 200
KEYS: Final = 10_000
# A worker that is flat out: so many jobs a turn, and so many a second.
TURN_JOBS: Final = 64
PER_SECOND: Final = 10_000
SECONDS: Final = 8
BINS: Final = 4
SUCCESS: Final[End] = Success(None)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the result; times in milliseconds."""

    title: str
    p50_ms: float
    p99_ms: float


def timed(title: str, look: Callable[[], Snapshot], commit: Callable[[], None]) -> Row:
    """Look again and again, each time at something new."""
    times_ms: list[float] = []
    for _ in range(FRAMES):
        commit()
        began = time.perf_counter_ns()
        seen = look()
        times_ms.append((time.perf_counter_ns() - began) / 1_000_000)
        assert seen.totals.waiting
    return Row(title, percentile(times_ms, 0.5), percentile(times_ms, 0.99))


def frames(path: Path) -> list[Row]:
    """Measure frames in several orders; the goal is for the first."""
    database = open_file(path)
    keys = (f"tenant:{random.randrange(KEYS)}" for _ in itertools.count())
    with contextlib.closing(database), open_reader(path) as reader:

        def commit() -> None:
            store(database, keys, 1)
            assert reader.changed()

        return [
            timed("most waiting first", reader.snapshot, commit),
            timed("oldest first", lambda: reader.snapshot(sort="oldest"), commit),
            timed("most running first", lambda: reader.snapshot(sort="running"), commit),
            timed("by name", lambda: reader.snapshot(sort="key", descending=False), commit),
            timed("with a filter", lambda: reader.snapshot(filter="99"), commit),
            timed("page 100", lambda: reader.snapshot(offset=5_000), commit),
        ]


def _claims(ids: Iterator[int], run_at: int) -> list[Claim]:
    return [
        Claim(
            run_at - random.randrange(100_000), next(ids), 1, 1, 5, TERMS.task, "[]", "{}", None, 0,
            "default", "", random.randrange(1, KEYS),
        )
        for _ in range(TURN_JOBS)
    ]  # fmt: skip


def cost_of_a_job(database: Database) -> float:
    """Return what counting takes a worker that is flat out, in microseconds a job."""
    tally, ids, took_ns, jobs = Tally(), itertools.count(1), 0, 0
    with database.write() as tx:
        now = began = tx.now
        while now < began + SECONDS * EVERY_MS:
            claims = _claims(ids, now)
            runs = [Run(claim, database.real, lambda _: None) for claim in claims]
            ends: list[tuple[tuple[Run, End], State | None]] = [
                ((run, SUCCESS), "succeeded") for run in runs
            ]
            started_ns = time.perf_counter_ns()
            tx.now = now
            tally.write(tx)
            tally.add(now, claims, ends)
            took_ns += time.perf_counter_ns() - started_ns
            jobs += len(claims)
            now += TURN_JOBS * 1_000 // PER_SECOND
    return took_ns / 1_000 / jobs


def bytes_of_all(database: Database) -> float:
    """Return what a file of full buckets grows by, in megabytes."""
    width, keep, _ = GRAINS["key"]
    with database.read() as reader:
        before: int = reader.value("PRAGMA page_count")
        page_size: int = reader.value("PRAGMA page_size")
    for back in range(keep // width, 0, -1):
        for first in range(1, KEYS + 1, BATCH):
            with database.write() as tx:
                at = history.bucket("key", tx.now) - back * width + width
                cells = {
                    Place("key", at, key): Cell(
                        99,
                        99,
                        9,
                        {random.randrange(40): random.randrange(1, 99) for _ in range(BINS)},
                    )
                    for key in range(first, first + BATCH)
                }
                history.add(tx, cells)
                history.sweep(tx)
    with database.read() as reader:
        after: int = reader.value("PRAGMA page_count")
        count: int = reader.value("SELECT count(*) FROM slotq_history WHERE kind = 'key'")
    assert count >= KEYS * (keep // width - 1), count
    return (after - before) * page_size / 1_000_000


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=parse_sizes, help=f"jobs x keys, by default {SIZES}")
    options = parser.parse_args()
    worst = 0.0
    for case in options.sizes or parse_sizes(SIZES):
        with built(case) as path:
            rows = frames(path)
        print(
            f"{'50 keys of a file of ' + f'{case.jobs:,} jobs x {case.keys:,} keys':54} p50 ms p99 ms"
        )
        for row in rows:
            print(f"{row.title:54} {row.p50_ms:6.1f} {row.p99_ms:6.1f}")
        worst = max(worst, rows[0].p50_ms / MOST_MS)
    with TemporaryDirectory(prefix="slotq-history-") as folder:
        database = open_file(Path(folder) / "jobs.db")
        with contextlib.closing(database):
            store(database, (f"tenant:{number}" for number in range(KEYS)), KEYS)
            job_us = cost_of_a_job(database)
            size_mb = bytes_of_all(database)
    print(f"history: at most {MOST_US} us a job: {job_us:.1f}")
    print(f"history: at most {MOST_MB} MB for {KEYS:,} keys: {size_mb:.1f}")
    worst = max(worst, job_us / MOST_US, size_mb / MOST_MB)
    return int(worst >= SLACK)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
