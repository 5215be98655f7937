"""What a hold costs: taken and given back, in two transactions, and how soon one that waits is in.

Through the public API. Goals: half of all pairs take at most 5 times as long as two floors (see
floor.py, sampled in the same loop); the slowest row takes at most 1.5 times as many floors as the
fastest, from 10 to 1,000,000 keys and from ``max_starts`` of 10 to 1,000,000; half of all that wait
in another process are in within 2 ms of a release. Ends with 1 if a goal is missed by half or more.
"""

import argparse
import contextlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import slotq
from filling import BUILD_BATCH, USUAL, limit, open_file
from floor import Floor, percentile
from slotq.store import hold_statements
from slotq.store.limits import Change, Span

PAIRS: Final = 3_000
WARM_UP: Final = 300
WAITS: Final = 500
MOST_FLOORS: Final = 5.0
MOST_SPREAD: Final = 1.5
MOST_WAIT_MS: Final = 2.0
# By how much a goal may be missed before it counts as a failure: these are noisy figures.
SLACK: Final = 1.5
KEYS: Final = (10, 1_000, 100_000, 1_000_000)
STARTS: Final = (10, 1_000, 100_000, 1_000_000)
# A window with fewer starts than are measured: it is over when they are used up.
SHORTEST_S: Final = 0.001
HOUR_MS: Final = 3_600_000

WAITER: Final = """
import sys, time, slotq
q = slotq.Queue(sys.argv[1])
for _ in range(int(sys.argv[2])):
    with q.hold("wait", wait=60):
        at_ns = time.monotonic_ns()
    print(at_ns, flush=True)
    sys.stdin.readline()
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the result.

    Attributes:
        what: What was held.
        p50_us: Half of all pairs took at most this.
        p99_us: 99 % did.
        floor_us: Half of all pairs of floors took at most this, in the same loop.
    """

    what: str
    p50_us: float
    p99_us: float
    floor_us: float

    @property
    def floors(self) -> float:
        """Pairs of floors."""
        return self.p50_us / self.floor_us


@dataclass(frozen=True, slots=True)
class Wait:
    """From a release in one process to the waiting hold of another, in milliseconds."""

    p50_ms: float
    p99_ms: float
    most_ms: float


def _keys(path: Path, count: int) -> None:
    """Have so many keys, all limited by ``max_running`` and a window."""
    database = open_file(path)
    limit(database, "tenant:*", USUAL)
    for start in range(0, count, BUILD_BATCH):
        with database.write() as tx:
            for number in range(start, min(count, start + BUILD_BATCH)):
                tx.run(hold_statements.ADD_HOLD_KEY, (f"tenant:{number}",))
    database.close()


def _pairs(path: Path, what: str, keys: Sequence[str], pairs: int) -> Row:
    """Take and give back holds of these keys in turn, each pair beside two floors."""
    times_us: list[float] = []
    floors_us: list[float] = []
    with slotq.Queue(path, create=False) as queue:
        with queue.database.read() as reader:
            page_size: int = reader.value("PRAGMA page_size")
        floor = Floor(path.parent, page_size)
        for number in range(pairs):
            hold = queue.hold(keys[number % len(keys)])
            began = time.perf_counter_ns()
            try:
                with hold:
                    pass
            except slotq.LimitExceeded:  # this machine is faster than the shortest window
                continue
            times_us.append((time.perf_counter_ns() - began) / 1_000)
            floor.sample()
            floor.sample()
            floors_us.append(sum(floor.times_us[-2:]))
        floor.close()
    warm = min(WARM_UP, pairs // 4)
    return Row(
        what,
        p50_us=percentile(times_us[warm:], 0.5),
        p99_us=percentile(times_us[warm:], 0.99),
        floor_us=percentile(floors_us[warm:], 0.5),
    )


def over_keys(count: int, pairs: int) -> Row:
    """Measure with so many keys in the file, any of them held."""
    dice = random.Random(1)
    with TemporaryDirectory(prefix="slotq-bench-") as folder:
        path = Path(folder) / "jobs.db"
        _keys(path, count)
        keys = [f"tenant:{dice.randrange(count)}" for _ in range(pairs)]
        return _pairs(path, f"{count:,} keys", keys, pairs)


def over_starts(most: int, pairs: int) -> Row:
    """Measure on one key whose window has as many starts in it as it may."""
    with TemporaryDirectory(prefix="slotq-bench-") as folder:
        path = Path(folder) / "jobs.db"
        database = open_file(path)
        limit(database, "k", Change(max_running=1, max_starts=most, window=Span(ms=HOUR_MS)))
        database.close()
        _fill_window(path, most - pairs)
        if most < pairs:
            with slotq.Queue(path) as queue:
                queue.set_limit("k", window=SHORTEST_S)
        return _pairs(path, f"1 key, {most:,} starts in its window", ["k"], pairs)


def _fill_window(path: Path, count: int) -> None:
    """Have so many starts marked, one by one."""
    if count <= 0:
        return
    database = open_file(path)
    with database.write() as tx:
        key_id = tx.row(hold_statements.HOLD_KEY, ("k",))
        if key_id is None:
            tx.run(hold_statements.ADD_HOLD_KEY, ("k",))
    for start in range(0, count, BUILD_BATCH):
        with database.write() as tx:
            for _ in range(min(BUILD_BATCH, count - start)):
                tx.run(
                    "UPDATE slotq_keys SET seq = seq + 1, started_at = :now WHERE key = 'k'",
                    {"now": tx.now},
                )
    database.close()


def waits(count: int) -> Wait:
    """Measure how soon a hold that waits in another process has its slot."""
    times_ms: list[float] = []
    dice = random.Random(1)
    with TemporaryDirectory(prefix="slotq-bench-") as folder:
        path = Path(folder) / "jobs.db"
        with slotq.Queue(path) as queue:
            queue.set_limit("wait", max_running=1)
            hold = queue.hold("wait").acquire()
            words = [sys.executable, "-c", WAITER, str(path), str(count)]
            with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
                assert process.stdin is not None
                assert process.stdout is not None
                for _ in range(count):
                    while len(queue.holds()) < 2:
                        time.sleep(0.0005)
                    time.sleep(dice.uniform(0.002, 0.02))
                    began_ns = time.monotonic_ns()
                    hold.release()
                    times_ms.append((int(process.stdout.readline()) - began_ns) / 1e6)
                    hold = queue.hold("wait", wait=10).acquire()
                    process.stdin.write(b"\n")
                    process.stdin.flush()
    return Wait(percentile(times_ms, 0.5), percentile(times_ms, 0.99), max(times_ms))


def verdict(rows: Sequence[Row], wait: Wait) -> tuple[list[str], bool]:
    """Return a line for each goal, and whether one is missed by half or more."""
    floors = [row.floors for row in rows]
    most, times = max(floors), max(floors) / min(floors)
    lines = [
        f"p50 at most {MOST_FLOORS:g} pairs of floors: {most:.1f}",
        f"largest at most {MOST_SPREAD:g} times the smallest: {times:.1f}",
        f"p50 of a wait at most {MOST_WAIT_MS:g} ms: {wait.p50_ms:.2f}",
    ]
    missed = (most / MOST_FLOORS, times / MOST_SPREAD, wait.p50_ms / MOST_WAIT_MS)
    return lines, max(missed) >= SLACK


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS, help="pairs a row")
    parser.add_argument("--most", type=int, default=max(KEYS), help="most keys, and most starts")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args()
    rows = [over_keys(count, options.pairs) for count in KEYS if count <= options.most]
    rows += [over_starts(count, options.pairs) for count in STARTS if count <= options.most]
    wait = waits(WAITS)
    lines, failed = verdict(rows, wait)
    if options.json:
        print(json.dumps({"rows": [asdict(row) for row in rows], "wait": asdict(wait)}))
        return int(failed)
    print(f"{'hold and release':38} {'p50 us':>7} {'p99 us':>7} {'floors':>7} {'x':>5}")
    for row in rows:
        print(
            f"{row.what:38} {row.p50_us:7.0f} {row.p99_us:7.0f} {row.floor_us:7.1f} "
            f"{row.floors:5.1f}"
        )
    print(
        f"release to the hold that waits in another process: p50 {wait.p50_ms:.2f} ms, "
        f"p99 {wait.p99_ms:.2f}, most {wait.most_ms:.2f}"
    )
    print(*lines, sep="\n")
    return int(failed)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
