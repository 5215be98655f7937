"""Many processes at once: the first start on no file, and a bit of everything on one."""

import fcntl
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from slotq.store import migrate
from support.partner import Partner
from support.recount import Rows, recount
from support.stores import integrity, job_ids, looking

Start = Callable[[int], list[Partner]]

SLOWEST_MS = 20_000


def first_starts(everyone: list[Partner], folder: Path, rounds: int) -> None:
    for number in range(rounds):
        path = folder / f"round-{number}.db"
        with (folder / "barrier").open("wb") as barrier:
            fcntl.flock(barrier, fcntl.LOCK_EX)
            for each in everyone:
                each.tell("first", str(path), str(folder / "barrier"))
        ids = sorted(job_id for each in everyone for job_id in each.hear_ids())
        assert ids == job_ids(path) == list(range(1, len(everyone) + 1))
        with looking(path) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (migrate.newest(),)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert integrity(path) == "ok"


def test_sixteen_processes_start_on_no_file(tmp_path: Path, partners: Start) -> None:
    """Field case 39."""
    first_starts(partners(16), tmp_path, rounds=4)


@pytest.mark.soak
def test_sixteen_processes_start_on_no_file_for_long(tmp_path: Path, partners: Start) -> None:
    """Field case 39, fifty rounds."""
    first_starts(partners(16), tmp_path, rounds=50)


def mixed_work(everyone: list[Partner], path: Path, seed: int, rounds: int) -> None:
    for number, each in enumerate(everyone):
        each.tell("mixed", str(path), seed + number, rounds)
    done: Counter[str] = Counter()
    worst: list[int] = []
    for each in everyone:
        answer = each.hear_counts(600.0)
        worst.append(answer.pop("worst_ms"))
        done.update(answer)
    assert max(worst) < SLOWEST_MS
    assert min(done[name] for name in ("enqueue", "run", "limit", "prune", "list")) > 0
    assert done["finished"] >= done["pruned"] > 0
    assert len(job_ids(path)) == done["added"] - done["pruned"]
    assert integrity(path) == "ok"
    connection = sqlite3.connect(path, isolation_level=None)
    recount(Rows(connection), None)
    connection.close()


def test_nobody_sees_a_locked_file(tmp_path: Path, partners: Start) -> None:
    """Field case 36: any error of a process, busy or other, fails this."""
    mixed_work(partners(8), tmp_path / "jobs.db", seed=1, rounds=60)


@pytest.mark.soak
def test_nobody_sees_a_locked_file_for_long(tmp_path: Path, partners: Start) -> None:
    """Field case 36, about a minute."""
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")  # noqa: T201  # to repeat a failure
    mixed_work(partners(8), tmp_path / "jobs.db", seed=seed, rounds=10_000)
