"""Workers that are stopped past their lease and wake up while others run their jobs."""

import itertools
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from slotq import Job, Queue
from slotq.store import leases
from support import history, ledger
from support.history import Event, Kind, Log
from support.probe_tasks import command
from support.procs import Process, processes, until
from support.serving import has_succeeded, stop_between_writes

KEYS: Final = ("a", "b", "c", "d", "e")
BEHIND = 5


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [4, pytest.param(20, marks=pytest.mark.soak)])
def test_a_zombie_ends_nothing_and_frees_nothing(tmp_path: Path, rounds: int) -> None:
    """Field cases 1 and 10: twenty workers in all, five a round, sleep past their lease and wake
    up in the body of a job that another runs by then; its outcome is the one that counts."""
    queue = Queue(tmp_path / "jobs.db", lock_timeout=30)
    queue.stats()
    ledger.keep(queue.path)
    for key in KEYS:
        queue.set_limit(key, max_running=1)
    numbers = itertools.count(1)
    with processes([command(queue.path, "--slots", "1", "--lease", "1")] * len(KEYS), tmp_path) as (
        zombies
    ):
        until(lambda: len(queue.workers()) == len(KEYS))
        for turn in range(rounds):
            jobs = sleep_past_lease(queue, zombies, numbers)
            rescue(queue, jobs, zombies, turn)
        assert sum(zombie.text.count("hook: lost job") for zombie in zombies) == rounds * len(KEYS)
    judge_leases(queue, rounds)
    judge_bodies(queue, rounds)
    queue.close()


def sleep_past_lease(queue: Queue, zombies: Sequence[Process], numbers: Iterator[int]) -> list[Job]:
    """Give each worker a job, with more behind it, and freeze them all; return those jobs."""
    jobs = [
        queue.enqueue("heed", args=[next(numbers), key], key=key, priority=1, max_attempts=2)
        for key in KEYS
    ]
    until(lambda: count(queue, "start", jobs) == len(KEYS), what="the bodies of the doomed")
    for key in KEYS * BEHIND:
        queue.enqueue("work", args=[next(numbers), key, 0.005], key=key)
    with Log(queue.path.parent / "log") as log:
        for zombie in zombies:
            stop_between_writes(zombie, queue.path)
            log.write("stopped", pid=zombie.pid)
    return jobs


def rescue(queue: Queue, jobs: Sequence[Job], zombies: Sequence[Process], turn: int) -> None:
    """Have another worker run the jobs, wake the zombies meanwhile, and see their ends refused."""
    folder = queue.path.parent
    gates = [folder / f"open-{zombie.pid}" for zombie in zombies]
    with Process(command(queue.path, "--slots", "8"), folder / "rescuer.txt") as rescuer:
        until(lambda: count(queue, "start", jobs) == 2 * len(jobs), what="the bodies of others")
        before = [queue.job(job.id) for job in jobs]
        if turn % 2:  # their bodies return at once; else they do when they see what happened
            for gate in gates:
                gate.touch()
        for zombie in zombies:
            zombie.go_on()
        for zombie in zombies:
            until(has_said(zombie, "its lease is lost; what its body returns is dropped", turn + 1))
            until(has_said(zombie, "hook: lost job", turn + 1))
        until(lambda: count(queue, "end", jobs) == len(jobs), what="the ends of the late bodies")
        ends_nothing(queue, jobs, token=1)
        assert [queue.job(job.id) for job in jobs] == before
        assert [queue.key(key).running for key in KEYS] == [1] * len(KEYS)
        (folder / f"open-{rescuer.pid}").touch()
        assert [job.wait(timeout=30) for job in jobs] == [rescuer.pid] * len(jobs)
        until(has_succeeded(queue, (turn + 1) * len(KEYS) * (1 + BEHIND)))
        after = [queue.job(job.id) for job in jobs]
        ends_nothing(queue, jobs, token=2)
        assert [queue.job(job.id) for job in jobs] == after
        rescuer.send(signal.SIGTERM)
        rescuer.finish()
    for gate in gates:
        gate.unlink(missing_ok=True)


def has_said(process: Process, text: str, times: int) -> Callable[[], bool]:
    return lambda: process.text.count(text) == times


def count(queue: Queue, kind: Kind, jobs: Sequence[Job]) -> int:
    """Return how many events of a kind the bodies of these jobs have told so far."""
    numbers = {job.id for job in jobs}
    events = history.read(queue.path.parent / "log")
    return sum(event.kind == kind and event.job in numbers for event in events)


def ends_nothing(queue: Queue, jobs: Sequence[Job], *, token: int) -> None:
    """Try to end runs that are over, or another's: each is refused."""
    hows: list[leases.End] = [
        leases.Success('"old"'),
        leases.Failure("old", None),
        leases.HandBack(),
    ]
    with queue.database.write() as tx:
        for job, how in itertools.product(jobs, hows):
            assert not leases.end(tx, (job.id, token), how)
        assert leases.renew(tx, [(job.id, token) for job in jobs]) == [
            (job.id, token) for job in jobs
        ]


def judge_leases(queue: Queue, rounds: int) -> None:
    verdict = history.judge(ledger.read(queue.path))
    assert verdict.broken == []
    assert verdict.peaks == dict.fromkeys(KEYS, 1)
    assert sorted(verdict.starts.values()).count(2) == rounds * len(KEYS)
    assert set(verdict.starts.values()) == {1, 2}


def judge_bodies(queue: Queue, rounds: int) -> None:
    """Bodies overlap where the driver stopped a process, which nobody can help, and only there."""
    events = history.read(queue.path.parent / "log")
    stored = [
        Event(kind="enqueued", at=0, job=job.id, key=job.key or "")
        for job in queue.jobs(limit=10_000)
    ]
    limits: dict[str, int] = dict.fromkeys(KEYS, 1)
    verdict = history.judge([*stored, *events], limits)
    assert verdict.broken == []
    woken = [event for event in events if event.kind != "stopped"]
    twice = {line for line in history.judge([*stored, *woken]).broken if "twice at once" in line}
    assert len(twice) == rounds * len(KEYS), "a zombie did not wake in the middle of a run"
    seen = sum(event.kind == "lost" for event in events)
    assert seen >= rounds // 2 * len(KEYS), "no body saw its loss"
