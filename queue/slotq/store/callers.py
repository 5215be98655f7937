"""Work inside a transaction of the caller's, on whatever kind of connection it is."""

import sqlite3
import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeGuard, TypeVar

from slotq.errors import InvalidValue
from slotq.store import alchemy
from slotq.store.connection import Database
from slotq.store.transaction import Tx

if TYPE_CHECKING:
    from typing import TypeAlias

    import aiosqlite

    AsyncConnection: TypeAlias = aiosqlite.Connection | alchemy.Async
    # What every ``connection=`` takes; the async kinds in the verbs that begin with an "a".
    Connection: TypeAlias = sqlite3.Connection | alchemy.Sync | AsyncConnection

T = TypeVar("T")

# In a call that was brought to an async connection's thread: that connection, and what is below it.
_hopped: Final[ContextVar[tuple[object, sqlite3.Connection] | None]] = ContextVar(
    "slotq_hopped", default=None
)


def run(database: Database, connection: object, work: Callable[[Tx], T]) -> T:
    """Do the work in the caller's transaction, in this thread.

    Raises:
        InvalidValue: It is no connection that can be used in this thread, not on this file, or in
            no transaction.
    """
    with database.join(_raw(connection)) as tx:
        return work(tx)


def is_async(connection: object) -> "TypeGuard[AsyncConnection]":
    """Tell whether this is a connection that is used on a thread of its own."""
    return _is_aiosqlite(connection) or alchemy.is_async(connection)


def is_begun(connection: object) -> bool:
    """Tell whether a transaction is under way on this connection, from any thread; begin none.

    Of an async session, unless its call was brought to its thread, the answer is what SQLAlchemy
    knows; there may be none in the file yet.
    """
    hopped = _hopped.get()
    below = hopped[1] if hopped is not None and hopped[0] is connection else connection
    if alchemy.is_sync(below) or alchemy.is_async(below):
        return alchemy.is_begun(below)
    try:
        return (isinstance(below, sqlite3.Connection) or _is_aiosqlite(below)) and (
            below.in_transaction
        )
    except (sqlite3.ProgrammingError, ValueError):  # closed
        return False


async def hop(connection: "AsyncConnection", call: Callable[[], T]) -> T:
    """Make a call on the thread that an async connection belongs to.

    Raises:
        InvalidValue: The connection cannot be used, or is one of SQLAlchemy's in no transaction.
    """
    below = await alchemy.adriver(connection) if alchemy.is_async(connection) else connection
    if not _is_aiosqlite(below):
        raise _refused(f"must be on SQLite by aiosqlite, not by {type(below).__module__}")
    try:
        below.total_changes  # noqa: B018  # raises unless it is open
    except ValueError as error:
        raise _refused(f"cannot be used ({error})") from error
    raw: sqlite3.Connection = attrgetter("_conn")(below)

    def here() -> T:
        before = _hopped.set((connection, raw))
        try:
            return call()
        finally:
            _hopped.reset(before)

    # aiosqlite has no public way to run a function on a connection's thread. Its version is held
    # below the next minor, and a test fails when this way is gone.
    execute: Callable[[Callable[[], T]], Awaitable[T]] = attrgetter("_execute")(below)
    return await execute(here)


def _is_aiosqlite(connection: object) -> "TypeGuard[aiosqlite.Connection]":
    # Who has one has loaded it. It brings asyncio, which takes as long to load as all else here.
    if "aiosqlite" not in sys.modules:
        return False
    import aiosqlite  # noqa: PLC0415

    return isinstance(connection, aiosqlite.Connection)


def _raw(connection: object) -> sqlite3.Connection:
    hopped = _hopped.get()
    if hopped is not None and hopped[0] is connection:
        _check(hopped[1], is_alchemy=alchemy.is_async(connection))
        return hopped[1]
    below, is_alchemy = connection, alchemy.is_sync(connection)
    if alchemy.is_sync(connection):
        below = alchemy.driver(connection)
    if isinstance(below, sqlite3.Connection):
        _check(below, is_alchemy=is_alchemy)
        return below
    if is_async(below):
        raise _refused(
            "cannot be used here: it is async and belongs to a thread of its own, so give it to the "
            'verb whose name begins with "a", and of SQLAlchemy\'s the async kind'
        )
    if is_alchemy:
        raise _refused(f"must be on SQLite by pysqlite, not by {type(below).__module__}")
    raise InvalidValue(
        name="connection",
        problem="must be a sqlite3.Connection, an aiosqlite.Connection, or a Connection or Session "
        "of SQLAlchemy, sync or async",
        value=connection,
    )


def _check(raw: sqlite3.Connection, *, is_alchemy: bool) -> None:
    try:
        raw.cursor().close()
    except sqlite3.ProgrammingError as error:  # closed, or of another thread
        raise _refused(f"cannot be used here ({error})") from error
    if is_alchemy and not raw.in_transaction:
        raise _refused(alchemy.NOT_BEGUN)


def _refused(problem: str) -> InvalidValue:
    return InvalidValue(name="connection", problem=problem)
