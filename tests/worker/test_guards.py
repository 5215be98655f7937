"""Bodies that reach for more than their own job: other tasks, threads, forks, the whole process."""

import multiprocessing
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from slotq import Queue
from support.procs import Process, until
from support.serving import has_passed, has_running

SCRIPT = """
import asyncio, multiprocessing, os, sqlite3, sys, threading, time
import slotq
q = slotq.Queue("jobs.db")

def note(text):
    print(text, flush=True)

def wait():
    while not os.path.exists("open"):
        time.sleep(0.005)

async def leave():
    await asyncio.sleep(0)
    sys.exit(3)

@q.task(name="awaits", max_attempts=1)
async def awaits():
    await asyncio.gather(leave(), asyncio.sleep(30))

@q.task(name="groups", max_attempts=1)
async def groups():
    async with asyncio.TaskGroup() as group:
        group.create_task(leave())
        await asyncio.sleep(30)

@q.task(name="forgets", max_attempts=1)
async def forgets():
    task = asyncio.create_task(leave())
    await asyncio.wait([task])
    return "whole"

@q.task(name="beside", max_attempts=1)
async def beside():
    await asyncio.sleep(0.3)
    return "whole"

@q.task(name="patient", key="k", max_attempts=1)
async def patient():
    note("begun")
    await asyncio.to_thread(wait)

@q.task(name="forks", max_attempts=1)
def forks():
    if os.fork() == 0:
        note(f"child {os.getpid()}")
        sys.exit(4)
    return "whole"

@q.task(name="aforks", max_attempts=1)
async def aforks():
    if os.fork() == 0:
        note(f"child {os.getpid()}")
        return "child"
    await asyncio.sleep(0.3)
    return "whole"

@q.task(name="terminates", max_attempts=1)
def terminates():
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    child.start()
    begun_s = time.monotonic()
    child.terminate()
    child.join()
    return [child.exitcode, time.monotonic() - begun_s < 5]

@q.task(name="queries", max_attempts=1)
async def queries():
    note("begun")
    endless = "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c"
    sqlite3.connect(":memory:").execute(endless).fetchall()

@q.task(name="locks", max_attempts=1)
async def locks():
    (bell,) = q.ringer._bells.values()
    with bell._lock:
        note("begun")
        while not os.path.exists("open"):
            time.sleep(0.005)

@q.task(name="stays", max_attempts=1)
def stays():
    note("begun")
    time.sleep(3600)

if __name__ == "__main__":
    slotq.Worker(q, slots=4, burst="burst" in sys.argv, grace=float(sys.argv[1])).run()
    note("left")
"""


@pytest.fixture
def queue(tmp_path: Path) -> Generator[Queue]:
    (tmp_path / "app.py").write_text(SCRIPT)
    with Queue(tmp_path / "jobs.db") as made:
        yield made


def worker(queue: Queue, *words: str) -> Process:
    return Process(["app.py", *words], queue.path.parent / "out.txt")


@pytest.mark.parametrize("name", ["awaits", "groups", "forgets"])
def test_a_task_of_a_body_that_exits_ends_that_job_at_most(queue: Queue, name: str) -> None:
    job, other = queue.enqueue(name, max_attempts=1), queue.enqueue("beside")
    with worker(queue, "5", "burst") as process:
        assert "left" in process.finish()
    found = queue.job(job.id)
    assert (queue.job(other.id).result, queue.job(other.id).attempt) == ("whole", 1)
    if name == "forgets":
        assert found.result == "whole"
    else:
        assert found.state == "failed"
        assert "SystemExit: 3" in (found.traceback or "")


@pytest.mark.parametrize("how", ["time-out", "cancel"])
def test_a_job_is_over_only_when_its_calls_in_threads_are(queue: Queue, how: str) -> None:
    timeout = 0.2 if how == "time-out" else None
    job = queue.enqueue("patient", key="k", max_attempts=1, timeout=timeout)
    with worker(queue, "30") as process:
        until(lambda: "begun" in process.text)
        until(has_running(queue, 1))
        if how == "cancel":
            queue.cancel(job.id)
        until(has_passed(0.6))
        assert (queue.job(job.id).state, queue.key("k").running) == ("running", 1)
        (queue.path.parent / "open").touch()
        until(lambda: queue.job(job.id).finished_at is not None)
        process.send(signal.SIGTERM)
        process.finish()
    state, error = queue.job(job.id).state, queue.job(job.id).error
    expected = ("failed", "timeout after 0.2 s")
    assert (state, error) == (
        expected if how == "time-out" else ("cancelled", "cancelled while it ran")
    )


def test_calls_in_threads_that_outlast_the_grace_end_with_the_process(queue: Queue) -> None:
    job = queue.enqueue("patient", key="k")
    with worker(queue, "0.2") as process:
        until(lambda: "begun" in process.text)
        until(has_running(queue, 1))
        process.send(signal.SIGTERM)
        assert process.wait(10) == 0
    assert "left" not in process.text
    assert (queue.job(job.id).state, queue.job(job.id).attempt) == ("waiting", 0)


@pytest.mark.parametrize("name", ["forks", "aforks"])
def test_a_child_that_a_body_forked_ends_with_the_body(queue: Queue, name: str) -> None:
    job, other = queue.enqueue(name), queue.enqueue("beside")
    with worker(queue, "5", "burst") as process:
        text = process.finish()
    assert (queue.job(job.id).result, queue.job(other.id).result) == ("whole", "whole")
    assert text.count("left") == 1
    (child,) = (line.split()[1] for line in text.splitlines() if line.startswith("child"))
    until(lambda: not Path(f"/proc/{child}").exists() or "Z" in state_of(child))


def state_of(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "Z"


def test_a_process_that_a_body_forked_can_be_terminated(queue: Queue) -> None:
    """It has inherited the worker's handlers, and must not wait out a grace."""
    assert "fork" in multiprocessing.get_all_start_methods()
    job = queue.enqueue("terminates")
    with worker(queue, "60", "burst") as process:
        process.finish()
    assert queue.job(job.id).result == [-signal.SIGTERM, True]


@pytest.mark.parametrize("name", ["queries", "locks"])
def test_a_signal_is_heard_whatever_the_main_thread_does(
    queue: Queue, tmp_path: Path, name: str
) -> None:
    """In one long call of C code, or with a lock that leaving needs."""
    job = queue.enqueue(name)
    with worker(queue, "0.3") as process:
        until(lambda: "begun" in process.text)
        until(has_running(queue, 1))
        process.send(signal.SIGTERM)
        if name == "locks":
            until(has_passed(0.5))
            (tmp_path / "open").touch()
        assert process.wait(10) == 0
    assert queue.job(job.id).state in {"waiting", "succeeded"}
    assert queue.stats().running == 0


def test_a_worker_whose_file_is_gone_ends_though_a_body_goes_on(queue: Queue) -> None:
    queue.enqueue("stays")
    with worker(queue, "60") as process:
        until(lambda: "begun" in process.text)
        queue.path.rename(queue.path.with_name("elsewhere.db"))
        assert process.wait(15) == 1
    assert "was deleted or replaced" in process.text
    assert "Traceback" not in process.text
