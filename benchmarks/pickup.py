"""What it takes from an enqueue in one process to the start of its body in another, idle one.

The workers are real ``qworker run`` processes, each with a file of its own. The body's first line
notes the host's monotonic clock, and the time runs from before the call of ``enqueue``. One worker
gets jobs at random moments, each once the one before has started. Then nobody gets any for a while,
and each worker's next job is the first one after the quiet.

Goals: half of all jobs start within 2 ms and 99 % within 25 ms, after the quiet too; an idle worker
takes at most 0.5 % of a core. Ends with 1 if a goal is missed.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Self

import slotq
from floor import percentile

JOBS: Final = 400
GAP_S: Final = (0.002, 0.05)
WARM_UP: Final = 10
WORKERS: Final = 9
IDLE_S: Final = 10.0
QUIET_S: Final = 40.0
MOST_P50_MS: Final = 2.0
MOST_P99_MS: Final = 25.0
MOST_IDLE: Final = 0.005
PATIENCE_S: Final = 30.0

QWORKER: Final = Path(sys.executable).with_name("qworker")
APP: Final = """
import os
import struct
import time

import slotq

q = slotq.Queue("jobs.db")
told = os.open("told", os.O_WRONLY)


@q.task(name="tell")
async def tell() -> None:
    os.write(told, struct.pack("q", time.monotonic_ns()))
"""


@dataclass(frozen=True, slots=True)
class Row:
    """How long jobs waited for their start, in milliseconds.

    Attributes:
        what: Which jobs.
        jobs: How many.
        p50_ms: Half waited at most this.
        p99_ms: 99 % waited at most this.
        most_ms: The longest.
        is_met: Whether both goals are.
    """

    what: str
    jobs: int
    p50_ms: float
    p99_ms: float
    most_ms: float
    is_met: bool


@dataclass(frozen=True, slots=True)
class Idle:
    """What a worker without jobs took of a core.

    Attributes:
        after_s: Seconds since its last job, at the end of the measurement.
        seconds: How long was measured.
        share: Of a core.
        is_met: Whether the goal is.
    """

    after_s: float
    seconds: float
    share: float
    is_met: bool


class Served:
    """A queue with a worker of its own; its tasks tell of their start through a pipe."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "app.py").write_text(APP, "utf-8")
        os.mkfifo(folder / "told")
        # For writing too: it can be opened before the worker is there, and never ends.
        self._told = os.open(folder / "told", os.O_RDWR)
        self._queue = slotq.Queue(folder / "jobs.db")
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [QWORKER, "run", "app:q"], cwd=folder, stdout=log, stderr=log
            )

    def __enter__(self) -> Self:
        deadline = time.monotonic() + PATIENCE_S
        while not self._queue.workers():
            if time.monotonic() > deadline or self._process.poll() is not None:
                self._end()
                raise SystemExit("the worker did not begin")
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(PATIENCE_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._queue.close()
            os.close(self._told)

    def wait_ms(self) -> float:
        """Enqueue a job; return how long it waited for its start."""
        began_ns = time.monotonic_ns()
        self._queue.enqueue("tell")
        at_ns: int
        (at_ns,) = struct.unpack("q", os.read(self._told, 8))
        return (at_ns - began_ns) / 1e6

    def cpu_s(self) -> float:
        """Return the processor time that the worker has used so far."""
        pids = {self._process.pid, *(worker.pid for worker in self._queue.workers())}
        return sum(_cpu_s(pid) for pid in pids)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _row(what: str, waits_ms: Sequence[float]) -> Row:
    p50_ms, p99_ms = (percentile(waits_ms, share) for share in (0.5, 0.99))
    is_met = p50_ms <= MOST_P50_MS and p99_ms <= MOST_P99_MS
    return Row(what, len(waits_ms), p50_ms, p99_ms, max(waits_ms), is_met)


def now_and_then(served: Served, jobs: int) -> Row:
    """Enqueue at random moments."""
    dice = random.Random(1)
    waits_ms: list[float] = []
    for _ in range(jobs):
        time.sleep(dice.uniform(*GAP_S))
        waits_ms.append(served.wait_ms())
    return _row("now and then", waits_ms)


def idle(served: Served, seconds: float, before_s: float) -> Idle:
    """Measure a worker that has had nothing to do for ``before_s`` seconds."""
    used_s, began_s = served.cpu_s(), time.monotonic()
    time.sleep(seconds)
    took_s = time.monotonic() - began_s
    share = (served.cpu_s() - used_s) / took_s
    return Idle(before_s + took_s, took_s, share, share <= MOST_IDLE)


def measure(*, jobs: int, quiet_s: float) -> tuple[list[Row], list[Idle]]:
    """Measure pick-up, then idling and the first pick-up after it."""
    with TemporaryDirectory(prefix="slotq-pickup-") as name, ExitStack() as stack:
        served = [
            stack.enter_context(Served(Path(name) / f"{number}")) for number in range(WORKERS)
        ]
        for one in served:
            for _ in range(WARM_UP):
                one.wait_ms()
        rows = [now_and_then(served[0], jobs)]
        span_s = min(IDLE_S, quiet_s / 2)
        idles = [idle(served[0], span_s, 0.0)]
        time.sleep(quiet_s - 2 * span_s)
        idles.append(idle(served[0], span_s, quiet_s - span_s))
        rows.append(_row(f"after {quiet_s:g} s of quiet", [one.wait_ms() for one in served]))
    return rows, idles


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help="jobs before the quiet")
    parser.add_argument("--quiet", type=float, default=QUIET_S, help="seconds without a job")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args()
    rows, idles = measure(jobs=options.jobs, quiet_s=options.quiet)
    if options.json:
        found = {"rows": [asdict(row) for row in rows], "idle": [asdict(one) for one in idles]}
        print(json.dumps(found))
    else:
        _print_table(rows, idles)
    return int(not all([*(row.is_met for row in rows), *(one.is_met for one in idles)]))


def _print_table(rows: Sequence[Row], idles: Sequence[Idle]) -> None:
    print(f"{'enqueue to start, ms':22} {'jobs':>5} {'p50':>6} {'p99':>6} {'most':>6}")
    for row in rows:
        print(
            f"{row.what:22} {row.jobs:5} {row.p50_ms:6.2f} {row.p99_ms:6.2f} {row.most_ms:6.2f} "
            f"{'' if row.is_met else 'missed'}".rstrip()
        )
    print(f"goals: p50 at most {MOST_P50_MS:g}, p99 at most {MOST_P99_MS:g}")
    for one in idles:
        print(
            f"idle for {one.after_s:.0f} s: {one.share:.2%} of a core over the last "
            f"{one.seconds:.0f} s, at most {MOST_IDLE:.1%}{'' if one.is_met else ' missed'}"
        )


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
