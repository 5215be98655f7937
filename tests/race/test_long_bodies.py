"""Field case 11: bodies that run for longer than a lease, and keep all that they can."""

from pathlib import Path

import pytest

from slotq import Queue
from support import history, ledger
from support.history import Event
from support.probe_tasks import command
from support.procs import Process, processes, until
from support.serving import has_running

LEASE = ("--lease", "1")
LONG_S = 3.0


@pytest.mark.slow
def test_a_live_job_starts_once_however_long_it_blocks(tmp_path: Path) -> None:
    """Field case 11: time.sleep, a loop in Python, and blocking code in an async def, each three
    times as long as the lease, all in one worker; another has nothing to do."""
    queue = Queue(tmp_path / "jobs.db", lock_timeout=30)
    queue.stats()
    ledger.keep(queue.path)
    tasks = {1: "work", 2: "spin", 3: "block"}
    with Process(command(queue.path, *LEASE), tmp_path / "busy.txt") as busy:
        jobs = [
            queue.enqueue(task, args=[number, "k", LONG_S], key="k")
            for number, task in tasks.items()
        ]
        until(has_running(queue, len(tasks)))
        with Process(command(queue.path, *LEASE), tmp_path / "idle.txt"):
            until(lambda: len(queue.workers()) == 2)
            assert [job.wait(timeout=30) for job in jobs] == list(tasks)
        assert "its lease is lost" not in busy.text
    events = history.read(tmp_path / "log")
    for seen in (ledger.read(queue.path), [*stored(tasks), *events]):
        verdict = history.judge(seen)
        assert verdict.broken == []
        assert verdict.starts == dict.fromkeys(tasks, 1)
    assert {event.pid for event in events} == {busy.pid}
    began = {event.job: event.at for event in events if event.kind == "start"}
    took_ns = [event.at - began[event.job] for event in events if event.kind == "end"]
    assert min(took_ns) > LONG_S * 0.99 * 10**9
    queue.close()


@pytest.mark.slow
def test_a_call_that_keeps_the_interpreter_loses_its_lease_and_ends_nothing(tmp_path: Path) -> None:
    """Field case 11: one C call that keeps the interpreter's lock for longer than a lease stops
    the heartbeat too. Its job is run again by another worker; the limit holds for the leases, and
    what counts is the outcome of the second run."""
    queue = Queue(tmp_path / "jobs.db", lock_timeout=30)
    queue.set_limit("k", max_running=1)
    ledger.keep(queue.path)
    job = queue.enqueue("seize", args=[1, "k", LONG_S], key="k")
    with processes([command(queue.path, *LEASE)] * 2, tmp_path) as workers:
        until(lambda: queue.job(job.id).attempt == 2)
        result = job.wait(timeout=30)
        first, second = [e for e in history.read(tmp_path / "log") if e.kind == "start"]
        assert first.pid != second.pid
        assert result == second.pid
        (seized,) = [worker for worker in workers if worker.pid == first.pid]
        until(lambda: "its lease is lost" in seized.text)
        until(lambda: "hook: lost job" in seized.text)
        assert (queue.job(job.id).result, queue.key("k").running) == (second.pid, 0)
        assert seized.is_alive
    verdict = history.judge(ledger.read(queue.path), {"k": 1})
    assert verdict.broken == []
    assert verdict.starts == {job.id: 2}
    queue.close()


def stored(jobs: dict[int, str]) -> list[Event]:
    return [Event(kind="enqueued", at=0, job=number, key="k") for number in jobs]
