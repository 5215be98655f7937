"""This process as the file knows it that takes holds: its name, and the lock that dies with it."""

import contextlib
import functools
import getpass
import os
import secrets
import socket
import threading
import weakref
from collections import deque
from dataclasses import replace
from typing import Final

from slotq.alive import Alive, Grave, graves
from slotq.errors import StoreError
from slotq.store import history, holds
from slotq.store.connection import Database
from slotq.store.history import Cell
from slotq.store.holds import Place, Request
from slotq.store.transaction import Tx
from slotq.wake import sweep

PREFIX: Final = "hold-"
# Ends that are kept before those that are over are dropped: some 100 KB.
MOST_ENDS: Final = 1_000
# How long starts stay in memory before they are written for charts: each time costs a page or two.
COUNT_EVERY_MS: Final = 1_000

_holders: "weakref.WeakSet[Holder]" = weakref.WeakSet()


class Holder:
    """The holds of one process in one file; shared by its threads.

    Attributes:
        lock: Held between entering and noting a hold: nobody must let go of the lock file there.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._alive: Alive | None = None
        self._pid = 0
        # The end of each of its holds, by ticket: one that nobody gave back ends by itself.
        self._ends: dict[int, int] = {}
        self._most_ends = MOST_ENDS
        self._starts: dict[history.Place, Cell] = {}
        self._counted_ms = 0
        self._graves: list[Grave] = []
        self._dropped: deque[tuple[Place, Request]] = deque()
        self.lock = threading.RLock()
        self.process = ""
        _holders.add(self)

    def enter(self, tx: Tx) -> None:
        """Be known in the file, with ``lock`` held until a hold is noted.

        Raises:
            StoreError: The lock file cannot be made.
        """
        if self._pid == os.getpid():
            return
        for grave in graves(self._database.directory, but=()):
            if grave.name.startswith(PREFIX):
                self._graves.append(grave)
                holds.bury(tx, grave.name)
            else:
                grave.close(remove=False)  # a worker's: what ran in it is for others to take back
        # A forked child keeps what it has inherited open: what it does for a hold of its parent's
        # counts for as long as it lives. Its own holds go by a lock of its own.
        process = f"{PREFIX}{secrets.token_hex(8)}"
        try:
            self._alive = Alive(self._database.directory, process)
        except OSError as error:
            reason = f"the lock that tells that a hold lives cannot be made ({error.strerror})"
            raise StoreError(path=self._database.path, reason=reason) from error
        self.process, self._pid = process, os.getpid()
        self._ends = {}

    def clear_graves(self, *, buried: bool) -> None:
        """Let go of the dead that were found; remove what stands for them if they are buried."""
        if self._graves:
            found, self._graves = self._graves, []
            for grave in found:
                grave.close(remove=buried)
            sweep(self._database.directory)

    def drop(self, pid: int, place: Place, request: Request) -> None:
        """Note a hold that nobody can give back any more; from anywhere, also amid a transaction."""
        if pid == os.getpid():
            self._dropped.append((place, request))

    @property
    def has_news(self) -> bool:
        """Whether there is something to write before the queue is closed."""
        return bool(self._dropped or self._starts)

    def give_back(self, tx: Tx) -> None:
        """Give back what was dropped; if the transaction is undone it ends by its TTL."""
        while self._dropped:
            place, request = self._dropped.popleft()
            holds.release(tx, place, request)
            self.forget(request.ticket)

    def note(self, ticket: int, until: int) -> None:
        """Note that a hold ends at an instant, in milliseconds, unless it is noted anew."""
        self._ends[ticket] = until
        if len(self._ends) > self._most_ends:
            self._drop_ended()
            self._most_ends = max(MOST_ENDS, 2 * len(self._ends))

    def count(self, key_id: int, slots: int, now: int) -> None:
        """Count starts for charts; in memory first."""
        if not self._starts:
            self._counted_ms = now
        cell = self._starts.setdefault(history.place("key", now, key_id), Cell())
        cell.starts += slots

    def write_counts(self, tx: Tx, *, is_last: bool = False) -> None:
        """Write what was counted, about once a second; if it is undone, a chart misses it."""
        if self._starts and (is_last or not 0 <= tx.now - self._counted_ms < COUNT_EVERY_MS):
            starts, self._starts = self._starts, {}
            history.add(tx, starts)
            history.sweep(tx)

    def forget(self, ticket: int) -> None:
        """Note that a hold has ended."""
        self._ends.pop(ticket, None)

    def sign(self, request: Request, bell: str | None) -> Request:
        """Return a request with the name of this process, and of the pipe that wakes it."""
        return replace(request, process=self.process, bell=bell)

    def fileno(self) -> int:
        """Return the lock's file, for a program that is to keep it locked; it must be inherited."""
        assert self._alive is not None, "who holds has entered"
        return self._alive.fileno()

    def close(self) -> None:
        """Let go of the lock, unless a hold needs it."""
        with self.lock:
            self._drop_ended()
            if self._alive is not None and self._pid == os.getpid() and not self._ends:
                self._alive.close(remove=True)
                self._alive, self._pid = None, 0

    def renew(self) -> None:
        """Begin anew in a forked child: what the parent has noted is the parent's to write."""
        self.lock = threading.RLock()  # another thread of the parent may have it
        self._starts = {}
        self._dropped.clear()

    def _drop_ended(self) -> None:
        now = self._database.clock.now_ms()
        self._ends = {ticket: until for ticket, until in list(self._ends.items()) if until > now}


def name() -> str:
    """Return who this process is, in words: user@host:pid."""
    return f"{_place()}:{os.getpid()}"


@functools.cache
def _place() -> str:
    user = str(os.getuid())
    with contextlib.suppress(ImportError, KeyError, OSError):  # an id without a name
        user = getpass.getuser()
    # Both may hold bytes that are no text.
    return f"{user}@{socket.gethostname()}".encode("utf-8", "backslashreplace").decode("utf-8")


def _renew_all() -> None:
    for holder in list(_holders):
        holder.renew()


os.register_at_fork(after_in_child=_renew_all)
