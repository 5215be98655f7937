"""Every job starts once: at once, when it falls due, and once more after its worker died."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from slotq import Queue
from support import history, ledger
from support.probe_tasks import command
from support.procs import Process, processes, until


def test_ready_and_just_due_jobs_start_once(tmp_path: Path) -> None:
    """Field case 3: 8 processes of 4 threads claim 1,000 ready jobs, and 200 that fall due at one
    instant, as fast as they can."""
    queue = Queue(tmp_path / "jobs.db", lock_timeout=30)
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
    queue = Queue(tmp_path / "jobs.db", lock_timeout=30)
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
