"""The turns of a worker: in one transaction each, write what ended, handle what is due, claim.

They run on one thread of their own, so that neither a body that blocks the event loop nor one that
fills every thread keeps the worker from writing and claiming.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from slotq.errors import (
    FileReplaced,
    NotAQueue,
    QueueBusy,
    SchemaTooNew,
    SlotqError,
    StoreError,
    one_line,
)
from slotq.heartbeat import BEATS_PER_LEASE
from slotq.jobqueue import Queue
from slotq.store import due, leases, workers
from slotq.store.claims import UNKNOWN_BATCH, Claim, Claimer, claim
from slotq.store.leases import Failure, Outcome
from slotq.store.workers import Registration
from slotq.wake import Bell, sweep

logger = logging.getLogger("slotq.worker")

# How often an idle worker looks whether somebody committed without ringing, and whether its clock
# was set; and how often whether the file is still there.
LOOK_S: Final = 0.1
IDENTITY_EVERY_S: Final = 1.0
# A clock that is this far behind the last turn was set back.
SET_BACK_MS: Final = 1_000
# A turn that could not write is tried again, at first soon.
FIRST_RETRY_S: Final = 0.05
LAST_RETRY_S: Final = 2.0
# Unknown tasks that a worker names in its log, each once.
MOST_TOLD: Final = 100
# Most ends written and most jobs claimed in one turn: some 50 ms, then others get theirs.
BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class Pause:
    """What to do between two turns.

    Attributes:
        since: The instant of the turn that was, in milliseconds.
        until: The instant of the next turn, unless something happens; None for no such instant.
        version: What ``Database.foreign_version`` returned in that turn; a commit of somebody else
            changes it. None for a worker whose slots are full: it need not look, nor be woken.
    """

    since: int
    until: int | None
    version: int | None


class Known:
    """The tasks that a worker knows.

    Attributes:
        misses: How often it was asked for one that it does not know.
    """

    def __init__(self, tasks: Mapping[str, object]) -> None:
        self._tasks = tasks
        self._told: set[str] = set()
        self.misses = 0

    def __contains__(self, name: object) -> bool:
        if name in self._tasks:
            return True
        self.misses += 1
        text = one_line(str(name))
        if text not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(text)
            logger.warning("task %s is not known here; its jobs wait for a worker that does", text)
        return False


class Turns:
    """The loop of one worker; all but ``post`` and ``stop`` belong to one thread.

    Args:
        queue: The queue.
        registration: Who works.
        running: Its leases, each a job id and a token: added at a claim, removed when the end is
            written. A lease that is lost stays until its body ends, and keeps its worker slot.
        begin: Starts the bodies of claims.
        burst: Whether to end when nothing is left to do.

    Attributes:
        worker_id: The worker's id, once registered.
    """

    def __init__(
        self,
        queue: Queue,
        registration: Registration,
        running: set[tuple[int, int]],
        begin: Callable[[Sequence[Claim]], None],
        *,
        burst: bool,
    ) -> None:
        self._queue = queue
        self._database = queue.database
        self._registration = registration
        self._running = running
        self._begin = begin
        self._known = Known(queue.tasks)
        self._burst = burst
        self._outcomes: deque[Outcome] = deque()
        self._stopping = False
        self._waiting = False
        self._bell: Bell | None = None
        self._next_identity_s = 0.0
        self._last_now = 0
        self.worker_id = 0

    def register(self) -> bool:
        """Enter the worker into the file; while others keep it locked, try again.

        Returns:
            Whether it did; False if it was stopped before.

        Raises:
            StoreError: The file cannot be used.
        """
        while not self.worker_id:
            if self._stopping:
                return False
            try:
                with self._database.write() as tx:
                    workers.drop_gone(tx)
                    self.worker_id = workers.register(tx, self._registration)
            except QueueBusy as error:
                logger.warning("beginning: %s; trying again", error)
                time.sleep(FIRST_RETRY_S)
        try:
            self._bell = Bell(self._database.directory)
        except OSError as error:
            reason = f"the pipe that wakes a worker cannot be made ({error.strerror})"
            raise StoreError(path=self._database.path, reason=reason) from error
        self._queue.ringer.hang(self._bell)
        sweep(self._database.directory)
        return True

    def run(self) -> None:
        """Take turns until told to stop and all is written, or until a burst is done.

        Raises:
            StoreError: The file can no longer be used.
        """
        claimer = Claimer(
            worker_id=self.worker_id,
            order=self._registration.order,
            queues=self._registration.queues,
            tasks=self._known,
            lease_ms=self._registration.lease_ms,
        )
        ended: list[Outcome] = []
        retry_s = FIRST_RETRY_S
        while not (self._is_over() and not self._outcomes):
            try:
                while self._outcomes and len(ended) < BATCH:
                    ended.append(self._outcomes.popleft())
                pause = self._turn(claimer, ended)
                ended.clear()
                if pause is None:
                    return
                self._idle(pause)
                retry_s = FIRST_RETRY_S
            except (QueueBusy, StoreError) as error:
                if isinstance(error, (FileReplaced, NotAQueue, SchemaTooNew)):
                    raise
                logger.warning("turn: %s; trying again", error)
                time.sleep(retry_s)
                retry_s = min(retry_s * 2, LAST_RETRY_S)

    def post(self, outcome: Outcome) -> None:
        """Hand in how a run ended; from any thread."""
        self._outcomes.append(outcome)
        self._wake()

    def stop(self) -> None:
        """Claim nothing more; from any thread."""
        self._stopping = True
        self._wake()

    def leave(self) -> None:
        """Leave the file."""
        if self._bell is not None:
            self._queue.ringer.take_down(self._bell)
            self._bell.close()
        if self.worker_id:
            try:
                with self._database.write() as tx:
                    workers.drop(tx, self.worker_id)
            except SlotqError as error:
                logger.warning("leaving: %s", error)
        self._queue.ringer.ring_here(but=self._bell)

    def _turn(self, claimer: Claimer, ended: Sequence[Outcome]) -> Pause | None:
        """Take one turn; return what to do until the next, or None when a burst is done."""
        free = self._registration.slots - len(self._running) + len(ended)
        want = 0 if self._stopping else min(free, BATCH)
        until: int | None = None
        leases_ended = {(outcome.job_id, outcome.token) for outcome in ended}
        try:
            with self._database.write() as tx:
                version = self._database.foreign_version(tx)
                lost = [outcome.job_id for outcome in ended if not leases.end(tx, outcome)]
                if tx.now - self._last_now > self._registration.lease_ms / BEATS_PER_LEASE:
                    # Busy bodies, a sleep of the host, a clock that was set: whichever it was, this
                    # worker lives, and must not take back what runs in it.
                    leases.renew(tx, self._running - leases_ended)
                self._last_now = tx.now
                more = due.handle_due(tx)
                self._known.misses = 0
                claims = claim(tx, claimer, want)
                # There may be jobs behind those that were put back.
                more = more or self._known.misses >= UNKNOWN_BATCH
                is_full = len(claims) == want
                if not is_full:
                    until = due.next_due(tx)
                is_idle = free == self._registration.slots and not claims and not more
                is_done = is_idle and self._burst and not workers.has_work(tx, claimer.queues)
                now = tx.now
                # While nobody else can write: a heartbeat would take an end just written for a loss.
                self._running.difference_update(leases_ended)
        except BaseException:
            self._running.update(leases_ended)
            raise
        self._settle(claims, ended, lost)
        if ended and (is_full or self._registration.queues is not None):
            # Room that this turn made and this worker cannot fill; another may.
            self._queue.ringer.ring(but=self._bell)
        elif ended or claims:
            # No foreign commit to a worker that shares our connection, so it would not see it: it
            # must plan anew, or a burst must end.
            self._queue.ringer.ring_here(but=self._bell)
        if is_done:
            return None
        if more or 0 < len(claims) == want < free:
            return Pause(now, now, None)
        return Pause(now, until, None if is_full else version)

    def _settle(
        self, claims: Sequence[Claim], ended: Sequence[Outcome], lost: Sequence[int]
    ) -> None:
        for job_id in lost:
            logger.warning("job %d: its lease was lost, so its outcome is dropped", job_id)
        for outcome in ended:
            if isinstance(outcome.end, Failure) and outcome.job_id not in lost:
                logger.warning(
                    "job %d: attempt %d of %d failed: %s",
                    outcome.job_id,
                    outcome.attempt,
                    outcome.max_attempts,
                    one_line(outcome.end.error),
                )
        self._running.update((each.id, each.token) for each in claims)
        if claims:
            self._begin(claims)

    def _idle(self, pause: Pause) -> None:
        """Wait until there is something to do: an end, a ring, an instant, or a foreign commit."""
        while True:
            left_s = self._left_s(pause)
            if left_s <= 0:
                return
            rung = self._listen(left_s)
            if self._has_news() or (rung and pause.version is not None):
                return
            if time.monotonic() >= self._next_identity_s:
                self._next_identity_s = time.monotonic() + IDENTITY_EVERY_S
                self._database.check_identity()
            if pause.version is not None and self._database.foreign_version() != pause.version:
                return

    def _left_s(self, pause: Pause) -> float:
        """Return how long to sleep at most.

        Never for as long as the next instant is away: the clock may be set, and a host that is
        suspended wakes up later than its own timers think.
        """
        now = self._queue.now_ms()
        if now < pause.since - SET_BACK_MS:
            return 0.0  # a turn brings everything that waits to the new time
        if pause.until is None:
            return LOOK_S
        return min(LOOK_S, (pause.until - now) / 1000)

    def _listen(self, timeout_s: float) -> bool:
        assert self._bell is not None, "who idles has registered"
        self._waiting = True
        try:
            # What came in before the line above has rung no bell.
            return self._has_news() or self._bell.wait(timeout_s)
        finally:
            self._waiting = False

    def _has_news(self) -> bool:
        return bool(self._outcomes) or self._is_over()

    def _is_over(self) -> bool:
        return self._stopping and not self._running

    def _wake(self) -> None:
        bell = self._bell
        if self._waiting and bell is not None:
            bell.ring()
