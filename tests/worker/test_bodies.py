"""Bodies: where they run, and how whatever they do ends their job and nothing else."""

import asyncio
import contextlib
import contextvars
import functools
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator

import pytest
from typing_extensions import override

from slotq import Job, JobFailed, Queue, Worker
from slotq.testing import ManualClock
from support.procs import auntil
from support.serving import serving


def ended(queue: Queue, job: Job) -> Job:
    Worker(queue, burst=True).run()
    return queue.job(job.id)


def test_a_plain_function_runs_in_a_thread_and_an_async_one_on_the_loop(queue: Queue) -> None:
    @queue.task
    def plain() -> str:
        return threading.current_thread().name

    @queue.task
    async def awaited() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    jobs = [plain.enqueue(), awaited.enqueue()]
    Worker(queue, burst=True).run()
    in_thread, on_loop = [str(job.wait(timeout=0)) for job in jobs]
    assert in_thread.startswith("slotq-job")
    assert on_loop == threading.current_thread().name


async def test_bodies_of_both_kinds_run_at_once(queue: Queue) -> None:
    meeting = threading.Barrier(3)

    @queue.task
    def plain() -> None:
        meeting.wait(20)

    @queue.task
    async def awaited() -> None:
        await asyncio.to_thread(meeting.wait, 20)

    for task in (plain, awaited, plain):
        task.enqueue()
    await Worker(queue, slots=3, burst=True).serve()
    assert queue.stats().succeeded == 3


async def test_no_more_bodies_run_than_there_are_slots(queue: Queue) -> None:
    running, most, gate = 0, 0, asyncio.Event()

    @queue.task
    async def body() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1

    body.enqueue_many([()] * 10)
    async with serving(Worker(queue, slots=3)):
        await auntil(lambda: running == 3)
        gate.set()
        await auntil(lambda: queue.stats().succeeded == 10)
    assert most == 3


class Unprintable(Exception):
    @override
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Strange(Exception):
    @override
    def __str__(self) -> str:
        return "a\0b \ud800 \x1b[31m\nnext"


class Huge(Exception):
    @override
    def __str__(self) -> str:
        return "x" * 5_000_000


class Base(BaseException):
    pass


def raising(error: BaseException) -> Callable[[], None]:
    def body() -> None:
        raise error

    return body


def araising(error: BaseException) -> Callable[[], Coroutine[None, None, None]]:
    async def body() -> None:
        await asyncio.sleep(0)
        raise error

    return body


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("wrong"), "ValueError: wrong"),
        (ValueError(), "ValueError"),
        (ValueError("two\nlines"), "ValueError: two lines"),
        (Unprintable(), "Unprintable: (its text cannot be read)"),
        (Strange(), "Strange: a\\x00b \\ud800 \x1b[31m next"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (Base("mine"), "Base: mine"),
        (asyncio.CancelledError(), "CancelledError"),
        (TimeoutError("mine"), "TimeoutError: mine"),
        (GeneratorExit(), "GeneratorExit"),
        (ExceptionGroup("many", [ValueError(1)]), "ExceptionGroup: many (1 sub-exception)"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_whatever_a_body_raises_ends_its_job_only(
    queue: Queue, kind: str, error: BaseException, line: str
) -> None:
    bad = queue.task(name="bad", max_attempts=1)(
        raising(error) if kind == "plain" else araising(error)
    )
    good = queue.task(name="good")(lambda: 1)
    jobs = [good.enqueue(), bad.enqueue(), good.enqueue()]
    Worker(queue, slots=1, burst=True).run()
    first, failed, second = [queue.job(job.id) for job in jobs]
    assert (first.state, second.state) == ("succeeded", "succeeded")
    assert (failed.state, failed.error) == ("failed", line)
    assert "Traceback" in (failed.traceback or "")
    with pytest.raises(JobFailed):
        failed.wait()


def test_a_huge_error_is_kept_short(queue: Queue) -> None:
    failed = ended(queue, queue.task(name="bad", max_attempts=1)(raising(Huge())).enqueue())
    assert len(failed.error or "") <= 2_000
    assert len(failed.traceback or "") <= 50_000


def test_an_endless_recursion_ends_the_job_only(queue: Queue) -> None:
    def body() -> None:
        body()

    failed = ended(queue, queue.task(name="bad", max_attempts=1)(body).enqueue())
    assert (failed.error or "").startswith("RecursionError")


def test_a_coroutine_that_a_plain_function_returns_fails_the_job_with_a_hint(queue: Queue) -> None:
    async def inner() -> None: ...

    @functools.wraps(inner)
    def wrapped() -> Coroutine[None, None, None]:
        return inner()

    failed = ended(queue, queue.task(name="bad")(wrapped).enqueue())
    assert failed.state == "failed"
    assert "register an async def" in (failed.error or "")


class Awkward:
    """A result that raises while it is written."""

    def __init__(self) -> None:
        self.__dataclass_fields__: dict[str, object] = {}

    def __iter__(self) -> Iterator[int]:
        raise SystemError("no")


def test_a_result_that_cannot_even_be_looked_at_fails_the_job(queue: Queue) -> None:
    failed = ended(queue, queue.task(name="bad", max_attempts=1)(Awkward).enqueue())
    assert failed.state == "failed"


def test_arguments_that_no_longer_fit_fail_the_attempt(queue: Queue) -> None:
    """The function was changed after the job was stored; a later version may fit again."""

    @queue.task(name="t")
    def body(number: int) -> None: ...

    wrong_type = queue.enqueue("t", args=["x"])
    wrong_count = queue.enqueue("t", args=[1, 2])
    Worker(queue, burst=True).run()
    for job in (wrong_type, wrong_count):
        assert (queue.job(job.id).state, queue.job(job.id).attempt) == ("scheduled", 1)
    assert "Expected `int`, got `str`" in (queue.job(wrong_type.id).error or "")
    assert "too many positional arguments" in (queue.job(wrong_count.id).error or "")


def test_what_a_body_sets_in_its_context_is_not_there_for_the_next(queue: Queue) -> None:
    mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="")

    @queue.task
    def plain() -> str:
        before = mark.get()
        mark.set("plain")
        return before

    @queue.task
    async def awaited() -> str:
        before = mark.get()
        mark.set("async")
        return before

    jobs = [task.enqueue() for task in (plain, plain, awaited, awaited)]
    Worker(queue, slots=1, burst=True).run()
    assert [job.wait(timeout=0) for job in jobs] == [""] * 4


def test_a_body_that_cancels_itself_fails(queue: Queue) -> None:
    """It is not handed back unused: it would come again at once, for ever."""

    @queue.task(max_attempts=1)
    async def body() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    failed = ended(queue, body.enqueue())
    assert (failed.state, failed.error) == ("failed", "CancelledError")


def test_bodies_may_enqueue_and_wait(queue: Queue) -> None:
    @queue.task
    def child(number: int) -> int:
        return number * 2

    @queue.task
    def plain() -> object:
        return child.enqueue(3).wait(timeout=20)

    @queue.task
    async def awaited() -> object:
        job = await child.aenqueue(4)
        return await job.await_result(timeout=20)

    jobs = [plain.enqueue(), awaited.enqueue()]
    Worker(queue, burst=True).run()
    assert [job.wait(timeout=0) for job in jobs] == [6, 8]


def test_a_body_may_close_the_queue(queue: Queue) -> None:
    @queue.task
    def body() -> None:
        queue.close()

    body.enqueue_many([()] * 5)
    Worker(queue, slots=1, burst=True).run()
    assert queue.stats().succeeded == 5


@pytest.mark.skipif(sys.platform != "linux", reason="threads are named for the debugger there")
def test_threads_end_with_the_worker(queue: Queue) -> None:
    queue.task(name="t")(lambda: None).enqueue_many([()] * 20)
    before = threading.active_count()
    Worker(queue, slots=8, burst=True).run()
    with contextlib.closing(queue):
        names = {thread.name for thread in threading.enumerate() if thread.name != "MainThread"}
        assert not {name for name in names if name.startswith(("slotq-turns", "slotq-heartbeat"))}
    assert threading.active_count() <= before + 8


def test_a_body_for_which_no_thread_is_to_be_had_is_put_off_and_runs_once(
    queue: Queue,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The pool keeps what it could not start a thread for, and may run it all the same."""
    begin = threading.Thread.start
    refused: list[str] = []

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith("slotq-job") and len(refused) < 6:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    ran: list[int] = []
    ids = queue.task(name="t", max_attempts=1)(ran.append).enqueue_many([(n,) for n in range(4)])
    for _ in range(4):
        Worker(queue, slots=4, burst=True).run()
        clock.advance(1_000)
    assert refused
    assert sorted(ran) == [0, 1, 2, 3]
    assert [(queue.job(each).state, queue.job(each).attempt) for each in ids] == [
        ("succeeded", 1)
    ] * 4
    assert caplog.text.count("so it is put off") <= 4
