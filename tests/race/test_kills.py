"""Workers killed under load: nothing is lost or doubled, and their slots are free soon."""

import random
import time
from pathlib import Path

import pytest

from slotq import Queue
from support import history, ledger
from support.history import Event
from support.probe_tasks import command
from support.procs import Process, until

LIMITS = {"a": 1, "b": 2, "c": 3}
WORKERS = 3
# Promised is about a second, and leases last for thirty; the rest is for a busy disk.
FREE_S = 10.0


class Load:
    """Jobs of three keys, and always more of them until enough were killed."""

    def __init__(self, queue: Queue, chance: random.Random) -> None:
        self._queue = queue
        self._chance = chance
        self.jobs: dict[int, str] = {}

    def is_full(self) -> bool:
        """Tell whether every slot is in use; see to it that no key runs dry."""
        for key in LIMITS:
            if self._queue.key(key).waiting < 20:
                self._add(key, 30)
        return self._queue.stats().running == sum(LIMITS.values())

    def _add(self, key: str, count: int) -> None:
        """Enqueue jobs, and remember those that were acknowledged."""
        for _ in range(count):
            number = len(self.jobs) + 1
            name = self._chance.choice(["work", "awork"])
            job = self._queue.enqueue(name, args=[number, key, 0.01], key=key, max_attempts=1_000)
            assert job.id == number
            self.jobs[job.id] = key


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "kills"),
    [(3, 6), pytest.param(None, 100, marks=[pytest.mark.soak, pytest.mark.timeout(600)])],
)
def test_kills_under_load_lose_and_double_nothing(
    tmp_path: Path, seed: int | None, kills: int
) -> None:
    """Workers with the default lease die at random moments, and others take their places."""
    seed = random.randrange(10**6) if seed is None else seed
    print(f"seed {seed}")  # noqa: T201  # to repeat a failure
    chance = random.Random(seed)
    queue = Queue(tmp_path / "jobs.db", lock_timeout=30)
    for key, most in LIMITS.items():
        queue.set_limit(key, max_running=most)
    ledger.keep(queue.path)
    load, free_s = Load(queue, chance), list[float]()
    workers: list[Process] = []
    try:
        for number in range(WORKERS + kills):
            workers.append(Process(command(queue.path), tmp_path / f"worker-{number}.txt"))
            if len(workers) < WORKERS:
                continue
            until(lambda: is_running(queue, workers))
            until(load.is_full)
            free_s += kill(queue, workers.pop(chance.randrange(WORKERS)))
        until(lambda: queue.stats().succeeded == len(load.jobs), what="the end of all jobs")
    finally:
        for worker in workers:
            worker.kill()
    assert len(free_s) >= kills / 2, "too few kills hit a running job"
    assert max(free_s) < FREE_S
    judge(queue, load)
    queue.close()


def is_running(queue: Queue, workers: list[Process]) -> bool:
    return {worker.pid for worker in workers} <= {info.pid for info in queue.workers()}


def kill(queue: Queue, victim: Process) -> list[float]:
    """Kill a worker; return after how many seconds what ran in it was free, if anything did."""
    (worker_id,) = [info.id for info in queue.workers() if info.pid == victim.pid]
    victim.kill()
    killed_s = time.monotonic()
    with history.Log(queue.path.parent / "log") as log:
        log.write("killed", pid=victim.pid)
    if not has_jobs(queue, worker_id):
        return []
    until(lambda: not has_jobs(queue, worker_id), what="its slots are free")
    return [time.monotonic() - killed_s]


def has_jobs(queue: Queue, worker_id: int) -> bool:
    return any(job.worker == worker_id for job in queue.jobs(state="running"))


def judge(queue: Queue, load: Load) -> None:
    leases = history.judge(ledger.read(queue.path), LIMITS)
    assert leases.broken == []
    assert leases.peaks == LIMITS
    assert set(leases.starts) == set(load.jobs)
    assert max(leases.starts.values()) > 1, "no kill hit a running job: nothing was proved"
    stored = [Event(kind="enqueued", at=0, job=job, key=key) for job, key in load.jobs.items()]
    bodies = history.judge([*stored, *history.read(queue.path.parent / "log")], LIMITS)
    # A job whose body ended just before the kill runs once more: at least once is promised.
    again = ("doubled: it ran after its end", "doubled: ended twice")
    assert [line for line in bodies.broken if not line.endswith(again)] == []
