"""A limit of a queue holds over all its keys; it is set, listed and cleared like any other."""

import pytest

from slotq import InvalidValue, Queue
from support.starting import finish, start, started
from support.wrongly import wrongly


def test_a_queue_limit_holds_over_all_keys_of_the_queue(queue: Queue) -> None:
    limit = queue.set_limit(queue="q", max_running=2, updated_by="ann")
    assert (limit.key, limit.queue, limit.max_running, limit.version) == (None, "q", 2, 1)
    assert queue.limits() == [limit]
    for key in ("a", "b", "c", "", "a"):
        queue.enqueue("t", key=key, queue="q")
    other = queue.enqueue("t", key="a")
    running = start(queue, 9)
    assert len([claim for claim in running if claim.id != other.id]) == 2
    assert other.id in {claim.id for claim in running}
    (info,) = [info for info in queue.queues() if info.name == "q"]
    assert (info.running, info.max_running, info.waiting) == (2, 2, 3)
    finish(queue, *running)
    assert len(started(queue, 9)) == 2


def test_a_queue_limit_may_be_set_before_anything_is_in_the_queue(queue: Queue) -> None:
    queue.set_limit(queue="new", max_running=1)
    for _ in range(3):
        queue.enqueue("t", queue="new")
    assert len(started(queue, 9)) == 1


def test_an_edit_of_a_queue_limit_acts_on_the_next_claim(queue: Queue) -> None:
    for _ in range(9):
        queue.enqueue("t", queue="q")
    queue.set_limit(queue="q", max_running=3)
    running = start(queue, 9)
    assert len(running) == 3
    assert queue.set_limit(queue="q", max_running=1).version == 2
    finish(queue, running.pop())
    assert started(queue, 9) == []
    queue.set_limit(queue="q", max_running=4)
    assert len(started(queue, 9)) == 2


def test_of_several_limits_of_a_queue_the_least_counts(queue: Queue) -> None:
    queue.set_limit(queue="q", max_running=3)
    queue.set_limit(queue="q", max_running=2, name="night")
    for _ in range(9):
        queue.enqueue("t", queue="q")
    assert len(started(queue, 9)) == 2
    assert queue.clear_limit(queue="q", name="night") == 1
    assert len(started(queue, 9)) == 1
    assert queue.clear_limit(queue="q") == 1
    assert queue.clear_limit(queue="q") == 0
    assert len(started(queue, 9)) == 6


def test_a_queue_and_a_key_of_one_name_have_limits_of_their_own(queue: Queue) -> None:
    queue.set_limit("same", max_running=1)
    queue.set_limit(queue="same", max_running=2)
    assert [(limit.key, limit.queue) for limit in queue.limits()] == [
        ("same", None),
        (None, "same"),
    ]
    assert queue.clear_limit(queue="same") == 1
    assert [limit.key for limit in queue.limits()] == ["same"]


def test_a_star_in_the_name_of_a_queue_is_no_pattern(queue: Queue) -> None:
    queue.set_limit(queue="*", max_running=1)
    queue.enqueue("t", queue="q")
    queue.enqueue("t", queue="q")
    assert len(started(queue, 9)) == 2
    assert queue.limits()[0].queue == "*"


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        ({"key": "k", "queue": "q", "max_running": 1}, "key or queue must be given, and not both"),
        ({"max_running": 1}, "key or queue must be given, and not both"),
        ({"queue": "q"}, "clear it"),
        ({"queue": "q", "max_running": None}, "clear it"),
        ({"queue": "q", "max_starts": 5}, "max_starts is for keys"),
        ({"queue": "q", "max_running": 1, "window": 60}, "window is for keys"),
        ({"queue": "q", "max_running": 1, "timezone": "UTC"}, "timezone is for keys"),
        ({"queue": "", "max_running": 1}, "queue must have 1 to 200 characters"),
        ({"queue": "q" * 201, "max_running": 1}, "queue must have 1 to 200 characters"),
        ({"queue": 7, "max_running": 1}, "queue must be a str"),
        ({"queue": "q", "max_running": 0}, "max_running must be an integer"),
    ],
)
def test_what_is_no_limit_of_a_queue_is_refused(
    queue: Queue, arguments: dict[str, object], refused: str
) -> None:
    with pytest.raises(InvalidValue, match=refused):
        wrongly(queue.set_limit)(**arguments)
    assert queue.limits() == []


def test_clear_limit_needs_a_key_or_a_queue(queue: Queue) -> None:
    for arguments in ({}, {"key": "k", "queue": "q"}):
        with pytest.raises(InvalidValue, match="key or queue must be given, and not both"):
            wrongly(queue.clear_limit)(**arguments)
