"""``connection=``: what is enqueued and set commits or rolls back with the caller's own rows."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from pathlib import Path

import aiosqlite
import pytest

from slotq import InvalidValue, Queue, QueueBusy, Worker
from support.procs import until
from support.wrongly import wrongly


def note(text: str) -> str:
    return text


@pytest.fixture
def connection(queue: Queue) -> Iterator[sqlite3.Connection]:
    queue.stats()
    with contextlib.closing(sqlite3.connect(queue.path, isolation_level=None)) as made:
        made.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)")
        yield made


def orders(queue: Queue) -> list[str]:
    with contextlib.closing(sqlite3.connect(queue.path)) as connection:
        return [item for (item,) in connection.execute("SELECT item FROM orders")]


@pytest.mark.parametrize("commit", [True, False])
def test_a_job_goes_with_the_caller_s_rows(
    queue: Queue, connection: sqlite3.Connection, commit: bool
) -> None:
    task = queue.task(note)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO orders (item) VALUES ('tea')")
    job = task.options(connection=connection, key="k").enqueue("a")
    ids = task.options(connection=connection).enqueue_many([("b",), ("c",)])
    by_name = queue.enqueue("n", connection=connection)
    limit = queue.set_limit("k", max_running=1, connection=connection)
    assert (job.id, ids, by_name.id) == (1, [2, 3], 4)
    assert (job.state, job.args, limit.max_running) == ("waiting", ["a"], 1)
    assert queue.jobs() == []
    assert queue.limits() == []
    connection.execute("COMMIT" if commit else "ROLLBACK")
    assert [found.id for found in queue.jobs()] == ([1, 2, 3, 4] if commit else [])
    assert orders(queue) == (["tea"] if commit else [])
    assert [found.key for found in queue.limits()] == (["k"] if commit else [])
    assert queue.key("k").waiting == (1 if commit else 0)


@pytest.mark.parametrize("commit", [True, False])
async def test_a_job_goes_with_the_rows_of_an_aiosqlite_connection(
    queue: Queue, connection: sqlite3.Connection, commit: bool
) -> None:
    task = queue.task(note)
    async with aiosqlite.connect(queue.path, isolation_level=None) as mine:
        await mine.execute("BEGIN IMMEDIATE")
        await mine.execute("INSERT INTO orders (item) VALUES ('tea')")
        job = await task.options(connection=mine).aenqueue("a")
        ids = await task.options(connection=mine).aenqueue_many([("b",), ("c",)])
        by_name = await queue.aenqueue("n", connection=mine)
        await queue.aset_limit("k", max_running=1, connection=mine)
        assert (job.id, ids, by_name.id) == (1, [2, 3], 4)
        await (mine.commit() if commit else mine.rollback())
    assert [found.id for found in queue.jobs()] == ([1, 2, 3, 4] if commit else [])
    assert orders(queue) == (["tea"] if commit else [])
    assert len(queue.limits()) == (1 if commit else 0)


async def test_a_limit_is_cleared_with_the_caller_s_rows(
    queue: Queue, connection: sqlite3.Connection
) -> None:
    queue.set_limit("k", max_running=1)
    connection.execute("BEGIN IMMEDIATE")
    assert queue.clear_limit("k", connection=connection) == 1
    connection.execute("ROLLBACK")
    assert len(queue.limits()) == 1
    connection.execute("BEGIN IMMEDIATE")
    assert await queue.aclear_limit("k", connection=connection) == 1
    connection.execute("COMMIT")
    assert queue.limits() == []


async def test_a_plain_connection_serves_the_async_twin_too(
    queue: Queue, connection: sqlite3.Connection
) -> None:
    connection.execute("BEGIN IMMEDIATE")
    job = await queue.task(note).options(connection=connection).aenqueue("a")
    connection.execute("COMMIT")
    assert queue.job(job.id).args == ["a"]


def test_an_error_undoes_only_what_the_call_did(
    queue: Queue, connection: sqlite3.Connection
) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO orders (item) VALUES ('tea')")
    first = queue.enqueue("n", connection=connection)
    with pytest.raises(InvalidValue):
        queue.set_limit("k", max_starts=1, connection=connection)
    connection.execute("COMMIT")
    assert [job.id for job in queue.jobs()] == [first.id]
    assert orders(queue) == ["tea"]


def test_a_row_factory_and_a_text_factory_of_the_caller_s_stay(
    queue: Queue, connection: sqlite3.Connection
) -> None:
    connection.row_factory = sqlite3.Row
    connection.text_factory = bytes
    connection.execute("BEGIN IMMEDIATE")
    job = queue.enqueue("n", connection=connection, key="ключ")
    connection.execute("COMMIT")
    assert job.key == "ключ"
    assert connection.row_factory is sqlite3.Row
    assert connection.text_factory is bytes


@pytest.mark.parametrize("wrong", [7, "jobs.db", object()])
async def test_what_is_no_connection_is_refused(queue: Queue, wrong: object) -> None:
    with pytest.raises(InvalidValue, match=r"connection must be a sqlite3\.Connection, an aio"):
        wrongly(queue.enqueue)("n", connection=wrong)
    with pytest.raises(InvalidValue, match=r"connection must be a sqlite3\.Connection, an aio"):
        await wrongly(queue.aenqueue)("n", connection=wrong)
    assert queue.jobs() == []


async def test_an_unfit_connection_is_refused_with_the_reason(
    queue: Queue, connection: sqlite3.Connection, tmp_path: Path
) -> None:
    def refused(why: str, given: sqlite3.Connection | aiosqlite.Connection) -> None:
        with pytest.raises(InvalidValue, match=rf"^connection .*{why}"):
            queue.enqueue("n", connection=given)

    refused("in no transaction", connection)
    other = sqlite3.connect(tmp_path / "other.db", isolation_level=None)
    other.execute("BEGIN")
    refused("not on", other)
    other.close()
    refused("closed", other)
    with ThreadPoolExecutor(1) as pool:
        elsewhere = pool.submit(sqlite3.connect, queue.path).result()
        refused("thread", elsewhere)
        pool.submit(elsewhere.close).result()
    async with aiosqlite.connect(queue.path) as mine:
        refused("thread", mine)
    with pytest.raises(InvalidValue, match=r"^connection cannot be used"):
        await queue.aenqueue("n", connection=mine)
    unopened = aiosqlite.connect(queue.path)
    with pytest.raises(InvalidValue, match=r"^connection cannot be used"):
        await queue.aenqueue("n", connection=unopened)
    assert queue.jobs() == []
    assert queue.enqueue("n").id == 1


def test_a_deferred_transaction_that_has_read_fails_at_once(
    queue: Queue, connection: sqlite3.Connection
) -> None:
    """Field case 36: a read followed by a write cannot be waited out, and says what to do."""
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM orders").fetchall()
    queue.enqueue("n")
    with pytest.raises(QueueBusy, match="begin it with BEGIN IMMEDIATE"):
        queue.enqueue("n", connection=connection)
    connection.execute("ROLLBACK")
    assert len(queue.jobs()) == 1


async def test_an_idle_worker_starts_a_job_that_somebody_else_commits(
    tmp_path: Path,
) -> None:
    with Queue(tmp_path / "jobs.db") as queue:
        task = queue.task(note)
        worker = Worker(queue)
        serving = asyncio.create_task(worker.serve())
        await asyncio.to_thread(until, queue.workers)
        connection = sqlite3.connect(queue.path, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        job = task.options(connection=connection).enqueue("a")
        connection.execute("COMMIT")
        connection.close()
        assert await job.await_result(timeout=10) == "a"
        worker.stop()
        await serving


def test_the_way_into_aiosqlite_is_still_there() -> None:
    # Private names that the async twins need: its version is held below the next minor.
    assert callable(attrgetter("_execute")(aiosqlite.Connection))
    assert isinstance(attrgetter("_conn")(aiosqlite.Connection), property)
