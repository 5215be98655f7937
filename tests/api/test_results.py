"""Results come back in the type that the task's function is annotated with."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from slotq import InvalidValue, Queue, Worker
from support.procs import run_script
from support.wrongly import wrongly


@dataclass
class Report:
    day: date
    made_at: datetime


def make() -> Report:
    return Report(date(2026, 1, 2), datetime(2026, 1, 2, 3, tzinfo=UTC))


def lie() -> int:
    answer: object = "not a number"
    return answer  # type: ignore[return-value]  # what a body returns need not be what it says


def unsaid() -> object:
    return {"a": 1}


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    return Queue(tmp_path / "jobs.db")


@pytest.mark.parametrize(
    ("function", "expected"), [(make, make()), (lie, "not a number"), (unsaid, {"a": 1})]
)
def test_a_known_task_gives_its_results_in_their_type(
    queue: Queue, function: Callable[[], object], expected: object
) -> None:
    job = queue.task(name="t")(function).enqueue()
    with queue:
        Worker(queue, burst=True).run()
        assert job.wait(timeout=10) == expected


def test_an_unknown_task_gives_json(queue: Queue, tmp_path: Path) -> None:
    job = queue.task(name="t")(make).enqueue()
    Worker(queue, burst=True).run()
    queue.close()
    with Queue(tmp_path / "jobs.db") as other:
        expected = {"day": "2026-01-02", "made_at": "2026-01-02T03:00:00Z"}
        assert other.job(job.id).wait(timeout=10) == expected


def test_options_given_as_arguments_are_told_where_they_go(queue: Queue) -> None:
    task = queue.task(name="t")(make)
    with pytest.raises(InvalidValue, match=r"\.options\(delay=\.\.\., priority=\.\.\.\)\.enqueue"):
        wrongly(task.enqueue)(priority=3, delay=1)


def test_a_task_is_pickled_by_reference(tmp_path: Path) -> None:
    code = """
import pickle
import slotq

q = slotq.Queue("jobs.db")

@q.task
def double(n: int) -> int:
    return 2 * n

copy = pickle.loads(pickle.dumps(double.enqueue))
assert copy(3).args == [3]
q.close()
"""
    assert pickle.loads(pickle.dumps(make)) is make
    run_script(code, tmp_path)


def test_a_prompt_may_define_a_task_again(tmp_path: Path) -> None:
    code = """
import code
prompt = code.InteractiveInterpreter({"__name__": "__main__"})
import sys
del sys.modules["__main__"].__file__
for _ in range(2):
    prompt.runsource('''
import slotq
q = globals().get("q") or slotq.Queue("jobs.db")
@q.task
def typed() -> None: ...
''', symbol="exec")
prompt.runsource("print(len(q.tasks)); q.close()")
"""
    assert run_script(code, tmp_path) == "1\n"
