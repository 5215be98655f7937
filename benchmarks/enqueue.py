"""What an enqueue costs through the public API: many in one call, and one by one.

Goals: ``enqueue_many`` stores at least 80,000 jobs a second with up to 1,000 keys and 40,000 with
100,000 keys; one by one at least 8,000; a small job takes at most 200 bytes on disk. Ends with 1 if a
goal is missed by half or more.
"""

import argparse
import contextlib
import gc
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import slotq
from floor import Floor, percentile

JOBS: Final = 100_000
SINGLES: Final = 3_000
MOST_BYTES: Final = 200
# By how much a goal may be missed before it counts as a failure: these are noisy figures.
SLACK: Final = 1.5


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the result; bytes are those of the whole file, a job."""

    what: str
    keys: int
    per_second: float
    goal: int
    bytes_per_job: float


def measure(folder: Path, keys: int, *, known: bool, goal: int) -> Row:
    """Store jobs in one call, with keys that were used before or never."""
    path = folder / f"{keys}-{known}.db"
    with slotq.Queue(path) as q:

        @q.task(name="send_email", key="tenant:{tenant}")
        def send_email(tenant: int, subject: str) -> None:
            raise AssertionError(tenant, subject)

        q.set_limit("tenant:*", max_running=10, max_starts=1_000, window=60)
        if known:
            send_email.enqueue_many([(key, "hello") for key in range(keys)])
        dice = random.Random(1)
        # Each key at least once, in no order.
        chosen = [*range(min(keys, JOBS)), *(dice.randrange(keys) for _ in range(JOBS - keys))]
        dice.shuffle(chosen)
        calls = [(key, "hello") for key in chosen]
        gc.collect()
        began = time.perf_counter()
        ids = send_email.enqueue_many(calls)
        took_s = time.perf_counter() - began
        assert len(ids) == JOBS
        total = q.stats().waiting
    # Measured once the file is closed, so that its log is part of it.
    what = "many, known keys" if known else "many, new keys"
    return Row(what, keys, JOBS / took_s, goal, path.stat().st_size / total)


def measure_singles(folder: Path) -> tuple[Row, float]:
    """Store jobs one by one; also return the floor of the same moments, in microseconds."""
    path = folder / "singles.db"
    times_us: list[float] = []
    with slotq.Queue(path) as q:

        @q.task(name="send_email", key="tenant:{tenant}")
        def send_email(tenant: int, subject: str) -> None:
            raise AssertionError(tenant, subject)

        q.set_limit("tenant:*", max_running=10, max_starts=1_000, window=60)
        floor = Floor(folder, 4096)
        for number in range(SINGLES):
            began = time.perf_counter_ns()
            send_email.enqueue(number % 1_000, "hello")
            times_us.append((time.perf_counter_ns() - began) / 1_000)
            floor.sample()
        floor.close()
    row = Row("one by one", 1_000, 1e6 / percentile(times_us, 0.5), 8_000, 0.0)
    return row, percentile(floor.times_us, 0.5)


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args()
    with TemporaryDirectory(prefix="slotq-enqueue-") as name:
        folder = Path(name)
        rows = [
            measure(folder, keys, known=known, goal=80_000 if keys <= 1_000 else 40_000)
            for keys in (1, 100, 1_000, 100_000)
            for known in (True, False)
        ]
        singles, floor_us = measure_singles(folder)
    rows.append(singles)
    if options.json:
        print(json.dumps({"floor_us": floor_us, "rows": [asdict(row) for row in rows]}))
    else:
        print_table(rows, floor_us)
    return int(any(is_missed(row) for row in rows))


def is_missed(row: Row) -> bool:
    """Tell whether a goal is missed by half or more."""
    return row.per_second * SLACK < row.goal or row.bytes_per_job > MOST_BYTES * SLACK


def print_table(rows: Sequence[Row], floor_us: float) -> None:
    """Print the result for people."""
    print(f"floor: {floor_us:.1f} us")
    print(f"{'what':17} {'keys':>8} {'jobs/s':>9} {'goal':>8} {'bytes/job':>9}")
    for row in rows:
        size = f"{row.bytes_per_job:.0f}" if row.bytes_per_job else ""
        print(f"{row.what:17} {row.keys:8,} {row.per_second:9,.0f} {row.goal:8,} {size:>9}")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
