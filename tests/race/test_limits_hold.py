"""Limits over processes, while they are edited: judged by the file's own order of commits."""

import random
from pathlib import Path

import pytest

from slotq import Queue
from support import history, ledger
from support.history import Event
from support.probe_tasks import command
from support.procs import processes, until
from support.serving import has_succeeded

PROCESSES = 8
SLOTS = 4
EDITS = 50
WINDOW_S = 0.5


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, pytest.param(None, marks=pytest.mark.soak)])
def test_no_limit_is_passed_while_limits_change(tmp_path: Path, seed: int | None) -> None:
    """Eight processes of four threads, three keys, 50 edits: raised, lowered, cleared."""
    seed = random.randrange(10**6) if seed is None else seed
    print(f"seed {seed}")  # noqa: T201  # to repeat a failure
    chance = random.Random(seed)
    queue = Queue(tmp_path / "jobs.db", lock_timeout=30)
    queue.stats()
    ledger.keep(queue.path)
    queue.set_limit("fixed", max_running=3)
    queue.set_limit("edited", max_running=2)
    queue.set_limit("window", max_running=4, max_starts=6, window=WINDOW_S)
    keys = ["fixed"] * 250 + ["edited"] * 250 + ["window"] * 40 + [""] * 40
    chance.shuffle(keys)
    commands = [command(queue.path, "--slots", str(SLOTS))] * PROCESSES
    with processes(commands, tmp_path) as workers:
        until(lambda: len(queue.workers()) == PROCESSES)
        jobs = [
            queue.enqueue(
                chance.choice(("work", "awork")),
                args=[number, key, chance.uniform(0, 0.01)],
                key=key,
            )
            for number, key in enumerate(keys)
        ]
        for number in range(EDITS):
            enough = (number + 1) * len(jobs) // (EDITS + 10)
            until(has_succeeded(queue, enough))
            edit(queue, chance)
        until(lambda: queue.stats().succeeded == len(jobs), what="the end of all jobs")
        assert all(worker.is_alive for worker in workers)

    leases = history.judge(ledger.read(queue.path))
    assert leases.broken == []
    # The third is held by its window, and need not reach its slots too.
    assert leases.reached >= {"fixed", "edited"}
    assert leases.filled == {"window"}
    assert set(leases.starts.values()) == {1}

    # What bodies saw of it, by the host's own clock: a second witness for the limit that stood.
    stored = [Event(kind="enqueued", at=0, job=n, key=key) for n, key in enumerate(keys)]
    bodies = history.judge([*stored, *history.read(tmp_path / "log")], {"fixed": 3})
    assert bodies.broken == []
    assert bodies.peaks["fixed"] == 3
    assert len(bodies.starts) == len(jobs)
    assert len({job.worker for job in queue.jobs(limit=1_000)}) > PROCESSES // 2
    queue.close()


def edit(queue: Queue, chance: random.Random) -> None:
    """Change the limits of two keys in one of several ways."""
    match chance.randrange(6):
        case 0:
            queue.clear_limit("edited")
        case 1:
            queue.clear_limit("window")
            queue.set_limit("window", max_running=4, max_starts=6, window=WINDOW_S)
        case 2:
            queue.set_limit("window", max_running=chance.randint(1, 5))
        case 3:
            queue.set_limit("window", max_starts=chance.randint(3, 8))
        case _:
            queue.set_limit("edited", max_running=chance.randint(1, 5))


def test_patterns_and_own_limits_hold_over_processes(tmp_path: Path) -> None:
    """Each key of a pattern is counted on its own, and a job's own number with it."""
    queue = Queue(tmp_path / "jobs.db", lock_timeout=30)
    queue.stats()
    ledger.keep(queue.path)
    queue.set_limit("tenant:*", max_running=2)
    with processes([command(queue.path)] * 2, tmp_path):
        until(lambda: len(queue.workers()) == 2)
        numbers = range(120)
        for number in numbers:
            key = ("tenant:a", "tenant:b", "own")[number % 3]
            most = 3 if key == "own" else None
            queue.enqueue("work", args=[number, key, 0.003], key=key, max_running=most)
        until(lambda: queue.stats().succeeded == len(numbers))
    limits = {"tenant:a": 2, "tenant:b": 2, "own": 3}
    verdict = history.judge(ledger.read(queue.path), limits)
    assert verdict.broken == []
    assert verdict.peaks == limits
    queue.close()
