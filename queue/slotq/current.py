"""The job that runs here: what its body can ask and say."""

import time
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from slotq import checks
from slotq.errors import InvalidValue, SlotqError
from slotq.store.claims import Claim

if TYPE_CHECKING:
    from concurrent.futures import Future

PROGRESS_CHARACTERS: Final = 200
MOST_PROGRESS: Final = 2**53

_current: ContextVar["Run"] = ContextVar("slotq_run")


def current_job() -> "CurrentJob":
    """Return the job whose body calls this, in its thread, its coroutine or a task made there.

    Raises:
        SlotqError: No job runs here.
    """
    run = run_here()
    if run is None:
        raise SlotqError("no job runs here: current_job() is for the body of a task")
    return CurrentJob(run)


def run_here() -> "Run | None":
    """Return the run whose body calls this; None outside one."""
    return _current.get(None)


class Run:
    """One run of a job, as its worker keeps it.

    Attributes:
        claim: What was claimed.
        file: The queue file that it comes from.
        lease: What ends the run.
        lost: Whether the lease is lost.
        cancelled: Whether its end was asked for.
        began_s: When the body began, on the monotonic clock; 0 before.
        calls: Calls in threads that its body made on the event loop, and that have not ended.
        news: What the body last said of its progress: the share, and a text; None if nothing.
    """

    def __init__(self, claim: Claim, file: Path, tell: Callable[["Run"], None]) -> None:
        self.claim = claim
        self.file = file
        self.lease = claim.lease
        self.lost = False
        self.cancelled = False
        self.began_s = 0.0
        self.calls: set[Future[object]] = set()
        self.news: tuple[float | None, str] | None = None
        self._tell = tell

    @property
    def is_last(self) -> bool:
        """Whether the job has failed if this attempt fails."""
        return self.claim.attempt >= self.claim.max_attempts

    @property
    def is_overdue(self) -> bool:
        """Whether its time is over."""
        timeout_ms = self.claim.timeout_ms
        if timeout_ms is None or not self.began_s:
            return False
        return (time.monotonic() - self.began_s) * 1000 > timeout_ms

    @property
    def log_extra(self) -> dict[str, object]:
        """What its log records carry."""
        claim = self.claim
        key = claim.key or None
        return {"job": claim.id, "task": claim.task, "key": key, "attempt": claim.attempt}

    def begin(self) -> None:
        """Note that the body begins, here and now."""
        self.began_s = time.monotonic()
        _current.set(self)

    def say(self, share: float | None, text: str) -> None:
        """Keep what the body says of its progress, for the worker to write."""
        self.news = (share, text)
        self._tell(self)


class CurrentJob:
    """A running job, as its own body sees it."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    @override
    def __repr__(self) -> str:
        return f"<CurrentJob {self.id} {self.task} attempt {self.attempt}>"

    @property
    def id(self) -> int:
        """The job's number."""
        return self._run.claim.id

    @property
    def task(self) -> str:
        """Name of its task."""
        return self._run.claim.task

    @property
    def queue(self) -> str:
        """Name of its queue."""
        return self._run.claim.queue

    @property
    def key(self) -> str | None:
        """The key that it is limited by; None for none."""
        return self._run.claim.key or None

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._run.claim.attempt

    @property
    def max_attempts(self) -> int:
        """Attempts before the job has failed."""
        return self._run.claim.max_attempts

    @property
    def is_last(self) -> bool:
        """Whether the job has failed if this attempt fails."""
        return self._run.is_last

    @property
    def lost(self) -> bool:
        """Whether its lease is lost.

        What the body returns will be dropped, and the job may run elsewhere by now.
        """
        return self._run.lost

    @property
    def cancelled(self) -> bool:
        """Whether its end was asked for: a body in a thread had better return soon."""
        return self._run.cancelled

    @property
    def overdue(self) -> bool:
        """Whether its time is over; a body in a thread goes on, but the attempt has failed."""
        return self._run.is_overdue

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Say how far it is; seen by others within half a second, at next to no cost.

        Args:
            done: How much is done, from 0.
            total: Of how much, above 0; None if that is not known.
            text: What it is doing, cut to 200 characters; "" for the numbers.

        Raises:
            InvalidValue: A number is out of its range.
        """
        share = None
        checks.number("done", done, 0, MOST_PROGRESS)
        if total is not None:
            checks.number("total", total, 0, MOST_PROGRESS)
            if total <= 0:
                raise InvalidValue(name="total", problem="must be above 0", value=total)
            share = min(1.0, done / total)
        if not text:
            text = f"{done:g}" if total is None else f"{done:g}/{total:g}"
        self._run.say(share, checks.fitted(str(text), PROGRESS_CHARACTERS))
