"""Folding the write-ahead log into the file, without SQLite's log-reset hazard.

SQLite before 3.51.3 can corrupt a database when one connection restarts the log while another is
in a second checkpoint, and a ``wal_checkpoint(TRUNCATE)`` that does not get the write lock silently
runs as PASSIVE and makes just that happen. So automatic checkpoints are off on every connection of
ours, and the log is folded only by whoever is alone inside the turnstile.
"""

import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Final

from slotq.store.turnstile import Turnstile

logger = logging.getLogger("slotq.log")

FOLD_AT_BYTES: Final = 16 * 1024 * 1024
# A log this small is left alone; a larger one is folded once nobody writes.
QUIET_BYTES: Final = 1024 * 1024
QUIET_S: Final = 2.0
# A fold that cannot get its turn in this time leaves it to the next commit.
FOLD_WAIT_S: Final = 0.5
# How long a fold waits for readers of old snapshots, and when it is tried again after that.
READERS_MS: Final = 100
RETRY_S: Final = 0.2
WARN_BYTES: Final = 64 * 1024 * 1024
WARN_EVERY_S: Final = 10.0


class Folded(Enum):
    """What came of an attempt to fold, with what keeps the log from being folded."""

    DONE = "nothing"
    READERS = "a reader keeps an old snapshot open, or another program is writing"
    NO_TURN = "others are writing all the time"
    CLOSED = "the file is closed"


class LogKeeper:
    """Watches the size of one file's log and has it folded.

    Args:
        path: The database file.
        enter: Enters the turnstile and calls ``fold`` with what it was given.
    """

    def __init__(self, path: Path, enter: Callable[[int], Folded]) -> None:
        self._path = f"{path}-wal"
        self._enter = enter
        self._not_before = 0.0
        self._warned = -WARN_EVERY_S
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def size(self) -> int:
        """Return the log's size in bytes."""
        return self._look()[0]

    def committed(self) -> None:
        """Fold a large log now; see to it that a smaller one is folded when all is quiet.

        Raises nothing: a commit has happened, whatever comes of its log.
        """
        size = self.size()
        if size > QUIET_BYTES:
            if size > FOLD_AT_BYTES:
                self._try(FOLD_AT_BYTES, size)
            self._start()

    def joined(self) -> None:
        """See to it that a log that somebody else's transaction adds to is folded in time."""
        if self.size() > QUIET_BYTES:
            self._start()

    def closing(self, writer: sqlite3.Connection, turnstile: Turnstile) -> None:
        """Leave no large log to others, who may be idle for hours."""
        if self.size() > QUIET_BYTES:
            with contextlib.suppress(sqlite3.Error, OSError):
                self.fold(QUIET_BYTES, writer, turnstile, time.monotonic() + FOLD_WAIT_S)

    def fold(
        self, more_than: int, writer: sqlite3.Connection, turnstile: Turnstile, deadline: float
    ) -> Folded:
        """Fold the log if it still holds more than that, once no process of ours writes."""
        if not turnstile.enter(deadline):
            return Folded.NO_TURN
        try:
            if self.size() <= more_than:
                return Folded.DONE
            # Each attempt stops all writers for as long as it waits for readers, so one process
            # tries for all.
            if turnstile.is_marked(RETRY_S):
                return Folded.READERS
            if _truncate(writer):
                return Folded.DONE
            turnstile.mark()
            return Folded.READERS
        finally:
            turnstile.leave()

    def stop(self) -> None:
        """End the watch."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._stop.set()
        if thread is not None:
            thread.join()

    def _look(self) -> tuple[int, int]:
        try:
            found = os.stat(self._path)  # noqa: PTH116  # on the way of every commit
        except OSError:
            return 0, 0
        return found.st_size, found.st_mtime_ns

    def _try(self, more_than: int, size: int) -> Folded:
        now = time.monotonic()
        if now < self._not_before:
            return Folded.READERS
        folded = self._enter(more_than)
        if folded is Folded.READERS:
            self._not_before = time.monotonic() + RETRY_S
        is_new = now - self._warned >= WARN_EVERY_S
        if size > WARN_BYTES and is_new and folded in {Folded.READERS, Folded.NO_TURN}:
            self._warned = now
            logger.warning(
                "the log %s has grown to %d MB: %s", self._path, size >> 20, folded.value
            )
        return folded

    def _start(self) -> None:
        """Start the watch: a thread, so that producers need no loop."""
        # The lock decides between a watch that ends and a commit that wants one.
        with self._lock:
            if self._thread is None:
                stop = threading.Event()
                thread = threading.Thread(
                    target=self._watch, args=(stop,), name="slotq-log", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError:
                    return  # no more threads, or the interpreter ends: the next writer folds
                self._stop, self._thread = stop, thread

    def _watch(self, stop: threading.Event) -> None:
        """Wait until nobody anywhere writes, fold, and end."""
        before = (0, 0)
        pause_s = QUIET_S
        while not stop.wait(pause_s):
            now = self._look()
            # Made large by callers' transactions, which do not fold.
            is_large = now[0] > FOLD_AT_BYTES
            folded = None
            if is_large or now == before:
                folded = self._try(FOLD_AT_BYTES if is_large else QUIET_BYTES, now[0])
            with self._lock:
                if folded is Folded.CLOSED or self.size() <= QUIET_BYTES:
                    if not stop.is_set():
                        self._thread = None
                    return
            before = now
            pause_s = RETRY_S if is_large else QUIET_S


def _truncate(writer: sqlite3.Connection) -> bool:
    writer.execute(f"PRAGMA busy_timeout = {READERS_MS}")
    try:
        ((busy, _, _),) = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        writer.execute("PRAGMA busy_timeout = 0")
    return not busy
