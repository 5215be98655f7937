"""Opening a queue file: its connections, its write-ahead log, its schema."""

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from slotq.errors import NotAQueue, StoreError
from slotq.store import migrate
from slotq.store.faults import BUSY_SNAPSHOT, code_of, is_busy
from slotq.store.turnstile import OUTSIDE_LOOK_S, Turnstile, pause

T = TypeVar("T")

# Large enough for the hot pages of a million jobs; more gained nothing.
CACHE_KIB: Final = 65_536
CACHED_STATEMENTS: Final = 256


def connect(path: Path, *, mode: str, durable: bool) -> sqlite3.Connection:
    """Open a connection that does not wait for locks."""
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode={mode}",
        uri=True,
        timeout=0,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=CACHED_STATEMENTS,
    )
    try:
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
    except BaseException:
        connection.close()
        raise
    return connection


def check_level(connection: sqlite3.Connection, path: Path, *, create: bool) -> bool:
    """Return whether the file has the newest schema.

    Raises:
        NotAQueue: It is no queue, and may not be made one.
        SchemaTooNew: The file was made by a newer library.
    """
    found = migrate.level(connection, path)
    if found == 0 and not create:
        raise NotAQueue(path=path, reason="there is no queue in it")
    return found == migrate.newest()


def keeps_log(connection: sqlite3.Connection) -> bool:
    """Tell whether the file keeps a write-ahead log."""
    ((mode,),) = connection.execute("PRAGMA journal_mode").fetchall()
    return bool(mode == "wal")


def prepare(connection: sqlite3.Connection, path: Path, deadline: float) -> None:
    """Switch to a write-ahead log and migrate; the caller is alone inside the turnstile.

    Both need the whole file for a moment, which SQLite does not wait for.
    """

    def switch() -> str:
        ((mode,),) = connection.execute("PRAGMA journal_mode = WAL").fetchall()
        return str(mode)

    if retry(switch, deadline) != "wal":
        raise StoreError(path=path, reason="SQLite cannot keep a write-ahead log for it")
    retry(lambda: migrate.migrate(connection, path), deadline)


def open_turnstile(directory: Path, path: Path) -> Turnstile:
    """Open the lock files of a queue file, made if they are not there."""
    try:
        directory.mkdir(exist_ok=True)
        return Turnstile(directory)
    except OSError as error:
        reason = f"its lock files in {directory} cannot be opened ({error.strerror})"
        raise StoreError(path=path, reason=reason) from error


def identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another in its place; None if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116  # on the way of commits
    except OSError:
        return None
    return found.st_dev, found.st_ino


def retry(action: Callable[[], T], deadline: float) -> T:
    """Do it once the lock is free, looking at random moments that do not grow apart.

    What can never succeed is not tried again: SQLite says so by another code, since the caller's
    transaction has read what has changed since.
    """
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            is_final = code_of(error) == BUSY_SNAPSHOT or time.monotonic() >= deadline
            if is_final or not is_busy(error):
                raise
        pause(OUTSIDE_LOOK_S)
