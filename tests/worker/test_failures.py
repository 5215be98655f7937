"""Failed attempts: how often, how soon again, and what is kept of them."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from slotq import Queue, Worker
from slotq.testing import ManualClock
from support.procs import auntil
from support.serving import serving

START = datetime(2026, 1, 1, tzinfo=UTC)


def fail() -> None:
    raise RuntimeError("no")


def has_failed(queue: Queue, job_id: int, attempt: int) -> Callable[[], bool]:
    """Return a look at whether this attempt of a job has failed."""

    def look() -> bool:
        job = queue.job(job_id)
        return job.attempt == attempt and job.state in {"scheduled", "failed"}

    return look


def test_a_failed_attempt_comes_again_later_each_time(queue: Queue, clock: ManualClock) -> None:
    job = queue.task(name="t", max_attempts=15)(fail).enqueue()
    for attempt in range(1, 15):
        Worker(queue, burst=True).run()
        found = queue.job(job.id)
        assert (found.state, found.attempt, found.error) == (
            "scheduled", attempt, "RuntimeError: no",
        )  # fmt: skip
        now = START + timedelta(milliseconds=clock.now_ms() - 1_767_225_600_000)
        full = timedelta(seconds=min(2 ** (attempt - 1), 3_600))
        assert full / 2 <= found.run_at - now <= full
        clock.advance(round((found.run_at - now) / timedelta(milliseconds=1)))
    Worker(queue, burst=True).run()
    found = queue.job(job.id)
    assert (found.state, found.attempt, found.run_at) == ("failed", 15, found.run_at)
    assert found.finished_at is not None
    assert found.lease_until is None


def test_the_wait_stays_at_its_cap_over_1_100_attempts(queue: Queue, clock: ManualClock) -> None:
    """Field case 17: no power of two overflows, and the worker lives."""
    job = queue.task(name="t", max_attempts=2_000)(fail).enqueue()

    async def fail_all() -> None:
        async with serving(Worker(queue, slots=1)):
            for attempt in range(1, 1_101):
                clock.advance(3_600_000)
                queue.ringer.ring()
                await auntil(has_failed(queue, job.id, attempt))

    asyncio.run(fail_all())
    found = queue.job(job.id)
    assert (found.state, found.attempt) == ("scheduled", 1_100)
    now = START + timedelta(milliseconds=clock.now_ms() - 1_767_225_600_000)
    assert timedelta(minutes=30) <= found.run_at - now <= timedelta(hours=1)


@pytest.mark.parametrize("attempts", [1, 2, 5])
async def test_a_job_fails_for_good_after_its_attempts(
    queue: Queue, clock: ManualClock, attempts: int
) -> None:
    ran = 0

    @queue.task(max_attempts=attempts)
    async def body() -> None:
        nonlocal ran
        ran += 1
        raise RuntimeError(ran)

    job = body.enqueue()
    async with serving(Worker(queue)):
        for attempt in range(1, attempts + 1):
            await auntil(has_failed(queue, job.id, attempt))
            clock.advance(60_000)
        await auntil(lambda: queue.job(job.id).state == "failed")
    assert ran == attempts
    assert queue.job(job.id).error == f"RuntimeError: {attempts}"


def test_success_after_a_failure_clears_the_error(queue: Queue, clock: ManualClock) -> None:
    ran: list[int] = []

    @queue.task
    def body() -> int:
        ran.append(1)
        if len(ran) == 1:
            raise RuntimeError("first")
        return len(ran)

    job = body.enqueue()
    Worker(queue, burst=True).run()
    assert queue.job(job.id).error == "RuntimeError: first"
    clock.advance(1_000)
    Worker(queue, burst=True).run()
    done = queue.job(job.id)
    assert (done.state, done.attempt, done.result, done.error, done.traceback) == (
        "succeeded", 2, 2, None, None,
    )  # fmt: skip


def test_a_retry_after_the_end_begins_with_the_first_wait(queue: Queue, clock: ManualClock) -> None:
    job = queue.task(name="t", max_attempts=2)(fail).enqueue()
    for _ in range(2):
        Worker(queue, burst=True).run()
        clock.advance(10_000)
    assert queue.job(job.id).state == "failed"
    queue.retry(job.id)
    before = clock.now_ms()
    Worker(queue, burst=True).run()
    found = queue.job(job.id)
    assert (found.state, found.attempt) == ("scheduled", 1)
    assert found.run_at <= START + timedelta(milliseconds=before - 1_767_225_600_000 + 1_000)
