"""Pauses of keys and queues: what they keep from starting, and what they leave alone."""

import asyncio
import time
from pathlib import Path

import pytest

from slotq import InvalidValue, Queue, Worker
from slotq.testing import ManualClock
from support.procs import auntil
from support.starting import finish, start, started
from support.wrongly import wrongly


def test_no_job_of_a_paused_key_starts(queue: Queue) -> None:
    first = queue.enqueue("t", key="k")
    other = queue.enqueue("t", key="other")
    assert queue.pause(key="k")
    second = queue.enqueue("t", key="k")
    assert started(queue, 9) == [other.id]
    assert queue.key("k").paused
    assert not queue.key("other").paused
    assert queue.resume(key="k")
    assert started(queue, 9) == [first.id, second.id]
    assert not queue.key("k").paused


def test_no_job_of_a_paused_queue_starts(queue: Queue) -> None:
    first = queue.enqueue("t", queue="slow", key="k")
    other = queue.enqueue("t", key="k")
    assert queue.pause(queue="slow")
    assert started(queue, 9) == [other.id]
    assert {info.name: info.paused for info in queue.queues()} == {"default": False, "slow": True}
    assert queue.resume(queue="slow")
    assert started(queue, 9) == [first.id]


def test_what_runs_goes_on_to_its_end(queue: Queue) -> None:
    job = queue.enqueue("t", key="k")
    claims = start(queue)
    queue.pause(key="k")
    queue.pause(queue="default")
    assert queue.job(job.id).state == "running"
    finish(queue, *claims)
    assert queue.job(job.id).state == "succeeded"


def test_a_retry_under_a_pause_waits_for_its_end(queue: Queue, clock: ManualClock) -> None:
    job = queue.enqueue("t", key="k", delay=5)
    queue.pause(key="k")
    clock.advance(5_000)
    assert started(queue) == []
    assert queue.why(job.id)[0].kind == "paused"
    queue.resume(key="k")
    assert started(queue) == [job.id]


def test_a_second_pause_and_a_second_resume_change_nothing(queue: Queue) -> None:
    assert [queue.pause(key="k"), queue.pause(key="k")] == [True, False]
    assert [queue.resume(key="k"), queue.resume(key="k")] == [True, False]
    assert [queue.pause(queue="q"), queue.pause(queue="q")] == [True, False]
    assert [queue.resume(queue="q"), queue.resume(queue="q")] == [True, False]
    assert [event.kind for event in queue.events()] == ["paused", "resumed", "paused", "resumed"]


def test_what_was_never_used_can_be_paused_but_a_resume_makes_nothing(queue: Queue) -> None:
    assert not queue.resume(key="k")
    assert not queue.resume(queue="q")
    assert queue.keys() == []
    assert queue.queues() == []
    queue.pause(key="k")
    queue.pause(queue="q")
    assert [key.key for key in queue.keys(sort="key") if key.paused] == ["k"]
    assert [info.name for info in queue.queues() if info.paused] == ["q"]
    queue.enqueue("t", key="k")
    queue.enqueue("t", queue="q")
    assert started(queue, 9) == []


def test_a_paused_key_outlives_a_prune(queue: Queue) -> None:
    queue.pause(key="k")
    queue.prune()
    queue.enqueue("t", key="k")
    assert started(queue) == []
    queue.cancel(1)
    queue.resume(key="k")
    queue.prune()
    assert queue.keys() == []


def test_a_star_in_a_pause_is_a_star(queue: Queue) -> None:
    queue.set_limit("tenant:*", max_running=3)
    queue.pause(key="tenant:*")
    ids = [queue.enqueue("t", key=key).id for key in ("tenant:a", "tenant:*")]
    assert started(queue, 9) == ids[:1]


def test_the_events_tell_who_paused_what(queue: Queue) -> None:
    queue.pause(key="k", updated_by="ann")
    queue.resume(key="k")
    queue.pause(queue="q", updated_by="bob")
    told = [(each.kind, each.key, each.queue, each.by) for each in queue.events()]
    assert told[0] == ("paused", "k", None, "ann")
    assert told[1][:3] == ("resumed", "k", None)
    assert "@" in told[1][3]
    assert told[2] == ("paused", None, "q", "bob")


@pytest.mark.parametrize("verb", ["pause", "resume"])
@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({}, "key"),
        ({"key": "k", "queue": "q"}, "key"),
        ({"key": ""}, "key"),
        ({"key": 7}, "key"),
        ({"key": "k" * 1_025}, "key"),
        ({"queue": ""}, "queue"),
        ({"queue": 7}, "queue"),
        ({"key": "k", "updated_by": ""}, "updated_by"),
    ],
)
def test_a_wrong_call_is_refused(
    queue: Queue, verb: str, arguments: dict[str, object], name: str
) -> None:
    with pytest.raises(InvalidValue) as told:
        wrongly(getattr(queue, verb))(**arguments)
    assert told.value.name == name
    assert not queue.path.exists() or queue.events() == []


async def test_a_resume_wakes_an_idle_worker(tmp_path: Path) -> None:
    async with Queue(tmp_path / "jobs.db") as queue:
        ran: list[float] = []

        @queue.task(name="t", key="k")
        async def note() -> None:
            ran.append(time.monotonic())

        worker = Worker(queue)
        serving = asyncio.create_task(worker.serve())
        await auntil(queue.workers)
        await queue.apause(key="k")
        job = await note.aenqueue()
        other = await queue.aenqueue("t")
        await other.await_result(timeout=20)
        assert (await queue.ajob(job.id)).state == "waiting"
        await queue.aresume(key="k")
        await job.await_result(timeout=20)
        assert len(ran) == 2
        worker.stop()
        await serving
