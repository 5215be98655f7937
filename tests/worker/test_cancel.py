"""Cancelling jobs that run: a request, which the body's end fulfils."""

import asyncio
import contextlib
import threading

import pytest

from slotq import Job, JobCancelled, Queue, Retry, Worker, current_job
from slotq.current import Run
from slotq.testing import ManualClock
from support.procs import auntil, until
from support.serving import has_running, serving, serving_in_thread


async def running(queue: Queue) -> None:
    """Wait until a job runs."""
    await auntil(has_running(queue, 1))


def is_over(queue: Queue, job: Job) -> bool:
    return queue.job(job.id).state == "cancelled"


async def test_an_async_body_is_cancelled(queue: Queue) -> None:
    cleaned: list[str] = []

    @queue.task(key="k")
    async def body() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("up")

    job = body.enqueue()
    async with serving(Worker(queue)):
        await running(queue)
        assert queue.cancel(job.id)
        await auntil(lambda: is_over(queue, job))
    found = queue.job(job.id)
    assert cleaned == ["up"]
    assert (found.error, found.cancelling, found.attempt) == ("cancelled while it ran", False, 1)
    assert queue.key("k").running == 0
    with pytest.raises(JobCancelled, match="cancelled while it ran"):
        job.wait(timeout=0)


@pytest.mark.parametrize("slots", [1, 2])
def test_a_body_in_a_thread_sees_that_it_is_to_end(queue: Queue, slots: int) -> None:
    """Also by a worker whose slots are full, which nothing else would wake."""

    @queue.task(key="k")
    def body() -> str:
        until(lambda: current_job().cancelled)
        go.wait(20)
        return "done all the same"

    go = threading.Event()
    job = body.enqueue()
    with serving_in_thread(Worker(queue, slots=slots)):
        until(has_running(queue, 1))
        assert queue.cancel(job.id)
        found = queue.job(job.id)
        assert (found.state, found.cancelling, queue.key("k").running) == ("running", True, 1)
        assert queue.cancel(job.id)
        go.set()
        until(lambda: is_over(queue, job))
    assert queue.job(job.id).result is None
    assert not queue.cancel(job.id)


async def test_a_request_of_another_connection_reaches_a_full_worker(
    queue: Queue, clock: ManualClock
) -> None:
    @queue.task
    async def body() -> None:
        await asyncio.Event().wait()

    job = body.enqueue()
    async with serving(Worker(queue, slots=1)):
        await running(queue)
        with Queue(queue.path, clock=clock) as other:
            assert await other.acancel(job.id)
        await auntil(lambda: is_over(queue, job))


@pytest.mark.parametrize("error", [RuntimeError("x"), Retry(0), SystemExit(3)])
def test_a_body_that_fails_after_the_request_is_not_tried_again(
    queue: Queue, error: BaseException
) -> None:
    @queue.task
    def body() -> None:
        until(lambda: current_job().cancelled)
        raise error

    job = body.enqueue()
    with serving_in_thread(Worker(queue)):
        until(has_running(queue, 1))
        queue.cancel(job.id)
        until(lambda: is_over(queue, job))
    assert queue.job(job.id).attempt == 1


async def test_a_body_that_swallows_its_cancellation_is_cancelled_when_it_ends(
    queue: Queue,
) -> None:
    swallowed, go = asyncio.Event(), asyncio.Event()

    @queue.task
    async def body() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        swallowed.set()
        await go.wait()
        return "done"

    job = body.enqueue()
    async with serving(Worker(queue)):
        await running(queue)
        queue.cancel(job.id)
        await swallowed.wait()
        assert queue.job(job.id).state == "running"
        go.set()
        await auntil(lambda: is_over(queue, job))


async def test_a_request_before_the_first_step_reaches_the_body(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop is busy: the request is written before the body could begin."""
    ran: list[int] = []

    @queue.task
    async def body(number: int) -> None:
        ran.append(number)
        if number == 0:
            until(has_running(queue, 3))
            for each in (2, 3):
                queue.cancel(each)
            until(lambda: asked == [2, 3])

    asked: list[int] = []
    begin = Run.__setattr__

    def note(run: Run, name: str, value: object) -> None:
        begin(run, name, value)
        if (name, value) == ("cancelled", True):
            asked.append(run.claim.id)

    monkeypatch.setattr(Run, "__setattr__", note)
    for number in range(3):
        body.enqueue(number)
    async with serving(Worker(queue, slots=3)):
        await auntil(lambda: queue.stats().cancelled == 2)
    assert ran == [0]


@pytest.mark.parametrize("slots", [1, 3])
def test_a_job_whose_worker_dies_after_the_request_is_cancelled(
    queue: Queue, clock: ManualClock, slots: int
) -> None:
    @queue.task(name="t")
    def body() -> None: ...

    job = body.enqueue()
    with queue.database.write() as tx:
        tx.run(
            "UPDATE slotq_jobs SET state = 'running', started_at = 0, token = 1, attempt = 1,"
            " lease_until = ?, lease_ms = 1000, worker_id = 99",
            (tx.now + 1,),
        )
    assert queue.cancel(job.id)
    clock.advance(1)
    Worker(queue, slots=slots, burst=True).run()
    found = queue.job(job.id)
    assert (found.state, found.error, found.attempt) == ("cancelled", "worker lost", 1)
