"""Whose turn it is: among the threads of a process, and among the processes of a host.

SQLite's own wait lets one busy process keep the write lock for seconds while others starve, since
the one that waits longest looks least often. Here a process takes lock A, then lock B, lets go of A,
writes, lets go of B. Whoever has just written must pass A again, behind the one that already stands
between A and B, so B always goes to somebody who waited. The kernel frees both when a process dies.

A signal handler may raise at the end of any call, and no lock may stay behind then. So a lock is
let go of by a call that is C all through, and what ``enter`` took is let go of when it raises.
"""

import contextlib
import fcntl
import os
import random
import threading
import time
import weakref
from functools import partial
from pathlib import Path
from typing import Final

# Only the one process between A and B looks for B, so it may look often; those before A are many.
SPINS: Final = 20
NEXT_LOOK_S: Final = (0.00002, 0.0001)
OUTSIDE_LOOK_S: Final = (0.00005, 0.001)


class Turn:
    """Whose turn it is among the threads of this process.

    Attributes:
        leave: Lets the next thread in.
    """

    __slots__ = ("_lock", "leave")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.leave = self._lock.release

    def enter(self, deadline: float) -> bool:
        """Wait for the turn.

        Args:
            deadline: Latest ``time.monotonic()`` to wait for.

        Returns:
            Whether the turn was got; if not, nothing is held.
        """
        wait_s = max(0.0, deadline - time.monotonic())
        got: list[bool] = []
        try:
            # One call that is C all through: the lock, and the note that it is held.
            got.extend(map(self._lock.acquire, (True,), (wait_s,)))
        except BaseException:
            if True in got:
                self.leave()
            raise
        return got[0]

    def is_taken(self) -> bool:
        """Tell whether anybody has the turn."""
        return self._lock.locked()


class Turnstile:
    """The two locks of one queue file, as seen by one process.

    One thread at a time may be inside: the caller sees to that.

    Attributes:
        leave: Lets the next process in; harmless without the turn.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / "lock"
        self._outer = _open(directory / "gate")
        try:
            self._inner = _open(self._path)
        except BaseException:
            os.close(self._outer)
            raise
        self._identity = _identity(os.fstat(self._inner))
        self.leave = partial(fcntl.flock, self._inner, fcntl.LOCK_UN)
        self._finalizer = weakref.finalize(self, _close, self._outer, self._inner)

    def enter(self, deadline: float) -> bool:
        """Wait for the turn to write.

        Args:
            deadline: Latest ``time.monotonic()`` to wait for.

        Returns:
            Whether the turn was got; if not, nothing is held.
        """
        try:
            try:
                return _lock(self._outer, deadline, 0, OUTSIDE_LOOK_S) and _lock(
                    self._inner, deadline, SPINS, NEXT_LOOK_S
                )
            finally:
                fcntl.flock(self._outer, fcntl.LOCK_UN)
        except BaseException:
            self.leave()
            raise

    def is_replaced(self) -> bool:
        """Tell whether the lock files were deleted or replaced: others would use other ones."""
        try:
            return _identity(self._path.stat()) != self._identity
        except OSError:
            return True

    def mark(self) -> None:
        """Leave a mark for every process of ours, with its time."""
        # A lock file is never read, so that a time of access of 0 stays. It is another user's
        # file, perhaps: then each process goes by what it has seen itself.
        with contextlib.suppress(OSError):
            os.utime(self._inner, ns=(0, time.time_ns()))

    def is_marked(self, within_s: float) -> bool:
        """Tell whether anybody left a mark in the last seconds."""
        found = os.fstat(self._inner)
        return found.st_atime_ns == 0 and abs(time.time() - found.st_mtime) < within_s

    def close(self) -> None:
        """Close the files, which lets go of their locks."""
        self._finalizer()


def _open(path: Path) -> int:
    # For reading only: a user who may not write another's lock file can still lock it.
    return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _close(*fds: int) -> None:
    for fd in fds:
        os.close(fd)


def _lock(fd: int, deadline: float, spins: int, pause_s: tuple[float, float]) -> bool:
    """Take an exclusive ``flock``, looking again at random moments so that nobody is favoured."""
    looks = 0
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            looks += 1
            if looks > spins:
                if time.monotonic() >= deadline:
                    return False
                pause(pause_s)
            else:
                os.sched_yield()
        else:
            return True


def pause(between_s: tuple[float, float]) -> None:
    """Sleep for a random time: nobody is favoured, and waits do not grow."""
    time.sleep(random.uniform(*between_s))
