"""``connection=`` with SQLAlchemy: what the queue does commits or rolls back with the caller's rows."""

import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.orm import Session

from slotq import InvalidValue, Queue
from slotq.store import callers
from support.orders import (
    BEGIN,
    KINDS,
    Order,
    aopened,
    async_engine_on,
    begin_immediate,
    below,
    engine_on,
    opened,
    orders,
)


def note(message: str) -> str:
    return message


@pytest.fixture
def engine(queue: Queue) -> Iterator[Engine]:
    with engine_on(queue) as made:
        yield made


@pytest.fixture
async def aengine(queue: Queue, engine: Engine) -> AsyncIterator[AsyncEngine]:
    async with async_engine_on(queue) as made:
        yield made


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_all_verbs_go_with_the_caller_s_rows(
    queue: Queue, engine: Engine, kind: str, commit: bool
) -> None:
    queue.set_limit("old", max_running=1)
    task = queue.task(note)
    with opened(engine, kind) as mine:
        mine.execute(text(BEGIN))
        mine.execute(text("INSERT INTO orders (item) VALUES ('tea')"))
        job = task.options(connection=mine, key="k").enqueue("a")
        ids = task.options(connection=mine).enqueue_many([("b",), ("c",)])
        by_name = queue.enqueue("n", connection=mine)
        batch = queue.enqueue_batch([{"task": "n"}], connection=mine)
        limit = queue.set_limit("k", max_running=1, connection=mine)
        assert queue.clear_limit("old", connection=mine) == 1
        assert (job.id, ids, by_name.id, batch) == (1, [2, 3], 4, range(5, 6))
        assert limit.max_running == 1
        assert queue.jobs() == []
        assert [found.key for found in queue.limits()] == ["old"]
        assert callers.is_begun(mine)
        if commit:
            mine.commit()
        else:
            mine.rollback()
        assert not callers.is_begun(mine)
    assert len(queue.jobs()) == (5 if commit else 0)
    assert orders(queue) == (["tea"] if commit else [])
    assert [found.key for found in queue.limits()] == (["k"] if commit else ["old"])


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("kind", KINDS)
async def test_all_async_verbs_go_with_the_caller_s_rows(
    queue: Queue, aengine: AsyncEngine, kind: str, commit: bool
) -> None:
    queue.set_limit("old", max_running=1)
    task = queue.task(note)
    async with aopened(aengine, kind) as mine:
        await mine.execute(text(BEGIN))
        await mine.execute(text("INSERT INTO orders (item) VALUES ('tea')"))
        job = await task.options(connection=mine, key="k").aenqueue("a")
        ids = await task.options(connection=mine).aenqueue_many([("b",), ("c",)])
        by_name = await queue.aenqueue("n", connection=mine)
        batch = await queue.aenqueue_batch([{"task": "n"}], connection=mine)
        limit = await queue.aset_limit("k", max_running=1, connection=mine)
        assert await queue.aclear_limit("old", connection=mine) == 1
        assert (job.id, ids, by_name.id, batch) == (1, [2, 3], 4, range(5, 6))
        assert limit.max_running == 1
        assert queue.jobs() == []
        assert callers.is_begun(mine)
        if commit:
            await mine.commit()
        else:
            await mine.rollback()
        assert not callers.is_begun(mine)
    assert len(queue.jobs()) == (5 if commit else 0)
    assert orders(queue) == (["tea"] if commit else [])
    assert [found.key for found in queue.limits()] == (["k"] if commit else ["old"])


async def test_a_listener_begins_for_a_session_at_its_first_use(
    queue: Queue, engine: Engine, aengine: AsyncEngine
) -> None:
    begin_immediate(engine)
    begin_immediate(aengine.sync_engine)
    with Session(engine) as session:
        queue.enqueue("sync", connection=session)
        session.commit()
    with engine.begin() as connection:
        queue.enqueue("sync", connection=connection)
    async with AsyncSession(aengine) as session:
        await queue.aenqueue("async", connection=session)
        await session.commit()
    async with aengine.begin() as connection:
        await queue.aenqueue("async", connection=connection)
    async with AsyncSession(aengine) as session:
        await queue.aenqueue("not committed", connection=session)
    assert [job.task for job in queue.jobs()] == ["sync", "sync", "async", "async"]


@pytest.mark.parametrize("commit", [True, False])
def test_pending_rows_of_a_session_go_with_the_job(
    queue: Queue, engine: Engine, commit: bool
) -> None:
    begin_immediate(engine)
    with Session(engine) as session:
        session.add(Order(item="pending"))
        queue.enqueue("n", connection=session)
        session.add(Order(item="later"))
        session.flush()
        queue.enqueue("n", connection=session)
        session.add(Order(item="at the end"))
        if commit:
            session.commit()
    assert len(queue.jobs()) == (2 if commit else 0)
    assert orders(queue) == (["pending", "later", "at the end"] if commit else [])


def test_a_savepoint_of_a_session_holds_the_job_too(queue: Queue, engine: Engine) -> None:
    begin_immediate(engine)
    with Session(engine) as session, session.begin():
        queue.enqueue("kept", connection=session)
        inner = session.begin_nested()
        queue.enqueue("undone", connection=session)
        inner.rollback()
        with session.begin_nested():
            queue.enqueue("kept", connection=session)
    assert [job.task for job in queue.jobs()] == ["kept", "kept"]


async def test_a_sync_connection_serves_the_async_twin_too(queue: Queue, engine: Engine) -> None:
    begin_immediate(engine)
    with Session(engine) as session, session.begin():
        await queue.aenqueue("n", connection=session)
    assert len(queue.jobs()) == 1


def test_what_the_caller_has_set_stays(queue: Queue, engine: Engine) -> None:
    def row_factory(_: sqlite3.Cursor, row: tuple[object, ...]) -> list[object]:
        return list(row)

    def kept() -> tuple[object, ...]:
        return (raw.row_factory, raw.text_factory, *pragmas())

    def pragmas() -> list[object]:
        names = ("foreign_keys", "recursive_triggers", "cache_size", "busy_timeout", "synchronous")
        return [raw.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    with engine.connect() as mine:
        raw = below(mine)
        for pragma in ("foreign_keys = 1", "recursive_triggers = 1", "cache_size = 77"):
            raw.execute(f"PRAGMA {pragma}")
        mine.exec_driver_sql(BEGIN)
        raw.row_factory, raw.text_factory = row_factory, bytes
        before = kept()
        job = queue.enqueue("n", connection=mine, key="ключ")
        assert kept() == before
        mine.commit()
    assert job.key == "ключ"


def test_an_error_undoes_only_what_the_call_did(queue: Queue, engine: Engine) -> None:
    begin_immediate(engine)
    with Session(engine) as session, session.begin():
        session.add(Order(item="tea"))
        queue.enqueue("n", connection=session)
        with pytest.raises(InvalidValue):
            queue.set_limit("k", max_starts=1, connection=session)
    assert len(queue.jobs()) == 1
    assert orders(queue) == ["tea"]


async def test_asking_whether_a_transaction_is_under_way_begins_none(
    queue: Queue, engine: Engine, aengine: AsyncEngine
) -> None:
    begin_immediate(aengine.sync_engine)
    async with AsyncSession(aengine) as session:
        assert not callers.is_begun(session)
        await queue.aenqueue("n", connection=session)
        assert callers.is_begun(session)
        await session.commit()
        assert not callers.is_begun(session)
        session.add(Order(item="tea"))  # begun for SQLAlchemy, not in the file
        assert callers.is_begun(session)
        queue.enqueue("n")  # nobody has the lock
        await session.commit()
    with Session(engine) as session:
        session.add(Order(item="milk"))
        assert not callers.is_begun(session)
    assert orders(queue) == ["tea"]


def test_plain_connections_tell_too_whether_a_transaction_is_under_way(queue: Queue) -> None:
    queue.stats()
    with contextlib.closing(sqlite3.connect(queue.path)) as connection:
        assert not callers.is_begun(connection)
        connection.execute(BEGIN)
        assert callers.is_begun(connection)
    assert not callers.is_begun(connection)
    assert not callers.is_begun(None)


def test_sqlalchemy_is_not_loaded_by_the_queue(tmp_path: Path) -> None:
    code = (
        "import sqlite3, sys, slotq; q = slotq.Queue('jobs.db'); q.stats()\n"
        "c = sqlite3.connect('jobs.db'); c.execute('BEGIN IMMEDIATE')\n"
        "q.enqueue('n', connection=c); c.commit()\n"
        "try: q.enqueue('n', connection=7)\n"
        "except slotq.InvalidValue: pass\n"
        "print(len(q.jobs()), [name for name in sys.modules if 'sqlalchemy' in name])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "1 []\n"
