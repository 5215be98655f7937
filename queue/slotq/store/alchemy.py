"""Connections and sessions of SQLAlchemy: what they are, and the driver's connection below them.

SQLAlchemy is not needed to run: who hands in one of these has loaded it.
"""

import sys
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeGuard

from slotq.errors import InvalidValue

if TYPE_CHECKING:
    from typing import TypeAlias

    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
    from sqlalchemy.orm import Session, scoped_session

    Sync: TypeAlias = Connection | Session | scoped_session[Session]
    Async: TypeAlias = AsyncConnection | AsyncSession | async_scoped_session[AsyncSession]

NOT_BEGUN: Final = (
    "is in no transaction: begin one with BEGIN IMMEDIATE first, by exec_driver_sql on the "
    "connection, or for all of an engine in a listener of its event 'begin'"
)


def is_sync(given: object) -> "TypeGuard[Sync]":
    """Tell whether this is a Connection or a Session, also a scoped one."""
    if "sqlalchemy" not in sys.modules:
        return False
    from sqlalchemy import Connection  # noqa: PLC0415  # here and below: loaded already

    return isinstance(given, Connection) or _is_session(given)


def is_async(given: object) -> "TypeGuard[Async]":
    """Tell whether this is an AsyncConnection or an AsyncSession, also a scoped one."""
    if "sqlalchemy.ext.asyncio" not in sys.modules:
        return False
    from sqlalchemy.ext import asyncio  # noqa: PLC0415

    kinds = (asyncio.AsyncConnection, asyncio.AsyncSession, asyncio.async_scoped_session)
    return isinstance(given, kinds)


def driver(given: "Sync") -> object:
    """Return the driver's connection below; a session begins as at any first statement.

    Raises:
        InvalidValue: It cannot be used, or is in no transaction that its own commit would end.
    """
    from sqlalchemy import Connection  # noqa: PLC0415
    from sqlalchemy.exc import InvalidRequestError  # noqa: PLC0415

    try:
        connection = given if isinstance(given, Connection) else given.connection()
        below: object = connection.connection.driver_connection
    except InvalidRequestError as error:
        raise _refused(error) from error
    _check_begun(connection)
    return below


async def adriver(given: "Async") -> object:
    """Do what ``driver`` does, for the async kinds."""
    from sqlalchemy.exc import InvalidRequestError  # noqa: PLC0415
    from sqlalchemy.ext.asyncio import AsyncConnection  # noqa: PLC0415

    try:
        connection = given if isinstance(given, AsyncConnection) else await given.connection()
        below: object = (await connection.get_raw_connection()).driver_connection
    except InvalidRequestError as error:
        raise _refused(error) from error
    _check_begun(connection)
    return below


def is_begun(given: "Sync | Async") -> bool:
    """Tell whether a transaction is under way, for SQLAlchemy and in the file; never begins one.

    Of an async session only whether it is for SQLAlchemy: to know more it would have to be awaited.
    """
    from sqlalchemy import Connection  # noqa: PLC0415
    from sqlalchemy.exc import InvalidRequestError  # noqa: PLC0415

    try:
        sync = _sync(given)
        if not sync.in_transaction():
            return False
        if is_async(given) and not isinstance(sync, Connection):
            return True
        return bool(attrgetter("in_transaction")(driver(sync)))
    except (AttributeError, InvalidRequestError, InvalidValue):
        return False


def _sync(given: "Sync | Async") -> "Connection | Session":
    """Return what is below the async and the scoped kinds."""
    from sqlalchemy import Connection  # noqa: PLC0415

    if isinstance(given, Connection):
        return given
    if is_async(given):
        from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession  # noqa: PLC0415

        if isinstance(given, AsyncConnection):
            if given.sync_connection is None:
                raise InvalidValue(name="connection", problem="is not open")
            return given.sync_connection
        return (given if isinstance(given, AsyncSession) else given()).sync_session
    assert _is_session(given)
    from sqlalchemy.orm import Session  # noqa: PLC0415

    return given if isinstance(given, Session) else given()


def _is_session(given: object) -> "TypeGuard[Session | scoped_session[Session]]":
    if "sqlalchemy.orm" not in sys.modules:
        return False
    from sqlalchemy import orm  # noqa: PLC0415

    return isinstance(given, orm.Session | orm.scoped_session)


def _check_begun(connection: "Connection | AsyncConnection") -> None:
    # With autocommit=False Python has begun one of which SQLAlchemy's commit() knows nothing.
    if not connection.in_transaction():
        raise InvalidValue(name="connection", problem=NOT_BEGUN)


def _refused(error: Exception) -> InvalidValue:
    told = str(error).partition("\n")[0]  # the second line is a link
    return InvalidValue(name="connection", problem=f"cannot be used ({told})")
