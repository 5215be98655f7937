"""What an edit of a pattern costs: each key that it matches is brought up to date in one transaction.

The goal is at most 5 us a matching key at 100,000 keys, for each kind of edit. Ends with 1 if it is
missed by half or more.
"""

import argparse
import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from filling import TERMS, Case, built, open_file, parse_sizes
from floor import percentile
from slotq.keys import parse_subject
from slotq.store.claims import Claimer, claim
from slotq.store.connection import Database
from slotq.store.limits import UNSET, Change, Span, Target, Unset, clear_limit, set_limit
from slotq.store.transaction import Tx

SIZES: Final = "200000x100000"
MOST_US: Final = 5
# By how much the goal may be missed before it counts as a failure: these are noisy figures.
SLACK: Final = 1.5

ROUNDS: Final = 7
DAY_MS: Final = 86_400_000
HOUR: Final = Span(ms=3_600_000)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the result; times in microseconds a matching key."""

    title: str
    p50_us: float
    most_us: float


def setting(
    *,
    name: str = "",
    max_running: int | Unset | None = UNSET,
    max_starts: int | Unset = UNSET,
    window: Span | Unset = UNSET,
) -> Callable[[Tx], object]:
    """Return an edit of the limit of all tenants."""
    target = Target.of(parse_subject("tenant:*"), name)
    change = Change(max_running=max_running, max_starts=max_starts, window=window)
    return lambda tx: set_limit(tx, target, change, "benchmark")


def clearing(name: str) -> Callable[[Tx], object]:
    """Return the removal of one."""
    target = Target.of(parse_subject("tenant:*"), name)
    return lambda tx: clear_limit(tx, target, every_name=False)


# In this order, from a file with one limit; the last leaves it as it was.
EDITS: Final[tuple[tuple[str, Callable[[Tx], object]], ...]] = (
    ("change max_running", setting(max_running=11)),
    ("change it to 1: all are shut", setting(max_running=1)),
    ("change it to 12: all are open", setting(max_running=12)),
    ("change max_starts", setting(max_starts=99_999)),
    ("change window", setting(window=HOUR)),
    ("clear", clearing("")),
    ("set", setting(max_running=10, max_starts=100_000, window=HOUR)),
    ("set a second name", setting(name="second", max_running=5)),
    ("change that", setting(name="second", max_running=6)),
    ("clear that", clearing("second")),
    ("all as before", setting(max_running=10, window=Span(ms=60_000))),
)


def start_one_each(database: Database, keys: int) -> None:
    """Have a job of each key run, so that a limit of 1 shuts them all."""
    who = Claimer(1, "fair", ("default",), frozenset({TERMS.task}), DAY_MS)
    while keys > 0:
        with database.write() as tx:
            keys -= len(claim(tx, who, 500))


def measure(path: Path, keys: int) -> list[Row]:
    """Make each edit a few times."""
    times_us: dict[str, list[float]] = {title: [] for title, _ in EDITS}
    database = open_file(path)
    start_one_each(database, keys)
    for _ in range(ROUNDS):
        for title, edit in EDITS:
            began = time.perf_counter_ns()
            with database.write() as tx:
                edit(tx)
            times_us[title].append((time.perf_counter_ns() - began) / 1_000 / keys)
    database.close()
    return [Row(title, percentile(times, 0.5), max(times)) for title, times in times_us.items()]


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=parse_sizes, help=f"jobs x keys, by default {SIZES}")
    options = parser.parse_args()
    worst = 0.0
    for case in options.sizes or parse_sizes(SIZES):
        with built(Case(case.jobs, case.keys)) as path:
            rows = measure(path, case.keys)
        print(f"{case.jobs:,} jobs x {case.keys:,} keys; us a key: p50    most")
        for row in rows:
            print(f"  {row.title:40} {row.p50_us:5.2f}  {row.most_us:6.2f}")
        worst = max(worst, *(row.p50_us for row in rows))
    print(f"p50 at most {MOST_US} us a key: {worst:.2f}")
    return int(worst >= MOST_US * SLACK)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
