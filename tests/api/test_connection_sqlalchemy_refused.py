"""Connections and sessions of SQLAlchemy that cannot be joined are refused, and told what to do."""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from operator import attrgetter
from pathlib import Path

import aiosqlite
import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

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
)
from support.wrongly import wrongly


class Foreign:
    """A connection of a driver that is not known."""

    def __init__(self, connection: object) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> object:
        return attrgetter(name)(self._connection)


@pytest.fixture
def engine(queue: Queue) -> Iterator[Engine]:
    with engine_on(queue) as made:
        yield made


@pytest.fixture
async def aengine(queue: Queue, engine: Engine) -> AsyncIterator[AsyncEngine]:
    async with async_engine_on(queue) as made:
        yield made


@pytest.mark.parametrize("kind", KINDS)
async def test_without_a_transaction_it_is_told_how_to_begin_one(
    queue: Queue, engine: Engine, aengine: AsyncEngine, kind: str
) -> None:
    told = r"^connection is in no transaction: begin one with BEGIN IMMEDIATE first, by exec_driver"
    with opened(engine, kind) as mine, pytest.raises(InvalidValue, match=told):
        queue.enqueue("n", connection=mine)
    # SQLAlchemy's own begin() does not reach the file.
    with opened(engine, kind) as mine, mine.begin(), pytest.raises(InvalidValue, match=told):
        queue.enqueue("n", connection=mine)
    async with aopened(aengine, kind) as amine:
        with pytest.raises(InvalidValue, match=told):
            await queue.aenqueue("n", connection=amine)
    assert queue.jobs() == []


def test_a_transaction_that_sqlalchemy_s_commit_would_not_end_is_refused(
    queue: Queue, engine: Engine
) -> None:
    with engine.connect() as mine:
        below(mine).execute(BEGIN)
        assert not callers.is_begun(mine)
        with pytest.raises(InvalidValue, match="is in no transaction"):
            queue.enqueue("n", connection=mine)


@pytest.mark.parametrize("kind", KINDS)
async def test_another_file_is_refused(queue: Queue, tmp_path: Path, kind: str) -> None:
    elsewhere = create_engine(f"sqlite:///{tmp_path / 'other.db'}")
    with opened(elsewhere, kind) as mine:
        mine.execute(text(BEGIN))
        with pytest.raises(InvalidValue, match=r"^connection is open on .*other\.db, not on"):
            queue.enqueue("n", connection=mine)
    elsewhere.dispose()
    nowhere = create_async_engine("sqlite+aiosqlite://")
    async with aopened(nowhere, kind) as amine:
        await amine.execute(text(BEGIN))
        with pytest.raises(InvalidValue, match="is open on a database in memory, not on"):
            await queue.aenqueue("n", connection=amine)
    await nowhere.dispose()


@pytest.mark.parametrize("kind", KINDS)
async def test_an_async_kind_in_a_sync_verb_is_told_so(
    queue: Queue, aengine: AsyncEngine, kind: str
) -> None:
    async with aopened(aengine, kind) as mine:
        with pytest.raises(InvalidValue, match=r"^connection cannot be used here: it is async"):
            queue.enqueue("n", connection=mine)
        await mine.execute(text(BEGIN))
        with pytest.raises(InvalidValue, match='verb whose name begins with "a"'):
            queue.set_limit("k", max_running=1, connection=mine)


async def test_the_sync_kind_below_an_async_one_is_told_to_be_async(
    queue: Queue, aengine: AsyncEngine
) -> None:
    async with aengine.connect() as mine:
        await mine.exec_driver_sql(BEGIN)
        sync = mine.sync_connection
        with pytest.raises(InvalidValue, match=r"it is async .* of SQLAlchemy's the async kind"):
            await queue.aenqueue("n", connection=sync)
        with pytest.raises(InvalidValue, match="it is async"):
            await mine.run_sync(lambda sync: queue.enqueue("n", connection=sync))


async def test_a_closed_or_broken_one_is_refused_with_the_reason(
    queue: Queue, engine: Engine, aengine: AsyncEngine
) -> None:
    with engine.connect() as mine:
        pass
    async with aengine.connect() as amine:
        pass
    for given in (mine, amine):
        assert not callers.is_begun(given)
        with pytest.raises(InvalidValue, match=r"^connection cannot be used .*is closed"):
            await queue.aenqueue("n", connection=given)
    unopened = aengine.connect()
    assert not callers.is_begun(unopened)
    with pytest.raises(InvalidValue, match=r"^connection cannot be used"):
        await queue.aenqueue("n", connection=unopened)
    assert queue.jobs() == []


def test_a_session_that_cannot_be_used_is_refused_with_the_reason(
    queue: Queue, engine: Engine
) -> None:
    with Session() as unbound, pytest.raises(InvalidValue, match=r"cannot be used .*bind"):
        queue.enqueue("n", connection=unbound)
    begin_immediate(engine)
    with Session(engine) as session:
        session.execute(text("INSERT INTO orders (id, item) VALUES (1, 'tea')"))
        session.add(Order(id=1, item="milk"))
        with pytest.raises(IntegrityError):
            session.flush()
        with pytest.raises(InvalidValue, match=r"cannot be used .*rolled back") as told:
            queue.enqueue("n", connection=session)
        assert "\n" not in str(told.value)
        assert "http" not in str(told.value)
        session.rollback()
        queue.enqueue("n", connection=session)
        session.commit()
    assert len(queue.jobs()) == 1


def test_a_locked_file_is_told_as_by_the_session_itself(queue: Queue, engine: Engine) -> None:
    impatient = create_engine(f"sqlite:///{queue.path}", connect_args={"timeout": 0})
    begin_immediate(impatient)
    with engine.connect() as mine, Session(impatient) as session:
        mine.exec_driver_sql(BEGIN)
        with pytest.raises(OperationalError, match="locked"):
            queue.enqueue("n", connection=session)
    impatient.dispose()


@pytest.mark.parametrize("kind", ["engine", "maker", "transaction"])
def test_other_things_of_sqlalchemy_are_refused(queue: Queue, engine: Engine, kind: str) -> None:
    with engine.begin() as connection:
        things = {
            "engine": engine,
            "maker": sessionmaker(engine),
            "transaction": connection.get_transaction(),
        }
        with pytest.raises(InvalidValue, match="or a Connection or Session of SQLAlchemy"):
            wrongly(queue.enqueue)("n", connection=things[kind])


async def test_other_drivers_are_refused_by_name(queue: Queue, tmp_path: Path) -> None:
    path = tmp_path / "foreign.db"

    def connect() -> Foreign:
        return Foreign(sqlite3.connect(path))

    async def aconnect() -> Foreign:
        return Foreign(await aiosqlite.connect(path))

    engine = wrongly(create_engine)("sqlite://", creator=connect)
    told = "must be on SQLite by pysqlite, not by .*refused"
    with engine.begin() as mine, pytest.raises(InvalidValue, match=told):
        queue.enqueue("n", connection=mine)
    engine.dispose()
    aengine = wrongly(create_async_engine)("sqlite+aiosqlite://", async_creator=aconnect)
    async with aengine.begin() as amine:
        with pytest.raises(InvalidValue, match=r"must be on SQLite by aiosqlite, not by .*refused"):
            await queue.aenqueue("n", connection=amine)
    await aengine.dispose()
