"""What workers drain: real ``qworker run`` processes, on jobs whose bodies do nothing.

The workers idle on an empty file until all jobs are stored in one transaction. So a rate is that of
the draining alone: jobs, by the time from the first start to the last end as the file has them. All
rows are measured in each of several rounds and held against the first row of their own round; what
is printed is the median.

Goals: one process 10,000 jobs a second; 1,000 keys, all limited, 80 % of that; 20 keys of which two
jobs each may run 50 %; four processes 90 %. Then 100,000 jobs of one key: never more than the two
that may run do, and the last tenth of them takes at most 1.3 times as long as the first. Ends with 1
if a goal is missed.
"""

import argparse
import contextlib
import json
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import slotq

JOBS: Final = 16_000
DEEP_JOBS: Final = 100_000
ROUNDS: Final = 3
SLOTS: Final = 64
MAY_RUN: Final = 2
MOST_GROWTH: Final = 1.3
PATIENCE_S: Final = 300.0
# A look takes the workers some processor, too.
LOOK_S: Final = 0.05
PAGE: Final = 20_000

QWORKER: Final = Path(sys.executable).with_name("qworker")
# A job of the tenant "" has no key. The body of ``count`` gives way once, so that all that may run
# at once do.
APP: Final = """
import asyncio
from pathlib import Path

import slotq

q = slotq.Queue("jobs.db")
running = peak = 0


@q.task(name="nothing")
async def nothing(tenant: str) -> None: ...


@q.task(name="thread")
def thread(tenant: str) -> None: ...


@q.task(name="count")
async def count(tenant: str) -> None:
    global running, peak
    running += 1
    if running > peak:
        peak = running
        Path("peak").write_text(str(peak))
    await asyncio.sleep(0)
    running -= 1
"""


@dataclass(frozen=True, slots=True)
class Case:
    """What is drained, and by how many processes.

    Attributes:
        title: Its name in the table.
        goal: The least share of the first row's rate; for the first row itself in jobs a second;
            None for none.
        task: One of the app's.
        keys: Over how many keys the jobs are spread; 0 for jobs without one.
        max_running: Of each key.
        processes: How many workers.
    """

    title: str
    goal: float | None
    task: str = "nothing"
    keys: int = 0
    max_running: int = SLOTS
    processes: int = 1


FIRST: Final = Case("one process, no keys", 10_000)
OTHERS: Final = (
    Case("1,000 keys, all limited", 0.8, keys=1_000),
    Case("20 keys, 2 may run", 0.5, keys=20, max_running=MAY_RUN),
    Case("four processes", 0.9, processes=4),
    Case("bodies in threads", None, task="thread"),
)
DEEP: Final = Case("one key, 2 may run", None, task="count", keys=1, max_running=MAY_RUN)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the result: medians of all rounds.

    Attributes:
        title: What was drained.
        per_second: Jobs a second.
        share: Of the first row's rate in the same round.
        goal: Of the case.
        is_met: Whether the goal is; True without one.
    """

    title: str
    per_second: float
    share: float
    goal: float | None
    is_met: bool


@dataclass(frozen=True, slots=True)
class Deep:
    """What many jobs of one key showed.

    Attributes:
        jobs: How many.
        per_second: Jobs a second.
        peak: The most that ran at once.
        growth: What the last tenth took, in times what the first did.
        is_met: Whether both goals are.
    """

    jobs: int
    per_second: float
    peak: int
    growth: float
    is_met: bool


@contextmanager
def _worker(folder: Path, slots: int, number: int) -> Generator[None]:
    with (folder / f"worker-{number}.log").open("wb") as log:
        command = [str(QWORKER), "run", "app:q", "--slots", str(slots)]
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        yield
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
    finally:
        process.kill()
        process.wait()


def _await(look: Callable[[], bool], folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not look():
        if time.monotonic() > deadline:
            told = "".join(log.read_text("utf-8") for log in folder.glob("worker-*.log"))
            raise SystemExit(f"no end within {PATIENCE_S:.0f} s; the workers said:\n{told}")
        time.sleep(LOOK_S)


def drain(folder: Path, case: Case, *, jobs: int, slots: int) -> list[float]:
    """Have jobs drained.

    Returns:
        The end of each job in seconds from the first start, in order.
    """
    folder.mkdir()
    (folder / "app.py").write_text(APP, "utf-8")
    with slotq.Queue(folder / "jobs.db") as q, ExitStack() as workers:

        @q.task(name=case.task, key="{tenant}")
        def task(tenant: str) -> None:
            raise AssertionError(tenant)

        q.set_limit("tenant:*", max_running=case.max_running)
        for number in range(case.processes):
            workers.enter_context(_worker(folder, slots, number))
        _await(lambda: len(q.workers()) == case.processes, folder)
        task.enqueue_many(
            [(f"tenant:{job % case.keys}" if case.keys else "",) for job in range(jobs)]
        )
        _await(lambda: all(line.waiting + line.running == 0 for line in q.queues()), folder)
        return _ends(q, jobs)


def _ends(q: slotq.Queue, jobs: int) -> list[float]:
    starts: list[float] = []
    ends: list[float] = []
    last = 0
    while page := q.jobs(limit=PAGE, after=last):
        last = page[-1].id
        starts += [job.started_at.timestamp() for job in page if job.started_at is not None]
        ends += [job.finished_at.timestamp() for job in page if job.finished_at is not None]
        assert all(job.state == "succeeded" and job.attempt == 1 for job in page)
    assert len(starts) == len(ends) == jobs
    first = min(starts)
    return sorted(end - first for end in ends)


def _round(folder: Path, *, jobs: int, slots: int) -> list[float]:
    """Return the rate of each case, the first one first."""
    rates: list[float] = []
    for number, case in enumerate((FIRST, *OTHERS)):
        rates.append(jobs / drain(folder / str(number), case, jobs=jobs, slots=slots)[-1])
    return rates


def measure(rounds: int, *, jobs: int, slots: int) -> list[Row]:
    """Drain every case in every round."""
    rates: list[list[float]] = []
    for _ in range(rounds):
        with TemporaryDirectory(prefix="slotq-drain-") as folder:
            rates.append(_round(Path(folder), jobs=jobs, slots=slots))
    rows: list[Row] = []
    for place, case in enumerate((FIRST, *OTHERS)):
        rate = statistics.median(of[place] for of in rates)
        share = statistics.median(of[place] / of[0] for of in rates)
        reached = rate if case is FIRST else share
        is_met = case.goal is None or reached >= case.goal
        rows.append(Row(case.title, rate, share, case.goal, is_met))
    return rows


def measure_deep(jobs: int, *, slots: int) -> Deep:
    """Drain many jobs of one key."""
    with TemporaryDirectory(prefix="slotq-drain-") as name:
        folder = Path(name) / "deep"
        ends = drain(folder, DEEP, jobs=jobs, slots=slots)
        peak = int((folder / "peak").read_text("utf-8"))
    tenth = max(1, jobs // 10)
    growth = (ends[-1] - ends[-1 - tenth]) / ends[tenth - 1]
    is_met = peak == MAY_RUN and growth <= MOST_GROWTH
    return Deep(jobs, jobs / ends[-1], peak, growth, is_met)


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help="jobs of a row")
    parser.add_argument("--deep", type=int, default=DEEP_JOBS, help="jobs of one key")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each row is measured")
    parser.add_argument("--slots", type=int, default=SLOTS, help="those of each worker")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args()
    rows = measure(options.rounds, jobs=options.jobs, slots=options.slots)
    deep = measure_deep(options.deep, slots=options.slots)
    if options.json:
        found = {"slots": options.slots, "rows": [asdict(row) for row in rows]}
        print(json.dumps({**found, "deep": asdict(deep)}))
    else:
        _print_table(rows, deep, options.slots)
    return int(not (deep.is_met and all(row.is_met for row in rows)))


def _print_table(rows: Sequence[Row], deep: Deep, slots: int) -> None:
    print(f"workers of {slots} slots")
    print(f"{'what':24} {'jobs/s':>8} {'share':>6} {'goal':>7}")
    for row in rows:
        is_first = row is rows[0]
        goal = "" if row.goal is None else f"{row.goal:,.0f}" if is_first else f"{row.goal:.2f}"
        print(
            f"{row.title:24} {row.per_second:8,.0f} {row.share:6.2f} {goal:>7} "
            f"{'' if row.is_met else 'missed'}".rstrip()
        )
    print(
        f"{deep.jobs:,} jobs of one key: {deep.per_second:,.0f} a second; at most {MAY_RUN} at "
        f"once: {deep.peak}; last tenth at most {MOST_GROWTH} times the first: {deep.growth:.2f}"
        f"{'' if deep.is_met else ' missed'}"
    )


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
