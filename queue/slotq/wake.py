"""Waking idle workers: a FIFO for each, beside the queue file, written to after a commit.

A pipe wakes a reader in some 40 microseconds and costs nothing while all is quiet. It is a hint and
no more: a worker that misses one finds the work at its next look at the file. So nothing here may
fail a caller whose transaction is committed already.
"""

import contextlib
import errno
import logging
import os
import secrets
import select
import stat
import threading
import time
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Final

logger = logging.getLogger("slotq.wake")

PREFIX: Final = "wake-"
WAITING: Final = "room-"
"""What the pipes of those begin with who wait for room, and whom not every commit wakes."""
HIDDEN: Final = "new-"
PREFIXES: Final = (PREFIX, WAITING, HIDDEN)
# A folder's time of change ticks every few milliseconds: a listing this close to one may be old.
SETTLED_NS: Final = 50_000_000
# A FIFO that nobody reads is removed once it is this old; its worker opens it at once.
STALE_S: Final = 5.0
# What poll says of a pipe that nobody reads.
GONE: Final = select.POLLERR | select.POLLHUP

_ringers: "weakref.WeakSet[Ringer]" = weakref.WeakSet()


class Bell:
    """The FIFO of one worker, or of one who waits for room.

    Attributes:
        name: Its file's name.
    """

    def __init__(self, directory: Path, *, prefix: str = PREFIX) -> None:
        self.name = f"{prefix}{os.getpid()}-{secrets.token_hex(4)}"
        self._path = directory / self.name
        hidden = directory / f"{HIDDEN}{self.name}"
        self._fd = -1
        try:
            os.mkfifo(hidden, 0o666)
            # For writing too: the pipe never ends, and the worker rings its own bell through it.
            self._fd = os.open(hidden, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            # Seen by others only now, when it has a reader: who finds none does not come back.
            hidden.rename(self._path)
            self._poll = select.poll()
            self._poll.register(self._fd, select.POLLIN)
        except BaseException:
            for path in (hidden, self._path):
                path.unlink(missing_ok=True)
            if self._fd >= 0:
                os.close(self._fd)
            raise
        self._lock = threading.Lock()
        self._is_open = True

    def wait(self, timeout_s: float) -> bool:
        """Wait until somebody rings; return whether anybody did."""
        if not self._poll.poll(timeout_s * 1000):
            return False
        with contextlib.suppress(BlockingIOError):
            while len(os.read(self._fd, 65_536)) == 65_536:  # noqa: PLR2004
                pass
        return True

    def fileno(self) -> int:
        """Return the pipe, for an event loop to look at."""
        return self._fd

    def ring(self) -> None:
        """Wake whoever waits; from any thread, also when it is closed by now."""
        # The number of a closed file may be another file's.
        with self._lock:
            if self._is_open:
                _write(self._fd)

    def let_go(self) -> None:
        """Close the FIFO in a forked child: while it had it open, its worker would seem alive."""
        self._is_open = False
        os.close(self._fd)

    def close(self) -> None:
        """Remove the FIFO."""
        with self._lock:
            self._is_open = False
            with contextlib.suppress(OSError):  # its folder may be gone or read-only
                self._path.unlink(missing_ok=True)
            os.close(self._fd)


class Ringer:
    """Rings the bells of all workers of one file; shared by threads and over fork."""

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)
        self._lock = threading.Lock()
        self._listed_ns = 0
        self._changed_ns = -1
        self._bells: dict[str, Bell] = {}
        self._fds: dict[str, int] = {}
        self._poll = select.poll()
        _ringers.add(self)

    def hang(self, bell: Bell) -> None:
        """Ring a bell of this process itself, without its FIFO: that can fail.

        It must not: what is committed on a connection that threads share is no foreign commit to
        any of them, so a worker would not find it at its next look either.
        """
        with self._lock:
            self._bells[bell.name] = bell

    def take_down(self, bell: Bell) -> None:
        """Ring this bell no more."""
        with self._lock:
            self._bells.pop(bell.name, None)

    def ring_here(self, *, but: Bell | None) -> None:
        """Wake the idle workers of this process that share this queue, except one."""
        with self._lock:
            for bell in self._bells.values():
                if bell is not but:
                    bell.ring()

    def ring(self, *, but: Bell | None = None) -> None:
        """Wake every idle worker, except the one that has this bell."""
        self.ring_here(but=but)
        with self._lock:
            try:
                self._list()
            except FileNotFoundError:
                return
            except OSError as error:  # too many open files, no permission
                logger.warning("workers cannot be woken, and look for themselves: %s", error)
            if not self._fds:
                return
            events = dict(self._poll.poll(0))
            for name, fd in list(self._fds.items()):
                # A pipe without a reader is not written to: where SIGPIPE is not ignored, that
                # would end the process.
                if events.get(fd, 0) & GONE or not _write(fd):
                    self._drop(name)

    def ring_waiting(self, names: Iterable[str]) -> None:
        """Wake those who wait for room, by the names of their pipes."""
        for name in names:
            # It comes from the file, which anybody may have written to.
            if not name.startswith(WAITING) or "/" in name:
                continue
            with contextlib.suppress(OSError):  # they look for themselves
                fd = _open(os.path.join(self._directory, name))  # noqa: PTH118
                if fd is not None:
                    _write(fd)
                    os.close(fd)

    def close(self) -> None:
        """Let go of the pipes."""
        with self._lock:
            for name in list(self._fds):
                self._drop(name)
            self._changed_ns = -1

    def renew(self) -> None:
        """Begin anew in a forked child: another thread of the parent may be in the middle of it."""
        for fd in self._fds.values():
            os.close(fd)
        for bell in self._bells.values():
            bell.let_go()
        self._lock = threading.Lock()
        self._poll = select.poll()
        self._bells = {}
        self._fds = {}
        self._changed_ns = -1

    def _list(self) -> None:
        changed_ns = os.stat(self._directory).st_mtime_ns  # noqa: PTH116  # once an enqueue
        if changed_ns == self._changed_ns and self._listed_ns - changed_ns > SETTLED_NS:
            return
        listed_ns = time.time_ns()
        names = {name for name in os.listdir(self._directory) if name.startswith(PREFIX)}  # noqa: PTH208
        names -= self._bells.keys()
        for name in self._fds.keys() - names:
            self._drop(name)
        for name in names - self._fds.keys():
            fd = _open(os.path.join(self._directory, name))  # noqa: PTH118
            if fd is not None:
                self._fds[name] = fd
                self._poll.register(fd, select.POLLOUT)
        self._listed_ns = listed_ns
        self._changed_ns = changed_ns

    def _drop(self, name: str) -> None:
        fd = self._fds.pop(name)
        self._poll.unregister(fd)
        os.close(fd)


def sweep(directory: Path) -> None:
    """Remove what workers that died left behind."""
    for path in (file for prefix in PREFIXES for file in directory.glob(f"{prefix}*")):
        # Gone already, or another user's in a folder that only its owner may clear.
        with contextlib.suppress(FileNotFoundError, PermissionError):
            found = path.stat()
            if time.time() - found.st_mtime <= STALE_S:
                continue
            if stat.S_ISREG(found.st_mode) and path.name.startswith(HIDDEN):
                path.unlink()  # a lock file, which gets its name at once
            elif stat.S_ISFIFO(found.st_mode):
                fd = _open(str(path))
                if fd is None:
                    path.unlink()
                else:
                    os.close(fd)


def _open(path: str) -> int | None:
    """Open a FIFO for writing; None if nobody reads it, or it is not for us."""
    try:
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in {errno.ENXIO, errno.ENOENT, errno.EACCES}:
            return None
        raise


def _write(fd: int) -> bool:
    """Write a byte; return whether anybody may still read it."""
    try:
        os.write(fd, b"!")
    except BlockingIOError:
        return True  # full of rings already
    except OSError:
        return False
    return True


def _renew_all() -> None:
    for ringer in list(_ringers):
        ringer.renew()


os.register_at_fork(after_in_child=_renew_all)
