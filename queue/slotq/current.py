"""The job that runs here: what its body can ask and say."""

import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

from typing_extensions import override

from slotq import checks
from slotq.errors import InvalidValue, SlotqError
from slotq.store.claims import Claim

PROGRESS_CHARACTERS: Final = 200
MOST_PROGRESS: Final = 2**53

_current: ContextVar["CurrentJob"] = ContextVar("slotq_current_job")


def current_job() -> "CurrentJob":
    """Return the job whose body calls this, in its thread, its coroutine or a task made there.

    Raises:
        SlotqError: No job runs here.
    """
    try:
        return _current.get()
    except LookupError:
        raise SlotqError("no job runs here: current_job() is for the body of a task") from None


class CurrentJob:
    """A running job, as its own body sees it.

    Attributes:
        id: The job.
        task: Name of its task.
        queue: Name of its queue.
        key: The key that it is limited by; None for none.
        attempt: Which attempt this is, from 1.
        max_attempts: Attempts before it has failed.
        lost: Whether its lease is lost: what the body returns will be dropped, and the job may run
            elsewhere by now.
        cancelled: Whether its end was asked for: a body in a thread had better return soon.
    """

    def __init__(self, claim: Claim, tell: Callable[["CurrentJob"], None]) -> None:
        self.id = claim.id
        self.task = claim.task
        self.queue = claim.queue
        self.key = claim.key or None
        self.attempt = claim.attempt
        self.max_attempts = claim.max_attempts
        self.lost = False
        self.cancelled = False
        self.claim = claim
        self.lease = claim.lease
        self.began_s = 0.0
        self.news: tuple[float | None, str] | None = None
        self._tell = tell

    @override
    def __repr__(self) -> str:
        return f"<CurrentJob {self.id} {self.task} attempt {self.attempt}>"

    @property
    def is_last(self) -> bool:
        """Whether the job has failed if this attempt fails."""
        return self.attempt >= self.max_attempts

    @property
    def overdue(self) -> bool:
        """Whether its time is over; a body in a thread goes on, but the attempt has failed."""
        timeout_ms = self.claim.timeout_ms
        if timeout_ms is None or not self.began_s:
            return False
        return (time.monotonic() - self.began_s) * 1000 > timeout_ms

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Say how far it is; seen by others within half a second or so, at next to no cost.

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
        self.news = (share, checks.fitted(str(text), PROGRESS_CHARACTERS))
        self._tell(self)

    def begin(self) -> None:
        """Note that the body begins, here and now."""
        self.began_s = time.monotonic()
        _current.set(self)

    @property
    def log_extra(self) -> dict[str, object]:
        """What its log records carry."""
        return {"job": self.id, "task": self.task, "key": self.key, "attempt": self.attempt}
