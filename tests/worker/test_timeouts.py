"""Time-outs: what ends a body, and how a body that nobody can end has failed."""

import asyncio
import contextlib
import threading
import time

import pytest

from slotq import Queue, Worker
from support.procs import auntil
from support.serving import serving, serving_in_thread

LATE = "timeout after 0.02 s"


def test_an_async_body_is_cancelled(queue: Queue) -> None:
    cleaned: list[str] = []

    @queue.task(timeout=0.02, max_attempts=1)
    async def body() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("up")

    job = body.enqueue()
    Worker(queue, burst=True).run()
    assert cleaned == ["up"]
    assert (queue.job(job.id).state, queue.job(job.id).error) == ("failed", LATE)


def test_a_timed_out_attempt_is_tried_again(queue: Queue) -> None:
    @queue.task(timeout=0.02, max_attempts=2)
    async def body() -> None:
        await asyncio.Event().wait()

    job = body.enqueue()
    Worker(queue, burst=True).run()
    assert (queue.job(job.id).state, queue.job(job.id).attempt) == ("scheduled", 1)


def test_an_async_body_that_swallows_its_cancellation_has_failed_all_the_same(
    queue: Queue,
) -> None:
    @queue.task(timeout=0.02, max_attempts=1)
    async def body() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "done"

    job = body.enqueue()
    Worker(queue, burst=True).run()
    assert (queue.job(job.id).state, queue.job(job.id).error) == ("failed", LATE)


def test_an_async_body_that_fails_while_it_is_cancelled_timed_out(queue: Queue) -> None:
    @queue.task(timeout=0.02, max_attempts=1)
    async def body() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("while cleaning up")

    job = body.enqueue()
    Worker(queue, burst=True).run()
    assert queue.job(job.id).error == LATE
    assert "while cleaning up" in (queue.job(job.id).traceback or "")


def test_an_async_body_that_blocks_the_loop_past_its_time_has_failed(queue: Queue) -> None:
    @queue.task(timeout=0.02, max_attempts=1)
    async def body() -> str:
        time.sleep(0.05)  # noqa: ASYNC251  # the very mistake that is tested
        return "done"

    job = body.enqueue()
    Worker(queue, burst=True).run()
    assert (queue.job(job.id).state, queue.job(job.id).error) == ("failed", LATE)


@pytest.mark.parametrize("ends", ["returns", "raises"])
def test_a_late_thread_keeps_its_slot_until_it_ends_and_has_failed_then(
    queue: Queue, ends: str
) -> None:
    gate, ran = threading.Event(), threading.Event()

    @queue.task(timeout=0.02, max_attempts=1, key="k")
    def body() -> str:
        ran.set()
        gate.wait(20)
        time.sleep(0.02)
        if ends == "raises":
            raise ValueError("too late")
        return "done"

    job = body.enqueue()
    queue.set_limit("k", max_running=1)
    with serving_in_thread(Worker(queue)):
        ran.wait(20)
        next_job = body.enqueue()
        assert queue.job(job.id).state == "running"
        assert queue.job(next_job.id).state == "waiting"
        assert queue.key("k").running == 1
        gate.set()
    found = queue.job(job.id)
    assert (found.state, found.error, found.result) == ("failed", LATE, None)
    if ends == "raises":
        assert "too late" in (found.traceback or "")


async def test_a_body_without_a_time_out_may_take_as_long_as_it_likes(queue: Queue) -> None:
    gate = asyncio.Event()

    @queue.task(timeout=None)
    async def body() -> None:
        await gate.wait()

    job = body.enqueue()
    async with serving(Worker(queue)):
        await auntil(lambda: queue.job(job.id).state == "running")
        gate.set()
        await auntil(lambda: queue.job(job.id).state == "succeeded")


def test_a_time_out_of_the_body_s_own_is_an_error_like_any_other(queue: Queue) -> None:
    @queue.task(timeout=30, max_attempts=1)
    async def body() -> None:
        async with asyncio.timeout(0.001):
            await asyncio.Event().wait()

    job = body.enqueue()
    Worker(queue, burst=True).run()
    assert queue.job(job.id).error == "TimeoutError"
