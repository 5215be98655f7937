"""Work inside a transaction of the caller's, on whatever kind of connection it is."""

import sqlite3
import sys
from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import TYPE_CHECKING, TypeGuard, TypeVar

from slotq.errors import InvalidValue
from slotq.store.connection import Database
from slotq.store.transaction import Tx

if TYPE_CHECKING:
    import aiosqlite

T = TypeVar("T")


def run(database: Database, connection: object, work: Callable[[Tx], T]) -> T:
    """Do the work in the caller's transaction, in this thread.

    Raises:
        InvalidValue: It is no connection that can be used in this thread, not on this file, or in
            no transaction.
    """
    with database.join(_raw(connection)) as tx:
        return work(tx)


def is_async(connection: object) -> "TypeGuard[aiosqlite.Connection]":
    """Tell whether this is a connection of aiosqlite."""
    # Who has one has loaded it. It brings asyncio, which takes as long to load as all else here.
    if "aiosqlite" not in sys.modules:
        return False
    import aiosqlite  # noqa: PLC0415

    return isinstance(connection, aiosqlite.Connection)


async def hop(connection: "aiosqlite.Connection", call: Callable[[], T]) -> T:
    """Make a call on the thread that an aiosqlite connection belongs to.

    Raises:
        InvalidValue: The connection is not open.
    """
    try:
        connection.total_changes  # noqa: B018  # raises unless it is open
    except ValueError as error:
        raise _refused(f"cannot be used ({error})") from error
    # aiosqlite has no public way to run a function on a connection's thread. Its version is held
    # below the next minor, and a test fails when this way is gone.
    execute: Callable[[Callable[[], T]], Awaitable[T]] = attrgetter("_execute")(connection)
    return await execute(call)


def _raw(connection: object) -> sqlite3.Connection:
    try:
        if is_async(connection):
            connection = attrgetter("_conn")(connection)  # as above
        if isinstance(connection, sqlite3.Connection):
            connection.cursor().close()
            return connection
    except (sqlite3.ProgrammingError, ValueError) as error:
        # Closed, or of another thread: an aiosqlite connection in a verb that has no "a".
        raise _refused(f"cannot be used here ({error})") from error
    raise _refused("must be a sqlite3.Connection or an aiosqlite.Connection", connection)


def _refused(problem: str, *value: object) -> InvalidValue:
    if value:
        return InvalidValue(name="connection", problem=problem, value=value[0])
    return InvalidValue(name="connection", problem=problem)
