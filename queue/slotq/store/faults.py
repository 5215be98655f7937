"""What is wrong when a file cannot be used: one line with the path and the reason."""

import os
import re
import sqlite3
import stat
import sys
from pathlib import Path
from typing import Final

from slotq.errors import FileReplaced, NotAQueue, QueueBusy, SlotqError, StoreError

# 3.40 has RETURNING, STRICT and UPSERT as the schema needs them.
OLDEST_SQLITE: Final = (3, 40, 0)

# On these, file locks or shared memory do not hold between machines: SQLite's log needs both.
NETWORK_FILE_SYSTEMS: Final = frozenset({
    "afs", "beegfs", "ceph", "cifs", "fuse.davfs", "fuse.gcsfuse", "fuse.glusterfs", "fuse.rclone",
    "fuse.s3fs", "fuse.sshfs", "gfs2", "gpfs", "lustre", "nfs", "nfs4", "ocfs2", "smb3", "smbfs",
})  # fmt: skip

MOUNTS: Final = Path("/proc/self/mountinfo")

# Result codes of SQLite (https://sqlite.org/rescode.html).
BUSY: Final = 5
LOCKED: Final = 6
READONLY: Final = 8
IOERR: Final = 10
CORRUPT: Final = 11
FULL: Final = 13
CANTOPEN: Final = 14
PROTOCOL: Final = 15
NOTADB: Final = 26
BUSY_SNAPSHOT: Final = 517
READONLY_DBMOVED: Final = 1032

REASONS: Final = {
    READONLY: "it, or the folder it is in, is read-only",
    IOERR: "reading or writing it failed (I/O error): check the disk",
    CORRUPT: "it is damaged: restore a backup, or look at it with sqlite3's .recover",
    FULL: "the disk is full: make room and try again",
    CANTOPEN: "it cannot be opened: check that its folder exists and may be written",
    PROTOCOL: "its locks do not work: check what file system it is on",
}
UPGRADE_HINT: Final = (
    "the transaction has read before it wrote, and somebody has written since; "
    "begin it with BEGIN IMMEDIATE"
)


def code_of(error: sqlite3.Error) -> int:
    """Return SQLite's extended result code; 0 for an error of the module itself."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code


def is_busy(error: sqlite3.Error) -> bool:
    """Tell whether somebody else has the lock."""
    return code_of(error) & 0xFF in {BUSY, LOCKED}


def translate(error: sqlite3.Error, path: Path, *, waited_s: float = 0.0) -> SlotqError:
    """Return our error for one of SQLite's.

    Args:
        error: SQLite's.
        path: The queue file.
        waited_s: How long the caller has waited, should it be that the file is locked.
    """
    code = code_of(error)
    if is_busy(error):
        return QueueBusy(path=path, waited_s=waited_s)
    if code & 0xFF == NOTADB:
        return NotAQueue(path=path, reason="it is not a database")
    if code == READONLY_DBMOVED:
        return FileReplaced(path=path)
    return StoreError(path=path, reason=REASONS.get(code & 0xFF, str(error)))


def check_place(path: Path, *, create: bool, write: bool, mounts: Path = MOUNTS) -> None:
    """Check what can be known before SQLite opens a path; nothing is created or changed.

    The file itself is never opened here: closing it would drop the locks that this process holds
    on it through SQLite.

    Args:
        path: The file, absolute and without links.
        create: Whether the file may be missing.
        write: Whether it is to be written.
        mounts: Where Linux lists what is mounted.

    Raises:
        NotAQueue: Nothing is there, or nothing that can be a queue.
        StoreError: The place is not fit for one.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        wanted = ".".join(map(str, OLDEST_SQLITE))
        raise StoreError(
            path=path, reason=f"SQLite {sqlite3.sqlite_version} is too old: {wanted} is needed"
        )
    parent = path.parent
    try:
        if not stat.S_ISDIR(parent.stat().st_mode):
            raise NotAQueue(path=path, reason=f"{parent} is not a folder")
    except FileNotFoundError:
        raise NotAQueue(path=path, reason=f"there is no folder {parent}") from None
    except OSError as error:
        raise StoreError(path=path, reason=_reason(error)) from error
    _check_file(path, create=create)
    if write:
        _check_writable(path)
    kind = file_system(parent, mounts)
    if kind in NETWORK_FILE_SYSTEMS:
        raise StoreError(
            path=path, reason=f"it is on a network file system ({kind}), where locks do not hold"
        )


def _check_file(path: Path, *, create: bool) -> None:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if not create:
            raise NotAQueue(path=path, reason="there is no such file") from None
        return
    except OSError as error:
        raise StoreError(path=path, reason=_reason(error)) from error
    if stat.S_ISDIR(mode):
        raise NotAQueue(path=path, reason="it is a folder")
    if not stat.S_ISREG(mode):
        raise NotAQueue(path=path, reason="it is a device, a pipe or a socket, not a file")


def _check_writable(path: Path) -> None:
    if path.exists() and not os.access(path, os.W_OK):
        raise StoreError(path=path, reason="it is read-only")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise StoreError(
            path=path, reason="its folder is read-only, and SQLite keeps a log beside the file"
        )


def _reason(error: OSError) -> str:
    return f"it cannot be looked at ({error.strerror})"


def file_system(folder: Path, mounts: Path = MOUNTS) -> str | None:
    """Return the kind of file system a folder is on; None where that cannot be told."""
    if sys.platform != "linux":
        return None
    try:
        lines = os.fsdecode(mounts.read_bytes()).split("\n")
    except OSError:
        return None
    place = os.path.realpath(folder)
    best, kind = "", None
    for line in lines:
        # Fields: id parent major:minor root mount-point options ... - type source options
        before, dash, after = line.partition(" - ")
        if not dash:
            continue
        point = _unescape(before.split(" ")[4])
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, after.split(" ")[0]
    return kind


def _unescape(text: str) -> str:
    """Undo the octal escapes of spaces, tabs, newlines and backslashes."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), text)
