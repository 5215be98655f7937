"""Pauses: a key or a queue that claims skip. What that means for lanes is kept by the schema."""

import json

from slotq.store import events, jobs, statements
from slotq.store.transaction import Tx


def pause_key(tx: Tx, key: str, by: str) -> bool:
    """Pause a key, known or not; return whether it was not paused before."""
    tx.run(statements.ADD_KEYS, (json.dumps([key]),))
    return _set_key(tx, key, by, on=True)


def resume_key(tx: Tx, key: str, by: str) -> bool:
    """Let a key go on; return whether it was paused before."""
    return _set_key(tx, key, by, on=False)


def pause_queue(tx: Tx, queue: str, by: str) -> bool:
    """Pause a queue, known or not; return whether it was not paused before."""
    jobs.find_or_add_queue(tx, queue)
    return _set_queue(tx, queue, by, on=True)


def resume_queue(tx: Tx, queue: str, by: str) -> bool:
    """Let a queue go on; return whether it was paused before."""
    return _set_queue(tx, queue, by, on=False)


def _set_key(tx: Tx, key: str, by: str, *, on: bool) -> bool:
    is_changed = tx.run(statements.PAUSE_KEY, (on, key)) > 0
    if is_changed:
        events.note(tx, "paused" if on else "resumed", key=key, by=by)
    return is_changed


def _set_queue(tx: Tx, queue: str, by: str, *, on: bool) -> bool:
    is_changed = tx.run(statements.PAUSE_QUEUE, (on, queue)) > 0
    if is_changed:
        events.note(tx, "paused" if on else "resumed", queue=queue, by=by)
    return is_changed
