"""Workers that died: noticed by the lock that went with them, long before their leases lapse."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from slotq import Job, Queue, StoreError, Worker
from slotq.alive import Alive, graves
from support.procs import Process, until
from support.serving import has_passed, has_running, serving_in_thread, stop_between_writes
from support.stores import locked

# Longer than any test: what comes back sooner did not come back by its lease.
LEASE_S = 600
# Noticed within a second; the rest is for a busy machine.
SOON_S = 3.0
# By then another worker has looked for the dead, more than once.
LOOKED_S = 1.2

SCRIPT = f"""
import os, sys, time
import slotq
q = slotq.Queue("jobs.db")

def wait():
    while not os.path.exists("open"):
        time.sleep(0.01)

@q.task(name="gate", key="k", backoff=0)
def gate():
    wait()

@q.task(name="forking", key="k", backoff=0)
def forking():
    # What works for the job is another process, as with isolation.
    child = os.fork()
    if child == 0:
        os.closerange(0, 3)
        while not os.path.exists("child-open"):
            time.sleep(0.01)
        os._exit(0)
    open("child", "w").close()
    wait()

slotq.Worker(q, slots=2, lease={LEASE_S}).run()
"""


@pytest.fixture
def queue(tmp_path: Path) -> Generator[Queue]:
    (tmp_path / "app.py").write_text(SCRIPT)
    with Queue(tmp_path / "jobs.db") as made:
        made.set_limit("k", max_running=1)
        made.task(name="gate", key="k")(lambda: None)
        yield made


def worker(queue: Queue, number: int) -> Process:
    return Process(["app.py"], queue.path.parent / f"out-{number}.txt")


def has_attempt(queue: Queue, job: Job, attempt: int) -> Callable[[], bool]:
    """Return a look at whether an attempt has begun."""
    return lambda: queue.job(job.id).attempt == attempt


def alive(queue: Queue) -> set[str]:
    return {path.name for path in queue.database.directory.glob("*alive-*")}


def test_the_slot_of_a_killed_worker_is_free_within_a_second(queue: Queue) -> None:
    first = queue.enqueue("gate", key="k")
    second = queue.enqueue("gate", key="k")
    with worker(queue, 1) as doomed:
        until(has_running(queue, 1))
        with worker(queue, 2):
            until(lambda: len(queue.workers()) == 2)
            killed_s = time.monotonic()
            doomed.kill()
            until(lambda: queue.job(first.id).error == "worker lost", patience_s=SOON_S)
            until(has_running(queue, 1), patience_s=SOON_S)
            assert time.monotonic() - killed_s < SOON_S
            assert len(queue.workers()) == 1
            until(lambda: len(alive(queue)) == 1)
    assert queue.job(first.id).attempt + queue.job(second.id).attempt == 2


def test_a_full_worker_notices_too(queue: Queue) -> None:
    with worker(queue, 1) as doomed:
        lost = queue.enqueue("gate")
        until(has_running(queue, 1))
        with serving_in_thread(Worker(queue, slots=1)):
            busy, go = threading.Event(), threading.Event()

            @queue.task(name="busy")
            def body() -> None:
                busy.set()
                go.wait(60)

            body.enqueue()
            until(busy.is_set)
            doomed.kill()
            until(lambda: queue.job(lost.id).error == "worker lost", patience_s=SOON_S)
            go.set()


def test_the_next_worker_to_begin_buries_the_dead(queue: Queue) -> None:
    job = queue.enqueue("gate")
    with worker(queue, 1) as doomed:
        until(has_running(queue, 1))
        doomed.kill()
    assert queue.job(job.id).state == "running"
    with worker(queue, 2):
        until(lambda: queue.job(job.id).error == "worker lost", patience_s=SOON_S)


def test_a_stopped_worker_is_not_dead(queue: Queue) -> None:
    with worker(queue, 1) as stopped:
        job = queue.enqueue("gate")
        until(has_running(queue, 1))
        stop_between_writes(stopped, queue.path)
        with worker(queue, 2):
            until(lambda: len(queue.workers()) == 2)
            until(has_passed(LOOKED_S))
            assert queue.job(job.id).state == "running"
            assert len(queue.workers()) == 2
            stopped.go_on()
            (queue.path.parent / "open").touch()
            until(lambda: queue.job(job.id).state == "succeeded")
            assert queue.job(job.id).attempt == 1


def test_the_slot_stays_taken_while_a_child_of_the_worker_works_for_the_job(queue: Queue) -> None:
    folder = queue.path.parent
    job = queue.enqueue("forking")
    with worker(queue, 1) as doomed:
        until(has_running(queue, 1))
        until((folder / "child").exists)
        doomed.kill()
    with worker(queue, 2):
        until(lambda: len(queue.workers()) == 2)
        until(has_passed(LOOKED_S))
        assert queue.job(job.id).state == "running"
        (folder / "child-open").touch()
        until(lambda: queue.job(job.id).error == "worker lost", patience_s=SOON_S)
        (folder / "open").touch()


UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


def can_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(
    not can_unshare(), reason="no PID namespace can be made here: that takes Linux and root"
)
def test_workers_of_two_pid_namespaces_see_each_other_alive_and_dead(queue: Queue) -> None:
    """Both are process 1 of their own: no process id tells them apart."""
    folder = queue.path.parent
    job = queue.enqueue("gate")
    spaces: list[subprocess.Popen[bytes]] = []

    def begin() -> None:
        command = [*UNSHARE, sys.executable, "app.py"]
        spaces.append(subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL))

    try:
        begin()
        until(has_running(queue, 1))
        begin()
        until(lambda: len(queue.workers()) == 2)
        assert {info.pid for info in queue.workers()} == {1}
        until(has_passed(LOOKED_S))
        assert len(queue.workers()) == 2
        spaces[0].kill()  # and with it all that runs in it
        until(lambda: queue.job(job.id).error == "worker lost", patience_s=SOON_S)
        assert len(queue.workers()) == 1
    finally:
        for space in spaces:
            space.kill()
            space.wait()


def test_a_worker_that_leaves_takes_its_lock_with_it(queue: Queue) -> None:
    with serving_in_thread(Worker(queue)):
        until(lambda: len(queue.workers()) == 1)
        assert alive(queue) == {"alive-1"}
    assert alive(queue) == set()


def test_a_lock_that_is_held_is_no_grave_and_one_let_go_is(tmp_path: Path) -> None:
    held = Alive(tmp_path, "7")
    assert graves(tmp_path, but=()) == []
    held.close(remove=False)
    assert graves(tmp_path, but={"7"}) == []
    (grave,) = graves(tmp_path, but=())
    assert grave.name == "7"
    assert grave.stands()
    assert graves(tmp_path, but=()) == []  # somebody sees to it
    grave.close(remove=True)
    assert list(tmp_path.iterdir()) == []


def test_a_number_that_is_given_again_is_not_taken_for_the_dead(tmp_path: Path) -> None:
    Alive(tmp_path, "7").close(remove=False)
    (grave,) = graves(tmp_path, but=())
    again = Alive(tmp_path, "7")
    assert not grave.stands()
    grave.close(remove=True)
    assert [path.name for path in tmp_path.iterdir()] == ["alive-7"]
    again.close(remove=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["alive-", "alive-x", "alive-7x", "other-7", "alive-²"])
def test_other_files_are_no_graves(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert graves(tmp_path, but=()) == []
    assert graves(tmp_path / "gone", but=()) == []


def test_a_lock_has_no_name_before_its_worker_may_register(queue: Queue) -> None:
    """So nobody can take it for that of the worker that had the number before."""
    queue.stats()
    with locked(queue.path), worker(queue, 1) as process:
        until(lambda: "still locked" in process.text or process.cpu_s() > 0.1)
        assert alive(queue) == set()
    with serving_in_thread(Worker(queue)):
        until(lambda: alive(queue) == {"alive-1"})


def test_a_worker_whose_lock_cannot_be_made_says_so_and_leaves_nothing(queue: Queue) -> None:
    queue.stats()
    in_the_way = queue.database.directory / f"new-alive-1-{os.getpid()}"
    in_the_way.mkdir()
    with pytest.raises(StoreError, match="the lock that tells that a worker lives cannot be made"):
        Worker(queue).run()
    assert queue.workers() == []
    in_the_way.rmdir()
    Worker(queue, burst=True).run()
    assert alive(queue) == set()


def test_a_number_whose_registration_was_undone_is_watched_when_it_is_given_again(
    queue: Queue,
) -> None:
    """Its file stood for nobody, and was buried for nothing; its next holder may die too."""
    with serving_in_thread(Worker(queue)):
        until(lambda: len(queue.workers()) == 1)
        Alive(queue.database.directory, "2").close(remove=False)
        until(lambda: alive(queue) == {"alive-1"})
        with worker(queue, 2) as doomed:
            until(lambda: len(queue.workers()) == 2)
            assert alive(queue) == {"alive-1", "alive-2"}
            doomed.kill()
        until(lambda: len(queue.workers()) == 1, patience_s=SOON_S)


def test_kills_one_after_another_lose_no_job(queue: Queue, tmp_path: Path) -> None:
    """Each kill hits a job, and its slot is there again soon though the lease is long."""
    job = queue.enqueue("gate", key="k", max_attempts=10)
    began_s = time.monotonic()
    for attempt in range(1, 4):
        with worker(queue, attempt) as doomed:
            until(has_attempt(queue, job, attempt))
            until(has_running(queue, 1))
            doomed.kill()
    (tmp_path / "open").touch()
    with worker(queue, 4) as last:
        until(lambda: queue.job(job.id).state == "succeeded")
        last.send(signal.SIGTERM)
        last.finish()
    assert queue.job(job.id).attempt == 4
    assert time.monotonic() - began_s < LEASE_S / 10
