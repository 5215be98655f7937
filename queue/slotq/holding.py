"""One hold: slots that a program takes for itself, for as long as a block lasts."""

import functools
import logging
import os
import traceback
import typing
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, Protocol, Self, TypeVar

from typing_extensions import override

from slotq import checks
from slotq.errors import HoldExpired, LimitExceeded, QueueBusy, SlotqError, shown
from slotq.holder import Holder
from slotq.store import callers, holds
from slotq.store.connection import Database
from slotq.store.holds import Place, Request
from slotq.store.rows import instant
from slotq.store.transaction import Tx
from slotq.waiting import Wait

if typing.TYPE_CHECKING:
    from slotq.store.callers import Connection

logger = logging.getLogger("slotq.hold")

T = TypeVar("T")

LONGEST_TTL_MS: Final = 86_400_000
# How often giving back begins anew when it is interrupted itself.
GIVE_UP_TRIES: Final = 5


class Source(Protocol):
    """What a hold needs of its queue."""

    database: Database
    holder: Holder

    def change_hold(self, work: Callable[[Tx], T], connection: object, *, key_id: int) -> T:
        """Do the work in one transaction, and wake who may have room now."""
        ...

    def take_hold(
        self, work: Callable[[Tx], Place | LimitExceeded], connection: object, *, was_in_line: bool
    ) -> Place | LimitExceeded:
        """Do what takes slots in one transaction."""
        ...

    async def hop_to_end(self, call: Callable[[], T], connection: object = None) -> T:
        """Call without blocking the event loop."""
        ...


class Hold:
    """Slots of a key, taken by ``acquire`` or by ``with``; see ``Queue.hold``.

    It serves one program at a time: two threads that each want a slot make a hold each. In a forked
    child the block's end gives nothing back, and nothing else can be done: the slots are the parent's.
    """

    # Here too, for a hold whose __init__ was interrupted.
    _is_block = False

    def __init__(
        self,
        queue: Source,
        request: Request,
        *,
        wait_ms: float,
        connection: "Connection | None",
    ) -> None:
        self._queue = queue
        self._request = request
        self._wait_ms = wait_ms
        self._connection = connection
        # Set inside the transaction: whatever interrupts an acquire, it can be undone.
        self._place: Place | None = None
        self._pid = 0
        self._is_block = False

    @override
    def __repr__(self) -> str:
        what = "not held" if self.id is None else f"hold {self.id}"
        return f"<Hold of key {shown(self.key)}, {self.slots} slots, {what}>"

    @property
    def key(self) -> str:
        """The key."""
        return self._request.key

    @property
    def slots(self) -> int:
        """How many of its slots."""
        return self._request.slots

    @property
    def id(self) -> int | None:
        """Its number in the file; None while it has no slots."""
        return self._place.id if self._place is not None and self._place.is_held else None

    @property
    def expires_at(self) -> datetime | None:
        """When its slots are others' again unless it is extended; None while it has none."""
        if self.id is None or self._place is None or self._place.until is None:
            return None
        return instant(self._place.until)

    def acquire(self) -> Self:
        """Take the slots, waiting for them as long as ``Queue.hold`` was told.

        Returns:
            This hold.

        Raises:
            LimitExceeded: There is no room, or none came in time.
            InvalidValue: More slots than a limit ever allows.
            HoldExpired: Its TTL was over before it could be returned.
            SlotqError: It has its slots already.
            QueueBusy: Others kept the file locked for too long.
            StoreError: The file cannot be used.
        """
        self._check_is_free()
        try:
            with Wait(self._queue.database, self._wait_ms) as wait:
                wait.open()
                while not self._step(wait):
                    wait.pause()
            self._check_lives()
            return self  # noqa: TRY300  # in here an interrupt still gives the slots back
        except BaseException as error:
            _let_go(error)
            self._give_up()
            raise

    async def aacquire(self) -> Self:
        """Do what ``acquire`` does, without blocking the event loop."""
        self._check_is_free()
        try:
            with Wait(self._queue.database, self._wait_ms) as wait:
                await self._hop(wait.open)
                while not await self._hop(functools.partial(self._step, wait), begins=True):
                    await wait.apause(self._hop)
            self._check_lives()
            return self  # noqa: TRY300  # as above
        except BaseException:
            await self._hop(self._give_up)
            raise

    def extend(self, seconds: float | timedelta = 300) -> datetime:
        """Move its end to so long from now, also if that is earlier.

        Args:
            seconds: Seconds or a timedelta, 0.001 to 86,400.

        Returns:
            Its new end.

        Raises:
            HoldExpired: It has ended; its slots may be others' by now.
            InvalidValue: The time is out of its range.
        """
        ttl_ms = checks.seconds_ms("seconds", seconds, low_ms=1, high_ms=LONGEST_TTL_MS)
        place = self._held()
        until = self._change(place, lambda tx: holds.extend(tx, place, self._request, ttl_ms))
        if until is None:
            raise HoldExpired(key=self.key, hold_id=place.id)
        self._place = Place(place.id, place.key_id, is_held=True, until=until)
        self._queue.holder.note(self._request.ticket, until)
        return instant(until)

    def release(self) -> None:
        """Give the slots back.

        Raises:
            HoldExpired: It has ended before; nothing is freed that others may have by now.
        """
        place = self._held()
        if not self._end(place):
            raise HoldExpired(key=self.key, hold_id=place.id)

    async def aextend(self, seconds: float | timedelta = 300) -> datetime:
        """Do what ``extend`` does, without blocking the event loop."""
        return await self._hop(functools.partial(self.extend, seconds))

    async def arelease(self) -> None:
        """Do what ``release`` does, without blocking the event loop."""
        await self._hop(self.release)

    def fileno(self) -> int:
        """Return the file whose lock tells that the holder lives.

        While a program that has inherited it lives (``subprocess.run(..., pass_fds=[...])``), its
        slots stay taken though this process dies, until the TTL ends.

        Raises:
            HoldExpired: It has no slots.
        """
        self._held()
        return self._queue.holder.fileno()

    def __enter__(self) -> Self:
        self._is_block = True
        return self.acquire()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        try:
            self._leave(error)
        except Exception:
            raise
        except BaseException as interrupt:  # its block has ended all the same
            if self._pid == os.getpid():
                _let_go(interrupt)
                self._give_up()
            raise

    async def __aenter__(self) -> Self:
        # A caller's connection belongs to its own thread, from which nothing is given back then.
        self._is_block = self._connection is None
        return await self.aacquire()

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        await self._hop(functools.partial(self._leave, error))

    def _step(self, wait: Wait) -> bool:
        """Take the slots, or a place in the line; return whether it has them."""
        had_place = self._place

        def step(tx: Tx) -> Place | LimitExceeded:
            place, holder = self._place, self._queue.holder
            wait.look(tx)
            with holder.lock:
                holder.enter(tx)
                self._request = holder.sign(self._request, wait.bell)
                try:
                    if place is None:
                        self._place = holds.take(tx, self._request)
                    else:
                        self._place = holds.call_again(tx, place, self._request)
                except LimitExceeded as refused:
                    # Not raised in here: that would undo what else is kept of this instant. A clock
                    # that was set back would be found anew by each call, and the wait begin anew.
                    return refused
                holder.note(self._request.ticket, tx.now + self._request.ttl_ms)
            if self._place.is_held:
                holder.count(self._place.key_id, self._request.slots, tx.now)
            holder.write_counts(tx)
            return self._place

        self._pid = os.getpid()
        try:
            place = self._queue.take_hold(step, self._connection, was_in_line=had_place is not None)
        except QueueBusy:
            if wait.bell is None:
                raise
            self._place = had_place
            wait.note_busy()
            return False
        if isinstance(place, LimitExceeded):
            raise place
        wait.note(place.until)
        return place.is_held

    def _give_up(self) -> None:
        """Undo what an acquire has done so far, though interrupted again and again."""
        interrupt: BaseException | None = None
        for _ in range(GIVE_UP_TRIES):
            try:
                if self._place is not None:
                    self._end(self._place)
            except SlotqError as failure:  # what is told is why it is given up
                logger.warning("%r is not given back, and ends by itself: %s", self, failure)
            except BaseException as error:  # noqa: BLE001  # raised below
                interrupt = error
                _let_go(error)
                continue
            break
        self._place = None
        self._queue.holder.forget(self._request.ticket)
        if interrupt is not None:
            raise interrupt

    def _leave(self, error: BaseException | None) -> None:
        try:
            if self._place is None or self._pid != os.getpid():
                return  # the block has released it; or this is a child, forked in it
            self.release()
        except HoldExpired as late:
            logger.warning("%s; the block that it was for ends only now", late)
        except SlotqError as failure:
            if error is None:
                raise
            logger.warning("%r is not given back, and ends by itself: %s", self, failure)

    def __del__(self) -> None:
        # An interrupt may come before the first line of __exit__, and then nothing of it is run.
        # This is anywhere, also amid another transaction of this thread, or as the process ends.
        if self._is_block and self._place is not None:
            self._queue.holder.drop(self._pid, self._place, self._request)

    def _end(self, place: Place) -> bool:
        """Give back what it has, or leave the line; return False if it had ended before."""
        done = self._change(place, lambda tx: holds.release(tx, place, self._request))
        self._place, self._is_block = None, False
        self._queue.holder.forget(self._request.ticket)
        return done

    def _change(self, place: Place, work: Callable[[Tx], T]) -> T:
        joined = self._connection if callers.is_begun(self._connection) else None
        return self._queue.change_hold(work, joined, key_id=place.key_id)

    async def _hop(self, call: Callable[[], T], *, begins: bool = False) -> T:
        # A session begins by being used, which giving back what it once took must not make it do.
        is_joined = begins or callers.is_begun(self._connection)
        return await self._queue.hop_to_end(call, self._connection if is_joined else None)

    def _check_is_free(self) -> None:
        if self._place is not None:
            raise SlotqError(f"the hold of key {shown(self.key)} has its slots already")

    def _check_lives(self) -> None:
        """Check that its time is not over already: the process may have been stopped."""
        place = self._held()
        if place.until is not None and place.until <= self._queue.database.clock.now_ms():
            raise HoldExpired(key=self.key, hold_id=place.id)

    def _held(self) -> Place:
        if self._place is None or not self._place.is_held:
            raise HoldExpired(key=self.key, hold_id=None)
        if self._pid != os.getpid():
            raise SlotqError(f"{self!r} is that of the process that this one was forked from")
        return self._place


def _let_go(error: BaseException) -> None:
    """End the transaction that an interrupt has left to whatever refers to it: its traceback."""
    if not isinstance(error, Exception):
        traceback.clear_frames(error.__traceback__)
