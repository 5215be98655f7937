"""Every verb that touches the file has an async twin: same signature, same result, same errors."""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slotq import InvalidValue, Job, JobNotFound, Queue, Task
from slotq.testing import ManualClock
from support.wrongly import wrongly

# What touches no file, or is a twin's own business; ``wait`` and ``await_result`` are a pair too.
WITHOUT = {
    Queue: {
        "task",
        "on",
        "now_ms",
        "path",
        "hop",
        "hop_to_end",
        "wait_for",
        "await_for",
        "hold",
        "change_hold",
        "take_hold",
        "holder",
        "declared_limits",
    },
    Task: {"options"},
}
IRREGULAR = ((Queue.wait_for, Queue.await_for), (Job.wait, Job.await_result))


def pairs() -> Iterator[tuple[Callable[..., object], Callable[..., object]]]:
    for kind in (Queue, Task):
        verbs = [name for name in dir(kind) if not name.startswith("_")]
        for name in verbs:
            if name not in WITHOUT[kind] and not (name[0] == "a" and name[1:] in verbs):
                yield getattr(kind, name), getattr(kind, f"a{name}")
    yield from IRREGULAR


PAIRS = list(pairs())
SINCE = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(("verb", "twin"), PAIRS, ids=[verb.__qualname__ for verb, _ in PAIRS])
def test_a_twin_has_the_same_signature(
    verb: Callable[..., object], twin: Callable[..., object]
) -> None:
    assert inspect.iscoroutinefunction(twin)
    assert not inspect.iscoroutinefunction(verb)
    assert inspect.signature(twin).parameters == inspect.signature(verb).parameters
    assert inspect.signature(twin).return_annotation == inspect.signature(verb).return_annotation
    assert twin.__doc__


def test_the_verbs_are_all_there() -> None:
    assert {verb.__name__ for verb, _ in PAIRS} >= {
        "cancel", "cancel_many", "clear_limit", "close", "delete", "delete_many", "ended", "enqueue",
        "enqueue_many", "job", "jobs", "key", "keys", "limits", "prune", "queues", "retry",
        "retry_many", "set_limit", "stats", "wait", "why", "workers",
    }  # fmt: skip


def nothing() -> None: ...


def story(queue: Queue) -> list[object]:
    """Return what the verbs return, one after the other."""
    task = queue.task(name="u", key="k")(nothing)
    return [
        queue.enqueue("n", key="k", dedupe="d"),
        queue.enqueue("n", key="k", dedupe="d"),
        task.enqueue_many([()] * 3),
        queue.set_limit("k", max_running=2, updated_by="ann"),
        queue.limits(),
        queue.cancel(1),
        wrongly(queue.retry)(1),
        wrongly(queue.delete)(2),
        queue.cancel(1),
        queue.job(1),
        queue.jobs(state="waiting", limit=1),
        queue.key("k"),
        queue.keys(sort="key"),
        queue.queues(),
        queue.workers(),
        queue.stats().waiting,
        queue.prune(),
        queue.clear_limit("k"),
        queue.set_limit(queue="q", max_running=2, updated_by="ann"),
        queue.clear_limit(queue="q"),
        queue.pause(key="k", updated_by="ann"),
        queue.resume(key="k", updated_by="ann"),
        queue.declare_limits({"a": {"max_running": 1}}, updated_by="ann"),
        queue.set_limits([{"key": "a", "max_running": 2}], updated_by="ann"),
        queue.limit_differences(),
        queue.apply_limits(updated_by="ann"),
        queue.events(kind="limit_set"),
        queue.why(3),
        queue.cancel_many([3, 99]),
        queue.retry_many([3]),
        queue.cancel_many([4]),
        queue.ended(since=SINCE),
        queue.delete_many([3, 4]),
        wrongly(queue.close)(),
    ]


async def told(verb: Awaitable[object]) -> object:
    return await verb


async def astory(queue: Queue) -> list[object]:
    """Do what ``story`` does, by the twins."""
    task = queue.task(name="u", key="k")(nothing)
    return [
        await queue.aenqueue("n", key="k", dedupe="d"),
        await queue.aenqueue("n", key="k", dedupe="d"),
        await task.aenqueue_many([()] * 3),
        await queue.aset_limit("k", max_running=2, updated_by="ann"),
        await queue.alimits(),
        await queue.acancel(1),
        await told(queue.aretry(1)),
        await told(queue.adelete(2)),
        await queue.acancel(1),
        await queue.ajob(1),
        await queue.ajobs(state="waiting", limit=1),
        await queue.akey("k"),
        await queue.akeys(sort="key"),
        await queue.aqueues(),
        await queue.aworkers(),
        (await queue.astats()).waiting,
        await queue.aprune(),
        await queue.aclear_limit("k"),
        await queue.aset_limit(queue="q", max_running=2, updated_by="ann"),
        await queue.aclear_limit(queue="q"),
        await queue.apause(key="k", updated_by="ann"),
        await queue.aresume(key="k", updated_by="ann"),
        await queue.adeclare_limits({"a": {"max_running": 1}}, updated_by="ann"),
        await queue.aset_limits([{"key": "a", "max_running": 2}], updated_by="ann"),
        await queue.alimit_differences(),
        await queue.aapply_limits(updated_by="ann"),
        await queue.aevents(kind="limit_set"),
        await queue.awhy(3),
        await queue.acancel_many([3, 99]),
        await queue.aretry_many([3]),
        await queue.acancel_many([4]),
        await queue.aended(since=SINCE),
        await queue.adelete_many([3, 4]),
        await told(queue.aclose()),
    ]


def test_twins_return_what_their_verbs_return(tmp_path: Path) -> None:
    first = Queue(tmp_path / "first.db", clock=ManualClock())
    second = Queue(tmp_path / "second.db", clock=ManualClock())
    assert story(first) == asyncio.run(astory(second))


async def test_twins_raise_what_their_verbs_raise(queue: Queue) -> None:
    with pytest.raises(JobNotFound):
        await queue.acancel(5)
    with pytest.raises(JobNotFound):
        await queue.ajob(5)
    with pytest.raises(InvalidValue, match="clear it"):
        await queue.aset_limit("k")


async def test_a_twin_leaves_the_event_loop_free(queue: Queue) -> None:
    queue.stats()
    # Somebody holds the write lock: the loop goes on while a twin waits for it.
    with queue.database.write():
        writing = asyncio.create_task(queue.aenqueue("t"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not writing.done()
    assert (await writing).id == 1


async def test_a_twin_does_not_need_the_loop_s_own_threads(queue: Queue) -> None:
    gate = threading.Event()
    busy = [asyncio.create_task(asyncio.to_thread(gate.wait)) for _ in range(100)]
    try:
        async with asyncio.timeout(20):
            assert (await queue.aenqueue("t")).id == 1
            await queue.aclose()
    finally:
        gate.set()
        await asyncio.gather(*busy)


async def test_a_prune_lets_other_twins_in_between_its_transactions(queue: Queue) -> None:
    task = queue.task(name="t")(nothing)
    task.enqueue_many([()] * 2_000)
    with queue.database.write() as tx:
        tx.run("UPDATE slotq_jobs SET state = 'cancelled', finished_at = created_at")
    pruning = asyncio.create_task(queue.aprune())
    while (left := (await queue.astats()).cancelled) == 2_000:
        pass
    assert 0 < left < 2_000
    assert await pruning == 2_000


async def test_twins_serve_several_loops(queue: Queue) -> None:
    async def enqueue() -> Job:
        return await queue.aenqueue("t")

    await enqueue()
    await asyncio.to_thread(asyncio.run, enqueue())
    await enqueue()
    assert len(queue.jobs()) == 3
