"""What a worker's turn costs: finish one job and claim the next, in one transaction.

Every key has a max_running and a window. Two goals: half of all turns take at most 12 floors (see
floor.py), and the slowest row takes at most twice as many floors as the fastest, whatever the
backlog, the number of keys and the order. Ends with 1 if a goal is missed by half or more.
"""

import argparse
import contextlib
import gc
import json
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from floor import Floor, percentile
from slotq.clock import SystemClock
from slotq.keys import parse_subject
from slotq.model import ORDERS, Order
from slotq.store.claims import Claim, Claimer, claim
from slotq.store.connection import Database
from slotq.store.due import handle_due
from slotq.store.jobs import Call, Terms, add_many
from slotq.store.leases import Success, end
from slotq.store.limits import Change, Span, Target, set_limit

SIZES: Final = "1000x10,100000x100,1000000x1000,1000000x100000"
MOST_FLOORS: Final = 12
MOST_SPREAD: Final = 2
# By how much a goal may be missed before it counts as a failure: these are noisy figures.
SLACK: Final = 1.5

TURNS: Final = 2_000
WARM_UP: Final = 200
BUILD_BATCH: Final = 50_000
TURN_BATCH: Final = 500
# Enough to take every start of the measurement, and seldom full.
USUAL: Final = Change(max_running=10, max_starts=100_000, window=Span(ms=60_000))
ONE_AT_ONCE: Final = Change(max_running=1)
ONE_AN_HOUR: Final = Change(max_starts=1, window=Span(ms=3_600_000))
HOUR_MS: Final = 3_600_000
FULL_JOBS: Final = 1_000_000
FULL_WINDOWS: Final = 10_000

TERMS: Final = Terms(task="send_email")


@dataclass(frozen=True, slots=True)
class Case:
    """A file to measure on.

    Attributes:
        jobs: How many jobs wait in it.
        keys: How many keys they have.
        title: What is special about it; "" for nothing.
        prepare: What is done to the file before ``jobs`` over ``keys`` are stored.
    """

    jobs: int
    keys: int
    title: str = ""
    prepare: Callable[[Database], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the result; times in microseconds, the floor's as of the same loop."""

    case: Case
    order: Order
    p50_us: float
    p99_us: float
    floor_us: float


def _open(path: Path) -> Database:
    return Database(path, clock=SystemClock(), create=True, durable=False, lock_timeout_s=5)


def _limit(database: Database, subject: str, change: Change) -> None:
    with database.write() as tx:
        set_limit(tx, Target.of(parse_subject(subject), ""), change, "benchmark")


def _store(database: Database, keys: Iterator[str], count: int) -> None:
    for start in range(0, count, BUILD_BATCH):
        with database.write() as tx:
            size = min(BUILD_BATCH, count - start)
            add_many(tx, TERMS, [Call('[1, 2, "abc"]', "{}", next(keys)) for _ in range(size)])


def spread(keys: int) -> Iterator[str]:
    """Yield each key once, then any of them."""
    for number in range(keys):
        yield f"tenant:{number}"
    dice = random.Random(1)
    while True:
        yield f"tenant:{dice.randrange(keys)}"


def _claimer(order: Order, lease_ms: int) -> Claimer:
    return Claimer(1, order, ("default",), frozenset({TERMS.task}), lease_ms)


def turn(database: Database, who: Claimer, ended: Sequence[Claim], want: int) -> list[Claim]:
    """Do what a worker does in one transaction."""
    with database.write() as tx:
        for job in ended:
            end(tx, job.lease, Success(None))
        handle_due(tx)
        return claim(tx, who, want)


def fill_a_key(database: Database) -> None:
    """Put a million jobs of one key at the head of the line, behind one that runs."""
    _limit(database, "full", ONE_AT_ONCE)
    _store(database, iter(["full"] * FULL_JOBS), FULL_JOBS)
    assert len(turn(database, _claimer("fair", HOUR_MS), (), 2)) == 1


def fill_windows(database: Database) -> None:
    """Have keys whose windows are full, each with a job at the head of the line."""
    _limit(database, "window:*", ONE_AN_HOUR)
    for _ in range(2):
        _store(database, (f"window:{number}" for number in range(FULL_WINDOWS)), FULL_WINDOWS)
    running: list[Claim] = []
    for _ in range(FULL_WINDOWS // TURN_BATCH):
        running = turn(database, _claimer("fair", HOUR_MS), running, TURN_BATCH)
        assert len(running) == TURN_BATCH
    assert turn(database, _claimer("fair", HOUR_MS), running, 1) == []


def keep_all_orders(database: Database) -> None:
    """Have an index kept for each order, as when workers of all three share a file."""
    for order in ORDERS:
        assert turn(database, _claimer(order, HOUR_MS), (), 1) == []


def _build(path: Path, case: Case) -> None:
    began = time.perf_counter()
    gc.disable()  # a million small values, and no cycle among them
    database = _open(path)
    _limit(database, "tenant:*", USUAL)
    case.prepare(database)
    _store(database, spread(case.keys), case.jobs)
    database.close()
    gc.enable()
    took = time.perf_counter() - began
    size = path.stat().st_size / 1_000_000
    what = f"{case.jobs:,} jobs, {case.keys:,} keys {case.title}".strip()
    print(f"{what}: made in {took:.1f} s, {size:.0f} MB", file=sys.stderr)


def measure(path: Path, case: Case, order: Order) -> Row:
    """Measure on a copy: an order has its own index, kept from its first claim on."""
    copy = path.with_name("copy.db")
    shutil.copyfile(path, copy)
    database = _open(copy)
    with database.read() as reader:
        page_size: int = reader.value("PRAGMA page_size")
    floor = Floor(path.parent, page_size)
    who = _claimer(order, 30_000)
    running: list[Claim] = []
    times_us: list[float] = []
    for _ in range(min(TURNS, case.jobs // 2)):
        began = time.perf_counter_ns()
        running = turn(database, who, running, 1)
        times_us.append((time.perf_counter_ns() - began) / 1_000)
        assert len(running) == 1
        floor.sample()
    floor.close()
    database.close()
    warm = min(WARM_UP, len(times_us) // 4)
    row = Row(
        case,
        order,
        p50_us=percentile(times_us[warm:], 0.5),
        p99_us=percentile(times_us[warm:], 0.99),
        floor_us=percentile(floor.times_us[warm:], 0.5),
    )
    for used in path.parent.iterdir():
        if used != path:
            shutil.rmtree(used) if used.is_dir() else used.unlink()
    return row


def _run(cases: Sequence[Case]) -> list[Row]:
    rows: list[Row] = []
    for case in cases:
        with TemporaryDirectory(prefix="slotq-claim-") as folder:
            path = Path(folder) / "jobs.db"
            _build(path, case)
            rows += [measure(path, case, order) for order in ORDERS]
    return rows


def verdict(rows: Sequence[Row]) -> tuple[list[str], bool]:
    """Return a line for each goal, and whether one is missed by half or more."""
    floors = [row.p50_us / row.floor_us for row in rows]
    most, times = max(floors), max(floors) / min(floors)
    lines = [
        f"p50 at most {MOST_FLOORS} floors: {most:.1f}",
        f"largest p50 at most {MOST_SPREAD} times the smallest: {times:.1f}",
    ]
    return lines, most >= MOST_FLOORS * SLACK or times >= MOST_SPREAD * SLACK


def _sizes(text: str) -> list[Case]:
    try:
        pairs = [tuple(int(part) for part in size.split("x")) for size in text.split(",")]
        cases = [Case(jobs, keys) for jobs, keys in pairs]
    except ValueError:
        cases = []
    if not cases or any(case.keys < 1 or case.jobs < max(8, case.keys) for case in cases):
        raise argparse.ArgumentTypeError("sizes look like 1000x10,1000000x100000: jobs x keys")
    return cases


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=_sizes, help=f"jobs x keys, by default {SIZES}")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args()
    cases: list[Case] = options.sizes or [
        *_sizes(SIZES),
        Case(10_000, 100, f"behind {FULL_JOBS:,} jobs of one full key", fill_a_key),
        Case(10_000, 100, f"behind {FULL_WINDOWS:,} keys with full windows", fill_windows),
        Case(200_000, 100_000, "with workers of all three orders", keep_all_orders),
    ]
    rows = _run(cases)
    lines, failed = verdict(rows)
    if options.json:
        print(_as_json(rows))
    else:
        _print_table(rows)
        print(*lines, sep="\n")
    return int(failed)


def _as_json(rows: Sequence[Row]) -> str:
    return json.dumps(
        {
            "floor_us": percentile([row.floor_us for row in rows], 0.5),
            "rows": [
                {
                    "jobs": row.case.jobs,
                    "keys": row.case.keys,
                    "order": row.order,
                    "p50_us": row.p50_us,
                    "p99_us": row.p99_us,
                    "floor_us": row.floor_us,
                    "case": row.case.title,
                }
                for row in rows
            ],
        }
    )


def _print_table(rows: Sequence[Row]) -> None:
    print(f"{'jobs':>9} {'keys':>7} {'order':11} {'p50 us':>7} {'p99 us':>7} {'floor':>6} {'x':>5}")
    for row in rows:
        print(
            f"{row.case.jobs:9,} {row.case.keys:7,} {row.order:11} {row.p50_us:7.0f} "
            f"{row.p99_us:7.0f} {row.floor_us:6.1f} {row.p50_us / row.floor_us:5.1f} "
            f"{row.case.title}".rstrip()
        )


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
