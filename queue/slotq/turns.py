"""The turns of a worker: in one transaction each, write what ended, handle what is due, claim.

They run on one thread of their own, so that neither a body that blocks the event loop nor one that
fills every thread keeps the worker from writing and claiming.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from slotq.current import Run
from slotq.errors import FileReplaced, NotAQueue, QueueBusy, SchemaTooNew, StoreError
from slotq.heartbeat import BEATS_PER_LEASE
from slotq.jobqueue import Queue
from slotq.model import State
from slotq.presence import Presence
from slotq.report import Known, Report
from slotq.store import due, holds, leases, workers
from slotq.store.claims import UNKNOWN_BATCH, Claim, Claimer, claim
from slotq.store.leases import End, HandBack, Lease
from slotq.store.transaction import Tx
from slotq.store.workers import Registration
from slotq.tally import Tally

logger = logging.getLogger("slotq.worker")

# How often an idle worker looks whether somebody committed without ringing, whether a running job
# is to end, and whether its clock was set; and how often whether the file is still there.
LOOK_S: Final = 0.1
IDENTITY_EVERY_S: Final = 1.0
# How often what bodies say of their progress is written.
PROGRESS_EVERY_S: Final = 0.2
# A clock that is this far behind the last turn was set back.
SET_BACK_MS: Final = 1_000
# A turn that could not write is tried again, at first soon.
FIRST_RETRY_S: Final = 0.05
LAST_RETRY_S: Final = 2.0
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


class Outcome(NamedTuple):
    """How one run ends."""

    run: Run
    end: End


@dataclass(frozen=True, slots=True)
class Staff:
    """Who runs the bodies; called by the thread of the turns.

    Attributes:
        begin: Starts bodies.
        cancel: Ends a body whose job is to end, if it can be ended.
    """

    begin: Callable[[Sequence[Run]], None]
    cancel: Callable[[Run], None]


class Turns:
    """The loop of one worker; all but ``post``, ``stop`` and ``abandon`` belong to one thread.

    Args:
        queue: The queue.
        registration: Who works.
        running: Its leases: added at a claim, removed when the end is written. A lease that is lost
            stays until its body ends, and keeps its worker slot.
        staff: Who runs the bodies.
        report: Who tells of it.
        burst: Whether to end when nothing is left to do.
        max_jobs: Whether to stop claiming after so many starts; None for no such number.

    Attributes:
        presence: The worker in the file.
        tally: What it counts for charts.
        abandoned: How many jobs were handed back while their bodies went on.
    """

    def __init__(
        self,
        queue: Queue,
        registration: Registration,
        running: dict[Lease, Run],
        staff: Staff,
        report: Report,
        *,
        burst: bool,
        max_jobs: int | None,
    ) -> None:
        self._queue = queue
        self._database = queue.database
        self._registration = registration
        self._running = running
        self._staff = staff
        self._report = report
        self._known = Known(queue.tasks, report)
        self._burst = burst
        self._left = max_jobs
        self._outcomes: deque[Outcome] = deque()
        self._news: dict[Lease, Run] = {}
        self._stopping = False
        self._abandoning = False
        self._waiting = False
        self._next_identity_s = 0.0
        self._next_progress_s = 0.0
        self._last_now = 0
        self.presence = Presence(queue, registration)
        self.tally = Tally()
        self.abandoned = 0

    def register(self) -> bool:
        """Enter the worker into the file; while others keep it locked, try again.

        Returns:
            Whether it did; False if it was stopped before.

        Raises:
            StoreError: The file cannot be used.
        """
        while not self._stopping:
            try:
                self.presence.enter()
            except QueueBusy as error:
                logger.warning("beginning: %s; trying again", error)
                time.sleep(FIRST_RETRY_S)
            else:
                return True
        return False

    def run(self) -> None:
        """Take turns until told to stop and all is written, or until a burst is done.

        Raises:
            StoreError: The file can no longer be used.
        """
        claimer = Claimer(
            worker_id=self.presence.worker_id,
            order=self._registration.order,
            queues=self._registration.queues,
            tasks=self._known,
            lease_ms=self._registration.lease_ms,
        )
        ended: list[Outcome] = []
        retry_s = FIRST_RETRY_S
        while not (self._is_over() and not self._outcomes):
            try:
                if self._abandoning:
                    self._hand_all_back(ended)
                self._take_outcomes(ended)
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

    def post(self, *outcomes: Outcome) -> None:
        """Hand in how runs ended; from any thread."""
        self._outcomes.extend(outcomes)
        self._wake()

    @property
    def has_used_up(self) -> bool:
        """Whether it has started as many jobs as it may."""
        return self._left == 0

    def note_stop(self) -> None:
        """Claim nothing more, without being woken for it; takes no lock, as a signal handler must."""
        self._stopping = True

    def stop(self) -> None:
        """Claim nothing more; from any thread."""
        self._stopping = True
        self._wake()

    def abandon(self) -> None:
        """Hand back what runs though its bodies go on, and end; from any thread.

        Only for a process that ends right after: else two bodies of a job would run at once.
        """
        self._abandoning = True
        self.stop()

    def _turn(self, claimer: Claimer, ended: Sequence[Outcome]) -> Pause | None:
        """Take one turn; return what to do until the next, or None when a burst is done."""
        self.presence.finds_graves()
        free = self._registration.slots - len(self._running) + len(ended)
        until: int | None = None
        try:
            with self._database.write() as tx:
                version = self._database.foreign_version(tx)
                states: list[State | None] = [self._write_end(tx, outcome) for outcome in ended]
                self._keep(tx, {outcome.run.lease for outcome in ended})
                self.presence.bury(tx)
                more = due.handle_due(tx)
                self._known.misses = 0
                want = self._want(free)
                claims = claim(tx, claimer, want)
                # There may be jobs behind those that were put back.
                more = more or self._known.misses >= UNKNOWN_BATCH
                is_full = len(claims) == want
                if not is_full:
                    until = due.next_due(tx)
                is_idle = free == self._registration.slots and not claims and not more
                is_done = is_idle and self._burst and not workers.has_work(tx, claimer.queues)
                now = tx.now
                bells = holds.bells(tx)
                if self._abandoning and len(self._running) == len(ended):
                    workers.drop(tx, self.presence.worker_id)  # with the last of its jobs
                # While nobody else can write: a heartbeat would take an end just written for a loss.
                for outcome in ended:
                    del self._running[outcome.run.lease]
                self.tally.write(tx)
        except BaseException:
            self._running.update((outcome.run.lease, outcome.run) for outcome in ended)
            self.presence.clear_graves(buried=False)
            raise
        has_buried = self.presence.clear_graves(buried=True)
        self.tally.add(now, claims, zip(ended, states, strict=True))
        self._settle(claims, ended, states)
        self.presence.ring_waiting(bells)
        if has_buried or (ended and (is_full or self._registration.queues is not None)):
            # Room that this turn made and this worker cannot fill; another may.
            self.presence.ring()
        elif ended or claims:
            # No foreign commit to a worker that shares our connection, so it would not see it: it
            # must plan anew, or a burst must end.
            self.presence.ring_here()
        self.tally.look(self._database)
        if is_done:
            return None
        if more or 0 < len(claims) == want < free:
            return Pause(now, now, None)
        return Pause(now, self.tally.until(until), None if is_full else version)

    def _take_outcomes(self, ended: list[Outcome]) -> None:
        """Move what was handed in to what the next turn writes: one end a run, the first."""
        seen = {outcome.run.lease for outcome in ended}
        while self._outcomes and len(ended) < BATCH:
            outcome = self._outcomes.popleft()
            lease = outcome.run.lease
            if lease in self._running and lease not in seen:  # else it was handed back meanwhile
                seen.add(lease)
                ended.append(outcome)

    def _want(self, free: int) -> int:
        """Return how many jobs to claim; asked with the lock held: none starts after a stop."""
        if self._stopping:
            return 0
        return min(free, BATCH) if self._left is None else min(free, BATCH, self._left)

    def _write_end(self, tx: Tx, outcome: Outcome) -> State | None:
        run = outcome.run
        if run.news is not None:
            leases.tell_progress(tx, run.lease, *run.news)
        return leases.end(tx, run.lease, outcome.end)

    def _keep(self, tx: Tx, ended: set[Lease]) -> None:
        """See to the jobs that go on."""
        if tx.now - self._last_now > self._registration.lease_ms / BEATS_PER_LEASE:
            # Busy bodies, a sleep of the host, a clock that was set: whichever it was, this worker
            # lives, and must not take back what runs in it.
            leases.renew(tx, self._running.keys() - ended)
        self._last_now = tx.now
        if len(self._running) > len(ended):
            for lease in leases.asked_to_end(tx, self.presence.worker_id):
                run = self._running.get(lease)
                if run is not None and not run.cancelled and lease not in ended:
                    run.cancelled = True
                    self._staff.cancel(run)
        if self._has_progress():
            self._next_progress_s = time.monotonic() + PROGRESS_EVERY_S
            for lease in list(self._news):  # bodies may go on to say more
                run = self._news.pop(lease)
                if run.news is not None and lease not in ended:
                    leases.tell_progress(tx, lease, *run.news)

    def _settle(
        self, claims: Sequence[Claim], ended: Sequence[Outcome], states: Sequence[State | None]
    ) -> None:
        for outcome, state in zip(ended, states, strict=True):
            if state is None:
                self._report.lost(outcome.run)
            else:
                self._report.ended(outcome.run, outcome.end, state)
        if not claims:
            return
        runs = [Run(each, self._database.real, self._note) for each in claims]
        self._running.update((run.lease, run) for run in runs)
        if self._left is not None:
            self._left -= len(runs)
        if self._stopping:  # told to while the turn was under way
            for run in runs:
                self.post(Outcome(run, HandBack()))
            return
        for run in runs:
            self._report.started(run)
        self._staff.begin(runs)

    def _hand_all_back(self, ended: list[Outcome]) -> None:
        done = {outcome.run.lease for outcome in (*self._outcomes, *ended)}
        left = [run for lease, run in self._running.items() if lease not in done]
        self._outcomes.extend(Outcome(run, HandBack()) for run in left)
        self.abandoned += len(left)

    def _note(self, run: Run) -> None:
        """Note that a body has said how far it is; from any thread."""
        self._news[run.lease] = run

    def _has_progress(self) -> bool:
        return bool(self._news) and time.monotonic() >= self._next_progress_s

    def _idle(self, pause: Pause) -> None:
        """Wait until there is something to do: an end, a ring, an instant, or a foreign commit."""
        while True:
            left_s = self._left_s(pause)
            if left_s <= 0:
                return
            rung = self._listen(left_s)
            if (
                self._has_news()
                or self.presence.finds_graves()
                or (rung and pause.version is not None)
            ):
                return
            if pause.version is None and self._is_asked():
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
        self._waiting = True
        try:
            # What came in before the line above has rung no bell.
            return self._has_news() or self.presence.wait(timeout_s)
        finally:
            self._waiting = False

    def _is_asked(self) -> bool:
        """Tell whether a job is to end that does not know it yet."""
        with self._database.read() as reader:
            asked = leases.asked_to_end(reader, self.presence.worker_id)
        return any(lease in self._running and not self._running[lease].cancelled for lease in asked)

    def _has_news(self) -> bool:
        return bool(self._outcomes) or self._abandoning or self._is_over() or self._has_progress()

    def _is_over(self) -> bool:
        return (self._stopping or self.has_used_up) and not self._running

    def _wake(self) -> None:
        if self._waiting:
            self.presence.wake()
