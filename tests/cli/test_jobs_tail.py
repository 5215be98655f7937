"""``qworker jobs tail``: a line for each job as it ends, and a clean end of its own."""

import json
import select
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

import slotq
from support.commands import DEADLINE_S, QWORKER, environment, started, until


def ended(q: slotq.Queue, *, count: int = 1, key: str | None = None, task: str = "app.f") -> None:
    """Have jobs end, as cancelled ones: it takes no worker."""
    for _ in range(count):
        q.cancel(q.enqueue(task, key=key).id)


@contextmanager
def piped(*words: str, cwd: Path) -> Generator[tuple[subprocess.Popen[str], IO[str]]]:
    process = subprocess.Popen(
        [str(QWORKER), *words],
        cwd=cwd,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout
    finally:
        process.kill()
        process.communicate()


def is_looking(q: slotq.Queue, log: Path, task: str) -> bool:
    """End one more job, and tell whether the tail has seen one of them."""
    ended(q, task=task)
    return task in log.read_text(encoding="utf-8")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_jobs_are_told_as_they_end_until_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    with slotq.Queue(tmp_path / "jobs.db") as q:
        ended(q, task="app.before")
        with started("jobs", "tail", "--db", "jobs.db", cwd=tmp_path) as tail:
            until(lambda: is_looking(q, tmp_path / "command.log", "app.first"), "it looks")
            ended(q, count=3, key="tenant:acme")
            until(lambda: tail.said.count("app.f  ") == 3, "three jobs are told")
            tail.signal(number)
            assert tail.wait() == 0
    assert "app.before" not in tail.said
    assert "Traceback" not in tail.said
    at, job_id, state, task, key = tail.said.splitlines()[-1].split()
    assert (state, task, key) == ("cancelled", "app.f", "tenant:acme")
    assert at.endswith("Z")
    assert int(job_id) == q.jobs(limit=1_000)[-1].id


def test_json_is_an_object_a_line_and_filters_hold(tmp_path: Path) -> None:
    words = ["--state", "cancelled", "--key", "k", "--queue", "default", "--task", "app.f"]
    with slotq.Queue(tmp_path / "jobs.db") as q:
        q.stats()
        with started("jobs", "tail", *words, "--json", "--db", "jobs.db", cwd=tmp_path) as tail:

            def is_told() -> bool:
                ended(q, key="other")
                ended(q, key="k", task="app.other")
                ended(q, key="k")
                return tail.said.count("\n") > 2

            until(is_told, "jobs are told")
    found = [json.loads(line) for line in tail.said.splitlines()]
    assert {(job["key"], job["task"], job["state"]) for job in found} == {
        ("k", "app.f", "cancelled")
    }
    ids = [job["id"] for job in found]
    assert ids == sorted(set(ids))


def test_each_of_many_ends_is_told_once(tmp_path: Path) -> None:
    with slotq.Queue(tmp_path / "jobs.db") as q:
        ids = list(q.enqueue_batch({"task": "app.f"} for _ in range(2_600)))
        with started("jobs", "tail", "--db", "jobs.db", cwd=tmp_path) as tail:
            until(lambda: is_looking(q, tmp_path / "command.log", "app.g"), "it looks")
            q.cancel_many(ids)
            until(lambda: tail.said.count("app.f") >= len(ids), "all are told")
            tail.signal(signal.SIGTERM)
            assert tail.wait() == 0
    told = [int(line.split()[1]) for line in tail.said.splitlines()]
    assert len(set(told)) == len(told)
    assert [job_id for job_id in told if job_id <= ids[-1]] == ids


def test_it_ends_when_nobody_reads_any_more(tmp_path: Path) -> None:
    with slotq.Queue(tmp_path / "jobs.db") as q:
        q.stats()
        with piped("jobs", "tail", "--db", "jobs.db", cwd=tmp_path) as (process, stdout):

            def is_told() -> bool:
                ended(q)
                return bool(select.select([stdout], [], [], 0)[0])

            until(is_told, "a job is told")
            stdout.close()
            # No job ends meanwhile: the closed pipe alone is enough.
            assert process.wait(DEADLINE_S) == 0
            assert process.stderr is not None
            assert process.stderr.read() == ""
