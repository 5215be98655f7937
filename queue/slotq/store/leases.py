"""Ends and renewals of leases: each with its token, or it changes nothing."""

import random
from collections.abc import Iterable
from dataclasses import dataclass

from slotq.backoff import delay_ms
from slotq.store import statements
from slotq.store.transaction import Tx


@dataclass(frozen=True, slots=True)
class Success:
    """A body returned.

    Attributes:
        result: What it returned, as JSON; None to keep nothing.
    """

    result: str | None


@dataclass(frozen=True, slots=True)
class Failure:
    """A body failed.

    Attributes:
        error: One line.
        traceback: The whole story, or None.
        final: Whether trying again is of no use.
    """

    error: str
    traceback: str | None
    final: bool = False


@dataclass(frozen=True, slots=True)
class HandBack:
    """The job was not run: it waits again, and no attempt is used."""


End = Success | Failure | HandBack


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one lease ends."""

    job_id: int
    token: int
    attempt: int
    max_attempts: int
    end: End


def end(tx: Tx, outcome: Outcome) -> bool:
    """End a run.

    Returns:
        Whether the lease was still the caller's. If not, nothing has changed: the outcome is void.
    """
    mine = {"id": outcome.job_id, "token": outcome.token}
    match outcome.end:
        case Success(result=result):
            done = (outcome.job_id, outcome.token, tx.now, result)
            return tx.run(statements.FINISH_JOB, done) == 1
        case Failure(error=error, traceback=traceback, final=final):
            again = None
            if not final and outcome.attempt < outcome.max_attempts:
                again = tx.now + delay_ms(outcome.attempt, jitter=random.random())
            story = {"now": tx.now, "run_at": again, "error": error, "traceback": traceback}
            return tx.run(statements.FAIL_JOB, {**mine, **story}) == 1
        case HandBack():
            return tx.run(statements.HAND_BACK_JOB, mine) == 1


def renew(tx: Tx, leases: Iterable[tuple[int, int]]) -> list[int]:
    """Move the ends of leases to a full lease from now.

    A lease that has lapsed is renewed all the same if nobody has reaped it yet: a laptop slept.

    Args:
        tx: The transaction.
        leases: (job id, token) of each.

    Returns:
        Ids of the jobs whose lease is lost.
    """
    return [
        job_id
        for job_id, token in leases
        if tx.run(statements.RENEW_LEASE, {"id": job_id, "token": token, "now": tx.now}) == 0
    ]
