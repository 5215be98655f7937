"""A worker's life: begin, claim, stop, be cancelled, leave."""

import asyncio
import contextlib
import signal
import threading
from pathlib import Path
from types import FrameType

import pytest

from slotq import InvalidValue, Queue, Worker
from slotq.model import Order
from slotq.store import jobs
from slotq.store.jobs import Call, Terms
from slotq.testing import ManualClock
from support.procs import Process, auntil, until
from support.serving import has_passed, has_succeeded, serving, serving_in_thread


def note(value: object = None) -> object:
    return value


# Bursts.


def test_a_burst_ends_when_no_job_waits(queue: Queue) -> None:
    task = queue.task(name="t")(note)
    Worker(queue, burst=True).run()
    task.enqueue_many([()] * 300)
    task.options(delay=60).enqueue()
    Worker(queue, burst=True).run()
    stats = queue.stats()
    assert (stats.succeeded, stats.scheduled, stats.waiting, stats.workers) == (300, 1, 0, 0)


async def test_a_burst_does_what_its_own_jobs_enqueue(queue: Queue) -> None:
    @queue.task
    async def body(depth: int) -> None:
        if depth:
            await body.aenqueue(depth - 1)

    await body.aenqueue(20)
    await Worker(queue, burst=True).serve()
    assert queue.stats().succeeded == 21


async def test_a_burst_waits_for_a_job_whose_key_is_full(queue: Queue) -> None:
    gate = asyncio.Event()

    @queue.task(key="k")
    async def body() -> None:
        await gate.wait()

    queue.set_limit("k", max_running=1)
    body.enqueue_many([()] * 2)
    async with serving(Worker(queue, slots=1)):
        await auntil(lambda: queue.key("k").running == 1)
        burst = asyncio.create_task(Worker(queue, burst=True).serve())
        await auntil(lambda: len(queue.workers()) == 2)
        assert not burst.done()
        gate.set()
        await burst
    assert queue.stats().succeeded == 2


def test_a_burst_leaves_the_jobs_of_other_queues(queue: Queue) -> None:
    task = queue.task(name="t")(note)
    for name in ("one", "two"):
        task.options(queue=name).enqueue()
    Worker(queue, queues=["two", "nobody", "two"], burst=True).run()
    assert [job.state for job in queue.jobs()] == ["waiting", "succeeded"]


# Claims.


@pytest.mark.parametrize(
    ("order", "started"),
    [
        ("fifo", ["a1", "a2", "a3", "b1", "b2", "c1"]),
        ("fair", ["a1", "a2", "a3", "b1", "b2", "c1"]),
        ("round-robin", ["a1", "b1", "c1", "a2", "b2", "a3"]),
    ],
)
def test_the_order_is_the_one_asked_for(queue: Queue, order: Order, started: list[str]) -> None:
    ran: list[str] = []
    task = queue.task(name="t")(ran.append)
    for name in ("a1", "a2", "a3", "b1", "b2", "c1"):
        task.options(key=name[0]).enqueue(name)
    Worker(queue, slots=1, order=order, burst=True).run()
    assert ran == started


async def test_fair_gives_the_slots_to_keys_with_fewest_running(queue: Queue) -> None:
    ran: list[str] = []
    gate = asyncio.Event()

    @queue.task
    async def body(name: str) -> None:
        ran.append(name)
        await gate.wait()

    for name in ("a1", "a2", "a3", "b1", "b2", "c1"):
        body.options(key=name[0]).enqueue(name)
    async with serving(Worker(queue, slots=4)):
        await auntil(lambda: len(ran) == 4)
        assert sorted(ran) == ["a1", "a2", "b1", "c1"]
        gate.set()


def test_priority_goes_first(queue: Queue) -> None:
    ran: list[object] = []
    task = queue.task(name="t")(ran.append)
    for priority in (0, 5, -5, 1_000_000):
        task.options(priority=priority).enqueue(priority)
    Worker(queue, slots=1, burst=True).run()
    assert ran == [1_000_000, 5, 0, -5]


def test_unknown_tasks_are_put_back_while_the_others_finish(
    queue: Queue, clock: ManualClock
) -> None:
    """Field case 52: an unknown name costs no attempt, and is never looked up as code."""
    names = ["app:gone", "nomod:x", "os:system", "os.system", "a b"]
    bad = [queue.enqueue(name, args=["echo 1"]) for name in names for _ in range(30)]
    good = queue.task(name="good")(note).enqueue_many([()] * 5)
    Worker(queue, slots=1, burst=True).run()
    assert {queue.job(job_id).state for job_id in good} == {"succeeded"}
    for job in bad:
        found = queue.job(job.id)
        assert (found.state, found.attempt, found.started_at) == ("scheduled", 0, None)
        assert 5_000 <= (found.run_at - job.run_at).total_seconds() * 1_000 <= 300_000
    queue.task(name="a b")(note)
    clock.advance(5_000)
    Worker(queue, burst=True).run()
    assert {job.attempt for job in queue.jobs(task="a b")} == {1}
    assert queue.stats().succeeded == 35


async def test_a_queue_made_later_is_served_by_a_worker_of_every_queue(queue: Queue) -> None:
    task = queue.task(name="t")(note)
    everything, one = Worker(queue), Worker(queue, queues=["one"])
    async with serving(everything, one):
        await auntil(lambda: len(queue.workers()) == 2)
        job = await task.options(queue="brand new").aenqueue()
        await job.await_result(timeout=20)
        found = {info.id: info.queues for info in queue.workers()}
        assert found[queue.job(job.id).worker or 0] is None


async def test_two_workers_in_one_loop_share_the_jobs_and_their_limits(queue: Queue) -> None:
    running, most, gate = 0, 0, asyncio.Event()

    @queue.task(key="k")
    async def body() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1

    queue.set_limit("k", max_running=5)
    body.enqueue_many([()] * 40)
    async with serving(Worker(queue, slots=3), Worker(queue, slots=4)):
        await auntil(lambda: running == 5)
        assert sum(info.running for info in queue.workers()) == 5
        gate.set()
        await auntil(lambda: queue.stats().succeeded == 40)
    assert most == 5
    assert len({job.worker for job in queue.jobs()}) == 2


# Ends.


async def test_stop_waits_for_the_bodies_and_claims_nothing_more(queue: Queue) -> None:
    gate, begun = asyncio.Event(), list[int]()

    @queue.task
    async def body() -> None:
        begun.append(1)
        await gate.wait()

    body.enqueue_many([()] * 4)
    worker = Worker(queue, slots=2)
    task = asyncio.create_task(worker.serve())
    await auntil(lambda: len(begun) == 2)
    worker.stop()
    body.enqueue()
    assert not task.done()
    gate.set()
    await task
    stats = queue.stats()
    assert (stats.succeeded, stats.waiting, stats.running, stats.workers) == (2, 3, 0, 0)


async def test_stop_while_idle_ends_it_at_once(queue: Queue) -> None:
    worker = Worker(queue)
    task = asyncio.create_task(worker.serve())
    await auntil(queue.workers)
    worker.stop()
    await asyncio.wait_for(task, 20)


async def test_stop_before_serve_is_not_forgotten(queue: Queue) -> None:
    worker = Worker(queue)
    task = asyncio.create_task(worker.serve())
    worker.stop()
    await asyncio.wait_for(task, 20)
    queue.task(name="t")(note).enqueue()
    async with serving(worker):
        await auntil(lambda: queue.stats().succeeded == 1)


async def test_serving_twice_at_once_is_refused(queue: Queue) -> None:
    worker = Worker(queue)
    async with serving(worker):
        await auntil(queue.workers)
        with pytest.raises(InvalidValue, match="worker is serving already"):
            await worker.serve()
        assert len(queue.workers()) == 1


async def test_run_inside_a_loop_is_refused_with_a_hint(queue: Queue) -> None:
    with pytest.raises(InvalidValue, match=r"await serve\(\)"):
        Worker(queue).run()


async def test_cancelled_async_bodies_are_handed_back_unused(queue: Queue) -> None:
    begun = 0

    @queue.task
    async def body() -> None:
        nonlocal begun
        begun += 1
        await asyncio.Event().wait()

    ids = body.enqueue_many([()] * 5)
    task = asyncio.create_task(Worker(queue, slots=3).serve())
    await auntil(lambda: begun == 3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    jobs = [queue.job(job_id) for job_id in ids]
    assert [(job.state, job.attempt) for job in jobs] == [("waiting", 0)] * 5
    assert queue.workers() == []


async def test_bodies_cancelled_before_their_first_step_are_handed_back_too(queue: Queue) -> None:
    begun: list[int] = []

    @queue.task
    async def body(number: int) -> None:
        begun.append(number)
        await asyncio.Event().wait()

    body.enqueue_many([(number,) for number in range(50)])
    task = asyncio.create_task(Worker(queue, slots=50).serve())
    # The loop stands still until all are claimed, so that no body can have begun.
    await asyncio.sleep(0)
    until(lambda: queue.stats().running == 50)
    assert begun == []
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 20)
    assert {(job.state, job.attempt) for job in queue.jobs()} == {("waiting", 0)}


async def test_cancelling_waits_for_bodies_in_threads(queue: Queue) -> None:
    gate, begun = threading.Event(), threading.Event()

    @queue.task
    def body() -> str:
        begun.set()
        gate.wait(20)
        return "done"

    job = body.enqueue()
    task = asyncio.create_task(Worker(queue).serve())
    await asyncio.to_thread(begun.wait, 20)
    for _ in range(3):
        task.cancel()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(task), 0.01)
        assert not task.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert queue.job(job.id).result == "done"
    assert queue.workers() == []


async def test_a_body_that_swallows_its_cancellation_is_waited_for(queue: Queue) -> None:
    begun = asyncio.Event()

    @queue.task
    async def body() -> str:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.sleep(0.01)
        return "done"

    job = body.enqueue()
    task = asyncio.create_task(Worker(queue).serve())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert queue.job(job.id).result == "done"


def test_a_loop_that_ends_takes_the_worker_with_it(queue: Queue) -> None:
    begun = asyncio.Event()

    @queue.task
    async def body() -> None:
        begun.set()
        await asyncio.Event().wait()

    job = body.enqueue()

    async def program() -> None:
        task = asyncio.create_task(Worker(queue).serve())
        await begun.wait()
        assert not task.done()

    asyncio.run(program())
    assert (queue.job(job.id).state, queue.job(job.id).attempt) == ("waiting", 0)
    assert queue.workers() == []


SCRIPT = """
import logging, threading, time
import slotq
logging.basicConfig(level=logging.INFO, format="%(message)s")
q = slotq.Queue("jobs.db")

@q.task(name="body")
def body() -> str:
    open("begun", "w").close()
    while not __import__("os").path.exists("open"):
        time.sleep(0.005)
    return "done"

slotq.Worker(q, slots=1).run()
print("left")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_bodies_end_and_leaves_the_rest(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Field case 48: no start after the signal, the running job ends, the exit code is 0."""
    (tmp_path / "app.py").write_text(SCRIPT)
    queue = Queue(tmp_path / "jobs.db")
    for _ in range(3):
        queue.enqueue("body")
    with Process([str(tmp_path / "app.py")], tmp_path / "out.txt") as process:
        until((tmp_path / "begun").exists)
        process.send(number)
        queue.enqueue("body")
        until(lambda: "no new jobs" in process.text)
        assert process.is_alive
        (tmp_path / "open").touch()
        assert process.finish().splitlines()[-1] == "left"
    stats = queue.stats()
    assert (stats.succeeded, stats.waiting, stats.running, stats.workers) == (1, 3, 0, 0)
    queue.close()


SIGNALLED = """
import signal
import slotq
q = slotq.Queue("jobs.db")

@q.task(name="body")
async def body() -> None:
    print("started", flush=True)
    signal.raise_signal(signal.SIGTERM)

slotq.Worker(q, slots=1).run()
"""


def test_no_job_starts_once_a_signal_has_come(tmp_path: Path) -> None:
    """Field case 48: not even before the thread that sees the worker out has heard of it."""
    (tmp_path / "app.py").write_text(SIGNALLED)
    with Queue(tmp_path / "jobs.db") as queue:
        for left in range(19, 9, -1):
            if left == 19:
                queue.task(name="body")(note).enqueue_many([()] * 20)
            with Process([str(tmp_path / "app.py")], tmp_path / "out.txt") as process:
                assert process.finish().count("started") == 1
            assert queue.stats().waiting == left


def test_a_second_signal_hands_back_and_ends_it_at_once(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(SCRIPT)
    queue = Queue(tmp_path / "jobs.db")
    job = queue.enqueue("body")
    with Process([str(tmp_path / "app.py")], tmp_path / "out.txt") as process:
        until((tmp_path / "begun").exists)
        process.send(signal.SIGTERM)
        until(lambda: len(queue.workers()) == 1)
        # The first may still be on its way to the handler, which then takes the second for it.
        while process.is_alive:
            process.send(signal.SIGTERM)
            with contextlib.suppress(AssertionError):
                until(lambda: not process.is_alive, patience_s=0.5)
        assert process.wait() == 128 + signal.SIGTERM
    found = queue.job(job.id)
    assert (found.state, found.attempt, queue.workers()) == ("waiting", 0, [])
    queue.close()


def test_run_works_in_a_thread_without_signal_handlers(queue: Queue) -> None:
    queue.task(name="t")(note).enqueue()
    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=Worker(queue, burst=True).run)
    thread.start()
    thread.join(20)
    assert queue.stats().succeeded == 1
    assert signal.getsignal(signal.SIGTERM) is before


def test_run_leaves_the_signal_handlers_as_they_were(queue: Queue) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    Worker(queue, burst=True).run()
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_a_worker_serves_again_after_it_left(queue: Queue) -> None:
    task, worker = queue.task(name="t")(note), Worker(queue)
    for count in (1, 2):
        task.enqueue()
        with serving_in_thread(worker):
            until(has_succeeded(queue, count))
    assert {job.worker for job in queue.jobs()} == {1, 2}


async def test_a_job_claimed_while_the_worker_is_cancelled_is_handed_back_too(
    queue: Queue,
) -> None:
    begun: list[str] = []

    @queue.task(name="t")
    async def body() -> None:
        begun.append("t")
        await asyncio.Event().wait()

    task = asyncio.create_task(Worker(queue).serve())
    await auntil(queue.workers)
    with queue.database.write() as tx:
        job_id, _ = jobs.add(tx, Terms(task="t"), Call("[]", "{}", ""))
        queue.ringer.ring()
        # The turn that will claim it waits for this transaction by now.
        await auntil(has_passed(0.1))
        task.cancel()
        await auntil(has_passed(0.02))
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 20)
    assert begun == []
    assert (queue.job(job_id).state, queue.job(job_id).attempt) == ("waiting", 0)


def test_run_gives_back_handlers_of_the_program(queue: Queue) -> None:
    def mine(number: int, frame: FrameType | None) -> None: ...

    before = {number: signal.signal(number, mine) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        Worker(queue, burst=True).run()
        assert {signal.getsignal(number) for number in before} == {mine}
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def test_a_task_that_was_cancelled_once_can_serve(queue: Queue) -> None:
    """Its jobs must not be handed back again and again."""

    @queue.task(name="t")
    async def body() -> int:
        await asyncio.sleep(0)
        return 1

    async def serve_after_all() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await Worker(queue, burst=True).serve()

    job = body.enqueue()
    server = asyncio.create_task(serve_after_all())
    await asyncio.sleep(0)
    server.cancel()
    await server
    assert (queue.job(job.id).state, queue.job(job.id).attempt) == ("succeeded", 1)


@pytest.mark.parametrize("first", ["old", "new"])
def test_round_robin_lets_queues_of_different_age_take_turns(queue: Queue, first: str) -> None:
    started: list[str] = []

    @queue.task(name="t", key="{name}")
    def body(name: str) -> None:
        started.append(name)

    body.options(queue="old").enqueue_many([("old",)] * 50)
    Worker(queue, slots=1, order="round-robin", burst=True).run()
    started.clear()
    for name in sorted(("old", "new"), key=lambda name: name != first):
        body.options(queue=name).enqueue_many([(name,)] * 10)
    Worker(queue, slots=1, order="round-robin", burst=True).run()
    pairs = [set(started[place : place + 2]) for place in range(0, 20, 2)]
    assert pairs == [{"old", "new"}] * 10
