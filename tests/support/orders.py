"""A table of a caller's on the file of a queue, as seen through each kind of SQLAlchemy's."""

import contextlib
import sqlite3
from collections.abc import AsyncGenerator, Generator
from typing import Final, TypeAlias

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    scoped_session,
    sessionmaker,
)

from slotq import Queue

Sync: TypeAlias = Connection | Session | scoped_session[Session]
Async: TypeAlias = AsyncConnection | AsyncSession | async_scoped_session[AsyncSession]

KINDS: Final = ("connection", "session", "scoped session")
BEGIN: Final = "BEGIN IMMEDIATE"


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]


@contextlib.contextmanager
def engine_on(queue: Queue) -> Generator[Engine]:
    """Make an engine on the queue's file, which gets a table; it begins nothing by itself."""
    queue.stats()
    made = create_engine(f"sqlite:///{queue.path}")
    Base.metadata.create_all(made)
    yield made
    made.dispose()


@contextlib.asynccontextmanager
async def async_engine_on(queue: Queue) -> AsyncGenerator[AsyncEngine]:
    made = create_async_engine(f"sqlite+aiosqlite:///{queue.path}")
    yield made
    await made.dispose()


def begin_immediate(engine: Engine) -> None:
    """Let an engine begin each transaction as writes need it."""

    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(BEGIN)

    event.listen(engine, "begin", begin)


def below(connection: Connection) -> sqlite3.Connection:
    raw: object = connection.connection.driver_connection
    assert isinstance(raw, sqlite3.Connection)
    return raw


def orders(queue: Queue) -> list[str]:
    with contextlib.closing(sqlite3.connect(queue.path)) as connection:
        return [item for (item,) in connection.execute("SELECT item FROM orders")]


@contextlib.contextmanager
def opened(engine: Engine, kind: str) -> Generator[Sync]:
    if kind == "connection":
        with engine.connect() as connection:
            yield connection
    elif kind == "session":
        with Session(engine) as session:
            yield session
    else:
        scoped = scoped_session(sessionmaker(engine))
        yield scoped
        scoped.remove()


@contextlib.asynccontextmanager
async def aopened(engine: AsyncEngine, kind: str) -> AsyncGenerator[Async]:
    if kind == "connection":
        async with engine.connect() as connection:
            yield connection
    elif kind == "session":
        async with AsyncSession(engine) as session:
            yield session
    else:
        scoped = async_scoped_session(async_sessionmaker(engine), scopefunc=lambda: 1)
        yield scoped
        await scoped.remove()
