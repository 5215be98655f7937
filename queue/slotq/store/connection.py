"""One queue file: its transactions, shared by threads and over forks."""

import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from slotq.clock import Clock
from slotq.errors import QueueBusy, SlotqError, StoreError
from slotq.store.blocks import Block
from slotq.store.faults import translate
from slotq.store.handles import Handles
from slotq.store.joining import joined
from slotq.store.log import FOLD_WAIT_S, Folded, LogKeeper
from slotq.store.opening import retry
from slotq.store.transaction import Reader, Tx
from slotq.store.turnstile import Turn

# How often somebody who joins looks whether another thread has opened the file meanwhile.
OPENED_LOOK_S: Final = 0.01
# A write-ahead log is not begun, nor a schema made, amid somebody's transaction.
FIRST_USE_HINT: Final = "it could not be opened; use the queue once before the transaction begins"
DATA_VERSION: Final = "PRAGMA data_version"
OLD_SCHEMA: Final = "an older library made it, and who only looks changes nothing: use it once"

_databases: "weakref.WeakSet[Database]" = weakref.WeakSet()


class Database:
    """An SQLite file with the queue's schema; opened at first use, shared by threads and forks.

    Args:
        path: The file; made absolute at once.
        clock: Where instants come from.
        create: Whether to make the file and its schema when they are not there.
        durable: Whether a commit survives a power cut (``synchronous=FULL``).
        lock_timeout_s: How long to wait for a turn before ``QueueBusy``.
        looks_only: Whether the file is never opened for writing.

    Attributes:
        path: The file, absolute.
        directory: A folder beside it, for locks and the like; made when the file is opened.
        real: The file that the path leads to.
        clock: See above.
        log: Its write-ahead log.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock,
        create: bool,
        durable: bool,
        lock_timeout_s: float,
        looks_only: bool = False,
    ) -> None:
        self.path = path.absolute()
        self.clock = clock
        self._lock_timeout_s = lock_timeout_s
        self._looks_only = looks_only
        self._handles = Handles(
            self.path, create=create, durable=durable, lock_timeout_s=lock_timeout_s
        )
        self.directory = self._handles.directory
        self.real = self._handles.real
        self._renew()
        _databases.add(self)

    def _renew(self) -> None:
        """Begin with nobody inside: at first, and in a forked child."""
        self._writing = Turn()
        self._reading = Turn()  # who takes both takes this one first
        self._parked_by = 0
        self.log = LogKeeper(self._handles.real, self._fold)

    def write(self) -> Block[Tx]:
        """Hold the write lock for the length of the block; any exception undoes all of it.

        Raises:
            QueueBusy: Somebody else kept the lock for the whole time-out.
            FileReplaced: The file was deleted or replaced since it was opened.
            StoreError: The file cannot be used; the message says why.
        """
        return Block(self._write(), self.path)

    def read(self) -> Block[Reader]:
        """See one consistent state of the file for the length of the block.

        Raises:
            QueueBusy: Another thread kept reading for the whole time-out.
            FileReplaced: The file was deleted or replaced since it was opened.
            StoreError: The file cannot be used; the message says why.
        """
        return Block(self._read(), self.path)

    @contextmanager
    def join(self, connection: sqlite3.Connection) -> Generator[Tx]:
        """Write inside a caller's transaction; see ``joining.joined``."""
        began = time.monotonic()
        deadline = began + self._lock_timeout_s
        try:
            self._open_writer_for_others(deadline)
            self._handles.look_at_identity()
        except (sqlite3.Error, OSError, QueueBusy) as error:
            told = error if isinstance(error, QueueBusy) else self._told(error, began)
            if isinstance(told, QueueBusy):
                told = QueueBusy(path=self.path, waited_s=told.waited_s, hint=FIRST_USE_HINT)
            raise told from error
        with joined(connection, self.path, self.clock, began=began, deadline=deadline) as tx:
            yield tx
        self.log.joined()

    def open(self) -> None:
        """Have the file open for writing, and its folder made.

        Raises:
            QueueBusy: Somebody else kept it locked for the whole time-out.
            StoreError: The file cannot be used; the message says why.
        """
        began = time.monotonic()
        try:
            self._open_writer_for_others(began + self._lock_timeout_s)
        except (sqlite3.Error, OSError) as error:
            raise self._told(error, began) from error

    def data_version(self) -> int:
        """Return a number that changes whenever somebody has committed."""
        began = time.monotonic()
        self._enter(self._reading, began)
        try:
            return self._version(self._open_reader(began).execute(DATA_VERSION).fetchall()[0][0])
        except (sqlite3.Error, OSError) as error:
            raise self._told(error, began) from error
        finally:
            self._reading.leave()

    def version_of(self, reader: Reader) -> int:
        """Return what ``data_version`` would, of what a reader sees."""
        return self._version(reader.value(DATA_VERSION))

    def foreign_version(self, tx: Tx | None = None) -> int:
        """Return a number that changes when somebody commits on a connection other than ours.

        Args:
            tx: A write transaction of this thread: the number is the one that goes with it, since
                no foreign commit can lie between the two.
        """
        if tx is not None:
            return self._version(tx.value(DATA_VERSION))
        began = time.monotonic()
        self._enter(self._writing, began)
        try:
            if self._handles.writer is None:
                return -1  # closed since then: who asks had better look
            return self._version(self._handles.writer.execute(DATA_VERSION).fetchall()[0][0])
        except sqlite3.Error as error:
            raise self._told(error, began) from error
        finally:
            self._writing.leave()

    def check_identity(self) -> None:
        """Check that the path still names the file that is open, and that its locks are there.

        Raises:
            FileReplaced: It was deleted, or another file stands in its place.
        """
        self._handles.check_identity()

    def close(self) -> None:
        """Let go of the file, after the transactions under way; the next use opens it again.

        Raises:
            QueueBusy: One took longer than the time-out.
        """
        began = time.monotonic()
        self._enter(self._reading, began)
        try:
            self._enter(self._writing, began)
            try:
                if self._handles.writer is not None and self._handles.turnstile is not None:
                    self.log.closing(self._handles.writer, self._handles.turnstile)
                self._handles.close()
            finally:
                self._writing.leave()
        finally:
            self._reading.leave()
        self.log.stop()

    def _write(self) -> Generator[Tx]:
        """Begin; when it goes on, commit; when it is closed instead, roll back."""
        began = time.monotonic()
        deadline = began + self._lock_timeout_s
        turn = self._writing
        self._enter(turn, began)
        try:
            connection, turnstile = self._handles.open_writer(deadline)
            if not turnstile.enter(deadline):
                raise self._busy()
            tx = None
            try:
                retry(lambda: connection.execute("BEGIN IMMEDIATE"), deadline)
                tx = Tx(connection, self.clock)
                yield tx
                self._check_is(connection, self._handles.writer)
                connection.execute("COMMIT")
            finally:
                if connection is self._handles.writer:  # not in a child forked meanwhile
                    try:
                        if connection.in_transaction:
                            connection.execute("ROLLBACK")
                    finally:
                        try:
                            turnstile.leave()
                        finally:
                            _close(tx)
        except (sqlite3.Error, OSError) as error:
            raise self._told(error, began) from error
        finally:
            turn.leave()
        self.log.committed()

    def _read(self) -> Generator[Reader]:
        """Begin; when it goes on or is closed, let go of the snapshot."""
        began = time.monotonic()
        turn = self._reading
        self._enter(turn, began)
        try:
            connection = self._open_reader(began)
            reader = None
            try:
                connection.execute("BEGIN")
                reader = Reader(connection)
                yield reader
                self._check_is(connection, self._handles.reader)
            finally:
                if connection is self._handles.reader:
                    try:
                        if connection.in_transaction:
                            connection.execute("ROLLBACK")
                    finally:
                        _close(reader)
        except (sqlite3.Error, OSError) as error:
            raise self._told(error, began) from error
        finally:
            turn.leave()

    def _check_is(self, connection: sqlite3.Connection, now: sqlite3.Connection | None) -> None:
        if connection is not now:  # this is a child forked meanwhile
            raise self._handles.torn()

    def park(self) -> None:
        """Before a fork: close all, and let nobody in until ``unpark``.

        SQLite notes in the process's memory which locks the process has. A child that inherits the
        notes believes that it has them too, but it has none: whoever closes the file then takes
        himself for the last, and deletes the log under the child's feet.
        """
        me, began = threading.get_ident(), time.monotonic()
        with contextlib.suppress(QueueBusy):
            self._enter(self._reading, began)
            try:
                self._enter(self._writing, began)
            except BaseException:
                self._reading.leave()
                raise
            self._parked_by = me
            self._handles.suspend()

    def unpark(self) -> None:
        """After a fork, in the parent: let others in, who open the file again."""
        if self._parked_by == threading.get_ident():
            self._parked_by = 0
            self._writing.leave()
            self._reading.leave()

    def forget(self) -> None:
        """After a fork, in the child: begin anew."""
        has_handles = self._handles.reader is not None or self._handles.writer is not None
        is_taken = self._reading.is_taken() or self._writing.is_taken()
        if has_handles or (is_taken and self._parked_by != threading.get_ident()):
            # A transaction did not end in time, or the fork was not Python's own.
            self._handles.tear()
        else:
            self._handles.close()
        self._renew()

    def _enter(self, turn: Turn, began: float) -> None:
        if not turn.enter(began + self._lock_timeout_s):
            raise self._busy()

    def _version(self, version: int) -> int:
        # SQLite counts for each connection on its own.
        return (self._handles.openings << 32) + version

    def _busy(self) -> QueueBusy:
        return QueueBusy(path=self.path, waited_s=self._lock_timeout_s)

    def _told(self, error: sqlite3.Error | OSError, began: float) -> SlotqError:
        """Return what is raised for an error."""
        if isinstance(error, OSError):
            return StoreError(path=self.path, reason=f"its locks do not work ({error.strerror})")
        return translate(error, self.path, waited_s=time.monotonic() - began)

    def _open_reader(self, began: float) -> sqlite3.Connection:
        deadline = began + self._lock_timeout_s
        return self._handles.open_reader(deadline, lambda: self._open_writer_for_others(deadline))

    def _open_writer_for_others(self, deadline: float) -> None:
        """Have the file open for writing: for a reader, or for somebody who joins."""
        if self._looks_only:
            raise StoreError(path=self.path, reason=OLD_SCHEMA)
        while self._handles.writer is None:
            # Not for long at once: who has the turn may wait for the transaction to be joined.
            if self._writing.enter(min(deadline, time.monotonic() + OPENED_LOOK_S)):
                try:
                    self._handles.open_writer(deadline)
                finally:
                    self._writing.leave()
            elif time.monotonic() >= deadline:
                raise self._busy()

    def _fold(self, more_than: int) -> Folded:
        """Fold the log if it holds more than that."""
        deadline = time.monotonic() + FOLD_WAIT_S
        if not self._writing.enter(deadline):
            return Folded.NO_TURN
        try:
            if not self._handles.is_in_use:
                return Folded.CLOSED
            return self.log.fold(more_than, *self._handles.open_writer(deadline), deadline)
        except (sqlite3.Error, SlotqError, OSError):
            return Folded.NO_TURN  # the next transaction tells what is wrong
        finally:
            self._writing.leave()


def _close(reader: Reader | None) -> None:
    if reader is not None:
        reader.close()


def _all() -> list[Database]:
    # In one order, or two threads that fork at once would wait for each other.
    return sorted(_databases, key=id)


def _park_all() -> None:
    for database in _all():
        database.park()


def _unpark_all() -> None:
    for database in _all():
        database.unpark()


def _forget_all() -> None:
    for database in _all():
        database.forget()


os.register_at_fork(before=_park_all, after_in_parent=_unpark_all, after_in_child=_forget_all)
