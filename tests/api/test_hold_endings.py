"""However a block with a hold ends, its slot is free then, and nobody else's is."""

import asyncio
import contextlib
import gc
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from pathlib import Path

import pytest
from typing_extensions import override

from slotq import HoldExpired, LimitExceeded, Queue, SlotqError
from slotq.testing import ManualClock
from support.procs import auntil, until


@pytest.fixture
def others(queue: Queue) -> Iterator[Queue]:
    """The same file, with connections of its own; it holds one of three slots."""
    queue.set_limit("k", max_running=3)
    with Queue(queue.path, clock=queue.database.clock) as other, other.hold("k", label="other's"):
        yield other


def labels(queue: Queue) -> list[str]:
    return [info.label for info in queue.holds()]


def returns(queue: Queue) -> None:
    def work() -> int:
        with queue.hold("k", label="it"):
            assert labels(queue) == ["other's", "it"]
            return 1

    assert work() == 1


def leaves_a_loop(queue: Queue) -> None:
    for _ in range(2):
        with queue.hold("k"):
            break


def raises(error: type[BaseException]) -> Callable[[Queue], None]:
    def work(queue: Queue) -> None:
        with pytest.raises(error), queue.hold("k"):
            raise error

    work.__name__ = f"raises_{error.__name__}"
    return work


def holding(queue: Queue) -> Generator[int]:
    with queue.hold("k", label="it"):
        yield 1
        yield 2


def closes_a_generator(queue: Queue) -> None:
    steps = holding(queue)
    assert next(steps) == 1
    assert labels(queue) == ["other's", "it"]
    steps.close()


def drops_a_generator(queue: Queue) -> None:
    next(holding(queue))
    gc.collect()


def throws_into_a_generator(queue: Queue) -> None:
    steps = holding(queue)
    next(steps)
    with pytest.raises(KeyError):
        steps.throw(KeyError())


def releases_by_itself(queue: Queue) -> None:
    with queue.hold("k") as hold:
        hold.release()
        with pytest.raises(HoldExpired):
            hold.release()


def is_refused_inside(queue: Queue) -> None:
    with queue.hold("k"), pytest.raises(LimitExceeded):
        queue.hold("k", slots=2).acquire()


ENDS = [
    returns, leaves_a_loop, raises(ValueError), raises(KeyboardInterrupt), raises(SystemExit),
    closes_a_generator, drops_a_generator, throws_into_a_generator, releases_by_itself,
    is_refused_inside,
]  # fmt: skip


@pytest.mark.parametrize("end", ENDS)
def test_the_end_of_a_block_gives_back_its_slot_alone(
    queue: Queue, others: Queue, end: Callable[[Queue], None]
) -> None:
    end(queue)
    for each in (queue, others):
        assert labels(each) == ["other's"]
        assert each.key("k").held == 1
    with others.hold("k", slots=2):
        pass


async def areturns(queue: Queue) -> None:
    async def work() -> int:
        async with queue.hold("k", label="it"):
            assert labels(queue) == ["other's", "it"]
            return 1

    assert await work() == 1


def araises(error: type[BaseException]) -> Callable[[Queue], Awaitable[None]]:
    async def work(queue: Queue) -> None:
        with pytest.raises(error):
            async with queue.hold("k"):
                raise error

    work.__name__ = f"raises_{error.__name__}"
    return work


async def has_slot(queue: Queue) -> None:
    async with queue.hold("k", label="it"):
        await asyncio.Event().wait()


async def is_cancelled(queue: Queue) -> None:
    task = asyncio.create_task(has_slot(queue))
    await auntil(lambda: len(queue.holds()) == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def is_cancelled_while_it_gives_back(queue: Queue) -> None:
    task = asyncio.create_task(has_slot(queue))
    await auntil(lambda: len(queue.holds()) == 2)
    task.cancel()
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def is_cancelled_at_each_step_of_taking(queue: Queue) -> None:
    """Also just after it was granted, before anybody was told."""
    for steps in range(40):
        task = asyncio.create_task(queue.hold("k").aacquire())
        for _ in range(steps):
            await asyncio.sleep(0)
        if not task.cancel():  # it was faster
            await task.result().arelease()
        else:
            with pytest.raises(asyncio.CancelledError):
                await task
        assert labels(queue) == ["other's"]


async def is_over_its_time(queue: Queue) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await has_slot(queue)


async def aholding(queue: Queue) -> AsyncGenerator[int]:
    async with queue.hold("k"):
        yield 1
        yield 2


async def acloses_a_generator(queue: Queue) -> None:
    steps = aholding(queue)
    assert await anext(steps) == 1
    assert len(labels(queue)) == 2
    await steps.aclose()


async def is_waiting_in_a_group_that_fails(queue: Queue) -> None:
    async def fail() -> None:
        await auntil(lambda: len(queue.holds()) == 2)
        raise ValueError

    with contextlib.suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(has_slot(queue))
            group.create_task(fail())


AENDS = [
    areturns, araises(ValueError), araises(KeyboardInterrupt), is_cancelled,
    is_cancelled_while_it_gives_back, is_cancelled_at_each_step_of_taking, is_over_its_time,
    acloses_a_generator, is_waiting_in_a_group_that_fails,
]  # fmt: skip


@pytest.mark.parametrize("end", AENDS)
async def test_the_end_of_an_async_block_gives_back_its_slot_alone(
    queue: Queue, others: Queue, end: Callable[[Queue], Awaitable[None]]
) -> None:
    await end(queue)
    for each in (queue, others):
        assert labels(each) == ["other's"]
        assert each.key("k").held == 1


def test_the_end_of_a_loop_gives_back_the_slots_of_its_tasks(queue: Queue, others: Queue) -> None:
    async def work() -> None:
        tasks = [asyncio.create_task(has_slot(queue)) for _ in range(2)]
        await auntil(lambda: len(queue.holds()) == 3)
        assert len(tasks) == 2

    asyncio.run(work())
    assert labels(others) == ["other's"]


def test_a_loop_that_ends_as_its_tasks_leave_gives_their_slots_back(
    queue: Queue, others: Queue
) -> None:
    """What gives a slot back stands in line for the queue's thread when the loop cancels all."""

    async def work() -> None:
        tasks = [asyncio.create_task(has_slot(queue)) for _ in range(2)]
        await auntil(lambda: len(queue.holds()) == 3)
        with others.database.write():
            for task in tasks:
                task.cancel()
            for _ in range(3):
                await asyncio.sleep(0)  # the first waits for the file, the second for the first

    asyncio.run(work())
    assert labels(others) == ["other's"]


class InterruptingClock(ManualClock):
    """Raises at one call and some after it, as a signal handler may at any."""

    def __init__(self) -> None:
        super().__init__()
        self.first = self.times = 0

    @override
    def now_ms(self) -> int:
        if self.times:
            self.first -= 1
            if self.first < 0:
                self.times -= 1
                raise KeyboardInterrupt
        return super().now_ms()


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("first", [0, 1, 2])
def test_an_interrupt_while_a_slot_is_taken_or_given_back_leaves_it_free(
    tmp_path: Path, first: int, times: int
) -> None:
    clock = InterruptingClock()
    with Queue(tmp_path / "jobs.db", clock=clock) as queue:
        queue.set_limit("k", max_running=1)
        clock.first, clock.times = first, times
        with pytest.raises(KeyboardInterrupt), queue.hold("k"):
            assert clock.first == 0, "it was taken, and giving it back is interrupted"
        assert clock.times < times
        clock.times = 0
        assert queue.holds() == []


def test_an_interrupt_before_the_first_line_of_the_exit_leaves_the_slot_free(queue: Queue) -> None:
    """Then nothing of it is run, and the hold is dropped; what was acquired alone stays."""
    hold = queue.hold("k", label="acquired")
    with hold:
        pass
    hold.acquire()
    del hold
    queue.hold("k", label="block").__enter__()
    gc.collect()
    with queue.hold("another"):  # the next that this queue does with holds gives it back
        assert labels(queue) == ["acquired", ""]


def test_a_hold_that_was_dropped_is_given_back_as_the_queue_closes(queue: Queue) -> None:
    queue.hold("k").__enter__()
    gc.collect()
    queue.close()
    assert queue.holds() == []
    assert list(queue.database.directory.glob("alive-hold-*")) == []


LEFT = """
import contextlib, sys, slotq
stack = contextlib.ExitStack()
stack.enter_context(slotq.Queue(sys.argv[1]).hold("k"))
print("left")
"""


def test_a_program_that_ends_with_holds_ends(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEFT, str(tmp_path / "jobs.db")],
        check=True, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("left\n", "")


def test_a_late_leave_frees_nobody_else_s(queue: Queue, clock: ManualClock) -> None:
    queue.set_limit("k", max_running=1)
    with contextlib.ExitStack() as late, Queue(queue.path, clock=clock) as other:
        late.enter_context(queue.hold("k", ttl=1))
        clock.advance(1_000)
        with other.hold("k", ttl=60):
            late.close()
            assert other.key("k").held == 1
            with pytest.raises(LimitExceeded):
                queue.hold("k").acquire()


async def test_a_late_leave_of_an_async_block_frees_nobody_else_s(
    queue: Queue, clock: ManualClock
) -> None:
    queue.set_limit("k", max_running=1)
    with Queue(queue.path, clock=clock) as other:
        async with contextlib.AsyncExitStack() as late:
            await late.enter_async_context(queue.hold("k", ttl=1))
            clock.advance(1_000)
            async with other.hold("k", ttl=60):
                await late.aclose()
                assert other.key("k").held == 1
                with pytest.raises(LimitExceeded):
                    await queue.hold("k").aacquire()


def test_a_forked_child_can_neither_end_nor_extend_it(queue: Queue) -> None:
    with queue.hold("k") as hold:
        end = hold.expires_at
        pid = os.fork()
        if pid == 0:
            refused = 0
            for act in (hold.extend, hold.release):
                try:
                    act()
                except SlotqError:
                    refused += 1
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 2
        assert queue.holds()[0].expires_at == end
    assert queue.holds() == []


@pytest.mark.parametrize("kind", ["rolled back", "dropped", "expired"])
def test_a_hold_that_nobody_gave_back_keeps_no_lock_file(
    queue: Queue, clock: ManualClock, kind: str
) -> None:
    queue.stats()
    with contextlib.closing(sqlite3.connect(queue.path, isolation_level=None)) as connection:
        if kind == "rolled back":
            connection.execute("BEGIN IMMEDIATE")
            queue.hold("k", ttl=1, connection=connection).acquire()
            connection.execute("ROLLBACK")
        else:
            hold = queue.hold("k", ttl=1).acquire()
            if kind == "dropped":
                del hold
    queue.close()
    files = list(queue.database.directory.glob("alive-hold-*"))
    assert len(files) == 1  # as far as anybody knows, it is held
    clock.advance(1_000)
    queue.close()
    assert list(queue.database.directory.glob("alive-hold-*")) == []


def test_a_commit_that_rings_nobody_is_noticed(queue: Queue) -> None:
    queue.set_limit("k", max_running=1)
    queue.hold("k").acquire()
    taken = threading.Event()

    def wait() -> None:
        with queue.hold("k", wait=20):
            taken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: len(queue.holds()) == 2)
    with contextlib.closing(sqlite3.connect(queue.path)) as connection, connection:
        connection.execute("DELETE FROM slotq_holds WHERE state = 'held'")
    # It calls again every 1.6 s in any case.
    until(taken.is_set, patience_s=1)
    thread.join()
