"""Field case 22: processes take as many starts as a window gives, and not one more."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slotq import Queue
from support import history, ledger
from support.hold_load import command, released
from support.probe_tasks import command as worker_command
from support.procs import Process, until

PROCESSES = 4
TIMES = [
    (10, 0.5, 2.0),
    (1, 0.25, 2.0),
    pytest.param(10, 3.0, 20.0, marks=pytest.mark.soak),
    pytest.param(1, 3.0, 20.0, marks=pytest.mark.soak),
]


@contextmanager
def windowed(folder: Path, most: int, window_s: float) -> Generator[Queue]:
    """Make a queue with a ledger, and a fresh key with a window."""
    with Queue(folder / "jobs.db", lock_timeout=30) as queue:
        queue.stats()
        ledger.keep(queue.path)
        queue.set_limit("k", max_starts=most, window=window_s)
        yield queue


def judge(queue: Queue, most: int, window_s: float, seconds: float) -> None:
    """Check that each window was as full as it may be, from the first start on."""
    seen = ledger.read(queue.path)
    verdict = history.judge(seen)
    assert [line for line in verdict.broken if "window" in line] == []
    assert verdict.filled == {"k"}
    starts = [event.at for event in seen if event.kind == "start"]
    within = sum(at < starts[0] + seconds * 1_000 for at in starts)
    windows = int(seconds / window_s)
    assert within >= 0.9 * most * windows, f"{within} of {most * windows}"


@pytest.mark.slow
@pytest.mark.parametrize(("most", "window_s", "seconds"), TIMES)
def test_those_who_ask_again_when_told_pass_no_window_and_fill_each(
    tmp_path: Path, most: int, window_s: float, seconds: float
) -> None:
    """Four processes that begin together on a fresh key, and sleep as long as they are told."""
    with windowed(tmp_path, most, window_s) as queue:
        words = command(queue.path, "ask", "--seconds", str(seconds + 1))
        with released(queue.path, [words] * PROCESSES) as programs:
            for program in programs:
                program.finish(seconds + 60)
        judge(queue, most, window_s, seconds)
        pids = {event.pid for event in history.read(tmp_path / "log")}
        assert len(pids) > 1, "one had them all"


@pytest.mark.slow
@pytest.mark.parametrize(("most", "window_s", "seconds"), TIMES)
def test_jobs_and_holds_share_a_window_and_fill_it(
    tmp_path: Path, most: int, window_s: float, seconds: float
) -> None:
    """Two workers with all the jobs that they can start, and two programs that take holds."""
    with windowed(tmp_path, most, window_s) as queue:
        queue.pause(key="k")
        for number in range(int(most * (seconds / window_s + 2))):
            queue.enqueue("mark", args=[number, "k"], key="k")
        workers = [Process(worker_command(queue.path), tmp_path / f"worker-{n}") for n in range(2)]
        with workers[0], workers[1]:
            until(lambda: len(queue.workers()) == 2)
            words = command(queue.path, "ask", "--seconds", str(seconds + 1))
            with released(queue.path, [words] * 2) as programs:
                queue.resume(key="k")
                end_s = time.monotonic() + seconds + 1
                for program in programs:
                    program.finish(seconds + 60)
                until(lambda: time.monotonic() > end_s)
        judge(queue, most, window_s, seconds)
        holds = sum(event.job < 0 for event in ledger.read(queue.path) if event.kind == "start")
        print(f"{holds} of them holds")  # noqa: T201  # who is faster is a matter of luck
