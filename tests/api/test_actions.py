"""What people do to jobs: cancel, retry, delete, prune; and what each refuses."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slotq import InvalidValue, Job, JobCancelled, JobNotFound, Queue, Worker
from slotq.testing import ManualClock
from support.procs import auntil
from support.wrongly import wrongly

START = datetime(2026, 1, 1, tzinfo=UTC)


def succeed() -> None: ...


def fail() -> None:
    raise RuntimeError("no")


def failed(queue: Queue, **options: str) -> Job:
    """Return a job that has failed for good."""
    task = queue.tasks.get("fail") or queue.task(name="fail")(fail)
    job = wrongly(task.options)(max_attempts=1, **options).enqueue()
    Worker(queue, burst=True).run()
    return queue.job(job.id)


@asynccontextmanager
async def running(queue: Queue) -> AsyncGenerator[Job]:
    """Run a job for the length of the block."""
    gate = asyncio.Event()

    @queue.task(name="wait")
    async def wait() -> None:
        await gate.wait()

    job = await wait.aenqueue()
    worker = Worker(queue)
    serving = asyncio.create_task(worker.serve())
    await auntil(lambda: queue.job(job.id).state == "running")
    yield await queue.ajob(job.id)
    gate.set()
    worker.stop()
    await serving


# Cancel.


def test_cancel_ends_a_job_that_has_not_started(queue: Queue, clock: ManualClock) -> None:
    waiting, scheduled = queue.enqueue("t", key="k"), queue.enqueue("t", key="k", delay=60)
    clock.advance(1_000)
    for job in (waiting, scheduled):
        assert queue.cancel(job.id)
        assert not queue.cancel(job.id)
        ended = queue.job(job.id)
        assert (ended.state, ended.finished_at) == ("cancelled", START + timedelta(seconds=1))
        assert (ended.attempt, ended.error) == (0, None)
    key = queue.key("k")
    assert (key.waiting, key.scheduled) == (0, 0)


def test_cancel_of_an_ended_job_changes_nothing(queue: Queue) -> None:
    job = failed(queue)
    assert not queue.cancel(job.id)
    assert queue.job(job.id) == job


# Retry.


def test_retry_puts_the_same_job_in_line_with_all_its_attempts(
    queue: Queue, clock: ManualClock
) -> None:
    """Field case 55: the job keeps its id and history; no copy is made."""
    job = failed(queue, key="k")
    clock.advance(5_000)
    queue.retry(job.id)
    again = queue.job(job.id)
    assert (again.state, again.attempt, again.max_attempts) == ("waiting", 0, 1)
    assert (again.run_at, again.created_at) == (START + timedelta(seconds=5), START)
    assert (again.error, again.traceback, again.finished_at) == (None, None, None)
    assert len(queue.jobs()) == 1
    queue.tasks.clear()
    queue.task(name="fail")(succeed)
    Worker(queue, burst=True).run()
    assert (queue.job(job.id).state, queue.job(job.id).attempt) == ("succeeded", 1)


def test_a_cancelled_and_an_expired_job_can_be_retried(queue: Queue, clock: ManualClock) -> None:
    cancelled = queue.enqueue("t")
    queue.cancel(cancelled.id)
    expired = queue.enqueue("t", expires=1, key="k")
    clock.advance(1_000)
    queue.key("k")
    for job in (cancelled, expired):
        assert queue.job(job.id).state == "cancelled"
        queue.retry(job.id)
        assert (queue.job(job.id).state, queue.job(job.id).expires) == ("waiting", None)


@pytest.mark.parametrize("state", ["scheduled", "waiting", "succeeded"])
def test_retry_of_a_job_in_another_state_is_refused(queue: Queue, state: str) -> None:
    job = queue.task(name="t")(succeed).options(delay=60 * (state == "scheduled")).enqueue()
    if state == "succeeded":
        Worker(queue, burst=True).run()
    before = queue.job(job.id)
    with pytest.raises(InvalidValue, match=f"job 1 is {state}: only a failed or cancelled one"):
        queue.retry(job.id)
    assert queue.job(job.id) == before


def test_retry_is_refused_while_another_job_has_the_dedupe_value(queue: Queue) -> None:
    old = failed(queue, dedupe="d")
    new = queue.enqueue("t", dedupe="d")
    with pytest.raises(InvalidValue, match=f"job {new.id} with its dedupe value has not ended"):
        queue.retry(old.id)
    queue.cancel(new.id)
    queue.retry(old.id)
    assert not queue.enqueue("t", dedupe="d").is_new


def test_retry_is_not_refused_for_a_job_that_has_expired(queue: Queue, clock: ManualClock) -> None:
    old = failed(queue, dedupe="d")
    queue.enqueue("t", dedupe="d", expires=10)
    clock.advance(10_000)
    queue.retry(old.id)
    assert queue.job(old.id).state == "waiting"


# Delete and prune.


def test_delete_removes_all_that_is_known(queue: Queue) -> None:
    waiting, scheduled = queue.enqueue("t", key="k"), queue.enqueue("t", key="k", delay=60)
    jobs = [waiting, scheduled, failed(queue, key="k")]
    for job in jobs:
        queue.delete(job.id)
        with pytest.raises(JobNotFound):
            queue.job(job.id)
    key = queue.key("k")
    assert (key.running, key.waiting, key.scheduled) == (0, 0, 0)


def test_starts_of_deleted_jobs_still_count(queue: Queue) -> None:
    queue.set_limit("k", max_starts=3, window=60)
    job = failed(queue, key="k")
    queue.delete(job.id)
    queue.prune()
    assert queue.key("k").starts == 1


async def test_a_running_job_is_neither_retried_nor_deleted(queue: Queue) -> None:
    async with running(queue) as job:
        with pytest.raises(InvalidValue, match="job 1 is running: it can be deleted once"):
            queue.delete(job.id)
        with pytest.raises(InvalidValue, match="job 1 is running: only a failed"):
            queue.retry(job.id)
        assert queue.prune() == 0
        assert queue.job(job.id) == job
    assert queue.job(job.id).state == "succeeded"


def test_prune_deletes_finished_jobs_of_that_age_only(queue: Queue, clock: ManualClock) -> None:
    def ended(count: int) -> set[int]:
        ids = {queue.enqueue("t").id for _ in range(count)}
        for job_id in ids:
            queue.cancel(job_id)
        return ids

    old = ended(3)
    clock.advance(1)
    middle = ended(2)
    clock.advance(59_999)
    young = ended(1)
    waiting = {queue.enqueue("t").id, queue.enqueue("t", delay=9).id}
    assert queue.prune(older_than=61) == 0
    assert queue.prune(older_than=timedelta(minutes=1)) == len(old)
    assert {job.id for job in queue.jobs()} == middle | young | waiting
    assert queue.prune(older_than=59.999) == len(middle)
    assert queue.prune() == len(young)
    assert {job.id for job in queue.jobs()} == waiting


async def test_prune_goes_on_past_one_transaction(queue: Queue) -> None:
    task = queue.task(name="t")(succeed)
    for verb in (queue.prune, None):
        task.options(key="k").enqueue_many([()] * 1_234)
        with closing(sqlite3.connect(queue.path)) as connection:
            connection.execute(
                "UPDATE slotq_jobs SET state = 'cancelled', finished_at = created_at"
            )
            connection.commit()
        assert (verb() if verb else await queue.aprune()) == 1_234
    assert queue.stats().cancelled == 0


def test_prune_forgets_keys_with_nothing_to_remember(queue: Queue) -> None:
    task = queue.task(name="t")(succeed)
    queue.set_limit("limited", max_running=1)
    for key in ("idle", "limited", "busy"):
        task.options(key=key).enqueue()
    task.enqueue_many([()] * 3)
    for number in range(1_500):
        task.options(key=f"k{number}").enqueue()
    Worker(queue, slots=100, burst=True).run()
    task.options(key="busy").enqueue()
    assert queue.stats().keys == 1_503
    queue.prune()
    assert {each.key for each in queue.keys(sort="key")} == {"limited", "busy"}


# Ids.


def test_ids_are_never_given_again(queue: Queue) -> None:
    """Field case 31: an id belongs to one job for ever, whatever is deleted."""
    clock_stands_still = queue.task(name="t", key="k")(succeed)
    ids = clock_stands_still.enqueue_many([()] * 100)
    assert ids == list(range(1, 101))
    Worker(queue, burst=True).run()
    assert queue.prune() == 100
    new = queue.enqueue("t")
    assert new.id == 101
    queue.delete(new.id)
    queue.close()
    assert queue.enqueue("t").id == 102
    with pytest.raises(InvalidValue):
        queue.task(name="u")(succeed).enqueue_many([(), (1,)])
    assert queue.enqueue("t").id == 103


def test_an_unknown_id_is_not_found_and_touches_nothing(queue: Queue) -> None:
    """Field case 31: verbs on an old id say "not found" and leave the others alone."""
    old, kept = queue.enqueue("t"), queue.enqueue("t")
    queue.delete(old.id)
    before = queue.jobs()
    verbs: list[Callable[[int], object]] = [queue.cancel, queue.retry, queue.delete, queue.job]
    for verb in verbs:
        for unknown in (old.id, 0, 2**63 - 1):
            with pytest.raises(JobNotFound) as caught:
                verb(unknown)
            assert caught.value.job_id == unknown
    assert queue.jobs() == before
    assert [job.id for job in before] == [kept.id]


@pytest.mark.parametrize("job_id", [-1, 2**63, "1", 1.0, True, None, b"bytes"])
def test_what_is_no_id_is_refused(queue: Queue, job_id: object) -> None:
    for verb in (queue.cancel, queue.retry, queue.delete, queue.job):
        with pytest.raises(InvalidValue, match=r"^job_id must be an integer from 0"):
            wrongly(verb)(job_id)


def test_jobs_of_one_moment_start_in_the_order_of_their_ids(queue: Queue) -> None:
    """Field case 31: a frozen clock and one bulk enqueue: exact order, claimed one by one."""
    started: list[int] = []

    @queue.task(key="k")
    def body(number: int) -> None:
        started.append(number)

    body.enqueue_many([(number,) for number in range(100)])
    queue.set_limit("k", max_running=1)
    Worker(queue, slots=4, burst=True).run()
    assert started == list(range(100))


def test_waiting_for_a_job_that_expires_ends_without_any_worker(tmp_path: Path) -> None:
    clock = ManualClock()
    with Queue(tmp_path / "jobs.db", clock=clock) as queue:
        job = queue.enqueue("t", expires=10)
        clock.advance(10_000)
        with pytest.raises(JobCancelled):
            job.wait(timeout=10)
