"""Field case 12: a job that kills its worker each time stops after its attempts."""

import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from slotq import Job, Queue
from support import history, ledger
from support.fleet import fleet
from support.probe_tasks import command
from support.procs import TESTS, Process, until

APP = """
from pathlib import Path
import slotq
from support.probe_tasks import register

q = slotq.Queue("jobs.db")
register(q, Path.cwd())
"""
ATTEMPTS = 3


@pytest.fixture
def queue(tmp_path: Path) -> Generator[Queue]:
    with Queue(tmp_path / "jobs.db", lock_timeout=30) as made:
        made.set_limit("k", max_running=1)
        ledger.keep(made.path)
        yield made


def add(queue: Queue) -> tuple[Job, Job]:
    """Enqueue one that kills its worker, and a good one behind it."""
    bad = queue.enqueue("perish", args=[1, "k"], key="k", priority=1, max_attempts=ATTEMPTS)
    return bad, queue.enqueue("mark", args=[2, "k"], key="k")


def judge(queue: Queue, bad: Job, good: Job) -> None:
    found = queue.job(bad.id)
    assert (found.state, found.attempt, found.error) == ("failed", ATTEMPTS, "worker lost")
    assert (queue.job(good.id).state, queue.job(good.id).attempt) == ("succeeded", 1)
    verdict = history.judge(ledger.read(queue.path), {"k": 1})
    assert verdict.broken == []
    assert verdict.starts == {bad.id: ATTEMPTS, good.id: 1}
    events = history.read(queue.path.parent / "log")
    killers = [event for event in events if event.kind == "start" and event.job == bad.id]
    assert len({event.pid for event in killers}) == len(killers) == ATTEMPTS
    assert queue.key("k").running == 0


@pytest.mark.slow
def test_a_job_that_kills_its_worker_fails_though_somebody_restarts_it(queue: Queue) -> None:
    """Field case 12: the worker is started again each time, alone on the file."""
    bad, good = add(queue)
    for number in range(ATTEMPTS):
        assert not has_ended(queue, bad)
        with Process(command(queue.path), queue.path.parent / f"worker-{number}.txt") as worker:
            assert worker.wait() == -signal.SIGKILL
    with Process(command(queue.path), queue.path.parent / "last.txt") as worker:
        until(lambda: has_ended(queue, bad, good))
        assert worker.is_alive
    judge(queue, bad, good)


@pytest.mark.slow
def test_a_job_that_kills_its_worker_fails_under_a_parent_that_restarts_them(queue: Queue) -> None:
    """Field case 12: ``qworker run --processes 2`` puts another in the place of each."""
    folder = queue.path.parent
    (folder / "app.py").write_text(APP, encoding="utf-8")
    bad, good = add(queue)
    paths = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    with fleet("--processes", "2", cwd=folder, env={"PYTHONPATH": paths}) as parent:
        until(lambda: has_ended(queue, bad, good))
        until(lambda: parent.said.count("signal 9 (SIGKILL)") == ATTEMPTS)
        assert not parent.has_ended
    judge(queue, bad, good)


def has_ended(queue: Queue, *jobs: Job) -> bool:
    return all(queue.job(job.id).finished_at is not None for job in jobs)
