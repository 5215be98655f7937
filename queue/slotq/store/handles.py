"""What one process has open of one queue file."""

import contextlib
import ctypes
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from slotq.errors import FileReplaced, QueueBusy, StoreError
from slotq.store.faults import check_place
from slotq.store.opening import (
    check_level,
    connect,
    identity,
    keeps_log,
    open_turnstile,
    prepare,
    retry,
)
from slotq.store.turnstile import Turnstile

# How often a transaction looks whether the path still names the open file.
IDENTITY_EVERY_S: Final = 0.5

# Files that this process can never open, being a child forked amid a transaction on them.
_torn: set[tuple[int, int]] = set()


class Handles:
    """The connections and lock files of one queue file; opened when they are asked for.

    One thread at a time opens or closes each: the caller sees to that.

    Args:
        path: The file, absolute.
        create: Whether to make the file and its schema when they are not there.
        durable: Whether a commit survives a power cut (``synchronous=FULL``).
        lock_timeout_s: How long a reader waits inside SQLite.

    Attributes:
        real: The file that the path leads to: SQLite names its log after it, so all goes by it.
        directory: A folder beside it, for locks and the like; made when the file is opened.
        writer: The connection that writes; None while it is not open.
        reader: The one that reads.
        turnstile: The lock files; open together with the writer.
        openings: How often a connection was opened.
        is_in_use: Whether anything was opened since the last ``close``.
    """

    def __init__(self, path: Path, *, create: bool, durable: bool, lock_timeout_s: float) -> None:
        self.path = path
        self.real = Path(os.path.realpath(path))
        self.directory = self.real.with_name(self.real.name + "-slotq")
        self.writer: sqlite3.Connection | None = None
        self.reader: sqlite3.Connection | None = None
        self.turnstile: Turnstile | None = None
        self.openings = 0
        self.is_in_use = False
        self._create = create
        self._durable = durable
        self._lock_timeout_s = lock_timeout_s
        self._identity: tuple[int, int] | None = None
        self._next_look = 0.0

    def open_writer(self, deadline: float) -> tuple[sqlite3.Connection, Turnstile]:
        """Return the connection that writes and the locks that it needs."""
        if self.writer is not None and self.turnstile is not None:
            self.look_at_identity()
            if self.writer.in_transaction:  # a second interrupt came while the first ended it
                self.writer.execute("ROLLBACK")
            return self.writer, self.turnstile
        mode = "rwc" if self._check_place(write=True) else "rw"
        if self.real.exists() and self._has_log():
            self._look_only(deadline).close()
        connection = retry(lambda: connect(self.real, mode=mode, durable=self._durable), deadline)
        turnstile = None
        try:
            is_newest = retry(lambda: self._check_level(connection), deadline)
            turnstile = open_turnstile(self.directory, self.path)
            if not is_newest or not retry(lambda: keeps_log(connection), deadline):
                self._prepare(connection, turnstile, deadline)
            self._note_opened()
        except BaseException:
            connection.close()
            if turnstile is not None:
                turnstile.close()
            raise
        self.writer, self.turnstile = connection, turnstile
        self.openings += 1
        return connection, turnstile

    def open_reader(self, deadline: float, make: Callable[[], None]) -> sqlite3.Connection:
        """Return the connection that reads; ``make`` is called if a writer must open it first."""
        if self.reader is not None:
            self.look_at_identity()
            return self.reader
        if self._create and self._identity is None and not self.real.exists():
            make()
        self._check_place(write=False)
        connection = self._look_only(deadline)
        try:
            if not retry(lambda: self._check_level(connection), deadline):
                make()
            # It waits for no writer, only while a log is recovered or the last one closes.
            connection.execute(f"PRAGMA busy_timeout = {int(self._lock_timeout_s * 1000)}")
            self._note_opened()
        except BaseException:
            connection.close()
            raise
        self.reader = connection
        self.openings += 1
        return connection

    def look_at_identity(self) -> None:
        """Check the identity from time to time."""
        now = time.monotonic()
        if now >= self._next_look:
            self.check_identity()
            self._next_look = now + IDENTITY_EVERY_S

    def check_identity(self) -> None:
        """Check that the path still names the file that is open, and that its locks are there.

        Raises:
            FileReplaced: It was deleted, or another file stands in its place.
        """
        # Another thread may be closing all of it.
        known, turnstile = self._identity, self.turnstile
        if known is not None and identity(self.path) != known:
            raise FileReplaced(path=self.path)
        if turnstile is not None and turnstile.is_replaced():
            reason = f"its lock files in {self.directory} were deleted or replaced"
            raise FileReplaced(path=self.path, reason=reason)

    def suspend(self) -> None:
        """Close all; what is opened next must be the same file."""
        for connection in (self.reader, self.writer):
            if connection is not None:
                with contextlib.suppress(sqlite3.Error):
                    connection.close()
        if self.turnstile is not None:
            self.turnstile.close()
        self.reader = self.writer = self.turnstile = None

    def close(self) -> None:
        """Close all, and forget which file it was."""
        self.suspend()
        self.is_in_use = False
        self._identity = None

    def tear(self) -> None:
        """In a child that was forked amid a transaction: never touch this file again.

        Not even closing is safe, nor at exit: so a reference is leaked on purpose.
        """
        for connection in (self.reader, self.writer):
            if connection is not None:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
        torn = identity(self.real)
        if torn is not None:
            _torn.add(torn)
        self.reader = self.writer = None
        self.close()

    def torn(self) -> StoreError:
        """Return the error of such a child."""
        reason = "this process was forked amid a transaction on it, and cannot use it"
        return StoreError(path=self.path, reason=reason)

    def _check_place(self, *, write: bool) -> bool:
        """Check a place before it is opened; return whether the file may be made."""
        self.check_identity()  # it may have been open before a fork
        create = self._create and self._identity is None
        check_place(self.real, create=create, write=write)
        if write and self.directory.exists() and not self.directory.is_dir():
            raise StoreError(path=self.path, reason=f"{self.directory} is in the way of its locks")
        if identity(self.real) in _torn:
            raise self.torn()
        return create

    def _has_log(self) -> bool:
        try:
            return self.real.with_name(f"{self.real.name}-wal").stat().st_size > 0
        except OSError:
            return False

    def _look_only(self, deadline: float) -> sqlite3.Connection:
        """Open a connection that reads, on a file that is a queue or may become one.

        The last to close a file in mode "rw" folds its log and deletes it, in mode "ro" he leaves
        an empty one behind. So what is no queue is left as it was found: with its log, or without.
        """
        mode = "ro" if self._has_log() else "rw"
        connection = retry(lambda: connect(self.real, mode=mode, durable=self._durable), deadline)
        try:
            connection.execute("PRAGMA query_only = 1")
            retry(lambda: self._check_level(connection), deadline)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_level(self, connection: sqlite3.Connection) -> bool:
        return check_level(connection, self.path, create=self._create)

    def _prepare(
        self, connection: sqlite3.Connection, turnstile: Turnstile, deadline: float
    ) -> None:
        if not turnstile.enter(deadline):
            raise QueueBusy(path=self.path, waited_s=self._lock_timeout_s)
        try:
            prepare(connection, self.path, deadline)
        finally:
            turnstile.leave()

    def _note_opened(self) -> None:
        found = identity(self.path)
        if found is None or self._identity not in {None, found}:
            raise FileReplaced(path=self.path)
        self._identity = found
        self.is_in_use = True
