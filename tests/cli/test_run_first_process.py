"""``qworker run`` as the first process of a container, which no signal ends by default."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

import slotq
from support.commands import DEADLINE_S, QWORKER, environment, until
from support.fleet import began, children_of, heeds, state_of, write_app
from support.namespaces import UNSHARE, can_unshare

pytestmark = pytest.mark.skipif(
    not can_unshare(), reason="no PID namespace can be made here: that takes Linux and root"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_app(tmp_path)


class First:
    """A worker that is the first process of a PID namespace."""

    def __init__(self, namespace: subprocess.Popen[bytes], log: Path) -> None:
        self._namespace = namespace
        self._log = log
        until(lambda: bool(children_of(namespace.pid)), "the first process is there")
        (self.pid,) = children_of(namespace.pid)

    @property
    def said(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        return self._namespace.wait(DEADLINE_S)


@contextlib.contextmanager
def first(*words: str, cwd: Path) -> Generator[First]:
    log = cwd / "command.log"
    with log.open("wb") as stream:
        namespace = subprocess.Popen(
            [*UNSHARE, str(QWORKER), "run", "app:q", *words],
            cwd=cwd,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
        )
    try:
        yield First(namespace, log)
    finally:
        namespace.kill()
        namespace.wait()


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_leaves_when_it_serves(folder: Path, processes: str, number: signal.Signals) -> None:
    """Case 48: as pid 1 in a container."""
    with slotq.Queue(folder / "jobs.db") as q:
        job = q.enqueue("app.dawdle", args=["one"])
        with first("--processes", processes, cwd=folder) as worker:
            until(lambda: began(folder).keys() == {"one"}, "the job has begun")
            worker.signal(number)
            until(lambda: "no new jobs" in worker.said, "the signal is noticed")
            (folder / "go").touch()
            assert worker.wait() == 0
        assert q.job(job.id).result == "whole"
        assert q.workers() == []


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_before_it_serves(folder: Path, processes: str, number: signal.Signals) -> None:
    """Case 48: as pid 1, within 50 ms of its start."""
    with first("--processes", processes, cwd=folder) as worker:
        until(lambda: heeds(worker.pid, signal.SIGTERM), "it has a handler")
        until(lambda: heeds(worker.pid, signal.SIGINT), "and the other")
        worker.signal(number)
        assert (worker.wait(), worker.said) == (0, "")


def test_the_parent_takes_note_of_processes_that_others_have_left_to_it(folder: Path) -> None:
    """Nobody else does in a container: they would stay as zombies."""
    code = (
        "import subprocess, sys, slotq\nq = slotq.Queue('jobs.db')\n@q.task\ndef leave() -> None:\n"
    )
    code += (
        "    subprocess.run(['sh', '-c', '(until [ -e go ]; do sleep 0.01; done) &'], check=True)\n"
    )
    (folder / "app.py").write_text(code, encoding="utf-8")
    with slotq.Queue(folder / "jobs.db") as q:
        job = q.enqueue("app.leave")
        with first("--processes", "2", cwd=folder) as worker:
            until(lambda: q.job(job.id).state == "succeeded", "the job has ended")
            until(lambda: len(children_of(worker.pid)) == 3, "the orphan is there")
            (folder / "go").touch()
            until(lambda: len(children_of(worker.pid)) == 2, "it was taken note of")
            assert {state_of(pid) for pid in children_of(worker.pid)} <= {"S", "R"}
