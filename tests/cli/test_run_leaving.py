"""``qworker run`` is told to leave: case 48, in the states that it can be in."""

import os
import signal
import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

import slotq
from support.commands import Started, until
from support.fleet import began, children_of, fleet, heeds, is_gone, lines, state_of, write_app

# For a busy machine: each of these takes a few hundredths of a second.
AT_ONCE_S = 2.0
# What a worker without jobs waits for a file that others keep locked, and then some.
LOCKED_S = 4.0

ALL_FOUR = pytest.mark.parametrize(
    ("processes", "number"),
    [(1, signal.SIGTERM), (1, signal.SIGINT), (2, signal.SIGTERM), (2, signal.SIGINT)],
)
BOTH = pytest.mark.parametrize(("processes", "number"), [(1, signal.SIGINT), (2, signal.SIGTERM)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_app(tmp_path)


@pytest.fixture
def q(folder: Path) -> Generator[slotq.Queue]:
    with slotq.Queue(folder / "jobs.db") as queue:
        queue.stats()
        yield queue


def says(worker: Started, text: str) -> Callable[[], bool]:
    return lambda: text in worker.said


@contextmanager
def within(most_s: float) -> Generator[None]:
    began_s = time.monotonic()
    yield
    assert time.monotonic() - began_s < most_s


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Keep the file locked, as a program that is none of ours."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.close()


@ALL_FOUR
def test_what_runs_may_end_within_the_grace_and_the_rest_goes_back(
    folder: Path, q: slotq.Queue, processes: int, number: signal.Signals
) -> None:
    """Case 48: the short job ends, the long one goes back unused, nothing starts any more."""
    q.set_limit("slow", max_running=1)
    short = q.enqueue("app.dawdle", args=["short"])
    long = q.enqueue("app.linger", args=["long"], key="slow")
    words = ("--processes", str(processes), "--slots", str(2 // processes), "--grace", "1")
    with fleet(*words, cwd=folder) as worker:
        until(lambda: began(folder).keys() == {"short", "long"}, "both jobs have begun")
        others = [q.enqueue("app.who", args=[each]).id for each in range(20)]
        later = q.enqueue("app.who", args=[20], delay=0.3)
        with within(1 + AT_ONCE_S):
            worker.signal(number)
            until(lambda: worker.said.count("no new jobs") == processes, "it is noticed")
            (folder / "go").touch()
            assert worker.wait() == 0
        assert q.job(short.id).result == "whole"
        assert (q.job(long.id).state, q.job(long.id).attempt) == ("waiting", 0)
        assert q.key("slow").running == 0
        assert {(q.job(each).state, q.job(each).attempt) for each in others} == {("waiting", 0)}
        assert q.job(later.id).attempt == 0
        assert (lines(folder / "ran"), q.workers()) == ([], [])


@ALL_FOUR
def test_a_second_signal_hands_back_at_once(
    folder: Path, q: slotq.Queue, processes: int, number: signal.Signals
) -> None:
    """Case 48: it loses nothing, and its exit code says that it was hurried."""
    jobs = [q.enqueue("app.linger", args=["thread"]), q.enqueue("app.adawdle", args=["async"])]
    words = ("--processes", str(processes), "--slots", str(2 // processes))
    with fleet(*words, cwd=folder) as worker:
        until(lambda: len(began(folder)) == 2, "both jobs have begun")
        worker.signal(number)
        until(lambda: worker.said.count("no new jobs") == processes, "it is noticed")
        with within(AT_ONCE_S):
            worker.signal(number)
            assert worker.wait() == 128 + number
        assert {(q.job(job.id).state, q.job(job.id).attempt) for job in jobs} == {("waiting", 0)}
        assert q.workers() == []
        assert all(is_gone(pid) for pid in began(folder).values())


def test_two_signals_in_a_row_are_two_for_a_child_that_heeds_none_yet(
    folder: Path, q: slotq.Queue
) -> None:
    """Two of a kind that come too close together would be one."""
    job = q.enqueue("app.linger", args=["one"])
    with fleet("--processes", "2", cwd=folder, serving=2) as worker:
        until(lambda: began(folder).keys() == {"one"}, "the job has begun")
        busy = began(folder)["one"]
        os.kill(busy, signal.SIGSTOP)
        until(lambda: state_of(busy) == "T", "its process is stopped")
        worker.signal(signal.SIGTERM)
        until(says(worker, "the workers leave"), "the first is noticed")
        worker.signal(signal.SIGTERM)
        until(says(worker, "SIGTERM again"), "the second is noticed")
        with within(AT_ONCE_S):
            os.kill(busy, signal.SIGCONT)
            assert worker.wait() == 143
    assert (q.job(job.id).state, q.job(job.id).attempt) == ("waiting", 0)


@BOTH
def test_an_idle_one_leaves_at_once(
    folder: Path, q: slotq.Queue, processes: int, number: signal.Signals
) -> None:
    with fleet("--processes", str(processes), cwd=folder, serving=processes) as worker:
        until(lambda: len(q.workers()) == processes, "all have entered the file")
        children = children_of(worker.pid)
        with within(AT_ONCE_S):
            worker.signal(number)
            assert worker.wait() == 0
        assert len(children) == (0 if processes == 1 else processes)
        assert all(is_gone(pid) for pid in children)
        assert q.workers() == []


@BOTH
def test_an_idle_one_leaves_though_the_file_is_locked(
    folder: Path, q: slotq.Queue, processes: int, number: signal.Signals
) -> None:
    with fleet("--processes", str(processes), cwd=folder, serving=processes) as worker:
        until(lambda: len(q.workers()) == processes, "all have entered the file")
        with locked(q.path), within(LOCKED_S):
            worker.signal(number)
            assert worker.wait() == 0


@BOTH
def test_one_that_cannot_enter_the_locked_file_leaves(
    folder: Path, q: slotq.Queue, processes: int, number: signal.Signals
) -> None:
    words = ("--processes", str(processes))
    with locked(q.path), fleet(*words, cwd=folder, serving=1) as worker, within(LOCKED_S):
        worker.signal(number)
        assert worker.wait() == 0


@BOTH
def test_one_that_cannot_make_its_tables_in_a_locked_file_leaves_at_once(
    folder: Path, processes: int, number: signal.Signals
) -> None:
    (folder / "app.py").write_text(
        "import slotq\nq = slotq.Queue('jobs.db')\nopen('loaded', 'w').close()\n", encoding="utf-8"
    )
    (folder / "jobs.db").touch()
    with locked(folder / "jobs.db"), fleet("--processes", str(processes), cwd=folder) as worker:
        until((folder / "loaded").exists, "the app is loaded")
        with within(AT_ONCE_S):
            worker.signal(number)
            assert worker.wait() == 0
        assert "Traceback" not in worker.said


@ALL_FOUR
def test_one_that_has_just_begun_ends_at_once_and_claims_nothing(
    folder: Path, q: slotq.Queue, processes: int, number: signal.Signals
) -> None:
    """Case 48: within 50 ms of its start, that is, as soon as Python itself has started."""
    job = q.enqueue("app.who", args=[1])
    with fleet("--processes", str(processes), cwd=folder) as worker:
        until(lambda: heeds(worker.pid, signal.SIGTERM), "it has a handler")
        until(lambda: heeds(worker.pid, signal.SIGINT), "and the other")
        with within(AT_ONCE_S):
            worker.signal(number)
            assert (worker.wait(), worker.said) == (0, "")
    assert (q.job(job.id).state, q.job(job.id).attempt) == ("waiting", 0)


@BOTH
def test_one_that_imports_its_app_ends_at_once_and_claims_nothing(
    folder: Path, q: slotq.Queue, processes: int, number: signal.Signals
) -> None:
    """Case 48: whatever the app does about exceptions."""
    code = "import time\nopen('importing', 'w').close()\n"
    code += (
        "while True:\n    try:\n        time.sleep(60)\n    except BaseException:\n        pass\n"
    )
    (folder / "app.py").write_text(code, encoding="utf-8")
    job = q.enqueue("app.who", args=[1])
    with fleet("--processes", str(processes), cwd=folder) as worker:
        until((folder / "importing").exists, "the app is being imported")
        with within(AT_ONCE_S):
            worker.signal(number)
            assert worker.wait() == 0
        assert "Traceback" not in worker.said
    assert (q.job(job.id).state, q.job(job.id).attempt) == ("waiting", 0)


def test_a_third_signal_kills_children_that_heed_none(folder: Path, q: slotq.Queue) -> None:
    q.enqueue("app.deafen")
    with fleet("--processes", "2", cwd=folder, serving=2) as worker:
        until(lambda: began(folder).keys() == {"deaf"}, "a process heeds no signal")
        children = children_of(worker.pid)
        for number, seen in (
            ("TERM", "the workers leave"),
            ("INT", "SIGINT again"),
            ("TERM", "once more"),
        ):
            worker.signal(signal.Signals[f"SIG{number}"])
            until(says(worker, seen), f"the parent says {seen}")
        with within(AT_ONCE_S):
            assert worker.wait() == 130
        assert all(is_gone(pid) for pid in children)


@pytest.mark.slow
def test_a_child_that_does_not_leave_in_time_is_killed(folder: Path, q: slotq.Queue) -> None:
    """So that none outlives its parent, and none keeps it for ever; that was no good end."""
    with fleet("--processes", "2", "--grace", "0", cwd=folder, serving=2) as worker:
        stopped, other = children_of(worker.pid)
        os.kill(stopped, signal.SIGSTOP)
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 1
        assert is_gone(stopped)
        assert is_gone(other)
        assert f"worker process {stopped} did not leave in time: killed" in worker.said
        assert worker.said.count("did not leave in time") == 1


def test_a_child_that_dies_on_its_way_out_is_told(folder: Path, q: slotq.Queue) -> None:
    q.enqueue("app.dawdle", args=["one"])
    with fleet("--processes", "2", cwd=folder, serving=2) as worker:
        until(lambda: began(folder).keys() == {"one"}, "the job has begun")
        worker.signal(signal.SIGTERM)
        until(says(worker, "no new jobs"), "the signal is noticed")
        os.kill(began(folder)["one"], signal.SIGKILL)
        assert worker.wait() == 1
        assert f"worker process {began(folder)['one']} has died: signal 9" in worker.said
        assert "another starts" not in worker.said
