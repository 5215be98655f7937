"""Every job starts once: at once, when it falls due, and after its worker died."""

import random
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slotq import Queue
from support import history, ledger
from support.probe_tasks import command
from support.procs import Process, processes, until
from support.serving import has_succeeded


def test_ready_and_just_due_jobs_start_once(tmp_path: Path) -> None:
    """Field case 3: 8 processes of 4 threads claim 1,000 ready jobs, and 200 that fall due at one
    instant, as fast as they can."""
    queue = Queue(tmp_path / "jobs.db")
    queue.stats()
    ledger.keep(queue.path)
    with processes([command(queue.path)] * 8, tmp_path):
        until(lambda: len(queue.workers()) == 8)
        due = datetime.now(UTC) + timedelta(seconds=1.5)
        for number in range(1_000, 1_200):
            queue.enqueue("mark", args=[number], run_at=due)
        for number in range(1_000):
            queue.enqueue("mark", args=[number])
        until(lambda: queue.stats().succeeded == 1_200)
    verdict = history.judge(ledger.read(queue.path))
    assert verdict.broken == []
    assert len(verdict.starts) == 1_200
    assert set(verdict.starts.values()) == {1}
    jobs = queue.jobs(limit=2_000)
    assert {job.attempt for job in jobs} == {1}
    late = [job for job in jobs if job.run_at >= due - timedelta(milliseconds=1)]
    assert all(job.started_at is not None and job.started_at >= job.run_at for job in late)
    starts = [event.job for event in history.read(tmp_path / "log") if event.kind == "start"]
    assert sorted(starts) == list(range(1_200))
    workers = {job.worker for job in jobs}
    assert len(workers) > 1
    queue.close()


def test_the_job_of_a_killed_worker_runs_again(tmp_path: Path) -> None:
    """A worker dies in the middle of a job: nothing is lost, and the job has used an attempt."""
    queue = Queue(tmp_path / "jobs.db")
    queue.set_limit("k", max_running=1)
    ledger.keep(queue.path)
    job = queue.enqueue("gate", args=[1], key="k")
    behind = queue.enqueue("mark", args=[2, "k"], key="k", priority=-1)
    with Process(command(queue.path, "--lease", "1"), tmp_path / "first.txt") as first:
        until(lambda: "start" in {event.kind for event in history.read(tmp_path / "log")})
        first.kill()
    assert queue.job(job.id).state == "running"
    (tmp_path / "open").touch()
    with Process(command(queue.path), tmp_path / "second.txt"):
        assert job.wait(timeout=30) == 1
        behind.wait(timeout=30)
    found = queue.job(job.id)
    assert (found.attempt, found.error, found.worker) == (2, None, 2)
    verdict = history.judge(ledger.read(queue.path), {"k": 1})
    assert verdict.broken == []
    assert verdict.starts == {job.id: 2, behind.id: 1}
    queue.close()


def test_a_worker_that_slept_past_its_lease_ends_nothing(tmp_path: Path) -> None:
    """A zombie wakes up while another has its job: its outcome is refused and frees no slot."""
    queue = Queue(tmp_path / "jobs.db")
    queue.set_limit("k", max_running=1)
    ledger.keep(queue.path)
    job = queue.enqueue("gate", args=[1], key="k")
    with Process(command(queue.path, "--lease", "1"), tmp_path / "zombie.txt") as zombie:
        until(lambda: queue.job(job.id).state == "running")
        zombie.stop()
        with Process(command(queue.path), tmp_path / "second.txt") as second:
            until(lambda: queue.job(job.id).worker == 2)
            (tmp_path / f"open-{zombie.pid}").touch()
            zombie.go_on()
            until(lambda: "lease" in zombie.text, what="the zombie's loss")
            until(lambda: ends(tmp_path) == 1)
            zombie.send(signal.SIGTERM)
            zombie.finish()
            found = queue.job(job.id)
            assert (found.state, found.attempt, found.worker) == ("running", 2, 2)
            assert queue.key("k").running == 1
            (tmp_path / f"open-{second.pid}").touch()
            assert job.wait(timeout=30) == 1
    verdict = history.judge(ledger.read(queue.path), {"k": 1})
    assert verdict.broken == []
    assert verdict.starts == {job.id: 2}
    queue.close()


def ends(folder: Path) -> int:
    return sum(event.kind == "end" for event in history.read(folder / "log"))


@pytest.mark.parametrize("seed", [3, pytest.param(None, marks=pytest.mark.soak)])
def test_kills_under_load_lose_and_double_nothing(tmp_path: Path, seed: int | None) -> None:
    """Workers die at random moments; limits hold by the leases, and by the bodies that lived."""
    is_soak = seed is None
    seed = random.randrange(10**6) if seed is None else seed
    print(f"seed {seed}")  # noqa: T201  # to repeat a failure
    chance = random.Random(seed)
    queue = Queue(tmp_path / "jobs.db")
    limits = {"a": 1, "b": 2, "c": 3}
    for key, most in limits.items():
        queue.set_limit(key, max_running=most)
    ledger.keep(queue.path)
    keys = [chance.choice("abc") for _ in range(2_000 if is_soak else 250)]
    for number, key in enumerate(keys):
        queue.enqueue("work", args=[number, key, 0.01], key=key, max_attempts=1_000)
    log, hit, kills = history.Log(tmp_path / "log"), 0, 0

    def start(number: int) -> Process:
        return Process(command(queue.path, "--lease", "1"), tmp_path / f"worker-{number}.txt")

    workers = [start(number) for number in range(3)]
    try:
        while (stats := queue.stats()).succeeded < len(keys):
            if kills < (60 if is_soak else 5) and stats.succeeded > kills * len(keys) // 100:
                until(lambda: queue.stats().running or queue.stats().succeeded == len(keys))
                victim = chance.randrange(len(workers))
                workers[victim].kill()
                log.write("killed", pid=workers[victim].pid)
                kills += 1
                workers[victim] = start(len(workers) + kills)
            until(has_succeeded(queue, min(stats.succeeded + 1, len(keys))))
    finally:
        for worker in workers:
            worker.kill()
    leases = history.judge(ledger.read(queue.path))
    assert leases.broken == []
    assert leases.peaks == limits
    hit = sum(times > 1 for times in leases.starts.values())
    assert hit > 0, "no kill hit a running job: nothing was proved"
    events = history.read(tmp_path / "log")
    bodies = history.judge(
        [history.Event(kind="enqueued", at=0, job=n, key=key) for n, key in enumerate(keys)]
        + events,
        limits,
    )
    # A job whose body ended just before the kill runs once more: at least once is promised.
    again = ("doubled: it ran after its end", "doubled: ended twice")
    assert [line for line in bodies.broken if not line.endswith(again)] == []
    queue.close()
