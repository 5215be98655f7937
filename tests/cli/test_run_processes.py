"""``qworker run`` with several processes: the parent that supervises them."""

import contextlib
import itertools
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import slotq
from support.commands import Started, qworker, running, until
from support.fleet import (
    began,
    children_of,
    descriptors_of,
    fleet,
    is_gone,
    lines,
    state_of,
    write_app,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_app(tmp_path)


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    os.kill(pid, number)


def new_child(parent: Started, old: set[int]) -> Callable[[], bool]:
    return lambda: bool(set(children_of(parent.pid)) - old) or parent.has_ended


def serves(parent: Started, count: int) -> Callable[[], bool]:
    return lambda: parent.said.count(" serving ") == count


def test_a_burst_of_several_processes_ends_when_all_is_done(folder: Path) -> None:
    with slotq.Queue(folder / "jobs.db") as q:
        jobs = [q.enqueue("app.who", args=[number]).id for number in range(40)]
        done = qworker("run", "app:q", "--burst", "--processes", "3", cwd=folder)
        assert done.code == 0, done.err
        assert {q.job(each).state for each in jobs} == {"succeeded"}
        assert q.workers() == []
    assert done.err.count(" serving ") == 3
    assert done.err.count(" stopped; ") == 3
    assert len(lines(folder / "ran")) == 40


def test_each_process_has_its_own_slots(folder: Path) -> None:
    with slotq.Queue(folder / "jobs.db") as q:
        for number in range(5):
            q.enqueue("app.dawdle", args=[f"job-{number}"])
        with fleet("--processes", "2", "--slots", "2", cwd=folder) as parent:
            until(lambda: len(began(folder)) == 4, "four jobs have begun")
            assert sorted(began(folder).values()) == sorted(2 * children_of(parent.pid))
            assert q.stats().running == 4


def test_the_keyboard_reaches_the_parent_alone(folder: Path) -> None:
    with fleet("--processes", "2", cwd=folder, serving=2) as parent:
        assert [os.getsid(pid) for pid in children_of(parent.pid)] == children_of(parent.pid)


def test_a_killed_process_is_replaced_and_only_its_job_runs_again(folder: Path) -> None:
    """Case 49: a child that dies costs its own job one attempt, and nothing else."""
    with slotq.Queue(folder / "jobs.db") as q:
        jobs = {name: q.enqueue("app.dawdle", args=[name]).id for name in ("one", "two")}
        words = ("--processes", "2", "--slots", "1", "--lease", "1")
        with fleet(*words, cwd=folder) as parent:
            until(lambda: len(began(folder)) == 2, "both jobs have begun")
            before = began(folder)
            kill(before["one"])
            until(lambda: began(folder)["one"] != before["one"], "its job runs again")
            (folder / "go").touch()
            until(lambda: q.stats().succeeded == 2, "both jobs have ended")
            assert f"worker process {before['one']} has died: signal 9 (SIGKILL)" in parent.said
            assert began(folder)["two"] == before["two"]
            assert (q.job(jobs["one"]).attempt, q.job(jobs["two"]).attempt) == (2, 1)
            assert state_of(before["one"]) == ""  # not a zombie
            assert len(children_of(parent.pid)) == 2


def test_an_idle_process_that_is_killed_is_replaced(folder: Path) -> None:
    with (
        slotq.Queue(folder / "jobs.db") as q,
        fleet("--processes", "2", cwd=folder, serving=2) as parent,
    ):
        victim = children_of(parent.pid)[0]
        kill(victim)
        until(lambda: parent.said.count(" serving ") == 3, "another serves")
        job = q.enqueue("app.who", args=[1])
        assert isinstance(q.job(job.id).attempt, int)
        until(lambda: q.stats().succeeded == 1, "the job has ended")


def test_five_deaths_in_a_minute_end_all_with_one_line(folder: Path) -> None:
    """Case 49: who gives up says so, and not with exit code 0."""
    # Number 40 has no name.
    deaths = [signal.SIGKILL, signal.SIGSEGV, 40, signal.SIGKILL, signal.SIGABRT]
    with fleet("--processes", "2", "--lease", "1", cwd=folder, serving=2) as parent:
        bystander, victim = children_of(parent.pid)
        for number in deaths:
            seen = set(children_of(parent.pid))
            kill(victim, number)
            until(new_child(parent, seen), "another process starts")
            if not parent.has_ended:
                (victim,) = set(children_of(parent.pid)) - seen
        assert parent.wait() == 1
        assert is_gone(bystander)
        (last,) = [
            line for line in parent.said.split("\n") if "5 worker processes have died" in line
        ]
        assert last.endswith(
            "within 60 s, so the others are stopped: signal 9 (SIGKILL), signal 11 (SIGSEGV),"
            " signal 40, signal 9 (SIGKILL), signal 6 (SIGABRT)"
        )


def test_a_job_that_ends_its_process_each_time_is_told_by_exit_code(folder: Path) -> None:
    with slotq.Queue(folder / "jobs.db") as q:
        for _ in range(6):
            q.enqueue("app.leave", args=[7])
        words = ("--processes", "2", "--slots", "1", "--lease", "1")
        with fleet(*words, cwd=folder) as parent:
            assert parent.wait() == 1
            assert ", ".join(["exit code 7"] * 5) in parent.said
            assert parent.said.count("another starts in") == 4


def test_deaths_leave_neither_zombies_nor_descriptors(folder: Path) -> None:
    with fleet("--processes", "2", cwd=folder, serving=2) as parent:
        before = descriptors_of(parent.pid)
        for count in range(3, 6):
            kill(children_of(parent.pid)[0])
            until(serves(parent, count), "another serves")
        assert descriptors_of(parent.pid) == before
        assert [state_of(pid) for pid in children_of(parent.pid)].count("Z") == 0


def sockets_of(pid: int) -> set[str]:
    links: set[str] = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            links.add(str(entry.readlink()))
    return {link for link in links if link.startswith("socket:")}


def test_a_child_has_no_connection_but_its_own(folder: Path) -> None:
    """Else it would not notice the death of its parent while a brother lives."""
    with fleet("--processes", "3", cwd=folder, serving=3) as parent:
        found = [sockets_of(pid) for pid in (parent.pid, *children_of(parent.pid))]
        assert all(found)
    assert not any(one & other for one, other in itertools.combinations(found, 2))


def environment_of_links(folder: Path) -> Path:
    """Make an environment like the one that runs here; return its interpreter."""
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").symlink_to(Path(sys.prefix, "lib"))
    shutil.copy(Path(sys.prefix, "pyvenv.cfg"), folder)
    interpreter = folder / "bin" / "python"
    interpreter.symlink_to(sys.executable)
    return interpreter


def test_processes_that_cannot_be_started_count_as_deaths(folder: Path) -> None:
    interpreter = environment_of_links(folder / "environment")
    code = "import pathlib, time\nopen('loading', 'w').close()\n"
    code += "while not pathlib.Path('go').exists():\n    time.sleep(0.005)\nfrom app import q\n"
    (folder / "main.py").write_text(code, encoding="utf-8")
    words = [str(interpreter), "-m", "slotq_app", "run", "main:q", "--processes", "8"]
    with running(words, cwd=folder) as parent:
        until((folder / "loading").exists, "the first loads the app")
        interpreter.unlink()
        (folder / "go").touch()
        assert parent.wait() == 1
        assert parent.said.count("another starts in") == 4
        (last,) = [line for line in parent.said.split("\n") if "5 worker processes" in line]
        assert last.count("it cannot be started ([Errno 2] No such file") == 5
