"""What ``import slotq`` gives, and that every public value is data ready for JSON."""

import asyncio
import copy
import dataclasses
import inspect
import pickle
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

import slotq
from slotq import Job, Queue, Worker, errors
from support.procs import auntil

VALUES = {
    slotq.Bulk, slotq.Job, slotq.Limit, slotq.Key, slotq.QueueInfo, slotq.Reason, slotq.Stats,
    slotq.WorkerInfo, slotq.Event, slotq.LimitDifference, slotq.LimitTerms,
    slotq.HistoryBucket, slotq.KeyRow, slotq.Snapshot, slotq.Totals,
}  # fmt: skip


def test_all_names_are_there_once_and_sorted() -> None:
    assert sorted(set(slotq.__all__)) == sorted(slotq.__all__) == list(slotq.__all__)
    for name in slotq.__all__:
        assert getattr(slotq, name) is not None


def test_nothing_public_is_left_out_of_all() -> None:
    found = {
        name
        for name, value in vars(slotq).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert found == set(slotq.__all__)


def test_every_error_is_public() -> None:
    found = {
        value.__name__
        for value in vars(errors).values()
        if inspect.isclass(value) and issubclass(value, slotq.SlotqError)
    }
    assert found <= set(slotq.__all__)


def test_every_public_thing_says_what_it_is() -> None:
    for name in slotq.__all__:
        value = getattr(slotq, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), name


def values(queue: Queue) -> Iterator[object]:
    """Yield one of each public value, with something in every field that can have it."""
    for name in ("tenant:acme", "tenant:*"):
        queue.set_limit(name, max_running=3, max_starts=5, window=90.5, name="minute")
    task = queue.task(name="t", key="tenant:{tenant}", max_running=2)(failing)
    task.options(max_attempts=1, expires=60).enqueue("acme", 1)

    async def look() -> list[slotq.WorkerInfo]:
        worker = Worker(queue, queues=["default"])
        serving = asyncio.create_task(worker.serve())
        await auntil(lambda: queue.stats().failed and queue.workers())
        found = queue.workers()
        worker.stop()
        await serving
        return found

    yield from asyncio.run(look())
    task.enqueue("acme", 2)
    yield queue.job(1)
    yield queue.jobs()[0]
    yield queue.limits()[0]
    yield queue.events()[-1]
    yield from queue.declare_limits({"new": {"max_running": 1}})
    yield queue.declared_limits[0]
    yield queue.key("tenant:acme")
    yield queue.queues()[0]
    yield queue.stats()
    yield queue.history()[0]
    with slotq.open_reader(queue.path, clock=queue.database.clock) as reader:
        yield (frame := reader.snapshot())
        yield from (frame.totals, frame.keys[0])
    yield from queue.why(2)
    yield queue.cancel_many([2, 99])


def failing(tenant: str, number: int) -> None:
    raise RuntimeError(tenant, number)


def test_every_public_value_is_ready_for_json(queue: Queue) -> None:
    seen: set[type] = set()
    for value in values(queue):
        seen.add(type(value))
        assert dataclasses.is_dataclass(value)
        assert not isinstance(value, type)
        built = msgspec.to_builtins(value)
        fields = [field.name for field in dataclasses.fields(value)]
        assert list(built) == fields
        assert not any(name.startswith("_") for name in fields)
        assert msgspec.json.encode(value) == msgspec.json.encode(built)
        assert list(dataclasses.asdict(value)) == fields
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, fields[0], 1)
    assert seen == VALUES


def test_a_value_can_be_copied_and_sent_to_another_process(queue: Queue) -> None:
    for value in values(queue):
        for again in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
            assert again == value
            assert repr(again) == repr(value)


def test_a_job_finds_its_queue_but_does_not_show_it(queue: Queue) -> None:
    job = queue.enqueue("t")
    assert job == queue.job(job.id)
    assert "source" not in repr(job)
    assert not [name for name in Job.__dataclass_fields__ if name.startswith("_")]


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(slotq.__file__).parent / "py.typed").exists()
