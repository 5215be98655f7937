"""Who may start now, and who is next: counted and looked for among all jobs, each time anew."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from slotq.model import Order, State
from support.reference_limits import Limits


@dataclass(slots=True, kw_only=True)
class Job:
    """A job; cap is its own max_running."""

    id: int
    task: str
    queue: str
    key: str
    cap: int | None
    priority: int
    state: State
    run_at: int
    expires_at: int | None
    max_attempts: int
    created_at: int
    dedupe: str | None
    attempt: int = 0
    token: int = 0
    misses: int = 0
    started_at: int | None = None
    finished_at: int | None = None
    lease_until: int | None = None
    lease_ms: int | None = None
    worker: int | None = None
    cancelling: bool = False
    error: str | None = None


@dataclass(slots=True, kw_only=True)
class Hold:
    """Slots that a program took for itself, or waits for; cap is its own max_running.

    Process and ticket tell whose it is; id is 0 until it is in the file.
    """

    id: int = 0
    key: str
    slots: int
    held: bool = False
    since: int = 0
    until: int = 0
    ttl_ms: int
    cap: int | None = None
    job: int | None = None
    process: str = ""
    ticket: int = 0
    bell: str = ""


@dataclass(slots=True)
class Queue:
    """A queue; dry counts its starts since the last keyed one."""

    paused: bool = False
    dry: int = 0


@dataclass(slots=True)
class Running:
    """How many slots are taken: by queue, by key, and by the jobs of each group."""

    queues: Counter[str] = field(default_factory=Counter[str])
    keys: Counter[str] = field(default_factory=Counter[str])
    groups: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])


class Line:
    """Jobs, holds and queues as they stand.

    Attributes:
        floor: Unkeyed starts in a row, after which a keyed job goes next.
        seen: How often each rare thing happened.
    """

    def __init__(self, *, floor: int) -> None:
        self.floor = floor
        self.now = 0
        self.jobs: dict[int, Job] = {}
        self.holds: dict[int, Hold] = {}
        self.queues: dict[str, Queue] = {}
        self.starts = 0
        self.last_start: dict[tuple[str, str], int] = {}
        self.limits = Limits()
        self.seen: Counter[str] = Counter()

    def running(self) -> list[Job]:
        """Return the running jobs."""
        return [job for job in self.jobs.values() if job.state == "running"]

    def count(self) -> Running:
        """Count the slots that are taken."""
        count = Running()
        for job in self.running():
            count.queues[job.queue] += 1
            count.keys[job.key] += 1
            count.groups[job.queue, job.key] += 1
        for hold in self.holds.values():
            count.keys[hold.key] += hold.slots * hold.held
        return count

    def startable(self, running: Running) -> list[Job]:
        """Return the waiting jobs that no limit, window, hold or pause stands in the way of."""
        waited_for = {hold.key for hold in self.holds.values() if not hold.held}
        return [
            job
            for job in self.jobs.values()
            if job.state == "waiting"
            and not self.queues[job.queue].paused
            and _below(running.queues[job.queue], self.limits.queue_cap(job.queue))
            and (not job.key or job.key not in waited_for)
            and (not job.key or self._has_room(job, running.keys[job.key]))
        ]

    def next_job(self, order: Order, queues: Iterable[str]) -> Job | None:
        """Return the job that starts next: the best of what each queue offers."""
        running = self.count()
        startable = self.startable(running)

        def place(job: Job) -> tuple[int, ...]:
            group = (job.queue, job.key)
            oldest = (job.run_at, job.id)
            if order == "fifo":
                return -job.priority, *oldest
            if order == "fair":
                return -job.priority, running.groups[group], *oldest
            return -job.priority, running.groups[group], self.last_start[group], *oldest

        offers: list[Job] = []
        for name in set(queues):
            offered = [job for job in startable if job.queue == name]
            keyed = [job for job in offered if job.key]
            if keyed and self.queues[name].dry >= self.floor:
                self.seen["keyed floor"] += not min(offered, key=place).key
                offered = keyed
            if offered:
                offers.append(min(offered, key=place))
        self.seen["offers of several queues"] += len(offers) > 1
        chosen = min(offers, key=place, default=None)
        for job in startable if chosen else ():
            assert chosen is not None
            if (job.queue, job.priority) == (chosen.queue, chosen.priority) and (
                (job.run_at, job.id) < (chosen.run_at, chosen.id)
            ):
                self._note(order, running, (chosen.queue, chosen.key), (job.queue, job.key))
        return chosen

    def _note(
        self, order: Order, running: Running, mine: tuple[str, str], passed: tuple[str, str]
    ) -> None:
        """Note why a group goes before an older job of another."""
        if mine != passed and (mine[1] == "") == (passed[1] == ""):
            equal = running.groups[mine] == running.groups[passed]
            self.seen[f"{order}: {'last start' if equal else 'fewer running'} decided"] += 1

    def _has_room(self, job: Job, running: int) -> bool:
        key = self.limits.keys[job.key]
        return (
            not key.paused
            and key.full_until is None
            and _below(running, self.limits.cap(job.key))
            and _below(running, job.cap)
        )


def _below(count: int, cap: int | None) -> bool:
    return cap is None or count < cap
