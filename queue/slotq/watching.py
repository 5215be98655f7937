"""Watching a queue file: frames for dashboards and monitors, without ever writing."""

import os
from datetime import timedelta
from typing import Final, Self

from typing_extensions import override

from slotq import arguments, checks
from slotq.access import clock_of, file_of
from slotq.clock import Clock, SystemClock
from slotq.frames import FRAME_SORTS, FrameSort, Snapshot
from slotq.store import frame, pages
from slotq.store.connection import Database

MOST_KEYS: Final = 1_000


class Watcher:
    """A look at a queue file that never changes it; made by ``open_reader``.

    It may be used from any thread; one at a time looks. It takes no write lock and waits for no
    writer.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._shape = pages.Shape()
        self._seen: int | None = None

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._database.path)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def changed(self) -> bool:
        """Tell whether anybody has committed since the last ``snapshot``; some microseconds.

        True before the first one. That a time has come changes nothing in the file, so it is not
        told here: a lease that lapses, a hold that ends or a window that opens is seen in the next
        frame, whatever it is drawn for.

        Raises:
            FileReplaced: The file was deleted, or another stands in its place.
            QueueBusy: Another thread kept looking for the whole time-out.
            StoreError: The file cannot be used.
        """
        self._database.check_identity()
        return self._database.data_version() != self._seen

    def snapshot(
        self,
        *,
        sort: FrameSort = "waiting",
        descending: bool = True,
        filter: str | None = None,  # noqa: A002  # the word that people know
        limit: int = 50,
        offset: int = 0,
    ) -> Snapshot:
        """Return one consistent frame: all of it is of one instant, as one commit left it.

        What has fallen due and nobody has handled yet is judged by now, as a worker would handle
        it, up to 10,000 jobs of each kind: a job whose lease has lapsed does not run, one whose
        time has come waits, a hold that has ended is not there, and a window that has opened is
        open. Pages are made from what stands in the file.

        Args:
            sort: What keys are sorted by: ``key``, ``waiting``, ``scheduled``, ``running`` (slots in
                use), ``held``, ``oldest`` (how long its next job has waited) or ``next_start``. Equal
                ones, and those that have none of it, stand in the order in which they came to be.
            descending: Whether the largest comes first.
            filter: Only keys with this text in them, byte for byte; None for all.
            limit: Most keys to return, 0 to 1,000.
            offset: How many to pass over, 0 to 1,000,000.

        Raises:
            InvalidValue: An argument is out of its range.
            FileReplaced: The file was deleted, or another stands in its place.
            QueueBusy: Another thread kept looking for the whole time-out.
            StoreError: The file cannot be used.
        """
        checks.choice("sort", sort, FRAME_SORTS)
        page = pages.Page(
            sort=sort,
            is_descending=checks.boolean("descending", descending),
            filter=(None if filter is None else checks.key("filter", filter)) or None,
            limit=checks.integer("limit", limit, 0, MOST_KEYS),
            offset=checks.integer("offset", offset, 0, arguments.MOST),
        )
        self._database.check_identity()
        with self._database.read() as reader:
            now = reader.now_ms(self._database.clock)
            version = self._database.version_of(reader)
            found = frame.snapshot(reader, page, self._shape, now=now, version=version)
        self._seen = version
        return found

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        self._database.close()


def open_reader(
    path: str | os.PathLike[str] | None = None,
    *,
    clock: Clock | None = None,
    lock_timeout: float | timedelta = 5.0,
) -> Watcher:
    """Open a queue file for looking at it only: for dashboards and monitors.

    Nothing is made or changed, so the file must be there and be a queue.

    Args:
        path: The file; None takes ``$SLOTQ_DB``.
        clock: Where the time is read; for tests.
        lock_timeout: Seconds to wait for another thread that looks, before ``QueueBusy``.

    Raises:
        InvalidValue: There is no path, or an argument is out of its range.
        NotAQueue: There is no such file, or it is no queue.
        SchemaTooNew: A newer library made it.
        StoreError: It cannot be used; the message says why.
    """
    lock_ms = checks.seconds_ms("lock_timeout", lock_timeout, low_ms=1, high_ms=86_400_000)
    database = Database(
        file_of(path),
        clock=SystemClock() if clock is None else clock_of(clock),
        create=False,
        durable=False,
        lock_timeout_s=lock_ms / 1000,
        looks_only=True,
    )
    database.data_version()
    return Watcher(database)
