"""Leaving at a signal: the grace, handing back, and what cannot be ended."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from slotq import Job, Queue
from support.procs import Process, until
from support.serving import has_running
from support.stores import locked

# Bodies of every kind; each says that it has begun, and that it ended.
SCRIPT = """
import asyncio, contextlib, logging, os, sys, threading, time
import slotq
logging.basicConfig(level=logging.INFO, format="%(message)s")
q = slotq.Queue("jobs.db", lock_timeout=0.5)

def note(text):
    print(text, flush=True)

def opened():
    return os.path.exists("open")

@q.task(name="thread")
def thread():
    note("begun")
    while not opened():
        time.sleep(0.005)
    note("ended")

@q.task(name="coroutine")
async def coroutine():
    note("begun")
    try:
        while not opened():
            await asyncio.sleep(0.005)
        note("ended")
    finally:
        note("cleaned")

@q.task(name="stubborn")
async def stubborn():
    note("begun")
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)

@q.task(name="changing")
async def changing():
    note("begun")
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        raise ConnectionError("closed") from None

class Stuck(logging.Handler):
    def emit(self, record):
        if record.getMessage() == "stuck":
            note("begun")
            time.sleep(3600)

@q.task(name="logging")
def log():
    logger = logging.getLogger("stuck")
    logger.addHandler(Stuck())
    logger.propagate = False
    logger.info("stuck")

@q.task(name="blocking")
async def blocking():
    note("begun")
    while not opened():
        time.sleep(0.005)

q.on("worker_stop", lambda: note("closed, with %d running" % q.stats().running))
slotq.Worker(q, slots=2, grace=float(sys.argv[1])).run()
note("left")
"""
LONG_S = "60"


@pytest.fixture
def queue(tmp_path: Path) -> Generator[Queue]:
    (tmp_path / "app.py").write_text(SCRIPT)
    with Queue(tmp_path / "jobs.db") as made:
        yield made


def worker(queue: Queue, grace_s: str) -> Process:
    folder = queue.path.parent
    return Process([str(folder / "app.py"), grace_s], folder / "out.txt")


def begin(queue: Queue, process: Process, *tasks: str) -> list[Job]:
    """Enqueue jobs, and one more for which there is no slot; wait until they run."""
    made = [queue.enqueue(task, key="k") for task in tasks]
    until(lambda: process.text.count("begun") == len(tasks))
    until(has_running(queue, len(tasks)))
    made.append(queue.enqueue("thread", delay=30))
    return made


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("kind", ["thread", "coroutine", "blocking"])
def test_bodies_that_end_within_the_grace_are_finished(
    queue: Queue, kind: str, number: signal.Signals
) -> None:
    with worker(queue, LONG_S) as process:
        job, _ = begin(queue, process, kind)
        process.send(number)
        until(lambda: "no new jobs" in process.text)
        late = queue.enqueue("thread")
        (queue.path.parent / "open").touch()
        text = process.finish()
    assert text.rstrip().endswith("closed, with 0 running\nleft")
    assert queue.job(job.id).state == "succeeded"
    assert (queue.job(late.id).state, queue.job(late.id).attempt) == ("waiting", 0)
    assert queue.workers() == []


@pytest.mark.parametrize(
    "kind", ["thread", "coroutine", "stubborn", "blocking", "changing", "logging"]
)
def test_what_runs_after_the_grace_is_handed_back_unused(queue: Queue, kind: str) -> None:
    with worker(queue, "0.2") as process:
        job, _ = begin(queue, process, kind)
        process.send(signal.SIGTERM)
        text = process.finish()
    found = queue.job(job.id)
    assert (found.state, found.attempt, queue.key("k").running) == ("waiting", 0, 0)
    assert (queue.workers(), "Traceback" in text) == ([], False)
    # One that can be ended is, and then the program goes on; else the process ends there.
    can_be_ended = kind in {"coroutine", "changing"}
    assert ("left" in text) == can_be_ended
    assert ("cleaned" in text) == (kind == "coroutine")
    # Hooks come first: once its job is handed back, no body may go on.
    running = 0 if can_be_ended else 1
    assert (f"closed, with {running} running" in text) == (kind != "blocking")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("kinds", [("thread", "coroutine"), ("coroutine",), ("blocking",)])
def test_a_second_signal_hands_back_at_once(
    queue: Queue, kinds: tuple[str, ...], number: signal.Signals, code: int
) -> None:
    with worker(queue, LONG_S) as process:
        made = begin(queue, process, *kinds)
        process.send(number)
        until(lambda: "no new jobs" in process.text)
        process.send(number)
        assert process.wait(10) == code
    jobs = [queue.job(job.id) for job in made[:-1]]
    assert {(job.state, job.attempt) for job in jobs} == {("waiting", 0)}
    assert (queue.stats().running, queue.workers()) == (0, [])
    assert "Traceback" not in process.text


def test_a_handed_back_job_whose_end_was_asked_for_is_cancelled(queue: Queue) -> None:
    with worker(queue, "0.1") as process:
        job, _ = begin(queue, process, "thread")
        queue.cancel(job.id)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    assert (queue.job(job.id).state, queue.job(job.id).attempt) == ("cancelled", 0)


@pytest.mark.parametrize("is_busy", [False, True])
def test_it_leaves_though_the_file_is_locked(queue: Queue, *, is_busy: bool) -> None:
    """What could not be handed back comes back when somebody sees that its worker is dead."""
    with worker(queue, "0.1") as process:
        until(lambda: len(queue.workers()) == 1)
        job = begin(queue, process, "thread")[0] if is_busy else None
        with locked(queue.path):
            process.send(signal.SIGTERM)
            assert process.wait(10) == 0
        assert "Traceback" not in process.text
    if job is not None:
        with Process(["app.py", LONG_S], queue.path.parent / "second.txt"):
            until(lambda: queue.job(job.id).attempt == 2, patience_s=10)


def test_a_body_that_ends_while_handing_back_waits_for_the_lock_ends_once(
    queue: Queue, tmp_path: Path
) -> None:
    """The end of the body and its hand-back are both there when the file is free again."""
    with worker(queue, "0.1") as process:
        job, _ = begin(queue, process, "thread")
        with locked(queue.path):
            process.send(signal.SIGTERM)
            until(lambda: "trying again" in process.text)
            (tmp_path / "open").touch()
            until(lambda: "ended" in process.text)
        assert process.wait() == 0
    assert "KeyError" not in process.text
    until(lambda: queue.job(job.id).state in {"waiting", "succeeded"})


PIPED = """
import logging, os, sys, threading, time
import slotq
q = slotq.Queue("jobs.db")

@q.task(name="loud")
def loud():
    logging.basicConfig(level=logging.INFO)
    open("begun", "w").close()
    while True:
        logging.info("x" * 10_000)

slotq.Worker(q, slots=1, grace=0.2).run()
"""


def test_a_log_that_nobody_reads_keeps_no_worker(queue: Queue, tmp_path: Path) -> None:
    """Its pipe is full, and a body waits inside the handler with the handler's lock."""
    (tmp_path / "piped.py").write_text(PIPED)
    queue.enqueue("loud")
    unread, theirs = os.pipe()
    process = subprocess.Popen([sys.executable, "piped.py"], cwd=tmp_path, stderr=theirs)
    try:
        until((tmp_path / "begun").exists)
        until(has_running(queue, 1))
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
    finally:
        process.kill()
        os.close(unread)
        os.close(theirs)
    assert queue.workers() == []


STARTING = """
import asyncio, sys
import slotq
q = slotq.Queue("jobs.db")

@q.on("worker_start")
async def begin():
    print("starting", flush=True)
    await asyncio.sleep(float(sys.argv[1]))
    print("started", flush=True)

q.on("worker_stop", lambda: print("closed", flush=True))
slotq.Worker(q, grace=float(sys.argv[2])).run()
print("left")
"""


@pytest.mark.parametrize(
    ("hook_s", "grace_s", "told"),
    [("1.5", "60", "starting started closed left"), ("3600", "0.2", "starting")],
)
def test_a_signal_while_hooks_begin_lets_them_end_within_the_grace(
    queue: Queue, tmp_path: Path, hook_s: str, grace_s: str, told: str
) -> None:
    queue.enqueue("anything")
    (tmp_path / "starting.py").write_text(STARTING)
    with Process(["starting.py", hook_s, grace_s], tmp_path / "out.txt") as process:
        until(lambda: "starting" in process.text)
        process.send(signal.SIGTERM)
        text = process.finish()
    assert text.split() == told.split()
    assert queue.stats().waiting == 1


HANGING = """
import sys, time
import slotq
q = slotq.Queue("jobs.db")
q.on(sys.argv[1], lambda *_: time.sleep(3600))
q.task(name="t")(lambda: None).enqueue()
import slotq.hookrunner, slotq.shift
slotq.hookrunner.LONGEST_S = slotq.shift.HOOKS_S = 0.2
slotq.Worker(q, burst=True).run()
print("left", flush=True)
"""


@pytest.mark.parametrize("hook", ["worker_start", "started", "worker_stop"])
def test_a_hook_that_hangs_keeps_no_process(queue: Queue, tmp_path: Path, hook: str) -> None:
    (tmp_path / "hanging.py").write_text(HANGING)
    with Process(["hanging.py", hook], tmp_path / "out.txt") as process:
        assert process.finish(15).strip().endswith("left")
    assert queue.stats().succeeded == 1


def test_an_idle_worker_leaves_within_a_second(queue: Queue) -> None:
    with worker(queue, LONG_S) as process:
        until(lambda: len(queue.workers()) == 1)
        process.send(signal.SIGINT)
        process.wait(5)
    assert process.finish().rstrip().endswith("closed, with 0 running\nleft")


def test_no_job_starts_after_the_signal(queue: Queue) -> None:
    """A worker that waits for the lock when the signal comes claims nothing with it."""
    with worker(queue, LONG_S) as process:
        until(lambda: len(queue.workers()) == 1)
        with locked(queue.path) as other:
            other.execute(
                "INSERT INTO slotq_jobs (lane_id, queue_id, key_id, run_at, state, created_at,"
                " task, args, kwargs) SELECT id, queue_id, key_id, 0, 'waiting', 0, 'thread',"
                " '[]', '{}' FROM slotq_lanes"
            )
            queue.ringer.ring()
            process.send(signal.SIGTERM)
            until(lambda: "no new jobs" in process.text)
        process.finish()
    assert "begun" not in process.text
    assert queue.stats().running == 0


def test_serve_installs_no_signal_handlers(queue: Queue, tmp_path: Path) -> None:
    script = tmp_path / "embedded.py"
    script.write_text(
        "import asyncio, signal, slotq\n"
        "worker = slotq.Worker(slotq.Queue('jobs.db'))\n"
        "async def main():\n"
        "    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]\n"
        "    serving = asyncio.create_task(worker.serve())\n"
        "    while not (await asyncio.to_thread(worker._queue.workers)):\n"
        "        await asyncio.sleep(0.01)\n"
        "    assert before == [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]\n"
        "    worker.stop()\n"
        "    await serving\n"
        "asyncio.run(main())\n"
    )
    with Process([str(script)], tmp_path / "embedded.txt") as process:
        assert process.finish() == ""


def test_max_jobs_starts_exactly_so_many(queue: Queue) -> None:
    (queue.path.parent / "few.py").write_text(
        SCRIPT.replace("grace=float(sys.argv[1])", "max_jobs=int(sys.argv[1])")
    )
    (queue.path.parent / "open").touch()
    jobs = [queue.enqueue("thread") for _ in range(7)]
    with Process(["few.py", "5"], queue.path.parent / "out.txt") as process:
        assert process.finish().count("ended") == 5
    states = [queue.job(job.id).state for job in jobs]
    assert states == ["succeeded"] * 5 + ["waiting"] * 2
    assert [queue.job(job.id).attempt for job in jobs] == [1] * 5 + [0] * 2
