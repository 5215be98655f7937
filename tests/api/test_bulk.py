"""What is done to many jobs at once, and why it was not done to the others."""

import asyncio

import pytest

from slotq import Bulk, InvalidValue, Job, JobNotFound, Queue
from slotq.testing import ManualClock
from support.wrongly import wrongly


def succeed() -> None: ...


def enqueued(queue: Queue, count: int) -> list[int]:
    task = queue.tasks.get("t") or queue.task(name="t")(succeed)
    return wrongly(task.enqueue_many)([()] * count)


def test_each_job_is_acted_on_or_says_why_not(queue: Queue) -> None:
    first, second, third = enqueued(queue, 3)
    assert queue.cancel_many([third, 99, first]) == Bulk(
        done=(third, first), refused={99: "job 99 does not exist"}
    )
    assert queue.cancel_many([first, second]) == Bulk(
        done=(second,), refused={first: f"job {first} had ended before"}
    )
    queue.retry(second)
    told = queue.retry_many([first, second, 99])
    assert told.done == (first,)
    assert told.refused == {
        second: f"job {second} is waiting: only a failed or cancelled one can be retried",
        99: "job 99 does not exist",
    }
    assert queue.delete_many([third, third, first]) == Bulk(done=(third, first), refused={})
    assert [job.id for job in queue.jobs()] == [second]


def test_two_jobs_of_one_dedupe_value_are_not_both_retried(queue: Queue) -> None:
    ids: list[int] = []
    for _ in range(2):
        ids.append(queue.enqueue("t", dedupe="d").id)
        queue.cancel(ids[-1])
    told = queue.retry_many(ids)
    assert told.done == (ids[0],)
    assert f"job {ids[0]} with its dedupe value has not ended" in told.refused[ids[1]]


def test_an_invalid_id_refuses_the_whole_call(queue: Queue) -> None:
    ids = enqueued(queue, 2)
    for wrong in ([*ids, -1], [*ids, "3"], [*ids, True], ids[0], None):
        with pytest.raises(InvalidValue, match=r"^(job_id|ids) must be"):
            wrongly(queue.cancel_many)(wrong)
    assert queue.stats().waiting == 2


def test_no_jobs_are_no_error_and_any_iterable_of_ids_will_do(queue: Queue) -> None:
    assert queue.delete_many([]) == Bulk(done=(), refused={})
    ids = enqueued(queue, 4)
    assert queue.delete_many(iter(ids[:2])).done == tuple(ids[:2])
    assert set(queue.delete_many(set(ids)).done) == set(ids[2:])


def test_all_that_is_due_is_handled_first(queue: Queue, clock: ManualClock) -> None:
    task = queue.task(name="t", expires=10)(succeed)
    ids = task.enqueue_many([()] * 1_100)
    clock.advance(10_000)
    last = ids[-1]
    assert queue.cancel_many([last]).refused == {last: f"job {last} had ended before"}
    assert queue.retry_many([last]).done == (last,)


async def test_many_jobs_are_acted_on_with_a_turn_for_others_in_between(queue: Queue) -> None:
    ids = enqueued(queue, 2_000)
    cancelling = asyncio.create_task(queue.acancel_many(ids))
    while (left := (await queue.astats()).waiting) == 2_000:
        pass
    assert 0 < left < 2_000
    assert (await cancelling).done == tuple(ids)


async def test_the_twins_do_the_same(queue: Queue) -> None:
    ids = enqueued(queue, 3)
    assert (await queue.acancel_many(ids[:2])).done == tuple(ids[:2])
    assert (await queue.aretry_many(ids)).done == tuple(ids[:2])
    assert (await queue.adelete_many([*ids, 99])).done == tuple(ids)
    with pytest.raises(JobNotFound):
        await queue.ajob(ids[0])


# Ended.


def ids_of(jobs: list[Job]) -> list[int]:
    return [job.id for job in jobs]


def test_jobs_are_listed_by_their_end(queue: Queue, clock: ManualClock) -> None:
    first, second, third, _waiting = enqueued(queue, 4)
    since = queue.job(first).created_at
    for job_id in (third, first):
        clock.advance(1)
        queue.cancel(job_id)
    queue.cancel(second)
    assert ids_of(queue.ended(since=since)) == [third, first, second]
    then = queue.job(first).finished_at
    assert then is not None
    assert ids_of(queue.ended(since=then)) == [first, second]
    assert queue.ended(since=since)[0].args is None


def test_pages_by_end_neither_repeat_nor_miss_a_job(queue: Queue, clock: ManualClock) -> None:
    ids = enqueued(queue, 10)
    since = queue.job(ids[0]).created_at
    for at in range(0, 10, 5):
        queue.cancel_many(reversed(ids[at : at + 5]))
        clock.advance(1)
    seen: list[int] = []
    after = 0
    while page := queue.ended(since=since, after=after, limit=3):
        seen += ids_of(page)
        assert page[-1].finished_at is not None
        since, after = page[-1].finished_at, page[-1].id
    assert seen == ids


def test_ended_jobs_are_filtered(queue: Queue) -> None:
    since = queue.enqueue("other", key="k", queue="q").created_at
    enqueued(queue, 2)
    queue.cancel_many([1, 2])
    assert ids_of(queue.ended(since=since, key="k")) == [1]
    assert ids_of(queue.ended(since=since, key="")) == [2]
    assert ids_of(queue.ended(since=since, queue="q")) == [1]
    assert ids_of(queue.ended(since=since, task="t")) == [2]
    assert ids_of(queue.ended(since=since, state="cancelled")) == [1, 2]
    assert queue.ended(since=since, state="failed") == []
