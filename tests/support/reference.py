"""The queue as plain Python data: what the file must hold after each step, said the obvious way.

Every count is counted anew whenever it is needed, and every choice looks at all jobs.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from slotq.model import Order, State
from support.reference_order import Job, Line, Queue

# A smaller step back of the clock stands still; the instant kept is rewritten this often at most.
CLOCK_GRAIN_MS = 1_000
KEYED_FLOOR = 15
# Jobs of unknown tasks put back in one claim, and for how long.
UNKNOWN_BATCH = 100
UNKNOWN_FIRST_MS = 5_000
UNKNOWN_LAST_MS = 300_000
UNKNOWN_KNOWN_MS = 1_000
BACKOFF_FIRST_MS = 1_000
BACKOFF_LAST_MS = 3_600_000

FINISHED: frozenset[State] = frozenset({"succeeded", "failed", "cancelled"})

RunAt = Callable[[int], int]
"""Tells the instant that the dice gave a job for its next attempt."""


class Reference(Line):
    """The model.

    Attributes:
        kept: The instant kept in the file.
        latest: The latest instant since the clock was last set back by more than a little.
        blurred: A calendar window was set while the clock stood a little before ``latest``, perhaps
            in the period before: of starts in the next one it learns too late.
        known: The tasks that each registered worker knows.
    """

    def __init__(self, *, floor: int = KEYED_FLOOR) -> None:
        super().__init__(floor=floor)
        self.kept = self.latest = 0
        self.blurred = False
        self.last_id = 0
        self.lanes: set[tuple[str, str, int | None]] = set()
        self.known: list[Collection[str]] = []

    def begin(self, clock_ms: int) -> None:
        """Begin a transaction."""
        if clock_ms >= self.kept:
            self.now = clock_ms
            if clock_ms - self.kept >= CLOCK_GRAIN_MS:
                self.kept = clock_ms
        elif self.kept - clock_ms < CLOCK_GRAIN_MS:
            self.now = self.kept
            self.seen["time stood still"] += 1
        else:
            self._step_back(clock_ms)
        self.latest = max(self.latest, self.now)

    def _step_back(self, now: int) -> None:
        """Nothing waits longer for a clock that was set back than its window, lease or TTL."""
        self.now = self.kept = self.latest = now
        self.blurred = False
        self.seen["stepped back"] += 1
        self.limits.step_back(now)
        for job in self.running():
            assert job.lease_until is not None
            assert job.lease_ms is not None
            job.lease_until = min(job.lease_until, now + job.lease_ms)
        for hold in self.holds.values():
            hold.until = min(hold.until, now + hold.ttl_ms)

    # What is due.

    def next_due(self) -> int | None:
        """Return the earliest instant at which something falls due."""
        instants = [
            *(job.run_at for job in self.jobs.values() if job.state == "scheduled"),
            *(job.lease_until for job in self.running()),
            *(
                job.expires_at
                for job in self.jobs.values()
                if job.state in {"scheduled", "waiting"}
            ),
            *(hold.until for hold in self.holds.values()),
            *(key.full_until for key in self.limits.keys.values()),
            *(limit.period[1] for limit in self.limits.all.values() if limit.period),
        ]
        return min((at for at in instants if at is not None), default=None)

    def handle_due(self, run_at: RunAt) -> None:
        """Handle all that is due, also what only now has fallen due."""
        while (due := self.next_due()) is not None and due <= self.now:
            self.limits.turn_periods(self.now)
            self._reap(run_at)
            self._expire_and_wake()
            for hold in [hold for hold in self.holds.values() if hold.until <= self.now]:
                del self.holds[hold.id]
                self.seen["hold ended" if hold.held else "waiting hold gone"] += 1
            for key in self.limits.keys.values():
                if key.full_until is not None and key.full_until <= self.now:
                    key.full_until = None
                    self.seen["window opened"] += 1

    def _reap(self, run_at: RunAt) -> None:
        for job in self.running():
            if job.lease_until is not None and job.lease_until <= self.now:
                self.seen["reaped"] += 1
                self._fail(job, "worker lost", run_at, final=False)

    def _expire_and_wake(self) -> None:
        for job in self.jobs.values():
            if job.state not in {"scheduled", "waiting"}:
                continue
            if job.expires_at is not None and job.expires_at <= self.now:
                job.state, job.finished_at = "cancelled", self.now
                job.error = "expired before it started"
                self.seen["expired"] += 1
            elif job.run_at <= self.now and job.state == "scheduled":
                job.state = "waiting"
                job.error = None if job.misses else job.error

    # Jobs.

    def add(self, jobs: Iterable[Job]) -> list[int]:
        """Store jobs, unless one with its dedupe value has not ended; return the ids that count."""
        ids: list[int] = []
        for job in jobs:
            other = self.duplicate(job.dedupe)
            if other is not None:
                ids.append(other)
                continue
            self.last_id += 1
            job.id = self.last_id
            self.jobs[job.id] = job
            self.queues.setdefault(job.queue, Queue())
            self.lanes.add((job.queue, job.key, job.cap))
            self.last_start.setdefault((job.queue, job.key), 0)
            if job.key:
                self.limits.key(job.key)
            ids.append(job.id)
        return ids

    def duplicate(self, dedupe: str | None) -> int | None:
        """Return the job with a dedupe value that has not ended."""
        if dedupe is None:
            return None
        return next(
            (
                job.id
                for job in self.jobs.values()
                if job.dedupe == dedupe and job.state not in FINISHED
            ),
            None,
        )

    def cancel(self, job_id: int) -> bool:
        """Cancel a job, or ask for its end if it runs."""
        job = self.jobs[job_id]
        if job.state in FINISHED:
            return False
        if job.state == "running":
            job.cancelling = True
        else:
            job.state, job.finished_at, job.error = "cancelled", self.now, None
        return True

    def retry(self, job_id: int) -> bool:
        """Put a failed or cancelled job in line again."""
        job = self.jobs[job_id]
        if job.state not in {"failed", "cancelled"}:
            return False
        if self.duplicate(job.dedupe) is not None:
            self.seen["retry refused: dedupe"] += 1
            return False
        job.state, job.run_at, job.attempt, job.misses = "waiting", self.now, 0, 0
        job.finished_at = job.expires_at = job.error = None
        return True

    def forgettable_keys(self) -> list[str]:
        """Return the keys that nothing needs."""
        used = {job.key for job in self.jobs.values()} | {h.key for h in self.holds.values()}
        exact = {text for kind, text, _ in self.limits.all if kind == "key"}
        return [
            name
            for name, key in self.limits.keys.items()
            if name not in used | exact
            and not key.paused
            and all(at + self.limits.span(name) <= self.now for at in key.starts.values())
        ]

    def forget_key(self, name: str) -> None:
        """Drop a key and its lanes."""
        del self.limits.keys[name]
        self.lanes = {lane for lane in self.lanes if lane[1] != name}
        self.last_start = {group: at for group, at in self.last_start.items() if group[1] != name}

    # Claims.

    def claim(
        self,
        want: int,
        *,
        order: Order,
        queues: Sequence[str] | None,
        tasks: Collection[str],
        lease_ms: int,
        worker: int,
    ) -> list[Job]:
        """Start the jobs that are next, one after the other."""
        started: list[Job] = []
        unknown = 0
        while len(started) < want and unknown < UNKNOWN_BATCH:
            job = self.next_job(order, self.queues if queues is None else queues)
            if job is None:
                break
            if job.task in tasks:
                job.worker, job.lease_ms = worker, lease_ms
                self._start(job)
                started.append(job)
            else:
                unknown += 1
                self._put_back(job)
        return started

    def _start(self, job: Job) -> None:
        self.seen["started"] += 1
        job.state, job.started_at = "running", self.now
        job.attempt += 1
        job.token += 1
        job.misses = 0
        job.lease_until = self.now + (job.lease_ms or 0)
        queue = self.queues[job.queue]
        self.starts += 1
        queue.dry = 0 if job.key else queue.dry + 1
        self.last_start[job.queue, job.key] = self.starts
        if job.key:
            self.limits.take(job.key, 1, self.now)

    def _put_back(self, job: Job) -> None:
        wait = min(UNKNOWN_FIRST_MS * 2**job.misses, UNKNOWN_LAST_MS)
        if any(job.task in tasks for tasks in self.known):
            wait = UNKNOWN_KNOWN_MS
            self.seen["put back: another worker knows it"] += 1
        self.seen["put back"] += 1
        self.seen["put back again"] += job.misses > 0
        job.state, job.run_at, job.error = "scheduled", self.now + wait, "unknown task"
        job.misses += 1

    # Ends.

    def owns(self, job_id: int, token: int) -> bool:
        """Return whether a lease is still its holder's."""
        job = self.jobs.get(job_id)
        return job is not None and job.state == "running" and job.token == token

    def succeed(self, job_id: int) -> None:
        """End a run that went well."""
        job = self.jobs[job_id]
        job.state, job.finished_at, job.lease_until, job.error = "succeeded", self.now, None, None
        job.cancelling = False

    def fail(self, job_id: int, error: str, run_at: RunAt, *, final: bool) -> None:
        """End a run that failed."""
        self._fail(self.jobs[job_id], error, run_at, final=final)

    def hand_back(self, job_id: int) -> None:
        """End a run that never was."""
        job = self.jobs[job_id]
        job.attempt -= 1
        if not self._stop(job):
            job.state = "waiting"

    def snooze(self, job_id: int, delay_ms: int) -> None:
        """End a run that is to be later."""
        job = self.jobs[job_id]
        job.attempt -= 1
        job.run_at, job.error = self.now + delay_ms, None
        if not self._stop(job):
            job.state = "scheduled"

    def discard(self, job_id: int, error: str) -> None:
        """End a job that is not worth doing."""
        job = self.jobs[job_id]
        job.error, job.cancelling = error, True
        self._stop(job)

    def bury(self, worker: int) -> None:
        """Let the leases of a dead worker end now."""
        for job in self.running():
            if job.worker == worker and job.lease_until is not None:
                job.lease_until = min(job.lease_until, self.now)

    def renew(self, job_id: int) -> None:
        """Give a run a full lease from now, also if it has lapsed unnoticed."""
        job = self.jobs[job_id]
        self.seen["renewed after the lapse"] += (job.lease_until or 0) <= self.now
        job.lease_until = self.now + (job.lease_ms or 0)

    def _fail(self, job: Job, error: str, run_at: RunAt, *, final: bool) -> None:
        job.error = error
        is_over = final or job.attempt >= job.max_attempts
        if not is_over:
            job.run_at = run_at(job.id)
        if self._stop(job):
            return
        if is_over:
            job.state, job.finished_at = "failed", self.now
            return
        job.state = "scheduled"
        longest = min(BACKOFF_FIRST_MS * 2 ** (job.attempt - 1), BACKOFF_LAST_MS)
        assert longest / 2 <= job.run_at - self.now <= longest, f"backoff of job {job.id}"

    def _stop(self, job: Job) -> bool:
        """Take a run's lease; a job whose end was asked for is cancelled with it."""
        job.lease_until = None
        if job.cancelling:
            job.cancelling = False
            job.state, job.finished_at = "cancelled", self.now
            self.seen["cancelled while it ran"] += 1
            return True
        return False
