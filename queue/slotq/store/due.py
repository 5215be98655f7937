"""What falls due at an instant: lapsed leases, expired and scheduled jobs, holds, windows."""

import random
from typing import Final

from slotq.backoff import delay_ms
from slotq.store import events, history, hold_statements, leases, statements
from slotq.store.history import Cell, Place
from slotq.store.transaction import CLOCK_GRAIN_MS, Reader, Row, Tx

# Of each kind, in one transaction: some 8 ms at worst, then others get their turn.
BATCH: Final = 1_000
WORKER_LOST: Final = "worker lost"


def handle_due(tx: Tx, *, batch: int = BATCH) -> bool:
    """Handle what is due by now, the earliest of each kind first.

    Whoever counts slots or starts calls this first, in the same transaction: correctness never
    waits for a sweep.

    Returns:
        Whether more may be due: a kind had as many as one transaction handles.
    """
    now = tx.now
    if tx.period_end is not None and tx.period_end <= now:
        tx.turn_periods()
    due, lease, hold, opening, expiry = tx.rows(statements.FIRST_DUE)[0]
    most = 0
    if lease is not None and lease <= now:
        most = reap(tx, batch)
    if expiry is not None and expiry <= now:
        most = max(most, tx.run(statements.EXPIRE_JOBS, (now, batch)))
    if due is not None and due <= now:
        most = max(most, tx.run(statements.WAKE_SCHEDULED, (now, batch)))
    if hold is not None and hold <= now:
        most = max(most, tx.run(statements.DROP_HOLDS, (now, batch)))
    if opening is not None and opening <= now:
        most = max(most, tx.run(statements.OPEN_KEYS, (now, batch)))
    return most >= batch


def handle_key(tx: Tx, key_id: int) -> None:
    """Handle all that is due of one key and counts for its room, however much is due elsewhere."""
    due = {"key": key_id, "now": tx.now}
    _take_back(tx, tx.rows(hold_statements.LAPSED_LEASES_OF_KEY, due))
    tx.run(hold_statements.DROP_HOLDS_OF_KEY, due)
    tx.run(hold_statements.OPEN_KEY, due)


def next_due(tx: Tx) -> int | None:
    """Return the earliest instant at which something falls due, in milliseconds, or None."""
    instants = [tx.period_end, *tx.rows(statements.FIRST_DUE)[0]]
    return min((at for at in instants if at is not None), default=None)


def is_due(reader: Reader, now: int) -> bool:
    """Tell whether anything has fallen due, without the write lock; also a clock set back is."""
    kept, period_end = reader.rows(statements.READ_CLOCK)[0]
    if kept - now >= CLOCK_GRAIN_MS:
        return True
    instants = (period_end, *reader.rows(statements.FIRST_DUE)[0])
    return any(at is not None and at <= now for at in instants)


def reap(tx: Tx, batch: int = BATCH) -> int:
    """Take back jobs whose lease has lapsed; each has used its attempt.

    Returns:
        How many.
    """
    return _take_back(tx, tx.rows(statements.LAPSED_LEASES, (tx.now, batch)))


def _take_back(tx: Tx, lapsed: list[Row]) -> int:
    lost: dict[Place, Cell] = {}
    for job_id, token, attempt, max_attempts, queue_id, key_id in lapsed:
        again_ms = delay_ms(attempt, jitter=random.random()) if attempt < max_attempts else None
        how = leases.Failure(WORKER_LOST, None, again_ms)
        state = leases.end(tx, (job_id, token), how)
        events.note_lost(tx, job_id)
        if state != "cancelled":
            lost.setdefault(history.place("queue", tx.now, queue_id), Cell()).failures += 1
            if key_id:
                lost.setdefault(history.place("key", tx.now, key_id), Cell()).failures += 1
    if lost:
        history.add(tx, lost)
    return len(lapsed)
