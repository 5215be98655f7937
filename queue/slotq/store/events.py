"""Events: noted in the transaction of the thing itself, and listed."""

from typing import Final

from slotq import checks
from slotq.event import Event, EventKind
from slotq.store import queries, statements
from slotq.store.rows import event_of
from slotq.store.transaction import Reader, Tx

TEXT_CHARACTERS: Final = 500


def note(
    tx: Tx,
    kind: EventKind,
    *,
    key: str | None = None,
    queue: str | None = None,
    job_id: int | None = None,
    text: str = "",
    by: str = "",
) -> None:
    """Note that something happens in this transaction; the schema forgets the oldest."""
    told = {
        "at": tx.now,
        "kind": kind,
        "key": key,
        "queue": queue,
        "job": job_id,
        "text": checks.fitted(text, TEXT_CHARACTERS),
        "by": checks.fitted(by, TEXT_CHARACTERS),
    }
    tx.run(statements.ADD_EVENT, told)


def note_lost(tx: Tx, job_id: int) -> None:
    """Note that a job was taken back from the worker that had it."""
    tx.run(statements.ADD_LOST_EVENT, (tx.now, job_id))


def list_events(
    reader: Reader, *, limit: int, after: int | None = None, kind: EventKind | None = None
) -> list[Event]:
    """Return events, the oldest first.

    Args:
        reader: Of the file.
        limit: Most events.
        after: Only those with a greater number, from there on; None for the newest ones.
        kind: Only those of this kind; None for any.
    """
    wanted = {"kind": kind, "limit": limit}
    if after is not None:
        rows = reader.rows(queries.LIST_EVENTS, {**wanted, "after": after})
        return [event_of(row) for row in rows]
    return [event_of(row) for row in reversed(reader.rows(queries.LIST_LAST_EVENTS, wanted))]
