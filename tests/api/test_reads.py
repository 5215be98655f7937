"""What is to be seen: jobs, keys, queues, workers, numbers."""

import asyncio
import json
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from slotq import FileReplaced, InvalidValue, Job, JobNotFound, Key, Queue, Worker
from slotq.testing import ManualClock
from support.procs import auntil

START = datetime(2026, 1, 1, tzinfo=UTC)


def succeed(number: int = 0) -> int:
    return number


def fail() -> None:
    raise RuntimeError("no")


# Jobs.


def test_a_job_tells_its_whole_life(queue: Queue, clock: ManualClock) -> None:
    task = queue.task(name="t", key="k:{number}", queue="q", max_attempts=2)(succeed)
    job = task.enqueue(7)
    clock.advance(1_000)
    Worker(queue, burst=True).run()
    done = queue.job(job.id)
    assert (done.state, done.attempt, done.result, done.error) == ("succeeded", 1, 7, None)
    assert done.started_at == done.finished_at == START + timedelta(seconds=1)
    assert (done.lease_until, done.worker) == (None, 1)
    assert (done.key, done.queue, done.args) == ("k:7", "q", [7])


def test_an_unknown_job_is_not_found(queue: Queue) -> None:
    for job_id in (0, 1, 2**63 - 1):
        with pytest.raises(JobNotFound) as caught:
            queue.job(job_id)
        assert caught.value.job_id == job_id


@pytest.fixture
def mixed(queue: Queue) -> Queue:
    """A queue with jobs in every state but running, over two queues, tasks and keys."""
    good, bad = queue.task(name="good")(succeed), queue.task(name="bad", max_attempts=1)(fail)
    for name in ("one", "two"):
        for key in (None, "a", "b"):
            good.options(queue=name, key=key).enqueue_many([(1,), (2,)])
            bad.options(queue=name, key=key).enqueue()
    Worker(queue, burst=True).run()
    for name in ("one", "two"):
        for key in (None, "a", "b"):
            good.options(queue=name, key=key).enqueue(3)
            good.options(queue=name, key=key, delay=60).enqueue(4)
            queue.cancel(bad.options(queue=name, key=key).enqueue().id)
    return queue


FILTERS = {
    "state": (None, "scheduled", "waiting", "running", "succeeded", "failed", "cancelled"),
    "key": (None, "", "a", "nobody"),
    "queue": (None, "one", "nobody"),
    "task": (None, "good", "bad", "nobody"),
}


def every_filter() -> Iterator[dict[str, str | None]]:
    for state in FILTERS["state"]:
        for key in FILTERS["key"]:
            for queue in FILTERS["queue"]:
                for task in FILTERS["task"]:
                    yield {"state": state, "key": key, "queue": queue, "task": task}


def matches(job: Job, filters: dict[str, str | None]) -> bool:
    return all(
        wanted is None or (getattr(job, field) or "") == wanted for field, wanted in filters.items()
    )


async def test_filters_and_pages_agree_with_looking_at_every_job(mixed: Queue) -> None:
    @mixed.task
    async def wait() -> None:
        await asyncio.Event().wait()

    ids = {wait.options(key=key, queue="one").enqueue().id for key in (None, "a", "b", "a")}
    worker = Worker(mixed, slots=20, queues=["one"])
    serving = asyncio.create_task(worker.serve())
    await auntil(lambda: {job.id for job in mixed.jobs(state="running")} == ids)
    everything = [mixed.job(job.id) for job in mixed.jobs(limit=1_000)]
    assert {job.state for job in everything} == set(FILTERS["state"]) - {None}
    for filters in every_filter():
        wanted = [job.id for job in everything if matches(job, filters)]
        found: list[int] = []
        while page := mixed.jobs(**filters, limit=3, after=found[-1] if found else 0):  # type: ignore[arg-type]  # states are among the texts
            assert len(page) <= 3
            found += [job.id for job in page]
        assert found == wanted, filters
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving


def test_a_list_leaves_out_what_can_be_large(queue: Queue) -> None:
    """Field case 46: lists never read payloads."""
    task = queue.task(name="t")(succeed)
    job = task.enqueue(5)
    Worker(queue, burst=True).run()
    (listed,) = queue.jobs()
    whole = queue.job(job.id)
    assert (listed.args, listed.kwargs, listed.result, listed.traceback) == (None,) * 4
    assert (whole.args, whole.kwargs, whole.result) == ([5], {}, 5)
    assert (listed.id, listed.state, listed.finished_at) == (
        whole.id,
        whole.state,
        whole.finished_at,
    )
    assert listed.wait(timeout=0) == 5


def test_the_first_page_is_100_jobs(queue: Queue) -> None:
    queue.task(name="t")(succeed).enqueue_many([()] * 150)
    assert [job.id for job in queue.jobs()] == list(range(1, 101))
    assert [job.id for job in queue.jobs(after=100)] == list(range(101, 151))


# Keys.


def test_an_unused_key_is_idle(queue: Queue) -> None:
    queue.set_limit("tenant:*", max_running=3)
    queue.set_limit("tenant:*", max_starts=5, window=60, name="minute")
    key = queue.key("tenant:nobody")
    assert (key.key, key.running, key.held, key.waiting, key.scheduled) == (
        "tenant:nobody", 0, 0, 0, 0,
    )  # fmt: skip
    assert (key.max_running, key.starts, key.max_starts, key.window) == (3, 0, 5, 60)
    assert (key.oldest_waiting_at, key.next_start_at, key.paused) == (None, None, False)
    assert [limit.name for limit in key.limits] == ["", "minute"]
    assert queue.keys() == []


def test_no_key_is_no_key(queue: Queue) -> None:
    for none in ("", None):
        with pytest.raises(InvalidValue, match="must be a key, not none"):
            queue.key(none)  # type: ignore[arg-type]  # None is what a Job has for none


async def test_statistics_of_keys_agree_with_counting(queue: Queue, clock: ManualClock) -> None:
    """Every number that a key shows, against a count over its jobs, which all start once."""
    chance = random.Random(5)
    gate = asyncio.Event()

    @queue.task(key="{key}")
    async def body(key: str, *, wait: bool) -> None:
        if wait:
            await gate.wait()

    keys = ["a", "b", "c"]
    queue.set_limit("a", max_running=5, max_starts=40, window=60)
    queue.set_limit("*", max_starts=25, window=30, name="half")
    # The clock leaps; no lease may lapse meanwhile.
    worker = Worker(queue, slots=40, lease=3_600)
    serving = asyncio.create_task(worker.serve())
    for _ in range(25):
        for _ in range(chance.randrange(8)):
            key = chance.choice(keys)
            task = body.options(delay=chance.choice((0, 0, 20)), queue=chance.choice(("p", "q")))
            await task.aenqueue(key, wait=chance.random() < 0.1)
        await settled(queue, clock)
        for key in keys:
            compare(queue, clock, key)
        clock.advance(chance.choice((1_000, 7_000, 15_000)))
    assert max(queue.key(key).running for key in keys) > 0
    gate.set()
    worker.stop()
    await serving


async def settled(queue: Queue, clock: ManualClock) -> None:
    """Wait until no job can start any more, nor is about to end, nor is due."""
    async with asyncio.timeout(20):
        while True:
            before = await queue.astats()
            await asyncio.sleep(0.02)
            keys = await queue.akeys()
            now = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
            if any(job.run_at <= now for job in await queue.ajobs(state="scheduled", limit=1_000)):
                continue
            if before == await queue.astats() and not any(startable(key) for key in keys):
                return


def startable(key: Key) -> bool:
    has_room = key.max_running is None or key.running < key.max_running
    return key.waiting > 0 and key.next_start_at is None and has_room


def compare(queue: Queue, clock: ManualClock, name: str) -> None:
    key = queue.key(name)
    jobs = queue.jobs(key=name, limit=10_000)
    states = Counter(job.state for job in jobs)
    assert (key.running, key.waiting, key.scheduled, key.held) == (
        states["running"], states["waiting"], states["scheduled"], 0,
    )  # fmt: skip
    waiting = [job.run_at for job in jobs if job.state == "waiting"]
    assert key.oldest_waiting_at == min(waiting, default=None)
    now = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
    windows = [(25, 30)] + ([(40, 60)] if name == "a" else [])
    counted: list[tuple[int, int, int]] = []
    opens: list[datetime] = []
    for most, span in windows:
        starts = sorted(job.started_at for job in jobs if job.started_at is not None)
        recent = [at for at in starts if at > now - timedelta(seconds=span)]
        counted.append((most - len(recent), len(recent), most))
        if len(recent) >= most:
            opens.append(recent[len(recent) - most] + timedelta(seconds=span))
    room, count, most = min(counted)
    assert most - count == room
    assert (key.max_starts or 0) - key.starts == room
    assert key.next_start_at == max(opens, default=None)


def test_what_has_fallen_due_is_handled_before_a_key_is_shown(
    queue: Queue, clock: ManualClock
) -> None:
    queue.task(name="t", key="k")(succeed).options(delay=10).enqueue()
    queue.enqueue("u", key="k", expires=10)
    key = queue.key("k")
    assert (key.waiting, key.scheduled) == (1, 1)
    clock.advance(10_000)
    key = queue.key("k")
    assert (key.waiting, key.scheduled) == (1, 0)
    assert queue.job(2).state == "cancelled"


def test_the_job_of_a_dead_worker_no_longer_runs_when_a_key_is_shown(
    queue: Queue, clock: ManualClock
) -> None:
    queue.task(name="t", key="k")(succeed).enqueue()
    with closing(sqlite3.connect(queue.path, isolation_level=None)) as connection:
        connection.execute(
            "UPDATE slotq_jobs SET state = 'running', token = 1, attempt = 1, started_at = ?1,"
            " lease_until = ?1 + 1000, lease_ms = 1000, worker_id = 9",
            (clock.now_ms(),),
        )
    assert queue.key("k").running == 1
    clock.advance(999)
    assert queue.key("k").running == 1
    clock.advance(1)
    key = queue.key("k")
    assert (key.running, key.scheduled) == (0, 1)
    assert queue.job(1).error == "worker lost"


def test_keys_are_sorted_as_asked(queue: Queue) -> None:
    task = queue.task(name="t")(succeed)
    for key, waiting, scheduled in (("a", 1, 5), ("b", 3, 0), ("c", 2, 9), ("d", 2, 1)):
        task.options(key=key).enqueue_many([()] * waiting)
        task.options(key=key, delay=9).enqueue_many([()] * scheduled)
    task.enqueue_many([()] * 50)

    def names(sort: str, limit: int = 100) -> str:
        return "".join(key.key for key in queue.keys(sort=sort, limit=limit))  # type: ignore[arg-type]  # one of the words

    assert names("waiting") == "bcda"
    assert names("scheduled") == "cadb"
    assert names("key") == "abcd"
    assert names("running") == "abcd"
    assert names("waiting", limit=2) == "bc"


# Queues, workers, numbers.


async def test_queues_and_workers_tell_what_goes_on(queue: Queue, clock: ManualClock) -> None:
    @queue.task(name="wait")
    async def wait() -> None:
        await asyncio.Event().wait()

    @queue.task(name="other")
    def other() -> None: ...

    wait.options(queue="one").enqueue_many([()] * 3)
    wait.options(queue="two", delay=60).enqueue()
    worker = Worker(queue, slots=2, queues=["one"], order="fifo")
    serving = asyncio.create_task(worker.serve())
    await auntil(lambda: queue.stats().running == 2)
    one, two = queue.queues()
    assert (one.name, one.waiting, one.scheduled, one.running, one.workers) == ("one", 1, 0, 2, 1)
    assert (two.name, two.waiting, two.scheduled, two.running, two.workers) == ("two", 0, 1, 0, 0)
    assert (one.oldest_waiting_at, two.oldest_waiting_at) == (START, None)
    assert (one.max_running, one.paused) == (None, False)
    (info,) = queue.workers()
    assert (info.queues, info.slots, info.running, info.order) == (("one",), 2, 2, "fifo")
    assert info.tasks == ("other", "wait")
    assert info.started_at == info.seen_at == START
    assert {job.worker for job in queue.jobs(state="running")} == {info.id}
    stats = queue.stats()
    assert (stats.running, stats.waiting, stats.scheduled, stats.workers) == (2, 1, 1, 1)
    assert (stats.queues, stats.keys, stats.limits, stats.held) == (2, 0, 0, 0)
    assert stats.file_bytes == queue.path.stat().st_size
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert queue.workers() == []
    assert queue.stats().running == 0


def test_stats_count_every_state(mixed: Queue) -> None:
    stats = mixed.stats()
    counted: Counter[str] = Counter(job.state for job in mixed.jobs(limit=1_000_000))
    names = ("scheduled", "waiting", "running", "succeeded", "failed", "cancelled")
    assert {name: getattr(stats, name) for name in names} == {name: counted[name] for name in names}
    assert (stats.keys, stats.queues) == (2, 2)


def test_a_deleted_file_is_noticed(queue: Queue) -> None:
    queue.enqueue("t")
    queue.path.unlink()
    with pytest.raises(FileReplaced):
        queue.stats()


# The end of a job.


def test_waiting_returns_the_result_or_raises_how_it_ended(queue: Queue) -> None:
    from slotq import JobCancelled, JobFailed  # noqa: PLC0415

    good = queue.task(name="good")(succeed).enqueue(3)
    bad = queue.task(name="bad", max_attempts=1)(fail).enqueue()
    never = queue.enqueue("nobody")
    with pytest.raises(TimeoutError, match=r"job 1 has not ended within 0 s"):
        good.wait(timeout=0)
    queue.cancel(never.id)
    Worker(queue, burst=True).run()
    assert good.wait() == 3
    with pytest.raises(JobFailed) as failed:
        bad.wait()
    assert (failed.value.job_id, failed.value.error) == (bad.id, "RuntimeError: no")
    assert "in fail" in (failed.value.traceback or "")
    with pytest.raises(JobCancelled):
        never.wait()
    queue.delete(good.id)
    with pytest.raises(JobNotFound):
        good.wait()


async def test_awaiting_does_not_block_the_loop(queue: Queue) -> None:
    job = queue.task(name="good")(succeed).enqueue(3)
    waiting = asyncio.create_task(job.await_result())
    with pytest.raises(TimeoutError):
        await job.await_result(timeout=0.01)
    assert not waiting.done()
    await Worker(queue, burst=True).serve()
    assert await waiting == 3


def test_a_job_from_elsewhere_says_whom_to_ask() -> None:
    from slotq import SlotqError  # noqa: PLC0415

    fields = dict.fromkeys(Job.__dataclass_fields__) | {"id": 4}
    job = json.loads(json.dumps(fields))
    with pytest.raises(SlotqError, match=r"ask Queue\.job\(4\)"):
        Job(**job).wait()
