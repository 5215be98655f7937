"""What is left when the parent of ``qworker run`` is killed, and what its children start."""

import os
import signal
import time
from pathlib import Path

import pytest

import slotq
from support.commands import qworker, until
from support.fleet import began, children_of, fleet, is_gone, lines, write_app

LEASE_S = 30.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_app(tmp_path)


def test_children_of_a_killed_parent_let_their_jobs_end_and_leave(folder: Path) -> None:
    """Case 49: no orphan goes on claiming, nor does it wait for its lease."""
    with slotq.Queue(folder / "jobs.db") as q:
        running = q.enqueue("app.dawdle", args=["one"])
        with fleet("--processes", "2", "--slots", "1", cwd=folder, serving=2) as parent:
            until(lambda: began(folder).keys() == {"one"}, "the job has begun")
            until(lambda: len(q.workers()) == 2, "both have entered the file")
            children = children_of(parent.pid)
            os.kill(parent.pid, signal.SIGKILL)
            until(lambda: parent.said.count("no new jobs") == 2, "the children notice")
            later = q.enqueue("app.who", args=[1])
            (folder / "go").touch()
            until(lambda: all(map(is_gone, children)), "the children have left")
        assert q.job(running.id).result == "whole"
        assert (q.job(later.id).state, q.job(later.id).attempt) == ("waiting", 0)
        assert q.workers() == []


def test_children_of_a_killed_parent_hand_back_what_takes_too_long(folder: Path) -> None:
    with slotq.Queue(folder / "jobs.db") as q:
        job = q.enqueue("app.linger", args=["one"])
        with fleet("--processes", "2", "--grace", "0.2", cwd=folder, serving=2) as parent:
            until(lambda: began(folder).keys() == {"one"}, "the job has begun")
            children = children_of(parent.pid)
            killed_s = time.monotonic()
            os.kill(parent.pid, signal.SIGKILL)
            until(lambda: all(map(is_gone, children)), "the children have left")
            assert time.monotonic() - killed_s < LEASE_S / 2
        assert (q.job(job.id).state, q.job(job.id).attempt) == ("waiting", 0)


def test_a_child_whose_parent_is_killed_amid_its_import_leaves(folder: Path) -> None:
    code = "import os, time\nopen('loading', 'a').write(f'{os.getpid()}\\n')\ntime.sleep(60)\n"
    (folder / "app.py").write_text(code, encoding="utf-8")
    with fleet("--processes", "2", cwd=folder) as parent:
        until(lambda: len(lines(folder / "loading")) == 1, "the first loads the app")
        os.kill(parent.pid, signal.SIGKILL)
        until(lambda: is_gone(int(lines(folder / "loading")[0])), "it has left")


COMMAND = """
import os, pathlib
links = []
for entry in pathlib.Path("/proc/self/fd").iterdir():
    try:
        links.append(os.readlink(entry))
    except FileNotFoundError:
        pass
print([link for link in links if link.startswith("socket:")], "SLOTQ_RUN_CHANNEL" in os.environ)
"""


def test_commands_of_jobs_neither_keep_the_connection_nor_take_themselves_for_children(
    folder: Path,
) -> None:
    (folder / "command.py").write_text(COMMAND, encoding="utf-8")
    code = "import subprocess, sys, slotq\nq = slotq.Queue('jobs.db')\n@q.task\n"
    code += "def command() -> str:\n    return subprocess.run([sys.executable, 'command.py'],"
    code += " capture_output=True, text=True, check=True, close_fds=False).stdout\n"
    (folder / "app.py").write_text(code, encoding="utf-8")
    with slotq.Queue(folder / "jobs.db") as q:
        job = q.enqueue("app.command")
        done = qworker("run", "app:q", "--processes", "2", "--burst", cwd=folder)
        assert done.code == 0, done.err
        assert q.job(job.id).result == "[] False\n"


def test_a_process_whose_own_child_keeps_the_connection_is_replaced_all_the_same(
    folder: Path,
) -> None:
    code = "import os, pathlib, signal, slotq\nq = slotq.Queue('jobs.db')\n@q.task\n"
    code += "def fork() -> None:\n    pid = os.fork()\n    if not pid:\n        signal.pause()\n"
    code += "    pathlib.Path('forked').write_text(f'{pid}\\n')\n"
    (folder / "app.py").write_text(code, encoding="utf-8")
    with slotq.Queue(folder / "jobs.db") as q, fleet("--max-jobs", "9", cwd=folder) as parent:
        job = q.enqueue("app.fork")
        until(lambda: q.job(job.id).state == "succeeded", "the job has ended")
        try:
            (worker,) = children_of(parent.pid)
            os.kill(worker, signal.SIGKILL)
            until(lambda: parent.said.count(" serving ") == 2, "another serves")
            parent.signal(signal.SIGTERM)
            assert parent.wait() == 0
        finally:
            os.kill(int(lines(folder / "forked")[0]), signal.SIGKILL)
