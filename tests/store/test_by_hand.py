"""What is typed by hand, or done by a fork or a clock, where only the schema or the kernel looks."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from slotq import Queue, Worker
from slotq.testing import ManualClock
from slotq.wake import Bell, Ringer


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_a_queue_cannot_be_deleted_under_its_jobs(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    with Queue(path) as queue:
        queue.enqueue("t")
    with (
        closing(sqlite3.connect(path)) as connection,
        pytest.raises(sqlite3.IntegrityError, match="a queue stays"),
    ):
        connection.execute("DELETE FROM slotq_queues")


def test_a_clock_set_back_makes_no_worker_seem_alive_for_long(tmp_path: Path) -> None:
    clock = ManualClock()
    with Queue(tmp_path / "jobs.db", clock=clock) as queue:
        with queue.database.write() as tx:
            tx.run(
                "INSERT INTO slotq_workers (pid, host, queues, slots, claim_order, lease_ms,"
                " started_at, seen_at, tasks) VALUES (1, 'h', 'null', 1, 'fair', 1000, ?1, ?1, '[]')",
                (tx.now,),
            )
        clock.advance(-86_400_000)
        queue.enqueue("t")
        clock.advance(4_000)
        Worker(queue, burst=True).run()
        assert queue.workers() == []


def test_a_forked_child_keeps_no_pipe_of_a_worker_open(tmp_path: Path) -> None:
    """While one was open, a dead worker would seem alive. What a fork does in the child is called."""
    before = open_files()
    mine, other = Bell(tmp_path), Bell(tmp_path)
    ringer = Ringer(tmp_path)
    ringer.hang(mine)
    ringer.ring()
    assert open_files() == before + 3
    ringer.renew()
    assert open_files() == before + 1
    other.close()
