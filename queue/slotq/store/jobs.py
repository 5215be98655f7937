"""Jobs: put in line, cancelled, tried again, deleted."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

from slotq.errors import InvalidValue, JobNotFound
from slotq.model import State
from slotq.store import statements
from slotq.store.transaction import Tx, Value

UNLIMITED: Final = 2_147_483_647


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What jobs of one enqueue have in common, checked already.

    Attributes:
        task: Name of their task.
        queue: Name of their queue.
        cap: Their own max_running; ``UNLIMITED`` for none.
        priority: Higher goes first.
        delay_ms: Wait from the moment they are stored.
        run_at: Or the instant itself, in milliseconds; None to go by ``delay_ms``.
        expires_in_ms: When they may no longer start, from the moment they are stored.
        expires_at: Or the instant itself; None, with None above, for never.
        max_attempts: Attempts before a job has failed.
        timeout_ms: How long a body may run; None for as long as it likes.
        dedupe: No second job with this value while the first has not ended; None for any number.
        store_result: Whether to keep what the body returns.
    """

    task: str
    queue: str = "default"
    cap: int = UNLIMITED
    priority: int = 0
    delay_ms: int = 0
    run_at: int | None = None
    expires_in_ms: int | None = None
    expires_at: int | None = None
    max_attempts: int = 5
    timeout_ms: int | None = 300_000
    dedupe: str | None = None
    store_result: bool = True


class Call(NamedTuple):
    """What tells one job of an enqueue from the next.

    Attributes:
        args: Positional arguments, a JSON array.
        kwargs: Named arguments, a JSON object.
        key: Its key; "" for none.
    """

    args: str
    kwargs: str
    key: str


Place = tuple[int, int, int]


def add(tx: Tx, terms: Terms, call: Call) -> tuple[int, bool]:
    """Store a job.

    Returns:
        Its id, and whether it is new: with ``dedupe`` it may be that of one stored before.
    """
    if terms.dedupe is not None:
        found: int | None = tx.value(statements.FIND_DUPLICATE, (terms.dedupe,))
        if found is not None:
            return found, False
    return add_many(tx, terms, (call,))[0], True


def add_many(tx: Tx, terms: Terms, calls: Sequence[Call]) -> range:
    """Store jobs, without a look at ``dedupe``; their ids follow one another in the order given."""
    first = (tx.value(statements.LAST_ID) or 0) + 1
    run_at = tx.now + terms.delay_ms if terms.run_at is None else terms.run_at
    expires_at = terms.expires_at
    if terms.expires_in_ms is not None:
        expires_at = tx.now + terms.expires_in_ms
    same = (
        -terms.priority, run_at, "scheduled" if run_at > tx.now else "waiting",
        terms.max_attempts, terms.store_result, terms.timeout_ms, expires_at, tx.now, terms.dedupe,
        terms.task,
    )  # fmt: skip
    places = _places(tx, terms, {call.key for call in calls})
    rows: list[tuple[Value, ...]] = [(*places[key], args, kwargs) for args, kwargs, key in calls]
    at_once = statements.JOBS_AT_ONCE
    end = len(rows) - len(rows) % at_once
    for at in range(0, end, at_once):
        values = (first + at, *same, *chain.from_iterable(rows[at : at + at_once]))
        tx.run(statements.ADD_JOBS, values)
    for at in range(end, len(rows)):
        tx.run(statements.ADD_JOB, (first + at, *same, *rows[at]))
    return range(first, first + len(calls))


def cancel(tx: Tx, job_id: int) -> bool:
    """Cancel a job, or ask its worker to end it if it runs.

    Returns:
        Whether it is cancelled or asked to end; False if the job had ended before.

    Raises:
        JobNotFound: There is no such job.
    """
    if tx.run(statements.CANCEL_JOB, (tx.now, job_id)):
        return True
    if tx.run(statements.ASK_FOR_END, (job_id,)):
        return True
    _look(tx, job_id)
    return False


def retry(tx: Tx, job_id: int) -> None:
    """Put a failed or cancelled job in line again, with all its attempts.

    Raises:
        JobNotFound: There is no such job.
        InvalidValue: It is in another state, or another job with its dedupe value has not ended.
    """
    state, dedupe = _look(tx, job_id)
    if state not in {"failed", "cancelled"}:
        raise InvalidValue(
            name=f"job {job_id}",
            problem=f"is {state}: only a failed or cancelled one can be retried",
        )
    if dedupe is not None:
        other: int | None = tx.value(statements.FIND_DUPLICATE, (dedupe,))
        if other is not None:
            raise InvalidValue(
                name=f"job {job_id}",
                problem=f"cannot be retried: job {other} with its dedupe value has not ended",
            )
    tx.run(statements.RETRY_JOB, {"id": job_id, "now": tx.now})


def delete(tx: Tx, job_id: int) -> None:
    """Delete a job.

    Raises:
        JobNotFound: There is no such job.
        InvalidValue: It is running.
    """
    if not tx.run(statements.DELETE_JOB, (job_id,)):
        _look(tx, job_id)
        raise InvalidValue(
            name=f"job {job_id}", problem="is running: it can be deleted once it has ended"
        )


def prune(tx: Tx, finished_before: int, batch: int) -> int:
    """Delete the oldest finished jobs that ended by an instant; return how many."""
    return tx.run(statements.PRUNE_JOBS, (finished_before, batch))


def prune_keys(tx: Tx, after: int, batch: int) -> int | None:
    """Drop keys with nothing to remember among the next ``batch`` keys.

    A key is remembered while it has a job, a hold, a pause, an exact limit, or a mark in a window.

    Args:
        tx: The transaction.
        after: Where to go on: 0, or what the last call returned.
        batch: How many keys to look at.

    Returns:
        Where to go on; None at the end of the table.
    """
    found: tuple[int | None, int] = tx.rows(statements.NEXT_KEYS, (after, batch))[0]
    last, looked = found
    if last is not None:
        tx.run(statements.PRUNE_KEYS, {"after": after, "last": last, "now": tx.now})
    return last if looked == batch else None


def _places(tx: Tx, terms: Terms, keys: set[str]) -> dict[str, Place]:
    """Find the lanes of jobs by key, with their queue and key; make what is not there."""
    if len(keys) == 1:
        (key,) = keys
        found = tx.row(statements.FIND_PLACE, (terms.queue, key, terms.cap))
        if found is not None:
            return {key: (found[0], found[1], found[2])}
    queue_id = find_or_add_queue(tx, terms.queue)
    places = _look_up(tx, keys, queue_id, terms.cap)
    missing = keys - places.keys()
    if missing:
        texts = _texts(missing)
        tx.run(statements.ADD_KEYS, (texts,))
        tx.run(statements.ADD_LANES, (texts, queue_id, terms.cap))
        places |= _look_up(tx, missing, queue_id, terms.cap)
    return places


def _look_up(tx: Tx, keys: set[str], queue_id: int, cap: int) -> dict[str, Place]:
    found = tx.rows(statements.FIND_PLACES, (_texts(keys), queue_id, cap))
    return {key: (lane_id, queue, key_id) for key, lane_id, queue, key_id in found}


def _texts(keys: set[str]) -> str:
    # In order of the keys, since their index is in that order.
    return json.dumps(sorted(keys), ensure_ascii=False)


def find_or_add_queue(tx: Tx, name: str) -> int:
    """Return the id of a queue, made if it is new."""
    found: int | None = tx.value(statements.FIND_QUEUE, (name,))
    return _added(tx, statements.ADD_QUEUE, (name,)) if found is None else found


def _added(tx: Tx, statement: str, values: tuple[Value, ...]) -> int:
    added: int = tx.value(statement, values)
    return added


def _look(tx: Tx, job_id: int) -> tuple[State, str | None]:
    found = tx.row(statements.JOB_STATE, (job_id,))
    if found is None:
        raise JobNotFound(job_id=job_id)
    return found[0], found[1]
