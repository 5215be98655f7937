"""Holds: slots that a program takes for itself, beside the jobs of a key."""

import asyncio
import contextlib
import math
import sqlite3
import threading
from collections.abc import Callable, Generator
from datetime import timedelta

import aiosqlite
import pytest

from slotq import HoldExpired, InvalidValue, LimitExceeded, Queue, SlotqError, Worker
from slotq.testing import ManualClock
from support.procs import until
from support.wrongly import wrongly


def refusal(queue: Queue, key: str = "k", **options: int) -> LimitExceeded:
    with pytest.raises(LimitExceeded) as caught:
        queue.hold(key, slots=options.get("slots", 1)).acquire()
    return caught.value


def held(queue: Queue, key: str = "k") -> int:
    return queue.key(key).held


def test_a_block_has_a_slot_and_gives_it_back(queue: Queue, clock: ManualClock) -> None:
    queue.set_limit("k", max_running=1)
    with queue.hold("k", ttl=60, label="nightly") as hold:
        (info,) = queue.holds()
        assert (info.id, info.key, info.slots, info.state) == (hold.id, "k", 1, "held")
        assert (info.label, info.job, info.expires_at) == ("nightly", None, hold.expires_at)
        assert info.expires_at == info.acquired_at + timedelta(seconds=60)
        assert "@" in info.holder
        error = refusal(queue)
        assert (error.key, error.reason, error.retry_after) == ("k", "max_running", 60.0)
        assert error.limit == queue.limits()[0]
        assert "try again in 60 s" in str(error)
        assert held(queue) == 1
    assert (held(queue), queue.holds(), hold.id, hold.expires_at) == (0, [], None, None)
    clock.advance(1)
    with hold:  # once more
        assert held(queue) == 1


def test_jobs_and_holds_share_one_count(queue: Queue) -> None:
    queue.set_limit("k", max_running=2)
    job = queue.task(name="t")(lambda: None).options(key="k").enqueue()
    with queue.hold("k"), queue.hold("k"):
        Worker(queue, burst=False)
        assert queue.why(job.id)[1].kind == "slots"
        assert refusal(queue).reason == "max_running"
    with queue.hold("k"):
        Worker(queue, burst=True).run()
    assert queue.job(job.id).state == "succeeded"


def test_a_hold_of_several_slots_is_several_starts(queue: Queue, clock: ManualClock) -> None:
    queue.set_limit("k", max_starts=3, window=10)
    queue.hold("k", slots=2).acquire().release()
    clock.advance(4_000)
    assert queue.key("k").starts == 2
    error = refusal(queue, slots=2)
    assert (error.reason, error.retry_after) == ("max_starts", 6.0)
    queue.hold("k").acquire()
    assert queue.key("k").starts == 3


def test_all_slots_or_none(queue: Queue) -> None:
    queue.set_limit("k", max_running=3)
    with queue.hold("k", slots=2):
        assert refusal(queue, slots=2).reason == "max_running"
        assert held(queue) == 2
        with queue.hold("k"):
            assert held(queue) == 3


def test_its_own_max_running_needs_no_limit(queue: Queue) -> None:
    with queue.hold("free", max_running=1):
        with queue.hold("free"):
            assert held(queue, "free") == 2
        with pytest.raises(LimitExceeded) as caught:
            queue.hold("free", max_running=1).acquire()
    assert (caught.value.reason, caught.value.limit) == ("max_running", None)


def test_a_paused_key_refuses(queue: Queue) -> None:
    queue.pause(key="k")
    error = refusal(queue)
    assert (error.reason, error.limit, error.retry_after) == ("paused", None, 60.0)
    queue.resume(key="k")
    with queue.hold("k"):
        pass


@pytest.mark.parametrize(
    "limit",
    [{"max_running": 3}, {"max_starts": 3, "window": 60}, {"max_starts": 3, "window": "day"}],
)
def test_more_than_a_limit_ever_allows_is_no_matter_of_time(
    queue: Queue, limit: dict[str, object]
) -> None:
    wrongly(queue.set_limit)("k", **limit)
    for wait in (0, math.inf):
        with pytest.raises(InvalidValue, match=r"^slots can be 3 at most: key 'k'"):
            queue.hold("k", slots=5, wait=wait).acquire()
    assert queue.holds() == []


def test_extend_counts_from_now(queue: Queue, clock: ManualClock) -> None:
    hold = queue.hold("k", ttl=600).acquire()
    began = queue.holds()[0].acquired_at
    clock.advance(10_000)
    assert hold.extend() == began + timedelta(seconds=310)
    assert queue.holds()[0].expires_at == hold.expires_at == began + timedelta(seconds=310)
    assert hold.extend(timedelta(seconds=5)) == began + timedelta(seconds=15)
    clock.advance(5_000)
    with pytest.raises(HoldExpired):
        hold.extend()


def test_what_has_ended_is_not_revived_and_frees_nothing(queue: Queue, clock: ManualClock) -> None:
    queue.set_limit("k", max_running=1)
    late = queue.hold("k", ttl=1).acquire()
    clock.advance(1_000)
    with queue.hold("k", ttl=5):
        for act in (late.extend, late.release):
            with pytest.raises(HoldExpired, match=r"^hold 1 of key 'k' has ended"):
                act()
        assert refusal(queue).retry_after == 5.0
        assert held(queue) == 1
    with pytest.raises(HoldExpired, match="the hold of key 'k' has no slots"):
        late.release()


def test_leaving_a_block_late_is_told_to_the_log_only(
    queue: Queue, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with queue.hold("k", ttl=1):
        clock.advance(1_000)
    assert "the block that it was for ends only now" in caplog.text
    with pytest.raises(KeyError), queue.hold("k", ttl=1):
        clock.advance(1_000)
        raise KeyError


def test_a_hold_is_taken_once(queue: Queue) -> None:
    with queue.hold("k") as hold, pytest.raises(SlotqError, match="has its slots already"):
        hold.acquire()


def test_somebody_else_can_end_it(queue: Queue) -> None:
    hold = queue.hold("k").acquire()
    assert hold.id is not None
    queue.release_hold(hold.id, updated_by="ann")
    assert held(queue) == 0
    with pytest.raises(HoldExpired):
        hold.release()
    with pytest.raises(HoldExpired, match="there is no hold 1"):
        queue.release_hold(1)
    (event,) = queue.events(kind="hold_released")
    assert (event.key, event.by, event.text) == ("k", "ann", "hold 1 had its slots")


def test_holds_are_listed_by_the_page(queue: Queue) -> None:
    for key in ("a", "b", "a"):
        queue.hold(key).acquire()
    assert [info.id for info in queue.holds(key="a")] == [1, 3]
    assert [info.id for info in queue.holds(limit=2)] == [1, 2]
    assert [info.id for info in queue.holds(after=2)] == [3]


@contextlib.contextmanager
def waiting(queue: Queue, order: list[str], name: str, **options: int) -> Generator[None]:
    """Let a thread wait for a slot, until it is in line; it notes its name when it has it."""
    before = len(queue.holds())

    def wait() -> None:
        with queue.hold("k", wait=math.inf, slots=options.get("slots", 1)):
            order.append(name)

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: len(queue.holds()) == before + 1)
    yield
    thread.join(20)
    assert not thread.is_alive()


def test_those_who_wait_are_served_in_order_and_before_jobs(queue: Queue) -> None:
    queue.set_limit("k", max_running=2)
    order: list[str] = []
    task = queue.task(name="t")(lambda: order.append("job")).options(key="k")
    hold = queue.hold("k", slots=2).acquire()
    with waiting(queue, order, "big", slots=2), waiting(queue, order, "small"):
        job = task.enqueue()
        assert [info.state for info in queue.holds()] == ["held", "waiting", "waiting"]
        hold.release()
        hold = queue.hold("k", wait=20).acquire()
        hold.release()
        Worker(queue, burst=True).run()
    assert order == ["big", "small", "job"]
    assert queue.job(job.id).state == "succeeded"
    assert queue.holds() == []


def test_who_does_not_wait_is_refused_while_another_does(queue: Queue) -> None:
    queue.set_limit("k", max_running=2)
    order: list[str] = []
    hold = queue.hold("k").acquire()
    with waiting(queue, order, "big", slots=2):
        error = refusal(queue)
        assert (error.reason, error.limit) == ("queued", None)
        assert error.retry_after > 0
        hold.release()
    assert order == ["big"]


def test_a_wait_ends_in_time_and_leaves_the_line(queue: Queue) -> None:
    queue.set_limit("k", max_running=1)
    with queue.hold("k"):
        with pytest.raises(LimitExceeded) as caught:
            queue.hold("k", wait=0.05).acquire()
        assert caught.value.reason == "max_running"
        assert [info.state for info in queue.holds()] == ["held"]
    assert queue.hold("k", wait=0.05).acquire().id is not None


def raise_limit(queue: Queue) -> None:
    queue.set_limit("k", max_running=2)


def clear_limit(queue: Queue) -> None:
    queue.clear_limit("k")


def end_hold(queue: Queue) -> None:
    queue.release_hold(queue.holds()[0].id)


@pytest.mark.parametrize("make_room", [raise_limit, clear_limit, end_hold])
def test_whatever_makes_room_wakes_who_waits(
    queue: Queue, make_room: Callable[[Queue], None]
) -> None:
    queue.set_limit("k", max_running=1)
    order: list[str] = []
    queue.hold("k").acquire()
    with waiting(queue, order, "it"):
        make_room(queue)
    assert order == ["it"]


def test_a_limit_that_shrinks_below_what_somebody_waits_for_ends_the_wait(queue: Queue) -> None:
    queue.set_limit("k", max_running=2)
    errors: list[BaseException] = []

    def wait() -> None:
        with contextlib.suppress(InvalidValue):
            queue.hold("k", slots=2, wait=math.inf).acquire()
        errors.append(InvalidValue(name="slots", problem="told"))

    with queue.hold("k"):
        thread = threading.Thread(target=wait)
        thread.start()
        until(lambda: len(queue.holds()) == 2)
        queue.set_limit("k", max_running=1)
        thread.join(20)
        assert errors
        assert len(queue.holds()) == 1


async def until_in_line(queue: Queue) -> None:
    while len(await queue.aholds()) < 2:  # noqa: ASYNC110  # what is waited for is in the file
        await asyncio.sleep(0)


async def test_the_async_face_takes_waits_and_gives_back(queue: Queue) -> None:
    queue.set_limit("k", max_running=1)
    order: list[str] = []

    async def wait() -> None:
        async with queue.hold("k", wait=20) as hold:
            order.append("second")
            await hold.aextend(5)

    async with queue.hold("k"):
        task = asyncio.create_task(wait())
        await until_in_line(queue)
        order.append("first")
    await task
    assert order == ["first", "second"]
    hold = await queue.hold("k").aacquire()
    with pytest.raises(LimitExceeded):
        await queue.hold("k").aacquire()
    await hold.arelease()
    assert queue.holds() == []


async def test_a_cancelled_wait_leaves_the_line(queue: Queue) -> None:
    queue.set_limit("k", max_running=1)
    async with queue.hold("k"):
        task = asyncio.create_task(queue.hold("k", wait=math.inf).aacquire())
        await until_in_line(queue)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [info.state for info in queue.holds()] == ["held"]


def test_out_of_a_body_it_puts_the_job_back_unused(queue: Queue, clock: ManualClock) -> None:
    queue.set_limit("vendor", max_starts=1, window=30)
    queue.hold("vendor").acquire().release()
    clock.advance(10_000)

    def body() -> None:
        with queue.hold("vendor"):
            pass

    job = queue.task(name="t", max_attempts=1)(body).enqueue()
    Worker(queue, burst=True).run()
    found = queue.job(job.id)
    assert (found.state, found.attempt, found.error) == ("scheduled", 0, None)
    clock.advance(19_999)
    Worker(queue, burst=True).run()
    assert queue.job(job.id).state == "scheduled"
    clock.advance(1)
    Worker(queue, burst=True).run()
    assert queue.job(job.id).state == "succeeded"


@pytest.mark.parametrize("wait", [0, math.inf])
def test_a_job_is_refused_at_once_what_it_has_itself(queue: Queue, wait: float) -> None:
    queue.set_limit("k", max_running=1)

    def body() -> None:
        with queue.hold("k", wait=wait):
            pass

    job = queue.task(name="t", max_attempts=1)(body).options(key="k").enqueue()
    Worker(queue, burst=True).run()
    found = queue.job(job.id)
    assert found.state == "failed"
    assert found.error is not None
    assert "the job that asks has them itself" in found.error


def test_a_hold_of_a_body_names_its_job(queue: Queue) -> None:
    jobs: list[int | None] = []

    def body() -> None:
        with queue.hold("other"):
            jobs.extend(info.job for info in queue.holds())

    job = queue.task(name="t")(body).options(key="k").enqueue()
    Worker(queue, burst=True).run()
    assert jobs == [job.id]


@pytest.mark.parametrize("commit", [True, False])
def test_in_a_caller_s_transaction_it_is_taken_with_the_commit(queue: Queue, commit: bool) -> None:
    queue.set_limit("k", max_running=1)
    with contextlib.closing(sqlite3.connect(queue.path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        hold = queue.hold("k", connection=connection).acquire()
        assert queue.holds() == []
        connection.execute("COMMIT" if commit else "ROLLBACK")
        assert len(queue.holds()) == int(commit)
        if commit:
            hold.release()
        else:
            with pytest.raises(HoldExpired):
                hold.release()
        connection.execute("BEGIN IMMEDIATE")
        with queue.hold("k", connection=connection):
            pass  # taken and given back in it
        connection.execute("COMMIT")
    assert queue.holds() == []
    with pytest.raises(InvalidValue, match="wait cannot be given with connection"):
        queue.hold("k", wait=1, connection=connection)


async def test_in_a_caller_s_transaction_of_aiosqlite_too(queue: Queue) -> None:
    queue.stats()
    async with aiosqlite.connect(queue.path, isolation_level=None) as connection:
        await connection.execute("BEGIN IMMEDIATE")
        hold = await queue.hold("k", connection=connection).aacquire()
        assert queue.holds() == []
        await connection.execute("COMMIT")
        assert len(queue.holds()) == 1
        await hold.arelease()
    assert queue.holds() == []
