"""Arguments and results: what a body gets is what was given, or it is refused at the call."""

import dataclasses
import enum
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

import pytest

from slotq import InvalidValue, Queue, Worker
from support.wrongly import wrongly

if TYPE_CHECKING:
    Missing = int


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.0
    colour: Colour = Colour.RED


def take(queue: Queue, annotation: object, *values: object) -> list[object]:
    """Return what a body gets for these values of an argument with this annotation."""
    got: list[object] = []

    def body(value: object) -> None:
        got.append(value)

    body.__annotations__["value"] = annotation
    task = queue.task(name=f"take {annotation}")(body)
    jobs = [task.enqueue(value) for value in values]
    Worker(queue, slots=1, burst=True).run()
    assert [queue.job(job.id).error for job in jobs] == [None] * len(jobs)
    return got


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, 7),
        (float, 0.1),
        (float, 1),
        (bool, True),
        (str, "a\0b\u202e🚀"),
        (bytes, b"\x00\xff"),
        (datetime, datetime(2026, 3, 1, 12, 30, 0, 123456, tzinfo=UTC)),
        (date, date(2026, 3, 1)),
        (time, time(12, 30)),
        (timedelta, timedelta(days=1, microseconds=5)),
        (uuid.UUID, uuid.UUID(int=5)),
        (Decimal, Decimal("0.10")),
        (Colour, Colour.GREEN),
        (Point, Point(1, 2.5, Colour.GREEN)),
        (list[Point], [Point(1), Point(2)]),
        (dict[str, Point], {"a": Point(1)}),
        (dict[int, str], {1: "a"}),
        (set[int], {1, 2}),
        (tuple[int, str], (1, "a")),
        (tuple, (1, 2)),
        (Point | None, None),
        (Point | None, Point(3)),
        (Literal["a", "b"], "b"),
        (list[Any], [1, "a", None]),
        (object, {"a": [1, None]}),
        (Any, [1, 2]),
    ],
)
def test_a_typed_argument_reaches_the_body_as_it_was(
    queue: Queue, annotation: object, value: object
) -> None:
    (got,) = take(queue, annotation, value)
    assert got == value
    if not isinstance(value, int):
        assert type(got) is type(value)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, "1"),
        (int, True),
        (int, 1.5),
        (str, 1),
        (bool, 1),
        (datetime, "yesterday"),
        (uuid.UUID, "x"),
        (Colour, "blue"),
        (Point, {"y": 1}),
        (Point, wrongly(Point)("1")),
        (list[int], [1, "2"]),
        (int, None),
        (Literal["a"], "b"),
        (object, object()),
        (object, {1, "a", object()}),
        (object, float("nan")),
        (object, float("inf")),
        (object, "\ud800"),
        (object, {1: "a", "1": "b"}),
    ],
)
def test_an_argument_that_does_not_fit_is_refused_at_the_call(
    queue: Queue, annotation: object, value: object
) -> None:
    def body(value: object) -> None: ...

    body.__annotations__["value"] = annotation
    task = queue.task(body)
    for call in (
        lambda: task.enqueue(value),
        lambda: task.enqueue(value=value),
        lambda: task.enqueue_many([(value,)]),
    ):
        with pytest.raises(InvalidValue):
            call()
    assert queue.jobs() == []


def test_arguments_of_star_parameters_are_checked_too(queue: Queue) -> None:
    got: list[object] = []

    @queue.task
    def body(first: int, *rest: Colour, flag: bool = False, **more: date) -> None:
        got.append((first, rest, flag, more))

    body.enqueue(1, Colour.RED, Colour.GREEN, flag=True, day=date(2026, 1, 1))
    with pytest.raises(InvalidValue):
        wrongly(body.enqueue)(1, "blue")
    with pytest.raises(InvalidValue):
        wrongly(body.enqueue)(1, day="never")
    Worker(queue, burst=True).run()
    assert got == [(1, (Colour.RED, Colour.GREEN), True, {"day": date(2026, 1, 1)})]


def test_a_positional_argument_never_lends_its_name_to_another(queue: Queue) -> None:
    @queue.task(key="k:{a}")
    def body(a: int, /, **more: int) -> None: ...

    assert body.enqueue(1, a=2).key == "k:1"


def test_what_a_function_returns_may_be_known_to_the_type_checker_only(queue: Queue) -> None:
    @queue.task
    def body(number: int) -> "Missing":
        return number

    job = body.enqueue(3)
    Worker(queue, burst=True).run()
    assert job.wait(timeout=0) == 3


def test_a_parameter_whose_type_is_unknown_is_refused(queue: Queue) -> None:
    @queue.task
    def body(number: "Missing") -> None: ...

    with pytest.raises(InvalidValue, match="annotation that cannot be resolved"):
        body.enqueue(3)


def test_annotations_may_name_what_is_defined_later(queue: Queue) -> None:
    @queue.task
    def body(later: "Later") -> int:
        return later.number

    job = body.enqueue(Later(3))
    Worker(queue, burst=True).run()
    assert job.wait(timeout=0) == 3


@dataclasses.dataclass
class Later:
    number: int


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (None, None),
        (Point(1), {"x": 1, "y": 0.0, "colour": "red"}),
        ({"a": (1, 2)}, {"a": [1, 2]}),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"),
    ],
)
def test_a_result_comes_back_as_a_json_value(queue: Queue, value: object, result: object) -> None:
    @queue.task
    def body() -> object:
        return value

    job = body.enqueue()
    Worker(queue, burst=True).run()
    assert job.wait(timeout=0) == result
    assert queue.job(job.id).result == result


def test_a_result_that_cannot_be_stored_fails_the_job_for_good(queue: Queue) -> None:
    @queue.task
    def body() -> object:
        return object()

    job, silent = body.enqueue(), body.options(store_result=False).enqueue()
    Worker(queue, burst=True).run()
    assert (queue.job(job.id).state, queue.job(job.id).attempt) == ("failed", 1)
    assert "the result cannot be stored" in (queue.job(job.id).error or "")
    assert queue.job(silent.id).state == "succeeded"
