"""What a look costs: ``Queue.why`` and ``Queue.key`` on a large file, through the public API.

The goal is a p50 of at most 2 ms in each row, with 1,000,000 jobs of 100,000 keys, also for a key
that a hundred thousand jobs wait for. Ends with 1 if the goal is missed by half or more.
"""

import argparse
import contextlib
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from filling import TERMS, Case, built, limit, parse_sizes, store
from floor import percentile
from slotq import Queue
from slotq.store.claims import Claim, Claimer, claim
from slotq.store.connection import Database
from slotq.store.leases import Success, end
from slotq.store.limits import Change, Span
from slotq.store.workers import Registration, register

SIZES: Final = "1000000x100000"
MOST_MS: Final = 2
# By how much the goal may be missed before it counts as a failure: these are noisy figures.
SLACK: Final = 1.5

LOOKS: Final = 1_000
DEEP_JOBS: Final = 100_000
DEEP_RUNNING: Final = 50
MARKS: Final = 20_000
HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the result; times in milliseconds."""

    title: str
    p50_ms: float
    p99_ms: float


def deepen(database: Database) -> None:
    """Have a full key that many jobs wait for, a key whose window is full, and a worker."""
    worker = Registration(
        pid=1, host="benchmark", queues=None, slots=64, order="fair", lease_ms=HOUR_MS,
        tasks=(TERMS.task,),
    )  # fmt: skip
    with database.write() as tx:
        number = register(tx, worker)
    who = Claimer(number, "fair", ("default",), frozenset({TERMS.task}), HOUR_MS)
    limit(database, "window", Change(max_starts=MARKS, window=Span(ms=24 * HOUR_MS)))
    store(database, iter(["window"] * (MARKS + 1)), MARKS + 1)
    running: list[Claim] = []
    while running or not _waits_alone(database):
        with database.write() as tx:
            for job in running:
                end(tx, job.lease, Success(None))
            running = claim(tx, who, 500)
    limit(database, "deep", Change(max_running=DEEP_RUNNING))
    store(database, iter(["deep"] * DEEP_JOBS), DEEP_JOBS)
    with database.write() as tx:
        assert len(claim(tx, who, 64)) == DEEP_RUNNING


def _waits_alone(database: Database) -> bool:
    with database.read() as reader:
        return bool(reader.value("SELECT opens_at FROM slotq_keys WHERE key = 'window'"))


def timed(title: str, look: Callable[[], object]) -> Row:
    """Look again and again."""
    times_ms: list[float] = []
    for _ in range(LOOKS):
        began = time.perf_counter_ns()
        look()
        times_ms.append((time.perf_counter_ns() - began) / 1_000_000)
    return Row(title, percentile(times_ms, 0.5), percentile(times_ms, 0.99))


def _ids(jobs: Iterable[int]) -> Iterator[int]:
    dice = random.Random(1)
    among = list(jobs)
    while True:
        yield dice.choice(among)


def measure(path: Path, case: Case) -> list[Row]:
    """Look at any job and any key, and at those that have much to tell."""
    dice = random.Random(2)
    with Queue(path) as queue:
        first = MARKS + 1 + DEEP_JOBS
        jobs = _ids(range(first + 1, first + case.jobs + 1))
        deep = _ids(range(MARKS + 2 + DEEP_RUNNING + 1_001, first + 1))
        rows = [
            timed("why, any job", lambda: queue.why(next(jobs))),
            timed(
                f"why, {DEEP_JOBS:,} wait for {DEEP_RUNNING} slots", lambda: queue.why(next(deep))
            ),
            timed(f"why, window of {MARKS:,} full", lambda: queue.why(MARKS + 1)),
            timed("key, any", lambda: queue.key(f"tenant:{dice.randrange(case.keys)}")),
            timed(f"key, {DEEP_JOBS:,} wait for it", lambda: queue.key("deep")),
            timed(f"key, window of {MARKS:,} full", lambda: queue.key("window")),
        ]
        assert {reason.kind for reason in queue.why(next(deep))} == {"slots", "behind"}
        assert {reason.kind for reason in queue.why(MARKS + 1)} == {"window"}
    return rows


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=parse_sizes, help=f"jobs x keys, by default {SIZES}")
    options = parser.parse_args()
    worst = 0.0
    for asked in options.sizes or parse_sizes(SIZES):
        case = Case(asked.jobs, asked.keys, prepare=deepen)
        with built(case) as path:
            rows = measure(path, case)
        print(f"{case.jobs:,} jobs x {case.keys:,} keys{'':18} p50 ms  p99 ms")
        for row in rows:
            print(f"  {row.title:43} {row.p50_ms:6.2f}  {row.p99_ms:6.2f}")
        worst = max(worst, *(row.p50_ms for row in rows))
    print(f"p50 at most {MOST_MS} ms: {worst:.2f}")
    return int(worst >= MOST_MS * SLACK)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
