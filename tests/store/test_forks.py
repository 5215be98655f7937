"""A database that is open is carried over a fork: parent and child go on, each with its own."""

import json
import sqlite3
from pathlib import Path

import pytest

from support.forking import CHILDREN, JOBS_EACH, Lists, told
from support.procs import Process
from support.recount import Rows, recount
from support.stores import integrity, job_ids


def scene(name: str, folder: Path) -> Lists:
    """Play a scene in a process of its own, since forks and threads of pytest do not mix."""
    arguments = ["-m", "support.forking", name, str(folder / "jobs.db")]
    with Process(arguments, folder / "out") as process:
        answer: Lists = json.loads(process.finish().splitlines()[-1])
    return answer


def test_children_of_a_working_parent_lose_nothing(tmp_path: Path) -> None:
    """Field case 33: another thread is inside a write at each fork."""
    answer = scene("at_work", tmp_path)
    path = tmp_path / "jobs.db"
    assert answer["codes"] == [0] * CHILDREN
    told_of = told(path)
    acknowledged = [*answer["mine"], *(job_id for job_id, _ in told_of)]
    assert len(told_of) == CHILDREN * JOBS_EACH
    assert len(answer["mine"]) > 1
    assert set(acknowledged) == set(job_ids(path))
    assert len(acknowledged) == len(job_ids(path))
    assert integrity(path) == "ok"
    with sqlite3.connect(path, isolation_level=None) as connection:
        rows = Rows(connection)
    connection.close()
    recount(rows, None)
    finished = [job.id for job in rows.jobs if job.state == "succeeded"]
    assert sorted(job_id for _, job_id in told_of if isinstance(job_id, int)) == finished
    assert len(finished) > CHILDREN


def test_a_child_outlives_its_parent(tmp_path: Path) -> None:
    """The parent takes its locks for those of both, unless nothing is open at the fork."""
    assert scene("outlived", tmp_path) == {"codes": [0]}
    assert job_ids(tmp_path / "jobs.db") == list(range(1, 12))
    assert integrity(tmp_path / "jobs.db") == "ok"


def test_the_end_of_a_child_leaves_the_log_of_its_parent(tmp_path: Path) -> None:
    assert scene("exits", tmp_path) == {"codes": [3, 3, 4, 4, 5, 5]}
    assert job_ids(tmp_path / "jobs.db") == list(range(1, 3 + 2 * 6 + 1))
    assert integrity(tmp_path / "jobs.db") == "ok"


@pytest.mark.parametrize("name", ["amid", "not_by_python"])
def test_a_child_forked_amid_a_transaction_is_told_so(tmp_path: Path, name: str) -> None:
    """It has inherited SQLite's notes of locks: it must not touch this file, by any name."""
    answer = scene(name, tmp_path)
    told_of = told(tmp_path / "jobs.db")
    assert {(kind, "forked amid" in str(text)) for kind, text in told_of} == {("StoreError", True)}
    assert (len(told_of), answer["codes"]) == ((4, [7]) if name == "amid" else (1, [0]))
    assert job_ids(tmp_path / "jobs.db") == ([1, 2, 3] if name == "amid" else [1, 2])
    assert integrity(tmp_path / "jobs.db") == "ok"


def test_a_fork_waits_for_a_transaction_of_another_thread(tmp_path: Path) -> None:
    assert scene("long_write", tmp_path) == {"codes": [0]}
    assert told(tmp_path / "jobs.db") == [[5_002]]


def test_two_threads_may_fork_at_once(tmp_path: Path) -> None:
    assert scene("in_two_threads", tmp_path) == {"codes": [0] * 20}
    assert len(job_ids(tmp_path / "jobs.db")) == len(job_ids(tmp_path / "two.db")) == 21
