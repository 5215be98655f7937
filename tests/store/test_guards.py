"""What the schema refuses, and what it leaves as it was."""

import sqlite3
from collections.abc import Generator

import pytest

from slotq.store import jobs
from support.stores import TERMS, Stores

RUNNING = "state = 'running', lease_until = 1, lease_ms = 1, started_at = 1, worker_id = 1"
ENDED = "state = 'succeeded', finished_at = 1"
COUNTS = "SELECT waiting, scheduled, running, head_id FROM slotq_lanes"


@pytest.fixture
def by_hand(stores: Stores) -> Generator[sqlite3.Connection]:
    """A connection of somebody who knows nothing of us, to a file with one waiting job."""
    database = stores.open()
    with database.write() as tx:
        jobs.add(tx, TERMS, jobs.Call("[]", "{}", "k"))
    connection = sqlite3.connect(database.path, isolation_level=None)
    yield connection
    connection.close()


@pytest.mark.parametrize(
    ("before", "change", "message"),
    [
        ("attempt = 0", RUNNING, "only a waiting job starts, with a new token"),
        (ENDED, f"{RUNNING}, finished_at = NULL, token = 1", "only a waiting job starts"),
        (ENDED, "state = 'failed'", "a finished job can only wait again"),
        ("attempt = 0", "lane_id = 7", "a job never moves"),
    ],
)
def test_a_job_keeps_to_its_path(
    by_hand: sqlite3.Connection, before: str, change: str, message: str
) -> None:
    by_hand.execute(f"UPDATE slotq_jobs SET {before}")
    counts = by_hand.execute(COUNTS).fetchall()
    with pytest.raises(sqlite3.IntegrityError, match=message):
        by_hand.execute(f"UPDATE slotq_jobs SET {change}")
    assert by_hand.execute(COUNTS).fetchall() == counts


@pytest.mark.parametrize(
    ("lane", "state", "message"),
    [
        ("id, queue_id, key_id", "cancelled", "a job begins scheduled or waiting"),
        ("id, queue_id, key_id + 1", "waiting", "the lane of a job is that of its queue and key"),
        ("id + 1, queue_id, key_id", "waiting", "the lane of a job is that of its queue and key"),
    ],
)
def test_a_job_begins_in_its_lane(
    by_hand: sqlite3.Connection, lane: str, state: str, message: str
) -> None:
    counts = by_hand.execute(COUNTS).fetchall()
    ended = 1 if state == "cancelled" else None
    with pytest.raises(sqlite3.IntegrityError, match=message):
        by_hand.execute(
            "INSERT INTO slotq_jobs (lane_id, queue_id, key_id, run_at, state, finished_at,"
            f" created_at, task, args, kwargs) SELECT {lane}, 1, ?, ?, 1, 't', '[]', '{{}}'"
            " FROM slotq_lanes",
            (state, ended),
        )
    assert by_hand.execute(COUNTS).fetchall() == counts


def test_a_guard_on_the_way_of_jobs_undoes_the_whole_transaction(
    by_hand: sqlite3.Connection,
) -> None:
    by_hand.execute("BEGIN")
    by_hand.execute("UPDATE slotq_jobs SET attempt = 3")
    with pytest.raises(sqlite3.IntegrityError):
        by_hand.execute(f"UPDATE slotq_jobs SET {RUNNING}")
    assert not by_hand.in_transaction
    assert by_hand.execute("SELECT attempt, state FROM slotq_jobs").fetchall() == [(0, "waiting")]
