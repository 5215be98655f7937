"""Waiting for room: woken by whoever makes it, or by the instant at which it comes by itself."""

import math
import time
from collections.abc import Awaitable, Callable
from typing import Final, Self

from slotq.errors import QueueBusy, StoreError
from slotq.store.connection import Database
from slotq.store.transaction import Tx
from slotq.wake import WAITING, Bell

# How often somebody who waits looks whether another program has committed without ringing, and
# calls again so that he counts; the second is a third of what holds.WAITING_MS gives him.
LOOK_S: Final = 0.1
CALL_EVERY_S: Final = 1.6


class Wait:
    """One wait for room, from its first call to its last.

    Args:
        database: The file.
        wait_ms: For how long at most; 0 not to wait, infinity for ever.
    """

    def __init__(self, database: Database, wait_ms: float) -> None:
        self._database = database
        self._bell: Bell | None = None
        self._wait_ms = wait_ms
        self._end_s = time.monotonic() + wait_ms / 1000
        self._call_s = math.inf
        self._until: int | None = None
        self._version = 0

    def __enter__(self) -> Self:
        return self

    def open(self) -> None:
        """Make the pipe, for a wait that is to last.

        Raises:
            QueueBusy: Somebody else kept the file locked for the whole time-out.
            StoreError: The file cannot be used, or the pipe cannot be made.
        """
        if self._wait_ms:
            self._database.open()
            try:
                self._bell = Bell(self._database.directory, prefix=WAITING)
            except OSError as error:
                reason = f"the pipe that wakes a hold cannot be made ({error.strerror})"
                raise StoreError(path=self._database.path, reason=reason) from error

    def __exit__(self, *_: object) -> None:
        if self._bell is not None:
            self._bell.close()

    @property
    def bell(self) -> str | None:
        """The pipe's name; None for a call that is not to wait any more."""
        if self._bell is None or time.monotonic() >= self._end_s:
            return None
        return self._bell.name

    def look(self, tx: Tx) -> None:
        """Note what has been committed by now; what comes later is news."""
        if self._bell is not None:
            self._version = self._database.foreign_version(tx)

    def note(self, until: int | None) -> None:
        """Note a call, and the instant, in milliseconds, at which there may be room; None for none."""
        self._until = until
        self._call_s = time.monotonic() + CALL_EVERY_S

    def note_busy(self) -> None:
        """Note that others kept the file locked for too long: the next call is soon."""
        self._call_s = time.monotonic() + LOOK_S

    def pause(self) -> None:
        """Sleep until it is time for another call."""
        assert self._bell is not None, "who does not wait is refused"
        while (left_s := self._left_s()) > 0:
            if self._bell.wait(left_s) or self._has_changed():
                return

    async def apause(self, hop: Callable[[Callable[[], bool]], Awaitable[bool]]) -> None:
        """Sleep until it is time for another call, without blocking the event loop.

        Args:
            hop: Makes a call that may block.
        """
        # Loaded where there is a loop; it would double the time that loading this package takes.
        import asyncio  # noqa: PLC0415

        assert self._bell is not None, "who does not wait is refused"
        loop = asyncio.get_running_loop()
        rung = asyncio.Event()
        loop.add_reader(self._bell.fileno(), rung.set)
        try:
            while (left_s := self._left_s()) > 0 and not await hop(self._has_changed):
                try:
                    await asyncio.wait_for(rung.wait(), left_s)
                except TimeoutError:
                    continue
                self._bell.wait(0)  # takes the rings out
                return
        finally:
            loop.remove_reader(self._bell.fileno())

    def _left_s(self) -> float:
        left_s = min(self._end_s, self._call_s) - time.monotonic()
        if self._until is not None:
            left_s = min(left_s, (self._until - self._database.clock.now_ms()) / 1000)
        return min(left_s, LOOK_S)

    def _has_changed(self) -> bool:
        try:
            return self._database.foreign_version() != self._version
        except QueueBusy:
            return False  # another look follows
