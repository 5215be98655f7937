"""The verbs of holds."""

import itertools
import logging
import math
import typing
from collections.abc import Callable
from datetime import timedelta
from typing import Final, TypeVar

from typing_extensions import override

from slotq import arguments, checks, holder
from slotq.access import Access, twin
from slotq.clock import Clock
from slotq.current import run_here
from slotq.errors import HoldExpired, InvalidValue, LimitExceeded, SlotqError
from slotq.holding import LONGEST_TTL_MS, Hold
from slotq.model import HoldInfo
from slotq.store import holds
from slotq.store.holds import Place, Request
from slotq.store.rows import UNLIMITED
from slotq.store.transaction import Tx

if typing.TYPE_CHECKING:
    import os

    from slotq.store.callers import Connection

logger = logging.getLogger("slotq.hold")

T = TypeVar("T")

# Each hold of a process has a number that no other has: it is never mistaken for another.
_tickets: Final = itertools.count(1)


class Holds(Access):
    """The verbs of holds."""

    def __init__(
        self,
        path: "str | os.PathLike[str] | None",
        *,
        durable: bool,
        create: bool,
        clock: Clock | None,
        lock_timeout: float | timedelta,
    ) -> None:
        super().__init__(
            path, durable=durable, create=create, clock=clock, lock_timeout=lock_timeout
        )
        self.holder = holder.Holder(self.database)

    def hold(
        self,
        key: str,
        *,
        ttl: float | timedelta = 600,
        wait: float | timedelta = 0,
        slots: int = 1,
        max_running: int | None = None,
        label: str = "",
        connection: "Connection | None" = None,
    ) -> Hold:
        """Return a hold, which takes slots of a key for a program that is no job.

        ``with q.hold("vendor-x") as held:`` takes them before the block and gives them back when it
        ends, however it ends; ``async with`` does the same without blocking the event loop.
        ``acquire`` and ``release`` serve without a block. Jobs and holds share the limits of a key:
        each slot is one that runs, and each that is taken is a start. It goes before waiting jobs.

        Args:
            key: The key.
            ttl: Seconds, or a timedelta, after which the slots are others' again whatever this
                program does, 0.001 to 86,400; see ``Hold.extend``. If this process dies while a
                worker serves the file, they are free within a second.
            wait: Seconds, or a timedelta, to wait for room; 0 to be refused at once, ``math.inf``
                for ever. Who waits is served in order of arrival, before all jobs of the key.
            slots: How many, all or none, 1 to 1,000,000.
            max_running: Its own limit, beside those of the key, 1 to 1,000,000; None for none.
            label: What it is for, for others to see; at most 200 characters.
            connection: Take the slots in this connection's open transaction; not with ``wait``.
                They are given back in it while it is open, else in one of the queue's own.

        Raises:
            InvalidValue: A value is out of its range.
        """
        name = checks.key("key", key)
        if not name:
            raise InvalidValue(name="key", problem="must be a key, not none", value=key)
        wait_ms = _wait_ms(wait)
        if wait_ms and connection is not None:
            problem = "cannot be given with connection: a transaction must not wait for others"
            raise InvalidValue(name="wait", problem=problem)
        run = run_here()
        request = Request(
            key=name,
            slots=checks.integer("slots", slots, 1, arguments.MOST),
            cap=UNLIMITED
            if max_running is None
            else checks.integer("max_running", max_running, 1, arguments.MOST),
            ttl_ms=checks.seconds_ms("ttl", ttl, low_ms=1, high_ms=LONGEST_TTL_MS),
            job_id=run.claim.id if run is not None and run.file == self.database.real else None,
            holder=holder.name(),
            label=label if label == "" else checks.text("label", label),
            process="",
            ticket=next(_tickets),
            bell=None,
        )
        return Hold(self, request, wait_ms=wait_ms, connection=connection)

    def holds(self, *, key: str | None = None, limit: int = 100, after: int = 0) -> list[HoldInfo]:
        """Return holds that have not ended, and those that wait, by id.

        Args:
            key: Only those of this key; None for all.
            limit: Most holds to return, 1 to 1,000,000.
            after: Only holds with a greater id: the last one of the page before.
        """
        name = None if key is None else checks.key("key", key)
        most = checks.integer("limit", limit, 1, arguments.MOST)
        start = checks.integer("after", after, 0, arguments.LARGEST_ID)
        return self._read(
            lambda reader: holds.list_holds(
                reader, key=name, now=self.now_ms(), after=start, limit=most
            )
        )

    def release_hold(self, hold_id: int, *, updated_by: str | None = None) -> None:
        """End anybody's hold: its slots are free now; its holder finds out when it comes to it.

        One that waits only loses its place: it joins the line again, as the last.

        Args:
            hold_id: Its number.
            updated_by: Who does, for others to see; None for user@process.

        Raises:
            HoldExpired: None that has not ended has this number.
            InvalidValue: The number is not valid.
        """
        wanted = checks.integer("hold_id", hold_id, 0, arguments.LARGEST_ID)
        by = arguments.editor(updated_by)

        def release(tx: Tx) -> bool:
            return holds.take_back(tx, wanted, by) is not None

        if not self._write(release):
            raise HoldExpired(key=None, hold_id=wanted)

    aholds = twin(holds)
    arelease_hold = twin(release_hold)

    def change_hold(self, work: Callable[[Tx], T], connection: object, *, key_id: int) -> T:
        """Do what makes room in one transaction, and wake who may have it; a ``Hold`` uses this.

        Args:
            work: What is done.
            connection: A caller's, to do it in its transaction; None for one of the queue's own.
            key_id: The key whose first in line is to look in any case.
        """
        if connection is not None:
            return self._write(work, connection)
        with self.database.write() as tx:
            self.holder.give_back(tx)
            done = work(tx)
            bells = holds.bells(tx, key_id)
        self.ringer.ring()
        self.ringer.ring_waiting(bells)
        return done

    def take_hold(
        self, work: Callable[[Tx], Place | LimitExceeded], connection: object, *, was_in_line: bool
    ) -> Place | LimitExceeded:
        """Do what takes slots in one transaction; a ``Hold`` uses this.

        Nobody is woken but who is first in line once another was served: a call that makes no room
        must not ring, or those who wait would ring each other for ever.
        """
        bells: list[str] = []
        is_done = False
        try:
            if connection is not None:
                return self._write(work, connection)
            with self.database.write() as tx:
                self.holder.give_back(tx)
                place = work(tx)
                if was_in_line and isinstance(place, Place) and place.is_held:
                    bells = holds.next_bells(tx, place.key_id)
            is_done = True
        finally:
            # In a caller's transaction nobody knows yet whether the dead are buried.
            self.holder.clear_graves(buried=is_done)
        self.ringer.ring_waiting(bells)
        return place

    @override
    def _release(self) -> None:
        if self.holder.has_news:
            try:
                with self.database.write() as tx:
                    self.holder.give_back(tx)
                    self.holder.write_counts(tx, is_last=True)
            except SlotqError as error:
                logger.warning("closing: holds that were dropped end by themselves: %s", error)
        self.holder.close()
        super()._release()


def _wait_ms(wait: object) -> float:
    if wait == math.inf:
        return math.inf
    return checks.seconds_ms("wait", wait, low_ms=0, high_ms=checks.LONGEST_MS)
