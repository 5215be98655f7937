"""How processes share a file that all of them write to flat out, one ``enqueue`` after the other.

Goals: the process with the fewest jobs stores at least 0.7 times as many as the one with the most,
and no call takes longer than 100 ms; with ``durable=True`` too. Both ways take turns, and go by the
median of their rounds. Ends with 1 if a goal is missed.
"""

import argparse
import contextlib
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import slotq
from floor import percentile

PROCESSES: Final = 8
ROUNDS: Final = 3
SECONDS: Final = 4.0
LEAST_SHARE: Final = 0.7
MOST_WAIT_MS: Final = 100.0
PATIENCE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Round:
    """One round of writing.

    Attributes:
        per_second: Jobs that all processes stored, a second.
        share: The fewest that a process stored, as a share of the most.
        p50_ms: Half of all calls took at most this.
        p99_ms: 99 % of all calls took at most this.
        most_ms: The longest call.
    """

    per_second: float
    share: float
    p50_ms: float
    p99_ms: float
    most_ms: float


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the result.

    Attributes:
        durable: Whether commits survive a power cut.
        median: Of each figure, over all rounds.
        worst_ms: The longest call of all rounds.
        is_met: Whether both goals are, by the medians.
    """

    durable: bool
    median: Round
    worst_ms: float
    is_met: bool


def _write(path: Path, *, durable: bool, seconds: float, start: Barrier, told: Connection) -> None:
    """Enqueue until the time is over; tell how long each call took, in milliseconds."""
    times_ms: list[float] = []
    with slotq.Queue(path, durable=durable) as q:
        q.stats()
        start.wait(PATIENCE_S)
        now_s = time.perf_counter()
        end_s = now_s + seconds
        while now_s < end_s:
            q.enqueue("write", args=[len(times_ms)])
            before_s, now_s = now_s, time.perf_counter()
            times_ms.append((now_s - before_s) * 1_000)
        told.send(times_ms)


def write_together(path: Path, *, durable: bool, processes: int, seconds: float) -> Round:
    """Have processes write flat out at once."""
    with slotq.Queue(path, durable=durable) as q:
        q.stats()
    # Not a fork: each is a process as a user would start it.
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(processes)
    pipes = [spawn.Pipe(duplex=False) for _ in range(processes)]
    writers = [
        spawn.Process(
            target=_write,
            args=(path,),
            kwargs={"durable": durable, "seconds": seconds, "start": start, "told": told},
            daemon=True,
        )
        for _, told in pipes
    ]
    for writer, (_, told) in zip(writers, pipes, strict=True):
        writer.start()
        told.close()  # so that the death of the one who tells is the end of it
    try:
        times_ms: list[list[float]] = [ear.recv() for ear, _ in pipes]
    except EOFError:
        raise SystemExit("a writer failed; what it said stands above") from None
    for writer in writers:
        writer.join()
    counts = [len(one) for one in times_ms]
    together_ms = [time_ms for one in times_ms for time_ms in one]
    return Round(
        sum(counts) / seconds,
        min(counts) / max(counts),
        percentile(together_ms, 0.5),
        percentile(together_ms, 0.99),
        max(together_ms),
    )


def measure(rounds: int, *, processes: int, seconds: float) -> list[Row]:
    """Write both ways in every round."""
    found: dict[bool, list[Round]] = {False: [], True: []}
    with TemporaryDirectory(prefix="slotq-writers-") as folder:
        for number in range(rounds):
            for durable, rounds_of in found.items():
                path = Path(folder) / f"{number}-{durable}.db"
                rounds_of.append(
                    write_together(path, durable=durable, processes=processes, seconds=seconds)
                )
    return [_row(durable, rounds_of) for durable, rounds_of in found.items()]


def _row(durable: bool, rounds: Sequence[Round]) -> Row:  # noqa: FBT001
    median = Round(
        *(statistics.median(figures) for figures in zip(*map(astuple, rounds), strict=True))
    )
    is_met = median.share >= LEAST_SHARE and median.most_ms <= MOST_WAIT_MS
    return Row(durable, median, max(one.most_ms for one in rounds), is_met)


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=PROCESSES, help="how many write")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each way")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="length of a round")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args()
    rows = measure(options.rounds, processes=options.processes, seconds=options.seconds)
    if options.json:
        print(json.dumps({"processes": options.processes, "rows": [asdict(row) for row in rows]}))
    else:
        _print_table(rows, options.processes)
    return int(not all(row.is_met for row in rows))


def _print_table(rows: Sequence[Row], processes: int) -> None:
    print(f"{processes} processes; medians, and the longest call of all rounds")
    print(
        f"{'durable':8} {'jobs/s':>7} {'least/most':>10} {'p50 ms':>7} {'p99 ms':>7} {'most ms':>8}"
        f" {'worst':>6}"
    )
    for row in rows:
        median = row.median
        print(
            f"{'yes' if row.durable else 'no':8} {median.per_second:7,.0f} {median.share:10.2f} "
            f"{median.p50_ms:7.2f} {median.p99_ms:7.2f} {median.most_ms:8.1f} {row.worst_ms:6.1f} "
            f"{'' if row.is_met else 'missed'}".rstrip()
        )
    print(f"goals: least/most at least {LEAST_SHARE}, no call over {MOST_WAIT_MS:.0f} ms")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
