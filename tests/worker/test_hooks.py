"""Hooks: what a worker calls of the application, and that none of it can break a worker."""

import asyncio
import threading
import time
from collections.abc import Callable

import pytest
from typing_extensions import override

from slotq import Discard, InvalidValue, Queue, RunEvent, Snooze, Worker, hookrunner, hooks
from slotq.hookrunner import HookRunner
from slotq.testing import ManualClock
from support.procs import until
from support.serving import serving_in_thread


def run_dry(queue: Queue, *, slots: int = 1) -> None:
    Worker(queue, burst=True, slots=slots).run()


class Watch:
    """Notes what it is told."""

    def __init__(self, queue: Queue) -> None:
        self.events: list[RunEvent] = []
        names: tuple[hooks.HookName, ...] = ("started", "finished", "failed", "lost")
        for name in names:
            queue.on(name, self.events.append)

    @property
    def told(self) -> list[tuple[str, int, str, str | None]]:
        return [(event.kind, event.job, event.state, event.error) for event in self.events]


def test_each_end_of_a_run_is_told(queue: Queue) -> None:
    watch = Watch(queue)
    ends: dict[str, BaseException | None] = {
        "good": None,
        "bad": RuntimeError("no"),
        "later": Snooze(60),
        "useless": Discard("gone"),
    }

    @queue.task(key="{how}", max_attempts=2, name="t")
    def body(how: str) -> None:
        error = ends[how]
        if error is not None:
            raise error

    for how in ends:
        body.options(queue="q").enqueue(how)
    run_dry(queue)
    assert watch.told == [
        ("started", 1, "running", None), ("finished", 1, "succeeded", None),
        ("started", 2, "running", None), ("failed", 2, "scheduled", "RuntimeError: no"),
        ("started", 3, "running", None), ("finished", 3, "scheduled", None),
        ("started", 4, "running", None), ("finished", 4, "cancelled", "gone"),
    ]  # fmt: skip
    first = watch.events[1]
    assert (first.task, first.queue, first.key, first.attempt, first.max_attempts) == (
        "t", "q", "good", 1, 2,
    )  # fmt: skip
    assert first.seconds is not None
    assert 0 <= first.seconds < 20
    assert watch.events[0].seconds is None
    assert first.at.tzinfo is not None


def test_the_last_failure_is_told_as_such(queue: Queue) -> None:
    watch = Watch(queue)

    @queue.task(max_attempts=1)
    def body() -> None:
        raise RuntimeError

    body.enqueue()
    run_dry(queue)
    assert watch.told[1] == ("failed", 1, "failed", "RuntimeError")


def test_a_lost_lease_is_told(queue: Queue, clock: ManualClock) -> None:
    watch, go = Watch(queue), threading.Event()

    @queue.task(max_attempts=1)
    def body() -> None:
        go.wait(20)

    job = body.enqueue()
    with serving_in_thread(Worker(queue, lease=3_600)):
        until(lambda: queue.job(job.id).state == "running")
        clock.advance(3_600_000)
        queue.cancel(job.id)  # handles what is due first
        assert queue.job(job.id).error == "worker lost"
        go.set()
        until(lambda: len(watch.events) == 2)
    assert watch.told[1] == ("lost", 1, "running", "lease lost")


def test_beginning_and_end_enclose_all_jobs(queue: Queue) -> None:
    story: list[str] = []

    @queue.on("worker_start")
    async def open_pool() -> None:
        await asyncio.sleep(0)
        story.append("open")

    @queue.on("worker_stop")
    def close_pool() -> None:
        story.append("close")

    @queue.task
    def body() -> None:
        story.append("job")

    body.enqueue_many([(), ()])
    run_dry(queue)
    run_dry(queue)
    assert story == ["open", "job", "job", "close", "open", "close"]
    assert open_pool.__name__ == "open_pool"


def test_async_hooks_run_on_the_loop_and_others_on_one_thread(queue: Queue) -> None:
    threads: dict[str, list[str]] = {"async": [], "sync": []}

    async def tell(_: RunEvent) -> None:
        threads["async"].append(threading.current_thread().name)

    queue.on("finished", tell)

    def tell_too(_: RunEvent) -> None:
        threads["sync"].append(threading.current_thread().name)

    queue.on("finished", tell_too)
    queue.task(name="t")(lambda: None).enqueue_many([(), (), ()])
    run_dry(queue)
    assert threads["async"] == ["MainThread"] * 3
    assert len(threads["sync"]) == 3
    assert len(set(threads["sync"])) == 1
    assert threads["sync"][0].startswith("slotq-hook")


def raising(error: BaseException) -> Callable[..., None]:
    def hook(*_: object) -> None:
        raise error

    return hook


def araising(error: BaseException) -> Callable[..., object]:
    async def hook(*_: object) -> None:
        await asyncio.sleep(0)
        raise error

    return hook


@pytest.mark.parametrize("make", [raising, araising])
@pytest.mark.parametrize(
    "error",
    [RuntimeError("x\x1b[31m"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()],
)
def test_whatever_a_hook_raises_is_logged_and_breaks_nothing(
    queue: Queue,
    caplog: pytest.LogCaptureFixture,
    make: Callable[[BaseException], Callable[..., None]],
    error: BaseException,
) -> None:
    watch = Watch(queue)
    for name in hooks.HOOK_NAMES:
        queue.on(name, make(error))
    ids = queue.task(name="t")(lambda: None).enqueue_many([(), ()])
    run_dry(queue)
    assert [queue.job(each).state for each in ids] == ["succeeded"] * 2
    assert len(watch.events) == 4
    assert {f"hook {name}" for name in ("worker_start", "started", "finished", "worker_stop")} <= {
        " ".join(record.message.split()[:2]) for record in caplog.records
    }
    assert "\x1b" not in "".join(record.message for record in caplog.records)


def test_a_time_out_of_a_hook_s_own_is_told_as_its_failure(
    queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    queue.on("worker_start", raising(TimeoutError("no answer")))
    run_dry(queue)
    assert "hook worker_start failed: TimeoutError: no answer" in caplog.text
    assert "took longer" not in caplog.text


def test_a_hook_for_the_end_is_called_though_others_are_slow(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slotq.shift.HOOKS_S", 0.05)
    go, story = threading.Event(), list[str]()

    def hang(_: RunEvent) -> None:
        go.wait(60)

    queue.on("started", hang)
    queue.on("worker_stop", lambda: story.append("closed"))
    queue.task(name="t")(lambda: None).enqueue()
    run_dry(queue)
    assert story == ["closed"]
    go.set()


class Mute(Exception):
    """One whose text cannot be read."""

    @override
    def __str__(self) -> str:
        raise RuntimeError


def test_an_error_that_cannot_be_read_breaks_no_hooks(
    queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    watch = Watch(queue)
    queue.on("started", raising(Mute()))
    queue.task(name="t")(lambda: None).enqueue_many([(), ()])
    run_dry(queue)
    assert len(watch.events) == 4
    assert caplog.text.count("hook started failed: Mute: (its text cannot be read)") == 2


def test_a_hook_is_told_the_state_that_the_job_is_in(queue: Queue) -> None:
    """Also where somebody asked for its end so late that the worker could not know."""
    watch = Watch(queue)

    @queue.task
    def body() -> None:
        queue.cancel(1)
        raise RuntimeError("no")

    body.enqueue()
    run_dry(queue)
    assert watch.events[1].state == queue.job(1).state == "cancelled"


def test_who_closes_hooks_again_waits_for_the_first(queue: Queue) -> None:
    story: list[str] = []

    async def close_twice() -> None:
        runner = HookRunner(queue.hooks)
        await asyncio.gather(*(runner.close(patience_s=20) for _ in range(2)))
        story.append("both closed")

    @queue.on("worker_stop")
    async def close_pool() -> None:
        await asyncio.sleep(0.01)
        story.append("closed")

    asyncio.run(close_twice())
    assert story == ["closed", "both closed"]


def test_a_hook_with_wrong_parameters_breaks_nothing(
    queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    def takes_one(_: RunEvent) -> None: ...

    queue.on("started", lambda: None)
    queue.on("worker_start", takes_one)
    queue.task(name="t")(lambda: None).enqueue()
    run_dry(queue)
    assert queue.job(1).state == "succeeded"
    assert caplog.text.count("TypeError") >= 2


def test_a_hook_that_hangs_delays_no_job(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hookrunner, "LONGEST_S", 0.05)
    go, told = threading.Event(), list[int]()

    @queue.on("started")
    def hang(event: RunEvent) -> None:
        if event.job == 1:
            go.wait(60)
        told.append(event.job)

    @queue.on("worker_start")
    async def hang_too() -> None:
        await asyncio.Event().wait()

    queue.task(name="t")(lambda: None).enqueue_many([(), (), ()])
    began_s = time.monotonic()
    run_dry(queue)
    assert time.monotonic() - began_s < 20
    assert told == [2, 3]
    assert queue.stats().succeeded == 3
    go.set()


def test_hooks_that_never_end_do_not_keep_a_worker(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("slotq.shift.HOOKS_S", 0.05)
    go = threading.Event()
    queue.on("worker_stop", lambda: go.wait(60))
    began_s = time.monotonic()
    run_dry(queue)
    assert time.monotonic() - began_s < 20
    assert "are left to themselves" in caplog.text
    go.set()


def test_events_that_nobody_can_take_are_dropped_at_last(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hookrunner, "MOST_WAITING", 5)
    go, told = threading.Event(), list[int]()

    @queue.on("started")
    def hold_up(event: RunEvent) -> None:
        go.wait(60)
        told.append(event.job)

    @queue.task
    def body() -> None:
        if queue.stats().succeeded >= 40:
            go.set()

    body.enqueue_many([()] * 50)
    run_dry(queue)
    assert queue.stats().succeeded == 50
    assert caplog.text.count("hooks are too slow") == 1
    assert 5 <= len(told) < 50


@pytest.mark.parametrize("name", ["start", "", None, 3, "Started"])
def test_a_hook_that_there_is_not_is_refused(queue: Queue, name: str) -> None:
    with pytest.raises(InvalidValue, match="hook must be one of worker_start, worker_stop"):
        queue.on(name, print)  # type: ignore[call-overload]
    with pytest.raises(InvalidValue, match="hook must be one of"):
        queue.on(name)  # type: ignore[call-overload]


def test_what_is_no_function_is_refused(queue: Queue) -> None:
    with pytest.raises(InvalidValue, match="hook started must be a function, not 3"):
        queue.on("started", 3)  # type: ignore[call-overload]
