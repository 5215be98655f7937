"""What a body knows of its job, and what it says of its progress."""

import asyncio
import contextvars
import threading

import pytest

from slotq import CurrentJob, InvalidValue, Queue, SlotqError, Worker, current_job
from support.procs import until
from support.serving import has_running, serving_in_thread


@pytest.mark.parametrize("is_async", [False, True])
def test_a_body_knows_its_job(queue: Queue, *, is_async: bool) -> None:
    seen: list[tuple[object, ...]] = []

    def body(tenant: str) -> None:
        job = current_job()
        seen.append((job.id, job.task, job.queue, job.key, job.attempt, job.max_attempts))
        seen.append((job.is_last, job.lost, job.cancelled, job.overdue))
        assert repr(job) == f"<CurrentJob {job.id} t attempt {job.attempt}>"
        if not job.is_last:
            raise RuntimeError

    async def abody(tenant: str) -> None:
        await asyncio.create_task(asyncio.to_thread(body, tenant))

    make = queue.task(name="t", queue="q", key="k:{tenant}", max_attempts=2, backoff=0)
    make(abody if is_async else body).enqueue("acme")
    Worker(queue, burst=True).run()
    told = (1, "t", "q", "k:acme")
    assert seen == [
        (*told, 1, 2), (False, False, False, False),
        (*told, 2, 2), (True, False, False, False),
    ]  # fmt: skip


def test_a_job_without_a_key_has_none(queue: Queue) -> None:
    keys: list[str | None] = []
    queue.task(name="t")(lambda: keys.append(current_job().key)).enqueue()
    Worker(queue, burst=True).run()
    assert keys == [None]


def test_outside_a_body_there_is_no_job(queue: Queue) -> None:
    with pytest.raises(SlotqError, match="no job runs here"):
        current_job()
    queue.task(name="t")(lambda: None).enqueue()
    Worker(queue, burst=True).run()
    with pytest.raises(SlotqError, match="no job runs here"):
        current_job()


async def test_bodies_side_by_side_know_each_their_own(queue: Queue) -> None:
    seen: dict[int, int] = {}
    together = asyncio.Barrier(8)

    @queue.task
    async def body(number: int) -> None:
        await together.wait()
        seen[number] = current_job().id

    ids = body.enqueue_many([(number,) for number in range(8)])
    await Worker(queue, slots=8, burst=True).serve()
    assert seen == dict(enumerate(ids))


def test_progress_is_seen_while_the_body_runs_and_stays(queue: Queue) -> None:
    go = threading.Event()

    @queue.task
    def body() -> None:
        current_job().progress(1, 4)
        until(lambda: queue.job(1).progress == 0.25)
        assert queue.job(1).progress_text == "1/4"
        current_job().progress(3, 4, "page 3")
        until(lambda: queue.job(1).progress == 0.75)
        current_job().progress(7, text="\0" + "x" * 500)
        until(lambda: queue.job(1).progress is None)
        go.wait(20)
        current_job().progress(4, 4, "last words")

    job = body.enqueue()
    with serving_in_thread(Worker(queue, slots=1)):
        until(lambda: (queue.job(1).progress_text or "").startswith("\\x00"))
        assert len(queue.job(1).progress_text or "") < 210
        go.set()
        until(lambda: queue.job(job.id).state == "succeeded")
    found = queue.job(job.id)
    assert (found.progress, found.progress_text) == (1.0, "last words")


def test_a_new_attempt_begins_without_progress(queue: Queue) -> None:
    @queue.task(max_attempts=2, backoff=0)
    def body() -> None:
        assert queue.job(1).progress is None
        current_job().progress(1, 2)
        raise RuntimeError

    body.enqueue()
    Worker(queue, burst=True).run()
    assert (queue.job(1).attempt, queue.job(1).error) == (2, "RuntimeError")


def test_telling_of_progress_all_the_time_costs_few_transactions(queue: Queue) -> None:
    @queue.task
    def body() -> int:
        before = queue.database.data_version()
        for number in range(20_000):
            current_job().progress(number, 20_000)
        return queue.database.data_version() - before

    job = body.enqueue()
    Worker(queue, burst=True).run()
    transactions = job.wait(timeout=0)
    assert isinstance(transactions, int)
    assert transactions < 100
    assert queue.job(job.id).progress == 19_999 / 20_000


@pytest.mark.parametrize(
    ("done", "total"),
    [
        (-1, None),
        (float("nan"), None),
        ("1", None),
        (True, None),
        (1, 0),
        (1, -1),
        (1, float("nan")),
    ],
)
def test_progress_in_no_numbers_is_refused(queue: Queue, done: float, total: float | None) -> None:
    @queue.task
    def body() -> None:
        with pytest.raises(InvalidValue, match="must be"):
            current_job().progress(done, total)

    job = body.enqueue()
    Worker(queue, burst=True).run()
    assert queue.job(job.id).state == "succeeded"
    assert queue.job(job.id).progress is None


def test_more_than_all_is_all(queue: Queue) -> None:
    queue.task(name="t")(lambda: current_job().progress(5, 4)).enqueue()
    Worker(queue, burst=True).run()
    assert queue.job(1).progress == 1


def test_a_body_over_its_time_knows_it_and_shows(queue: Queue) -> None:
    @queue.task(timeout=0.01, max_attempts=1)
    def body() -> None:
        until(lambda: current_job().overdue)
        go.wait(20)

    go = threading.Event()
    job = body.enqueue()
    with serving_in_thread(Worker(queue)):
        until(has_running(queue, 1))
        assert queue.job(job.id).timeout == 0.01
        go.set()
    assert queue.job(job.id).error == "timeout after 0.01 s"


def test_what_a_body_starts_in_a_copied_context_knows_its_job_too(queue: Queue) -> None:
    seen: list[CurrentJob] = []

    @queue.task
    def body() -> None:
        context = contextvars.copy_context()
        thread = threading.Thread(target=lambda: seen.append(context.run(current_job)))
        thread.start()
        thread.join()

    body.enqueue()
    Worker(queue, burst=True).run()
    assert [job.id for job in seen] == [1]
