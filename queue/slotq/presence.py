"""A worker's presence in the file: its row, its lock and its bell, and the graves of the dead."""

import logging
import time
from collections.abc import Sequence
from typing import Final

from slotq.alive import Alive, Grave, graves
from slotq.errors import SlotqError, StoreError
from slotq.jobqueue import Queue
from slotq.store import holds, workers
from slotq.store.transaction import Tx
from slotq.store.workers import Registration
from slotq.wake import Bell, sweep

logger = logging.getLogger("slotq.worker")

# How often to look whether another worker is dead.
GRAVES_EVERY_S: Final = 0.4


class Presence:
    """One worker in the file; all but ``wake`` belongs to the thread of its turns.

    Args:
        queue: The queue.
        registration: Who works.

    Attributes:
        worker_id: The worker's id; 0 before it has entered.
    """

    def __init__(self, queue: Queue, registration: Registration) -> None:
        self._database = queue.database
        self._ringer = queue.ringer
        self._registration = registration
        self._bell: Bell | None = None
        self._alive: Alive | None = None
        self._graves: list[Grave] = []
        self._buried: set[str] = set()
        self._next_graves_s = 0.0
        self.worker_id = 0

    def enter(self) -> None:
        """Enter the file.

        Raises:
            QueueBusy: Others keep it locked.
            StoreError: It cannot be used.
        """
        alive = None
        try:
            with self._database.write() as tx:
                workers.drop_gone(tx)
                worker_id = workers.register(tx, self._registration)
                try:
                    alive = Alive(self._database.directory, str(worker_id))
                except OSError as error:
                    raise self._refused("the lock that tells that a worker lives", error) from error
        except BaseException:
            if alive is not None:
                alive.close(remove=True)
            raise
        self.worker_id, self._alive = worker_id, alive
        try:
            self._bell = Bell(self._database.directory)
        except OSError as error:
            raise self._refused("the pipe that wakes a worker", error) from error
        self._ringer.hang(self._bell)
        sweep(self._database.directory)

    def leave(self) -> None:
        """Leave the file, if it was entered."""
        if self._bell is not None:
            self._ringer.take_down(self._bell)
            self._bell.close()
        self.clear_graves(buried=False)  # others see to them
        has_left = True
        if self.worker_id:
            try:
                with self._database.write() as tx:
                    workers.drop(tx, self.worker_id)
            except SlotqError as error:
                has_left = False
                logger.warning("leaving: %s", error)
        if self._alive is not None:
            # If it stays, others see that nobody holds it, and take back what ran here.
            self._alive.close(remove=has_left)
        self._ringer.ring_here(but=self._bell)

    def vanish(self) -> None:
        """Leave nothing behind, now that the worker's row is gone and its process ends."""
        if self._bell is not None:
            self._bell.close()
        if self._alive is not None:
            self._alive.close(remove=True)

    # Waking and being woken

    def wait(self, timeout_s: float) -> bool:
        """Wait until somebody rings; return whether anybody did."""
        assert self._bell is not None, "who idles has entered"
        return self._bell.wait(timeout_s)

    def wake(self) -> None:
        """Ring this worker's own bell; from any thread."""
        if self._bell is not None:
            self._bell.ring()

    def ring(self) -> None:
        """Wake the other idle workers of the file."""
        self._ringer.ring(but=self._bell)

    def ring_waiting(self, bells: Sequence[str]) -> None:
        """Wake those who wait for room."""
        self._ringer.ring_waiting(bells)

    def ring_here(self) -> None:
        """Wake the other idle workers that share this process's connection."""
        self._ringer.ring_here(but=self._bell)

    # The dead

    def finds_graves(self) -> bool:
        """Look for the dead from time to time; tell whether there are any to bury."""
        if time.monotonic() >= self._next_graves_s:
            self._next_graves_s = time.monotonic() + GRAVES_EVERY_S
            known = {str(self.worker_id), *self._buried, *(grave.name for grave in self._graves)}
            self._graves += graves(self._database.directory, but=known)
        return bool(self._graves)

    def bury(self, tx: Tx) -> None:
        """Have what the dead had taken back in this transaction, when what is due is handled."""
        for grave in self._graves:
            if grave.name.isdecimal() and grave.stands():
                workers.bury(tx, int(grave.name))
            else:
                holds.bury(tx, grave.name)

    def clear_graves(self, *, buried: bool) -> bool:
        """Let go of what was found; return whether there was anything."""
        found, self._graves = self._graves, []
        for grave in found:
            if buried:
                self._tell_dead(grave.name)
            if not grave.close(remove=buried) and buried:
                self._buried.add(grave.name)  # its file is not ours to remove
        return bool(found)

    def _tell_dead(self, name: str) -> None:
        if name.isdecimal():
            logger.warning("worker %s is dead: its jobs are taken back", name)
        else:  # any program that held something and has ended; mostly it has given all back
            logger.debug("process %s is gone: its holds are taken back", name)

    def _refused(self, what: str, error: OSError) -> StoreError:
        return StoreError(
            path=self._database.path, reason=f"{what} cannot be made ({error.strerror})"
        )
