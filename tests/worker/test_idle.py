"""An idle worker: what wakes it, and that nothing else does."""

import asyncio
import contextlib
import gc
import os
import resource
import sqlite3
import threading
import time
import weakref
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slotq import Queue, Worker, turns
from slotq.testing import ManualClock
from slotq.wake import STALE_S, Bell, Ringer, sweep
from support.procs import PATIENCE_S, auntil, run_script, until
from support.serving import (
    has_passed,
    has_running,
    has_succeeded,
    serving,
    serving_in_thread,
)

LONG_S = 3 * PATIENCE_S


def note(value: object = None) -> object:
    return value


@pytest.fixture
def no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but a ring can wake a worker within the patience of a test."""
    monkeypatch.setattr(turns, "LOOK_S", LONG_S)


@pytest.mark.usefixtures("no_looks")
async def test_an_enqueue_wakes_it(queue: Queue) -> None:
    task = queue.task(name="t")(note)
    async with serving(Worker(queue)):
        await auntil(queue.workers)
        for number in range(20):
            job = await task.aenqueue(number)
            assert await job.await_result(timeout=PATIENCE_S) == number


@pytest.mark.usefixtures("no_looks")
async def test_an_enqueue_of_another_process_wakes_it(queue: Queue, tmp_path: Path) -> None:
    queue.task(name="t")(note)
    code = "import slotq; print(slotq.Queue('jobs.db').enqueue('t').wait(timeout=20))"
    async with serving(Worker(queue)):
        await auntil(queue.workers)
        assert await asyncio.to_thread(run_script, code, tmp_path) == "None\n"


@pytest.mark.usefixtures("no_looks")
async def test_room_wakes_it(queue: Queue) -> None:
    task = queue.task(name="t", key="k")(note)
    queue.set_limit("k", max_starts=1, window=3_600)
    async with serving(Worker(queue)):
        jobs = [await task.aenqueue(number) for number in range(3)]
        await jobs[0].await_result(timeout=PATIENCE_S)
        await queue.aset_limit("k", max_starts=2)
        await jobs[1].await_result(timeout=PATIENCE_S)
        await queue.aclear_limit("k")
        await jobs[2].await_result(timeout=PATIENCE_S)


@pytest.mark.usefixtures("no_looks")
async def test_the_end_of_another_worker_s_job_wakes_it(queue: Queue) -> None:
    """A worker fills its slot again with another key; the room it made is for somebody else."""
    gates = [threading.Event(), threading.Event(), threading.Event()]

    @queue.task
    def body(number: int) -> None:
        gates[number].wait(PATIENCE_S)

    queue.set_limit("k", max_running=1)
    first, second = Worker(queue, slots=1, order="fifo"), Worker(queue, slots=1, queues=["late"])
    async with serving(first):
        blocking = body.options(key="k", priority=2).enqueue(0)
        await auntil(lambda: queue.job(blocking.id).state == "running")
        async with serving(second):
            await auntil(lambda: len(queue.workers()) == 2)
            waiting = body.options(key="k", queue="late").enqueue(1)
            other = body.options(priority=1).enqueue(2)
            gates[1].set()
            gates[0].set()
            await waiting.await_result(timeout=PATIENCE_S)
            gates[2].set()
            await other.await_result(timeout=PATIENCE_S)


async def test_a_foreign_commit_is_noticed_without_a_ring(queue: Queue) -> None:
    job = queue.task(name="t")(note).options(delay=3_600).enqueue("x")
    with contextlib.closing(sqlite3.connect(queue.path, isolation_level=None)) as connection:
        async with serving(Worker(queue)):
            await auntil(queue.workers)
            connection.execute("UPDATE slotq_jobs SET state = 'waiting'")
            assert await job.await_result(timeout=PATIENCE_S) == "x"


async def test_no_foreign_commit_is_missed_between_a_turn_and_a_look(queue: Queue) -> None:
    """Jobs come by foreign commits only, at the very moments at which the worker goes idle."""
    queue.task(name="t")(note)
    queue.stats()

    def store(number: int) -> None:
        with contextlib.closing(sqlite3.connect(queue.path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            queue.enqueue("t", args=[number], connection=connection)
            connection.execute("COMMIT")

    async with serving(Worker(queue, slots=1)):
        for number in range(30):
            await asyncio.to_thread(store, number)
            await auntil(has_succeeded(queue, number + 1))


async def test_it_notices_when_its_clock_reaches_an_instant(
    queue: Queue, clock: ManualClock
) -> None:
    task = queue.task(name="t")(note)
    async with serving(Worker(queue)):
        job = task.options(delay=3_600).enqueue("x")
        await auntil(queue.workers)
        clock.advance(3_599_999)
        clock.advance(1)
        assert await job.await_result(timeout=PATIENCE_S) == "x"


async def test_a_clock_that_is_set_back_delays_nothing_by_more_than_its_window(
    queue: Queue, clock: ManualClock
) -> None:
    task = queue.task(name="t", key="k")(note)
    queue.set_limit("k", max_starts=1, window=60)
    async with serving(Worker(queue)):
        first, second = task.enqueue(1), task.enqueue(2)
        await first.await_result(timeout=PATIENCE_S)
        clock.advance(-86_400_000)
        await auntil(lambda: (at := queue.key("k").next_start_at) and at.day == 31)
        clock.advance(60_000)
        assert await second.await_result(timeout=PATIENCE_S) == 2


async def test_a_far_job_leaves_the_worker_up(queue: Queue) -> None:
    """Field case 17: with only a job of the year 9999, a good one runs within a look."""
    task = queue.task(name="t")(note)
    far = task.options(run_at=datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)).enqueue()
    async with serving(Worker(queue)):
        await auntil(queue.workers)
        good = await task.aenqueue("good")
        assert await good.await_result(timeout=PATIENCE_S) == "good"
    assert queue.job(far.id).run_at.year == 9999
    assert queue.queues()[0].scheduled == 1


async def test_an_idle_worker_writes_nothing_and_a_full_one_neither(queue: Queue) -> None:
    gate = asyncio.Event()

    @queue.task
    async def body() -> None:
        await gate.wait()

    with contextlib.closing(sqlite3.connect(queue.path, isolation_level=None)) as connection:

        def version() -> int:
            (found,) = connection.execute("PRAGMA data_version").fetchone()
            return int(found)

        async with serving(Worker(queue, slots=1, lease=3_600)):
            # The first claim makes what later ones find.
            await queue.task(name="t")(note).enqueue().await_result(timeout=PATIENCE_S)
            await auntil(lambda: queue.stats().running == 0)
            for waiting in (0, 2):
                body.enqueue_many([()] * waiting)
                await auntil(has_running(queue, min(waiting, 1)))
                before = version()
                await auntil(has_passed(0.5))
                assert version() == before
            gate.set()


class CountingClock:
    """Stands still and counts: it is read once a transaction, and once before each wait."""

    def __init__(self) -> None:
        self.reads = 0

    def now_ms(self) -> int:
        self.reads += 1
        return 1_767_225_600_000


def test_a_worker_whose_slots_are_full_does_not_wake_itself(tmp_path: Path) -> None:
    """The end of a job and the claim of the next are one turn, and no other is taken."""
    clock = CountingClock()
    with Queue(tmp_path / "jobs.db", clock=clock) as queue:
        queue.task(name="t")(note).enqueue_many([()] * 200)
        clock.reads = 0
        Worker(queue, slots=1, burst=True).run()
        assert queue.stats().succeeded == 200
    assert clock.reads <= 2 * 200 + 20


@pytest.mark.usefixtures("no_looks")
async def test_a_worker_with_free_slots_does_not_wake_itself(tmp_path: Path) -> None:
    """One turn begins a job, one ends it; the ring for others costs no third."""
    clock = CountingClock()
    path = tmp_path / "jobs.db"
    # Who waits reads a clock too, so waits by another.
    with Queue(path, clock=clock) as queue, Queue(path, clock=CountingClock()) as other:
        task = queue.task(name="t")(note)
        async with serving(Worker(queue, slots=4, queues=["default"])):
            await other.await_for(task.enqueue().id, timeout=PATIENCE_S)
            clock.reads = 0
            for _ in range(100):
                await other.await_for(task.enqueue().id, timeout=PATIENCE_S)
            assert clock.reads <= 550
        await queue.aclose()
        await other.aclose()


# The pipes themselves.


def test_a_ring_reaches_every_bell_but_one(tmp_path: Path) -> None:
    ringer, bells = Ringer(tmp_path), [Bell(tmp_path) for _ in range(3)]
    ringer.hang(bells[1])
    ringer.ring(but=bells[1])
    assert [bell.wait(0) for bell in bells] == [True, False, True]
    ringer.ring()
    assert [bell.wait(0) for bell in bells] == [True] * 3
    ringer.take_down(bells[1])
    ringer.ring()
    assert [bell.wait(0) for bell in bells] == [True] * 3
    assert [bell.wait(0) for bell in bells] == [False] * 3
    late = Bell(tmp_path)
    ringer.ring()
    assert [bell.wait(0) for bell in (*bells, late)] == [True] * 4
    bells[0].close()
    ringer.ring()
    assert late.wait(0)
    for bell in (*bells[1:], late):
        bell.close()
    ringer.ring()
    ringer.close()
    assert list(tmp_path.iterdir()) == []


def test_a_closed_bell_rings_into_no_other_file(tmp_path: Path) -> None:
    bell = Bell(tmp_path)
    bell.close()
    with (tmp_path / "innocent").open("w+b", buffering=0) as other:
        bell.ring()
        assert os.fstat(other.fileno()).st_size == 0


def test_many_rings_never_block(tmp_path: Path) -> None:
    ringer, bell = Ringer(tmp_path), Bell(tmp_path)
    for _ in range(66_000):
        ringer.ring()
    assert bell.wait(0)
    assert not bell.wait(0)
    bell.close()
    ringer.close()


def test_the_pipe_of_a_dead_worker_harms_nobody(tmp_path: Path) -> None:
    """Not even a program that has given SIGPIPE back its deadly default."""
    code = """\
import os, signal, subprocess, sys
from pathlib import Path
from slotq.wake import Bell, Ringer
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
here = Path("bells"); here.mkdir()
child = "from pathlib import Path; from slotq.wake import Bell; Bell(Path('bells')); input()"
worker = subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE)
while not list(here.glob("wake-*")):
    pass
ringer = Ringer(here)
ringer.ring()
worker.kill()
worker.wait()
worker.stdin.close()
ringer.ring()
ringer.ring()
print(len(list(here.iterdir())))
"""
    assert run_script(code, tmp_path) == "1\n"


def test_pipes_of_dead_workers_are_swept_once_they_are_old(tmp_path: Path) -> None:

    living = Bell(tmp_path)
    old = time.time() - 2 * STALE_S
    for name in ("wake-1-a", "new-wake-2-b", "wake-3-c"):
        os.mkfifo(tmp_path / name)
    for path in (*tmp_path.glob("*wake-[12]*"), tmp_path / living.name):
        os.utime(path, (old, old))
    (tmp_path / "wake-file").touch()
    os.utime(tmp_path / "wake-file", (old, old))
    sweep(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {living.name, "wake-3-c", "wake-file"}
    living.close()


def test_an_enqueue_succeeds_though_no_pipe_can_be_opened(queue: Queue) -> None:
    """The job is stored by then; a worker finds it at its next look."""
    queue.task(name="t")(note)
    queue.enqueue("t")
    with serving_in_thread(Worker(queue)):
        until(has_succeeded(queue, 1))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with contextlib.ExitStack() as files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
            files.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
            with contextlib.suppress(OSError):
                while True:
                    files.enter_context(Path("/dev/null").open("rb"))
            job = queue.enqueue("t")
        job.wait(timeout=PATIENCE_S)


def test_a_queue_object_that_is_dropped_leaves_nothing_behind(tmp_path: Path) -> None:

    queue = Queue(tmp_path / "jobs.db")
    queue.enqueue("t")
    queue.close()
    dropped = weakref.ref(queue.ringer)
    del queue
    gc.collect()
    assert dropped() is None
