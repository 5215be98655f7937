"""Writing inside a transaction that belongs to the caller."""

import os
import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from slotq.clock import Clock
from slotq.errors import InvalidValue, QueueBusy
from slotq.store import statements
from slotq.store.faults import BUSY_SNAPSHOT, UPGRADE_HINT, code_of, translate
from slotq.store.opening import retry
from slotq.store.transaction import Tx


@contextmanager
def joined(
    connection: sqlite3.Connection, path: Path, clock: Clock, *, began: float, deadline: float
) -> Generator[Tx]:
    """Write with the caller's connection; an exception undoes only what the block did.

    The caller's settings are left as they were, except ``wal_autocheckpoint``, which is switched
    off: an automatic checkpoint could run into one of ours (see ``log.py``).

    Raises:
        InvalidValue: The connection is closed, not on this file, or in no transaction.
        QueueBusy: Others kept the lock until the deadline; at once if the transaction has read
            before it wrote, and somebody has written since.
    """
    text_factory = connection.text_factory
    try:
        cursor = _checked(connection, path)
        connection.text_factory = str
        cursor.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
        cursor.execute("SAVEPOINT slotq")
        try:
            retry(lambda: cursor.execute(statements.TAKE_LOCK), deadline)
            tx = Tx(connection, clock)
            try:
                yield tx
            finally:
                tx.close()
        except BaseException:
            if connection.in_transaction:  # SQLite ends it itself when a disk is full
                cursor.execute("ROLLBACK TO slotq")
                cursor.execute("RELEASE slotq")
            raise
        cursor.execute("RELEASE slotq")
    except sqlite3.Error as error:
        waited_s = time.monotonic() - began
        if code_of(error) == BUSY_SNAPSHOT:
            raise QueueBusy(path=path, waited_s=waited_s, hint=UPGRADE_HINT) from error
        raise translate(error, path, waited_s=waited_s) from error
    finally:
        connection.text_factory = text_factory


def _checked(connection: sqlite3.Connection, path: Path) -> sqlite3.Cursor:
    """Return a cursor of a connection that can be used."""
    try:
        # Not connection.cursor(): a subclass may return what it likes, with a row factory.
        cursor = sqlite3.Cursor(connection)
        connection.text_factory = os.fsdecode
        names = {row[1]: row[2] for row in cursor.execute("PRAGMA database_list").fetchall()}
    except sqlite3.ProgrammingError as error:  # closed, or of another thread
        raise InvalidValue(name="connection", problem=f"cannot be used ({error})") from error
    file = names.get("main")
    if not file or not Path(file).exists() or not path.exists() or not path.samefile(file):
        raise InvalidValue(
            name="connection", problem=f"is open on {file or 'a database in memory'}, not on {path}"
        )
    if not connection.in_transaction:
        raise InvalidValue(
            name="connection", problem="is in no transaction: begin one with BEGIN IMMEDIATE first"
        )
    return cursor
