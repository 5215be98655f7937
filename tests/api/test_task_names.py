"""What may be a task, and how it is called."""

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from slotq import InvalidValue, Queue, Worker
from support.procs import run_script
from support.wrongly import wrongly


def some() -> None: ...


def test_two_functions_of_one_name_are_refused(queue: Queue) -> None:
    queue.task(some)
    with pytest.raises(InvalidValue, match=r"some is registered already"):
        queue.task(some)
    queue.task(name="other")(some)
    with pytest.raises(InvalidValue, match="other is registered already"):
        queue.task(name="other")(lambda: None)
    assert sorted(queue.tasks) == sorted([f"{__name__}.some", "other"])


def test_a_local_function_is_named_for_where_it_is(queue: Queue) -> None:
    @queue.task
    def local() -> None: ...

    assert local.name == f"{__name__}.test_a_local_function_is_named_for_where_it_is.local"


@pytest.mark.parametrize("name", ["", "n" * 201, "a\0b", "\ud800", 7, b"n", True])
def test_a_bad_name_is_refused(queue: Queue, name: object) -> None:
    with pytest.raises(InvalidValue, match=r"^name "):
        register = wrongly(queue.task)(name=name)
        wrongly(register)(some)
    with pytest.raises(InvalidValue, match=r"^task "):
        wrongly(queue.enqueue)(name)
    assert queue.tasks == {}
    assert queue.jobs() == []


@pytest.mark.parametrize("name", ["n" * 200, "a b", "os:system", "🚀", "a'b", "%", "\x1b[31m"])
def test_any_other_text_is_a_name(queue: Queue, name: str) -> None:
    queue.task(name=name)(some)
    assert queue.enqueue(name).task == name
    Worker(queue, burst=True).run()
    assert [job.state for job in queue.jobs(task=name)] == ["succeeded"]


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (7, "must be a function"),
        ("some", "must be a function"),
        (generator, "must not yield"),
        (async_generator, "must not yield"),
        (functools.partial(some), "has no name: pass name="),
    ],
)
def test_what_cannot_be_a_task_is_refused(
    queue: Queue, wrong: Callable[[], object], why: str
) -> None:
    with pytest.raises(InvalidValue, match=why):
        queue.task(wrong)
    assert queue.tasks == {}


def test_a_function_without_a_signature_is_refused(queue: Queue) -> None:
    with pytest.raises(InvalidValue, match="register a function that calls it"):
        queue.task(name="dict")(dict)


class Adder:
    def __call__(self, a: int, b: int = 1) -> int:
        return a + b


async def plus(a: int, b: int) -> int:
    return a + b


def test_partials_and_callable_objects_are_tasks_with_a_name(queue: Queue) -> None:
    adder = queue.task(name="adder")(Adder())
    two = queue.task(name="two")(functools.partial(plus, b=2))
    assert (adder.is_async, two.is_async) == (False, True)
    with pytest.raises(InvalidValue, match="Expected `int`"):
        wrongly(adder.enqueue)("x")
    jobs = [adder.enqueue(1), two.enqueue(1)]
    Worker(queue, burst=True).run()
    assert [job.wait(timeout=0) for job in jobs] == [2, 3]


SCRIPT = """
import slotq
q = slotq.Queue("jobs.db")

@q.task
def send() -> None: ...

if __name__ == "__main__":
    print(send.name, send.enqueue().id)
"""


def test_a_script_s_own_task_carries_the_name_of_its_file(tmp_path: Path) -> None:
    assert run_script(SCRIPT, tmp_path, name="mailer.py") == "mailer.send 1\n"
    imported = "import mailer, slotq; print(mailer.send.name)"
    assert run_script(imported, tmp_path, name="importer.py") == "mailer.send\n"


def test_a_package_run_as_a_module_has_the_name_that_importing_it_gives(tmp_path: Path) -> None:
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(SCRIPT)
    (package / "jobs.py").write_text(SCRIPT)
    run = "import runpy, sys; runpy.run_module(sys.argv[1], run_name='__main__', alter_sys=True)"
    for module, name in (("shop", "shop"), ("shop.jobs", "shop.jobs")):
        code = run.replace("sys.argv[1]", repr(module))
        printed = run_script(code, tmp_path, PYTHONPATH=str(tmp_path))
        assert printed.split()[0] == f"{name}.send"
    imported = "import shop.__main__ as m; print(m.send.name)"
    assert run_script(imported, tmp_path, name="importer.py") == "shop.send\n"
