"""``enqueue_batch``: jobs of many tasks, by name, in one transaction."""

import sqlite3
from collections.abc import Iterator, Mapping

import pytest

from slotq import InvalidValue, Job, Queue


def stored(queue: Queue) -> list[Job]:
    return [queue.job(job.id) for job in queue.jobs(limit=10_000)]


def test_each_item_is_a_job_in_the_order_given(queue: Queue) -> None:
    new = queue.enqueue_batch(
        [
            {"task": "a.b", "args": [1], "kwargs": {"n": 2}},
            {"task": "a.b", "key": "k", "max_running": 2, "queue": "slow", "priority": 9},
            {"task": "a.c", "delay": 60, "max_attempts": 1, "timeout": None},
        ]
    )
    assert new == range(1, 4)
    one, two, three = stored(queue)
    assert (one.task, one.args, one.kwargs, one.key, one.queue) == (
        "a.b",
        [1],
        {"n": 2},
        None,
        "default",
    )
    assert (two.key, two.max_running, two.queue, two.priority) == ("k", 2, "slow", 9)
    assert (three.task, three.state, three.max_attempts, three.timeout) == (
        "a.c",
        "scheduled",
        1,
        None,
    )


def test_it_stores_what_enqueue_stores(queue: Queue) -> None:
    options: dict[str, object] = {"key": "k", "priority": 3, "expires": 60, "store_result": False}
    queue.enqueue("a.b", args=[1], key="k", priority=3, expires=60, store_result=False)
    queue.enqueue_batch([{"task": "a.b", "args": [1], **options}])
    one, two = stored(queue)
    ignored = {"id", "created_at", "run_at", "expires", "is_new"}
    for name in set(Job.__dataclass_fields__) - ignored:
        assert getattr(one, name) == getattr(two, name), name


def test_neighbours_that_differ_in_any_option_stay_apart(queue: Queue) -> None:
    items = [{"task": "a.b", "key": f"k{n % 3}", "priority": n // 700} for n in range(1_500)]
    assert queue.enqueue_batch(items) == range(1, 1_501)
    assert [(job.key, job.priority) for job in stored(queue)] == [
        (item["key"], item["priority"]) for item in items
    ]


def test_an_item_that_is_the_same_by_dedupe_has_no_number(queue: Queue) -> None:
    first = queue.enqueue("a.b", dedupe="x")
    new = queue.enqueue_batch(
        [
            {"task": "a.b", "dedupe": "x"},
            {"task": "a.c", "dedupe": "y"},
            {"task": "a.d"},
            {"task": "a.c", "dedupe": "y"},
        ]
    )
    assert new == range(first.id + 1, first.id + 3)
    assert [job.task for job in stored(queue)] == ["a.b", "a.c", "a.d"]


def test_no_items_are_no_jobs(queue: Queue) -> None:
    assert len(queue.enqueue_batch([])) == 0
    assert len(queue.enqueue_batch([{"task": "a.b", "dedupe": "x"}] * 2)) == 1


BAD: list[tuple[object, str]] = [
    (5, "it must be a dict with a task"),
    ({}, "task must be a str"),
    ({"task": ""}, "task must have 1 to 200 characters"),
    ({"task": "a.b", "args": 5}, "args must be a list or tuple"),
    ({"task": "a.b", "kwargs": [1]}, "kwargs must be a dict"),
    ({"task": "a.b", "args": [float("nan")]}, r"args\[0\] must contain finite numbers only"),
    ({"task": "a.b", "priority": True}, "priority must be an integer"),
    ({"task": "a.b", "max_running": 1}, "max_running needs a key"),
    ({"task": "a.b", "key": 5}, "key must be a str or None"),
    ({"task": "a.b", "qeue": "x"}, "qeue is no option"),
    ({"task": "a.b", "connection": None}, "connection is one for all items"),
]


@pytest.mark.parametrize(("item", "problem"), BAD, ids=range(len(BAD)))
def test_one_bad_item_stores_nothing_and_is_named(
    queue: Queue, item: Mapping[str, object], problem: str
) -> None:
    good: dict[str, object] = {"task": "a.b", "priority": 1}
    with pytest.raises(InvalidValue, match=rf"^item 600: {problem}"):
        queue.enqueue_batch([*[good] * 600, item])
    assert stored(queue) == []


@pytest.mark.parametrize("items", [None, 5])
def test_what_holds_no_items_is_refused(queue: Queue, items: list[dict[str, object]]) -> None:
    with pytest.raises(InvalidValue, match="items must be dicts, one for each job"):
        queue.enqueue_batch(items)


def test_items_that_fail_on_the_way_store_nothing(queue: Queue) -> None:
    def items() -> Iterator[Mapping[str, object]]:
        yield from [{"task": "a.b"}] * 600
        raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        queue.enqueue_batch(items())
    assert stored(queue) == []
    assert queue.enqueue_batch([{"task": "a.b"}]) == range(1, 2)


def test_items_are_taken_one_by_one(queue: Queue) -> None:
    alive = 0
    most = 0

    class Item(dict[str, object]):
        def __init__(self) -> None:
            nonlocal alive, most
            super().__init__(task="a.b")
            alive += 1
            most = max(most, alive)

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    queue.enqueue_batch(Item() for _ in range(3_000))
    assert len(stored(queue)) == 3_000
    assert most < 10


def test_it_joins_a_transaction_of_the_callers(queue: Queue) -> None:
    queue.stats()
    connection = sqlite3.connect(queue.path, isolation_level=None)
    for end, count in (("ROLLBACK", 0), ("COMMIT", 2)):
        connection.execute("BEGIN IMMEDIATE")
        queue.enqueue_batch([{"task": "a.b"}] * 2, connection=connection)
        connection.execute(end)
        assert len(stored(queue)) == count
    connection.close()


async def test_it_has_a_twin(queue: Queue) -> None:
    assert await queue.aenqueue_batch([{"task": "a.b"}]) == range(1, 2)
