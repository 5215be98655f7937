"""Files for the measurements: made through the store's own functions, filled in large batches.

Run by hand, it tells how long a file takes to make, and its size.
"""

import argparse
import gc
import random
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from slotq.clock import SystemClock
from slotq.keys import parse_subject
from slotq.store.connection import Database
from slotq.store.jobs import Call, Terms, add_many
from slotq.store.limits import Change, Span, Target, set_limit

BUILD_BATCH: Final = 50_000
# Enough to take every start of a measurement, and seldom full.
USUAL: Final = Change(max_running=10, max_starts=100_000, window=Span(ms=60_000))
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


def parse_sizes(text: str) -> list[Case]:
    """Return the files that an option such as ``1000x10,1000000x100000`` asks for: jobs x keys."""
    try:
        pairs = [tuple(int(part) for part in size.split("x")) for size in text.split(",")]
        cases = [Case(jobs, keys) for jobs, keys in pairs]
    except ValueError:
        cases = []
    if not cases or any(case.keys < 1 or case.jobs < max(8, case.keys) for case in cases):
        raise argparse.ArgumentTypeError("sizes look like 1000x10,1000000x100000: jobs x keys")
    return cases


def open_file(path: Path) -> Database:
    """Open a file as a queue does, making it if it is not there."""
    return Database(path, clock=SystemClock(), create=True, durable=False, lock_timeout_s=5)


def limit(database: Database, subject: str, change: Change) -> None:
    """Set a limit of a key or a pattern."""
    with database.write() as tx:
        set_limit(tx, Target.of(parse_subject(subject), ""), change, "benchmark")


def store(database: Database, keys: Iterator[str], count: int) -> None:
    """Store so many jobs, each with the next of the keys."""
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


def build(path: Path, case: Case) -> None:
    """Make a file of jobs that wait, whose keys have a limit in common; say what that took."""
    began = time.perf_counter()
    gc.disable()  # a million small values, and no cycle among them
    database = open_file(path)
    limit(database, "tenant:*", USUAL)
    case.prepare(database)
    store(database, spread(case.keys), case.jobs)
    database.close()
    gc.enable()
    took = time.perf_counter() - began
    size = path.stat().st_size / 1_000_000
    what = f"{case.jobs:,} jobs, {case.keys:,} keys {case.title}".strip()
    print(f"{what}: made in {took:.1f} s, {size:.0f} MB", file=sys.stderr)


@contextmanager
def built(case: Case) -> Generator[Path]:
    """Make such a file in a folder of its own, for the length of the block."""
    with TemporaryDirectory(prefix="slotq-bench-") as folder:
        path = Path(folder) / "jobs.db"
        build(path, case)
        yield path


def main() -> None:
    """Make one file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=parse_sizes, default=[Case(100_000, 1_000)])
    options, _ = parser.parse_known_args()
    for case in options.sizes:
        with built(case):
            pass


if __name__ == "__main__":
    main()
