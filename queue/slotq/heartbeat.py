"""The heartbeat of a worker: renews its leases and keeps the file tidy, on a thread of its own.

No body can block this thread, short of a C call that keeps the interpreter's lock for longer than a
lease.
"""

import logging
import threading
import time
from collections.abc import Mapping
from typing import Final

from slotq import wake
from slotq.current import Run
from slotq.errors import SlotqError
from slotq.report import Report
from slotq.store import jobs, leases, workers
from slotq.store.connection import Database
from slotq.store.leases import Lease
from slotq.store.workers import Registration

logger = logging.getLogger("slotq.worker")

# Renewals in a lease: two may fail before it lapses.
BEATS_PER_LEASE: Final = 3
# After a beat that could not write.
RETRY_S: Final = 0.5
# Housekeeping deletes this much in one transaction, and goes on for this long at most, and never
# for so long that the next beat is late.
PRUNE_BATCH: Final = 500
KEY_BATCH: Final = 1_000
TIDY_S: Final = 1.0
TIDY_SHARE: Final = 4


class Heartbeat:
    """Renews the leases of one worker.

    Args:
        database: The file.
        worker_id: Whose leases.
        registration: What the worker tells of itself, should its row be gone.
        running: Its leases; shared with the worker.
        report: Who tells of those that are lost.
        keep_finished_ms: Age at which finished jobs are deleted; None keeps them.
    """

    def __init__(
        self,
        database: Database,
        worker_id: int,
        registration: Registration,
        running: Mapping[Lease, Run],
        report: Report,
        *,
        keep_finished_ms: int | None,
    ) -> None:
        self._database = database
        self._worker_id = worker_id
        self._registration = registration
        self._running = running
        self._report = report
        self._keep_finished_ms = keep_finished_ms
        self._every_s = registration.lease_ms / 1000 / BEATS_PER_LEASE
        self._key_after = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beats, name="slotq-heartbeat", daemon=True)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, after the beat that is under way."""
        self._stop.set()
        self._thread.join()

    def _beats(self) -> None:
        next_s = time.monotonic() + self._every_s
        while not self._stop.wait(max(0.0, next_s - time.monotonic())):
            began_s = time.monotonic()
            try:
                self._beat()
                next_s = began_s + self._every_s
                self._tidy()
            except Exception as error:  # without a heartbeat every lease would lapse
                # The turns of the worker meet the same error and decide what comes of it.
                logger.warning("heartbeat: %s", error, exc_info=not isinstance(error, SlotqError))
                next_s = time.monotonic() + min(RETRY_S, self._every_s)

    def _beat(self) -> None:
        held = list(self._running)
        with self._database.write() as tx:
            gone = leases.renew(tx, held)
            workers.see(tx, self._worker_id, self._registration)
        for lease in gone:
            run = self._running.get(lease)
            if run is not None:  # a run that ended while we asked is no loss
                self._report.lost(run)

    def _tidy(self) -> None:
        wake.sweep(self._database.directory)
        end_s = time.monotonic() + min(TIDY_S, self._every_s / TIDY_SHARE)
        keep_ms = self._keep_finished_ms
        while keep_ms is not None and time.monotonic() < end_s and not self._stop.is_set():
            with self._database.write() as tx:
                if jobs.prune(tx, tx.now - keep_ms, PRUNE_BATCH) < PRUNE_BATCH:
                    break
        with self._database.write() as tx:
            self._key_after = jobs.prune_keys(tx, self._key_after, KEY_BATCH) or 0
