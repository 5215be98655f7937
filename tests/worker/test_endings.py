"""What a body says of its own end: Retry, Snooze, Discard; and retry_on and backoff of its task."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from typing_extensions import override

from slotq import Discard, InvalidValue, JobCancelled, Options, Queue, Retry, Snooze, Worker
from slotq.testing import ManualClock


def run_dry(queue: Queue) -> None:
    """Run what waits."""
    Worker(queue, burst=True).run()


def now(clock: ManualClock) -> datetime:
    return datetime.fromisoformat("1970-01-01T00:00:00+00:00") + timedelta(
        milliseconds=clock.now_ms()
    )


def raising(error: BaseException) -> Callable[[], None]:
    def body() -> None:
        raise error

    return body


async def araise(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize("delay", [0, 7, 0.25, timedelta(minutes=3)])
def test_retry_makes_the_attempt_again_after_its_delay(
    queue: Queue, clock: ManualClock, delay: float | timedelta
) -> None:
    job = queue.task(name="t", max_attempts=2)(raising(Retry(delay))).enqueue()
    run_dry(queue)
    found = queue.job(job.id)
    wait = delay if isinstance(delay, timedelta) else timedelta(seconds=delay)
    if delay:
        assert (found.state, found.attempt, found.run_at) == ("scheduled", 1, now(clock) + wait)
        clock.advance(int(wait.total_seconds() * 1_000))
        run_dry(queue)
    found = queue.job(job.id)
    assert (found.state, found.attempt) == ("failed", 2)
    assert found.error == "Retry: asked to be tried again"


def test_retry_without_a_delay_takes_the_backoff_of_the_task(
    queue: Queue, clock: ManualClock
) -> None:
    job = queue.task(name="t", backoff=90)(raising(Retry())).enqueue()
    run_dry(queue)
    assert queue.job(job.id).run_at == now(clock) + timedelta(seconds=90)


def test_retry_from_another_error_is_told_as_that_one(queue: Queue) -> None:
    def connect() -> None:
        raise ConnectionError("no route")

    @queue.task(retry_on=KeyError)
    def body() -> None:
        try:
            connect()
        except ConnectionError as error:
            raise Retry(delay=1) from error

    job = body.enqueue()
    run_dry(queue)
    found = queue.job(job.id)
    assert (found.state, found.error) == ("scheduled", "ConnectionError: no route")
    assert found.traceback is not None
    assert "in connect" in found.traceback


@pytest.mark.parametrize("is_async", [False, True])
def test_snooze_uses_no_attempt_and_is_no_failure(
    queue: Queue, clock: ManualClock, *, is_async: bool
) -> None:
    errors = [RuntimeError("first"), *[Snooze(60)] * 20]

    def body() -> None:
        raise errors.pop(0)

    async def abody() -> None:
        body()

    job = queue.task(name="t", key="k", max_attempts=2)(abody if is_async else body).enqueue()
    run_dry(queue)
    clock.advance(1_000)
    for _ in range(20):
        run_dry(queue)
        found = queue.job(job.id)
        assert (found.state, found.attempt) == ("scheduled", 1)
        assert (found.run_at, found.error) == (now(clock) + timedelta(minutes=1), None)
        assert queue.key("k").running == 0
        clock.advance(60_000)
    assert not errors


def test_discard_cancels_the_job_with_its_reason(queue: Queue) -> None:
    gone = queue.task(name="t")(raising(Discard("no such\ncustomer"))).enqueue()
    plain = queue.task(name="u")(raising(Discard())).enqueue()
    run_dry(queue)
    found = queue.job(gone.id)
    assert (found.state, found.error, found.attempt) == ("cancelled", "no such customer", 1)
    assert queue.job(plain.id).error == "discarded"
    with pytest.raises(JobCancelled, match="job 1 was cancelled: no such customer"):
        gone.wait(timeout=0)
    queue.retry(gone.id)
    assert queue.job(gone.id).state == "waiting"


class Odd(Exception):
    """One of its own."""


@pytest.mark.parametrize(
    ("retry_on", "error", "state"),
    [
        (ConnectionError, ConnectionResetError("x"), "scheduled"),
        (ConnectionError, ValueError("x"), "failed"),
        ((Odd, OSError), Odd("x"), "scheduled"),
        ((Odd, OSError), SystemExit(1), "failed"),
        (BaseException, SystemExit(1), "scheduled"),
        ((), Odd("x"), "failed"),
        (None, SystemExit(1), "scheduled"),
    ],
)
def test_only_what_retry_on_names_is_tried_again(
    queue: Queue,
    retry_on: type[BaseException] | tuple[type[BaseException], ...] | None,
    error: BaseException,
    state: str,
) -> None:
    job = queue.task(name="t", retry_on=retry_on)(raising(error)).enqueue()
    run_dry(queue)
    assert (queue.job(job.id).state, queue.job(job.id).attempt) == (state, 1)


@pytest.mark.parametrize(("retry_on", "state"), [(TimeoutError, "scheduled"), (Odd, "failed")])
def test_a_time_out_counts_as_a_timeouterror(
    queue: Queue, retry_on: type[Exception], state: str
) -> None:
    @queue.task(retry_on=retry_on, timeout=0.01)
    async def body() -> None:
        await asyncio.Event().wait()

    job = body.enqueue()
    run_dry(queue)
    assert queue.job(job.id).state == state


def hundreds(attempt: int) -> int:
    return attempt * 100


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        (5, [5, 5, 5]),
        (0, [0, 0, 0]),
        (timedelta(hours=2), [7_200, 7_200, 7_200]),
        ([1, timedelta(seconds=10), 60], [1, 10, 60, 60]),
        (hundreds, [100, 200, 300]),
    ],
)
def test_backoff_is_the_task_s_own(
    queue: Queue, clock: ManualClock, backoff: float, waits: list[int]
) -> None:
    job = queue.task(name="t", backoff=backoff, max_attempts=9)(raising(Odd())).enqueue()
    for attempt, wait in enumerate(waits, start=1):
        Worker(queue, burst=True, max_jobs=1).run()
        found = queue.job(job.id)
        assert (found.attempt, found.run_at) == (attempt, now(clock) + timedelta(seconds=wait))
        clock.advance(wait * 1_000)


@pytest.mark.parametrize(
    "answer", [-1, float("nan"), "soon", Odd("no idea"), SystemExit(3), 10**30]
)
def test_a_backoff_function_of_no_use_gives_way_to_the_usual_one(
    queue: Queue, clock: ManualClock, caplog: pytest.LogCaptureFixture, answer: object
) -> None:
    def backoff(_: int) -> float:
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[return-value]  # what a program without types may do

    job = queue.task(name="t", backoff=backoff)(raising(Odd())).enqueue()
    run_dry(queue)
    wait = queue.job(job.id).run_at - now(clock)
    assert timedelta(seconds=0.5) <= wait <= timedelta(seconds=1)
    assert "job 1: the backoff of t is of no use" in caplog.text


@pytest.mark.parametrize(
    "options",
    [
        Options(backoff=-1), Options(backoff=[]), Options(backoff=[1, float("inf")]),
        Options(backoff=[0] * 1_001),
        Options(retry_on="ValueError"),  # type: ignore[typeddict-item]
        Options(retry_on=(ValueError, 3)),  # type: ignore[typeddict-item]
        Options(retry_on=int),  # type: ignore[typeddict-item]
    ],
)  # fmt: skip
def test_what_is_no_backoff_or_no_exception_is_refused(queue: Queue, options: Options) -> None:
    (name,) = options
    with pytest.raises(InvalidValue, match=name):
        queue.task(name="t", **options)(raising(Odd()))
    assert queue.tasks == {}


@pytest.mark.parametrize("options", [Options(backoff=3), Options(retry_on=OSError)])
def test_what_belongs_to_the_task_is_refused_for_one_job(queue: Queue, options: Options) -> None:
    task = queue.task(name="t")(raising(Odd()))
    with pytest.raises(InvalidValue, match=r"give it in @q\.task"):
        task.options(**options)
    with pytest.raises(InvalidValue, match=r"give it in @q\.task"):
        queue.enqueue("t", **options)
    assert queue.jobs() == []


class Hollow(Snooze):
    """One that a program made without ``super().__init__``."""

    def __init__(self, delay_ms: object) -> None:
        self.__dict__["delay_ms"] = delay_ms


class Hoarse(Discard):
    """One whose text cannot be read."""

    @override
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("delay_ms", [1.5, 10**19, -1, True, "soon"])
def test_a_delay_that_cannot_be_stored_fails_its_own_job_only(
    queue: Queue, delay_ms: object
) -> None:
    odd = queue.task(name="t", max_attempts=1)(raising(Hollow(delay_ms))).enqueue()
    good = queue.task(name="u")(lambda: None).enqueue()
    run_dry(queue)
    assert (queue.job(odd.id).state, queue.job(good.id).state) == ("failed", "succeeded")


def test_a_reason_that_cannot_be_read_discards_all_the_same(queue: Queue) -> None:
    job = queue.task(name="t")(raising(Hoarse())).enqueue()
    run_dry(queue)
    assert queue.job(job.id).state == "cancelled"


@pytest.mark.parametrize("wrong", [-1, float("nan"), "1", None, 10**20])
def test_a_time_that_cannot_be_is_refused_where_it_is_said(wrong: float | None) -> None:
    with pytest.raises(InvalidValue, match="seconds"):
        Snooze(wrong)  # type: ignore[arg-type]
    if wrong is not None:
        with pytest.raises(InvalidValue, match="delay"):
            Retry(wrong)
