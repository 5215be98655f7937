"""Trouble with the file: locked, full, deleted, replaced; before, during and after a job."""

import asyncio
import shutil
import threading
from collections.abc import Generator
from pathlib import Path

import pytest
from typing_extensions import override

from slotq import FileReplaced, Queue, QueueBusy, StoreError, Worker
from slotq.testing import ManualClock
from support.procs import auntil, until
from support.serving import serving, serving_in_thread
from support.stores import locked


@pytest.fixture
def hasty(tmp_path: Path, clock: ManualClock) -> Generator[Queue]:
    """A queue that waits for a lock no longer than 0.2 s; its file is there already."""
    with Queue(tmp_path / "jobs.db") as made:
        made.stats()
    with Queue(tmp_path / "jobs.db", clock=clock, lock_timeout=0.2) as queue:
        yield queue


def test_outcomes_are_kept_while_the_file_is_locked(
    hasty: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    gate, begun = threading.Event(), threading.Event()

    @hasty.task(max_attempts=1)
    def body(number: int) -> int:
        if number == 2:
            begun.set()
        gate.wait(30)
        if number == 1:
            raise RuntimeError("mine")
        return number

    jobs = [body.enqueue(number) for number in range(3)]
    with serving_in_thread(Worker(hasty, slots=3)):
        begun.wait(20)
        with locked(hasty.path):
            gate.set()
            until(lambda: caplog.text.count("still locked by others") >= 2)
            assert hasty.stats().running == 3
        until(lambda: not hasty.stats().running)
    assert [hasty.job(job.id).state for job in jobs] == ["succeeded", "failed", "succeeded"]
    assert [hasty.job(job.id).attempt for job in jobs] == [1, 1, 1]


async def test_claims_go_on_when_the_lock_is_free_again(
    hasty: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    task = hasty.task(name="t")(lambda: 1)
    async with serving(Worker(hasty)):
        await auntil(hasty.workers)
        job = task.enqueue()
        await job.await_result(timeout=20)
        with locked(hasty.path):
            hasty.ringer.ring()
            await auntil(lambda: "trying again" in caplog.text)
            with pytest.raises(QueueBusy):
                task.enqueue()
        assert await task.enqueue().await_result(timeout=20) == 1


async def test_a_worker_leaves_though_the_file_is_locked(
    hasty: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(hasty)
    task = asyncio.create_task(worker.serve())
    await auntil(hasty.workers)
    with locked(hasty.path):
        worker.stop()
        await asyncio.wait_for(task, 20)
    assert "leaving: " in caplog.text


async def test_a_worker_that_finds_the_file_locked_begins_later(
    hasty: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    job = hasty.task(name="t")(lambda: 1).enqueue()
    with locked(hasty.path):
        task = asyncio.create_task(Worker(hasty, burst=True).serve())
        await auntil(lambda: "beginning: " in caplog.text)
    await task
    assert await job.await_result(timeout=20) == 1


async def test_a_worker_can_be_stopped_before_it_could_begin(
    hasty: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(hasty)
    with locked(hasty.path):
        task = asyncio.create_task(worker.serve())
        await auntil(lambda: "beginning: " in caplog.text)
        worker.stop()
        await asyncio.wait_for(task, 20)
    assert hasty.workers() == []


def test_a_heartbeat_that_cannot_write_tries_again(
    hasty: Queue, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with serving_in_thread(Worker(hasty, lease=1)):
        until(hasty.workers)
        with locked(hasty.path):
            until(lambda: "heartbeat: " in caplog.text)
            clock.advance(500)
        seen = clock.now_ms()
        until(lambda: round(hasty.workers()[0].seen_at.timestamp() * 1_000) == seen)


class FaultyClock(ManualClock):
    """A clock that fails where the heartbeat reads it, when it is told to."""

    is_broken = False

    @override
    def now_ms(self) -> int:
        if self.is_broken and threading.current_thread().name == "slotq-heartbeat":
            raise ArithmeticError("out of order")
        return super().now_ms()


def test_an_error_that_nobody_foresaw_does_not_end_the_heartbeat(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without one every lease of the worker would lapse, and its jobs run twice."""
    clock = FaultyClock()
    queue = Queue(tmp_path / "jobs.db", clock=clock)
    with queue, serving_in_thread(Worker(queue, lease=1)):
        until(queue.workers)
        clock.is_broken = True
        until(lambda: "heartbeat: out of order" in caplog.text)
        clock.is_broken = False
        clock.advance(500)
        seen = clock.now_ms()
        until(lambda: round(queue.workers()[0].seen_at.timestamp() * 1_000) == seen)


@pytest.mark.parametrize("how", ["deleted", "replaced"])
async def test_a_file_that_goes_while_it_is_idle_ends_the_worker(
    queue: Queue, tmp_path: Path, how: str
) -> None:
    task = asyncio.create_task(Worker(queue).serve())
    await auntil(queue.workers)
    take_away(queue.path, how)
    with pytest.raises(FileReplaced):
        await asyncio.wait_for(task, 20)


@pytest.mark.parametrize("how", ["deleted", "replaced"])
@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_file_that_goes_while_it_is_busy_ends_the_worker(
    queue: Queue, kind: str, how: str
) -> None:
    gate, begun = threading.Event(), threading.Event()
    cancelled: list[str] = []

    def body() -> None:
        begun.set()
        gate.wait(30)

    async def awaited() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append("async")
            raise

    queue.task(name="t")(body if kind == "plain" else awaited).enqueue()
    task = asyncio.create_task(Worker(queue, slots=1).serve())
    await auntil(begun.is_set)
    take_away(queue.path, how)
    try:
        with pytest.raises(FileReplaced):
            await asyncio.wait_for(task, 20)
    finally:
        gate.set()
    assert cancelled == (["async"] if kind == "async" else [])
    await auntil(lambda: not [t for t in threading.enumerate() if t.name.startswith("slotq-job")])


def take_away(path: Path, how: str) -> None:
    if how == "deleted":
        for each in path.parent.glob(path.name + "*"):
            if each.is_file():
                each.unlink()
    else:
        other = path.with_name("other.db")
        with Queue(other) as made:
            made.stats()
        other.rename(path)
        shutil.rmtree(path.with_name("other.db-slotq"))


async def test_a_worker_of_a_file_that_cannot_be_used_says_so_at_once(tmp_path: Path) -> None:
    (tmp_path / "picture.db").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(5_000))
    for path in (tmp_path / "picture.db", tmp_path / "no folder" / "jobs.db", tmp_path):
        with pytest.raises(StoreError, match=str(path)):
            await Worker(Queue(path)).serve()
    assert not [t for t in threading.enumerate() if t.name.startswith("slotq-")]
