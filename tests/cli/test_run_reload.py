"""``qworker run --reload``: changes of the source restart the workers."""

import contextlib
import os
import resource
import select
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

import slotq
from slotq_app.cli.reloading import SourceWatch
from support.commands import DEADLINE_S, Started, qworker, until
from support.fleet import began, children_of, fleet, write_app

ANSWER = "import slotq\nq = slotq.Queue('jobs.db')\n@q.task\ndef answer() -> int:\n    return {}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(ANSWER.format(1), encoding="utf-8")
    return tmp_path


@contextlib.contextmanager
def no_more_descriptors() -> Generator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Path(os.devnull).open(encoding="utf-8") as lowest:
        free = lowest.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def answer(q: slotq.Queue) -> object:
    job = q.enqueue("app.answer")
    return job.wait(timeout=20)


def waits_until_serving(parent: Started, count: int) -> None:
    until(lambda: parent.said.count(" serving ") >= count, f"worker {count} serves")


def test_a_change_of_the_source_restarts_the_workers(folder: Path) -> None:
    words = ("--reload", "--processes", "2")
    with (
        slotq.Queue(folder / "jobs.db") as q,
        fleet(*words, cwd=folder, serving=2) as parent,
    ):
        assert answer(q) == 1
        before = children_of(parent.pid)
        (folder / "app.py").write_text(ANSWER.format(22), encoding="utf-8")
        waits_until_serving(parent, 4)
        assert answer(q) == 22
        assert not set(before) & set(children_of(parent.pid))
        parent.signal(signal.SIGTERM)
        assert parent.wait() == 0
    assert "died" not in parent.said


def test_a_change_lets_running_jobs_end(tmp_path: Path) -> None:
    write_app(tmp_path)
    with slotq.Queue(tmp_path / "jobs.db") as q:
        job = q.enqueue("app.dawdle", args=["one"])
        with fleet("--reload", cwd=tmp_path) as parent:
            until(lambda: began(tmp_path).keys() == {"one"}, "the job has begun")
            (tmp_path / "other.py").touch()
            until(lambda: "the source has changed" in parent.said, "the change is seen")
            until(lambda: "no new jobs" in parent.said, "the worker is told")
            (tmp_path / "go").touch()
            waits_until_serving(parent, 2)
        assert (q.job(job.id).result, q.job(job.id).attempt) == ("whole", 1)


def test_a_broken_change_is_told_once_and_the_next_one_mends_it(folder: Path) -> None:
    words = ("--reload", "--processes", "2")
    with (
        slotq.Queue(folder / "jobs.db") as q,
        fleet(*words, cwd=folder, serving=2) as parent,
    ):
        (folder / "app.py").write_text("def broken(:\n", encoding="utf-8")
        until(lambda: "with the next change" in parent.said, "the parent waits")
        assert not parent.has_ended
        assert children_of(parent.pid) == []
        assert parent.said.count("importing app failed: SyntaxError") == 1
        (folder / "app.py").write_text(ANSWER.format(333), encoding="utf-8")
        waits_until_serving(parent, 4)
        assert answer(q) == 333
        assert len(children_of(parent.pid)) == 2
        parent.signal(signal.SIGTERM)
        assert parent.wait() == 0


def test_a_parent_that_waits_for_a_change_leaves_at_once(folder: Path) -> None:
    with fleet("--reload", cwd=folder, serving=1) as parent:
        (folder / "app.py").write_text("1 / 0\n", encoding="utf-8")
        until(lambda: "with the next change" in parent.said, "the parent waits")
        parent.signal(signal.SIGINT)
        assert parent.wait() == 0


def test_an_app_that_is_broken_from_the_start_ends_it(folder: Path) -> None:
    (folder / "app.py").write_text("1 / 0\n", encoding="utf-8")
    done = qworker("run", "app:q", "--reload", cwd=folder)
    assert (done.code, done.err.count("ZeroDivisionError")) == (1, 1)


def test_other_files_and_those_of_tools_restart_nothing(folder: Path) -> None:
    cache = folder / "__pycache__"
    cache.mkdir(exist_ok=True)
    with fleet("--reload", cwd=folder, serving=1) as parent:
        for path in (folder / "notes.txt", cache / "app.py", folder / "app.pyc"):
            path.touch()
        (folder / "new.py").touch()  # seen last
        waits_until_serving(parent, 2)
        assert "the source has changed: new.py; " in parent.said


def test_a_folder_that_cannot_be_watched_is_told(tmp_path: Path) -> None:
    watch = SourceWatch(tmp_path)
    with no_more_descriptors(), watch:
        assert select.select([watch], [], [], DEADLINE_S)[0] == [watch]  # whoever waits is woken
        assert "Too many open files" in str(watch.trouble)
        assert watch.take() == []
