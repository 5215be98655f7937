"""What a worker's turn costs: finish one job and claim the next, in one transaction.

Every key has a max_running and a window. Two goals: half of all turns take at most 12 floors (see
floor.py), and the slowest row takes at most twice as many floors as the fastest, whatever the
backlog, the number of keys and the order. Ends with 1 if a goal is missed by half or more.
"""

import argparse
import contextlib
import json
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from filling import TERMS, Case, built, limit, open_file, parse_sizes, store
from floor import Floor, percentile
from slotq.model import ORDERS, Order
from slotq.store.claims import Claim, Claimer, claim
from slotq.store.connection import Database
from slotq.store.due import handle_due
from slotq.store.leases import Success, end
from slotq.store.limits import Change, Span

SIZES: Final = "1000x10,100000x100,1000000x1000,1000000x100000"
MOST_FLOORS: Final = 12
MOST_SPREAD: Final = 2
# By how much a goal may be missed before it counts as a failure: these are noisy figures.
SLACK: Final = 1.5

TURNS: Final = 2_000
WARM_UP: Final = 200
TURN_BATCH: Final = 500
ONE_AT_ONCE: Final = Change(max_running=1)
ONE_AN_HOUR: Final = Change(max_starts=1, window=Span(ms=3_600_000))
HOUR_MS: Final = 3_600_000
FULL_JOBS: Final = 1_000_000
FULL_WINDOWS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the result; times in microseconds, the floor's as of the same loop."""

    case: Case
    order: Order
    p50_us: float
    p99_us: float
    floor_us: float


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
    limit(database, "full", ONE_AT_ONCE)
    store(database, iter(["full"] * FULL_JOBS), FULL_JOBS)
    assert len(turn(database, _claimer("fair", HOUR_MS), (), 2)) == 1


def fill_windows(database: Database) -> None:
    """Have keys whose windows are full, each with a job at the head of the line."""
    limit(database, "window:*", ONE_AN_HOUR)
    for _ in range(2):
        store(database, (f"window:{number}" for number in range(FULL_WINDOWS)), FULL_WINDOWS)
    running: list[Claim] = []
    for _ in range(FULL_WINDOWS // TURN_BATCH):
        running = turn(database, _claimer("fair", HOUR_MS), running, TURN_BATCH)
        assert len(running) == TURN_BATCH
    assert turn(database, _claimer("fair", HOUR_MS), running, 1) == []


def keep_all_orders(database: Database) -> None:
    """Have an index kept for each order, as when workers of all three share a file."""
    for order in ORDERS:
        assert turn(database, _claimer(order, HOUR_MS), (), 1) == []


def measure(path: Path, case: Case, order: Order) -> Row:
    """Measure on a copy: an order has its own index, kept from its first claim on."""
    copy = path.with_name("copy.db")
    shutil.copyfile(path, copy)
    database = open_file(copy)
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
        with built(case) as path:
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


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=parse_sizes, help=f"jobs x keys, by default {SIZES}")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args()
    cases: list[Case] = options.sizes or [
        *parse_sizes(SIZES),
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
