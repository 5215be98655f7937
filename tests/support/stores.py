"""Queue files as the store's tests use them."""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

from slotq.clock import Clock, SystemClock
from slotq.store import claims, due, jobs, leases
from slotq.store.connection import Database
from slotq.store.transaction import Tx

ONE_CALL = jobs.Call("[]", "{}", "")
TERMS = jobs.Terms(task="t")


class Stores:
    """Opens databases in a folder, and closes them at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: list[Database] = []

    def open(
        self,
        name: str = "jobs.db",
        *,
        clock: Clock | None = None,
        create: bool = True,
        durable: bool = False,
        lock_timeout_s: float = 5.0,
    ) -> Database:
        """Return a database; nothing is opened before its first use."""
        database = Database(
            self.folder / name,
            clock=clock or SystemClock(),
            create=create,
            durable=durable,
            lock_timeout_s=lock_timeout_s,
        )
        self._opened.append(database)
        return database

    def close(self) -> None:
        """Close them all."""
        for database in self._opened:
            database.close()


def add(database: Database, count: int = 1, key: str = "") -> list[int]:
    """Store jobs, each in a transaction of its own; return their ids."""
    ids: list[int] = []
    for _ in range(count):
        with database.write() as tx:
            ids.append(jobs.add(tx, TERMS, jobs.Call("[]", "{}", key))[0])
    return ids


def add_bulk(tx: Tx, count: int, key: str = "") -> None:
    """Store many jobs in one go."""
    jobs.add_many(tx, TERMS, [jobs.Call("[]", "{}", key)] * count)


def run_one(tx: Tx, worker_id: int = 1) -> int | None:
    """Start and finish one job; return its id, or None if none can start."""
    due.handle_due(tx)
    claimer = claims.Claimer(worker_id, "fair", None, {"t"}, 30_000)
    claimed = claims.claim(tx, claimer, 1)
    if not claimed:
        return None
    (one,) = claimed
    assert leases.end(tx, one.lease, leases.Success("1"))
    return one.id


@contextlib.contextmanager
def looking(path: Path) -> Generator[sqlite3.Connection]:
    """Look at a file with a connection that has nothing to do with ours."""
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


@contextlib.contextmanager
def locked(path: Path) -> Generator[sqlite3.Connection]:
    """Hold the write lock as a foreign program would; what is written in it is committed."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")


def job_ids(path: Path) -> list[int]:
    """Return the ids of all jobs in a file."""
    with looking(path) as connection:
        return [row[0] for row in connection.execute("SELECT id FROM slotq_jobs ORDER BY id")]


def integrity(path: Path) -> str:
    """Return what SQLite finds wrong with a file: "ok" if nothing."""
    with looking(path) as connection:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])


def tree(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder, its path and its bytes; folders end in a slash.

    Of an index of a log, which SQLite builds anew as it likes, only the path.
    """

    def walk() -> Iterator[tuple[str, bytes]]:
        for place, folders, files in os.walk(folder):
            for name in folders:
                yield f"{Path(place, name).relative_to(folder)}/", b""
            for name in files:
                path = Path(place, name)
                has_content = path.is_file() and not name.endswith("-shm")
                yield str(path.relative_to(folder)), path.read_bytes() if has_content else b""

    return dict(walk())


def open_files(folder: Path) -> list[str]:
    """Return what this process has open in a folder, as its descriptors say."""
    found: list[str] = []
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115
            if target.startswith(f"{folder}/"):
                found.append(target)
    return sorted(found)


UseOf = Callable[[Database], object]


def write_once(database: Database) -> object:
    """Use a database in one way: write."""
    with database.write() as tx:
        return tx.now


def read_once(database: Database) -> object:
    """Use a database in one way: read."""
    with database.read() as reader:
        return reader.value("SELECT count(*) FROM slotq_jobs")
