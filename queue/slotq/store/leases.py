"""Ends and renewals of leases: each with its token, or it changes nothing."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from slotq.model import State
from slotq.store import statements
from slotq.store.transaction import Reader, Tx

CANCELLED: Final = "cancelled while it ran"


@dataclass(frozen=True, slots=True)
class Success:
    """A body returned.

    Attributes:
        result: What it returned, as JSON; None to keep nothing.
    """

    result: str | None


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt failed.

    Attributes:
        error: One line.
        traceback: The whole story, or None.
        again_ms: How long to wait before the next attempt; None if there is none.
    """

    error: str
    traceback: str | None
    again_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The job is over without having been done.

    Attributes:
        error: Why, in one line.
    """

    error: str = CANCELLED


@dataclass(frozen=True, slots=True)
class HandBack:
    """The job was not done, and that is nobody's fault: no attempt is used.

    Attributes:
        delay_ms: How long to wait before the next attempt; None to wait in line again.
    """

    delay_ms: int | None = None


End = Success | Failure | Cancelled | HandBack
Lease = tuple[int, int]
"""The id of a job, and the token of the claim that has it."""


def end(tx: Tx, lease: Lease, how: End) -> State | None:
    """End a run.

    Returns:
        The state that the job is in now: ``cancelled`` if somebody asked for its end, and it did not
        succeed. None if the lease was not the caller's any more: then nothing has changed, and the
        outcome is void.
    """
    match how:
        case Success(result=result):
            done = tx.run(statements.FINISH_JOB, (*lease, tx.now, result))
            return "succeeded" if done else None
        case Failure(error=error, traceback=traceback, again_ms=again_ms):
            state: State = "failed" if again_ms is None else "scheduled"
            return _stop(tx, lease, state, again_ms, error=error, traceback=traceback)
        case Cancelled(error=error):
            return _stop(tx, lease, "cancelled", None, error=error)
        case HandBack(delay_ms=delay_ms):
            state = "waiting" if delay_ms is None else "scheduled"
            return _stop(tx, lease, state, delay_ms, unused=True)


def renew(tx: Tx, leases: Iterable[Lease]) -> list[Lease]:
    """Move the ends of leases to a full lease from now.

    A lease that has lapsed is renewed all the same if nobody has reaped it yet: a laptop slept.

    Returns:
        Those that are lost.
    """
    return [
        (job_id, token)
        for job_id, token in leases
        if tx.run(statements.RENEW_LEASE, {"id": job_id, "token": token, "now": tx.now}) == 0
    ]


def asked_to_end(reader: Reader, worker_id: int) -> list[Lease]:
    """Return the runs of a worker whose end somebody asked for."""
    return [
        (job_id, token) for job_id, token in reader.rows(statements.CANCELLING_JOBS, (worker_id,))
    ]


def tell_progress(tx: Tx, lease: Lease, share: float | None, text: str) -> None:
    """Keep what a body says of its progress; without the lease it is void."""
    job_id, token = lease
    told = {"id": job_id, "token": token, "progress": share, "text": text}
    tx.run(statements.SET_PROGRESS, told)


def _stop(
    tx: Tx,
    lease: Lease,
    state: State,
    delay_ms: int | None,
    *,
    error: str | None = None,
    traceback: str | None = None,
    unused: bool = False,
) -> State | None:
    job_id, token = lease
    values = {
        "id": job_id,
        "token": token,
        "now": tx.now,
        "state": state,
        "run_at": None if delay_ms is None else tx.now + delay_ms,
        "error": error,
        "traceback": traceback,
        "unused": unused,
    }
    found: State | None = tx.value(statements.STOP_JOB, values)
    return found
