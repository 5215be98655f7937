"""A slot is freed at the moment at which a job for it arrives: nobody sleeps through it."""

import contextlib
import os
import random
import select
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from slotq import Queue
from support import history, ledger
from support.history import Event
from support.probe_tasks import command
from support.procs import PATIENCE_S, processes, until
from support.serving import has_succeeded

# The longest that a worker may idle while a job could start.
IDLE_MS = 500
# Ends and arrivals are as much as this apart, in either order.
APART_S = 0.002


@contextlib.contextmanager
def pipe(path: Path) -> Generator[int]:
    """Make a pipe with a name; yield a descriptor for both of its ends."""
    os.mkfifo(path)
    fd = os.open(path, os.O_RDWR)
    try:
        yield fd
    finally:
        os.close(fd)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "rounds"),
    [(9, 500), pytest.param(None, 20_000, marks=[pytest.mark.soak, pytest.mark.timeout(600)])],
)
def test_no_slot_stays_free_while_a_job_waits_for_it(
    tmp_path: Path, seed: int | None, rounds: int
) -> None:
    """Field case 9: 500 times one process completes a job at the moment at which another enqueues
    the next one of its key, while a second worker idles."""
    seed = random.randrange(10**6) if seed is None else seed
    print(f"seed {seed}")  # noqa: T201  # to repeat a failure
    chance = random.Random(seed)
    queue = Queue(tmp_path / "jobs.db", lock_timeout=30)
    queue.set_limit("k", max_running=1)
    ledger.keep(queue.path)
    with (
        pipe(tmp_path / "began") as began,
        pipe(tmp_path / "leave") as leave,
        processes([command(queue.path, "--slots", "1")] * 2, tmp_path) as workers,
    ):
        until(lambda: len(queue.workers()) == 2)
        queue.enqueue("pipe", args=[0, "k"], key="k")
        for number in range(1, rounds + 1):
            wait_for_a_byte(began, number)
            apart_s = chance.uniform(-APART_S, APART_S)
            if apart_s < 0:
                os.write(leave, b".")
                pass_time(-apart_s)
                queue.enqueue("pipe", args=[number, "k"], key="k")
            else:
                queue.enqueue("pipe", args=[number, "k"], key="k")
                pass_time(apart_s)
                os.write(leave, b".")
        wait_for_a_byte(began, rounds)
        os.write(leave, b".")
        until(has_succeeded(queue, rounds + 1))
        assert all(worker.is_alive for worker in workers)
    events = ledger.read(queue.path)
    assert history.judge(events, {"k": 1}).broken == []
    judge(events, rounds)
    assert len({job.worker for job in queue.jobs(limit=1_000)}) == 2
    queue.close()


def wait_for_a_byte(fd: int, number: int) -> None:
    ready, _, _ = select.select([fd], [], [], PATIENCE_S)
    assert ready, f"job {number} did not start: a worker idles, a slot is free, and it waits"
    os.read(fd, 1)


def pass_time(seconds: float) -> None:
    end_s = time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        pass


def judge(events: list[Event], rounds: int) -> None:
    """Judge by the order of commits: of each job its arrival, the end before it, its start."""
    arrivals = {event.job: event.at for event in events if event.kind == "enqueued"}
    starts = {event.job: event.at for event in events if event.kind == "start"}
    ends = {event.job: event.at for event in events if event.kind == "end"}
    places = {(event.kind, event.job): place for place, event in enumerate(events)}
    waits = [starts[job] - max(arrivals[job], ends[job - 1]) for job in range(2, rounds + 2)]
    assert max(waits) <= IDLE_MS
    before = sum(
        places["enqueued", job] < places["end", job - 1] for job in range(2, rounds + 2)
    )  # fmt: skip
    assert rounds // 10 < before < rounds - rounds // 10, "the two never crossed"
    apart = sorted(abs(arrivals[job] - ends[job - 1]) for job in range(2, rounds + 2))
    assert apart[rounds // 2] <= APART_S * 1_000 * 2, "the two were far apart"
