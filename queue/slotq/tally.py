"""What a worker counts for charts: in memory first, then about once a second in a turn."""

import contextlib
import logging
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from slotq.current import Run
from slotq.errors import SlotqError
from slotq.model import State
from slotq.store import history
from slotq.store.claims import Claim
from slotq.store.connection import Database
from slotq.store.history import GRAINS, Cell, Place
from slotq.store.leases import End, Failure
from slotq.store.transaction import Tx

logger = logging.getLogger("slotq.worker")

# How long what was counted stays in memory: so much of a chart a worker that is killed takes along.
EVERY_MS: Final = 1_000
# Buckets written in one turn: a few milliseconds. What is left is for the next.
BATCH: Final = 2_000
# Most buckets in memory; keys beyond are not counted until some are written.
MOST_CELLS: Final = 20_000


class Tally:
    """The counts of one worker; all of it belongs to the thread of its turns.

    Every job passes through ``add`` twice, so its loops spell out what they do.
    """

    def __init__(self) -> None:
        # Of the buckets of now, by name and by number; and all that is to be written.
        self._queues: dict[str, Cell] = {}
        self._keys: dict[int, Cell] = {}
        self._cells: dict[Place, Cell] = {}
        self._queue_at = self._key_at = 0
        self._now_ms = 0  # that of the last turn
        self._since_ms = 0  # when the first of the cells came in
        self._written: list[Place] = []
        self._looked_at: int | None = None
        # Queues with jobs at the last look: they are looked at again.
        self._lively: set[str] = set()

    def look(self, database: Database) -> None:
        """Look how many jobs wait in each queue: once a bucket, by one worker of the file.

        Right after a turn, outside of its transaction; nothing is raised.
        """
        at = self._queue_at
        before, self._looked_at = self._looked_at, at
        if before is None or before == at:  # not in the bucket in which the worker began
            return
        found: dict[str, int] | None = None
        with contextlib.suppress(SlotqError), database.read() as reader:  # the next turn tells
            found = None if history.is_sampled(reader, at) else history.waiting(reader)
        if found is None:
            return
        for queue in self._lively | found.keys() | self._queues.keys():
            (self._queues.get(queue) or self._new_queue(queue)).waiting = found.get(queue, 0)
        self._lively = set(found)

    def write(self, tx: Tx, *, is_last: bool = False) -> None:
        """Write what has been in memory for long enough, in a turn's own transaction.

        Nothing is forgotten before ``add``: the transaction may not come about.
        """
        self._written = []
        if self._cells and (is_last or not 0 <= tx.now - self._since_ms < EVERY_MS):
            self._written = list(islice(self._cells, BATCH))
            history.add(tx, {place: self._cells[place] for place in self._written})
            history.sweep(tx)

    def add(
        self,
        now: int,
        claims: Sequence[Claim],
        ends: Iterable[tuple[tuple[Run, End], State | None]],
    ) -> None:
        """Count what began and what ended in a turn, which has been committed."""
        if self._written:
            self._forget()
        self._turn_to(now)
        queues, keys = self._queues, self._keys
        for claim in claims:
            wait = now - claim.run_at
            number = (wait * wait).bit_length() if wait > 0 else 0  # history.bin_of
            cell = queues.get(claim.queue) or self._new_queue(claim.queue)
            cell.starts += 1
            cell.waits[number] = cell.waits.get(number, 0) + 1
            if claim.key_id:
                cell = keys.get(claim.key_id) or self._new_key(claim.key_id)
                cell.starts += 1
                cell.waits[number] = cell.waits.get(number, 0) + 1
        for (run, end), state in ends:
            claim = run.claim
            if state == "succeeded":
                (queues.get(claim.queue) or self._new_queue(claim.queue)).finishes += 1
                if claim.key_id:
                    (keys.get(claim.key_id) or self._new_key(claim.key_id)).finishes += 1
            elif isinstance(end, Failure) and state in {"failed", "scheduled"}:
                (queues.get(claim.queue) or self._new_queue(claim.queue)).failures += 1
                if claim.key_id:
                    (keys.get(claim.key_id) or self._new_key(claim.key_id)).failures += 1

    def until(self, until: int | None) -> int | None:
        """Return when the next turn is due, in milliseconds: at that instant, or for its own sake."""
        instants = [] if until is None else [until]
        if self._cells:
            instants.append(self._since_ms + EVERY_MS)
        if self._looked_at is not None:
            instants.append(self._looked_at + GRAINS["queue"].width_ms)
        return min(instants, default=None)

    def leave(self, database: Database) -> None:
        """Write what is left, when the worker leaves; if that fails, a chart misses it."""
        try:
            while self._cells:
                with database.write() as tx:
                    self.write(tx, is_last=True)
                self._forget()
        except SlotqError as error:
            logger.warning("leaving: the last second is missing in charts: %s", error)

    def _turn_to(self, now: int) -> None:
        """Begin new buckets where those of now are others than those of the last turn."""
        self._now_ms = now
        at = history.bucket("queue", now)
        if at != self._queue_at:
            self._queue_at = at
            self._queues.clear()
            at = history.bucket("key", now)
            if at != self._key_at:
                self._key_at = at
                self._keys.clear()

    def _forget(self) -> None:
        for place in self._written:
            del self._cells[place]
        self._written = []
        # What comes from now on is in cells of its own, or in those that were left.
        self._queues.clear()
        self._keys.clear()

    def _new_queue(self, queue: str) -> Cell:
        cell = self._queues[queue] = self._cell(Place("queue", self._queue_at, queue))
        return cell

    def _new_key(self, key_id: int) -> Cell:
        place = Place("key", self._key_at, key_id)
        if len(self._cells) >= MOST_CELLS and place not in self._cells:
            return Cell()  # goes nowhere
        cell = self._keys[key_id] = self._cell(place)
        return cell

    def _cell(self, place: Place) -> Cell:
        if not self._cells:
            self._since_ms = self._now_ms
        return self._cells.setdefault(place, Cell())
