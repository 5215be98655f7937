"""Telling that a process is dead: by a file lock that the kernel drops when it is gone.

Each worker, and each process with holds, has a lock on a file of its own beside the queue file. A lock that another can take has
nobody left who holds it. Nothing of this goes by process ids, which are given again and mean
nothing in another namespace. A fork inherits the lock: a process counts as dead when the last child
that it forked is gone too.
"""

import contextlib
import fcntl
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

PREFIX: Final = "alive-"
HIDDEN: Final = "new-"
# Names of workers, which are their ids, and of processes with holds. Other files are not ours.
NAME: Final = re.compile(r"[0-9]+|hold-[0-9a-f]{16}")


class Alive:
    """The lock of one process, from now until ``close``.

    Args:
        directory: Where the queue file's locks are.
        name: The worker's id, or another name that is never given again. That of a worker is made
            inside the transaction that registers it, so that whoever has the write lock can trust
            that a file stands for the worker of its number.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self._path = directory / f"{PREFIX}{name}"
        hidden = directory / f"{HIDDEN}{PREFIX}{name}-{os.getpid()}"
        self._fd = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Seen by others only now, when it is locked.
            hidden.rename(self._path)
        except BaseException:
            os.close(self._fd)
            hidden.unlink(missing_ok=True)
            raise

    def fileno(self) -> int:
        """Return the file: a program that inherits it keeps the lock."""
        return self._fd

    def close(self, *, remove: bool) -> None:
        """Let go of the lock, and remove the file if nothing is left to be done for its process."""
        if remove:
            _remove(self._path, self._fd)
        os.close(self._fd)


class Grave:
    """The file of a process that is dead; locked until ``close``.

    Attributes:
        name: What it was made with.
    """

    def __init__(self, path: Path, fd: int, name: str) -> None:
        self._path = path
        self._fd = fd
        self.name = name

    def stands(self) -> bool:
        """Tell whether the file is still this one; ask inside a write transaction.

        The number of a worker whose registration was rolled back is given again.
        """
        return _is_at(self._path, self._fd)

    def close(self, *, remove: bool) -> bool:
        """Let go of it, and remove it if what it stood for is done; return whether it is gone."""
        if remove:
            _remove(self._path, self._fd)
        is_gone = not self.stands()
        os.close(self._fd)
        return is_gone


def graves(directory: Path, *, but: Collection[str]) -> list[Grave]:
    """Return the files of dead processes, each locked; the names of others may be left out."""
    found: list[Grave] = []
    try:
        names = os.listdir(directory)  # noqa: PTH208  # several times a second
    except OSError:
        return found
    for file in names:
        name = file.removeprefix(PREFIX)
        if name != file and name not in but and NAME.fullmatch(name):
            path = directory / file
            fd = _locked(path)
            if fd is not None:
                found.append(Grave(path, fd, name))
    return found


def _locked(path: Path) -> int | None:
    """Open and lock a file; None if somebody has it, or it cannot be opened."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def _is_at(path: Path, fd: int) -> bool:
    try:
        return path.stat().st_ino == os.fstat(fd).st_ino
    except OSError:
        return False


def _remove(path: Path, fd: int) -> None:
    if _is_at(path, fd):
        with contextlib.suppress(OSError):  # its folder may be read-only by now
            path.unlink()
