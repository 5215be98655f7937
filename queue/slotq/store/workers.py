"""Registered workers: who they are, and when they were last seen."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from slotq.model import Order
from slotq.store import events, statements
from slotq.store.transaction import Tx

# A worker not seen for this many of its leases is gone; the leases it had lapsed long before.
GONE_LEASES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a worker tells of itself."""

    pid: int
    host: str
    queues: Sequence[str] | None
    slots: int
    order: Order
    lease_ms: int
    tasks: Iterable[str]


def register(tx: Tx, worker: Registration, worker_id: int | None = None) -> int:
    """Add a worker; return its id. With ``worker_id`` it comes back as the one it was."""
    added: int = tx.value(
        statements.ADD_WORKER,
        {
            "id": worker_id,
            "pid": worker.pid,
            "host": worker.host,
            "queues": json.dumps(None if worker.queues is None else list(worker.queues)),
            "slots": worker.slots,
            "claim_order": worker.order,
            "lease_ms": worker.lease_ms,
            "now": tx.now,
            "tasks": json.dumps(sorted(worker.tasks)),
        },
    )
    queues = "every queue" if worker.queues is None else ", ".join(worker.queues)
    text = f"worker {added}, {worker.slots} slots, {queues}"
    events.note(tx, "worker_started", text=text, by=f"{worker.host}:{worker.pid}")
    return added


def see(tx: Tx, worker_id: int, worker: Registration) -> None:
    """Note that a worker lives, and drop those that do not."""
    if not tx.run(statements.SEE_WORKER, (tx.now, worker_id)):
        register(tx, worker, worker_id)
    drop_gone(tx)


def drop_gone(tx: Tx) -> None:
    """Drop workers that have not been seen for long."""
    gone = tx.rows(statements.DROP_GONE_WORKERS, {"leases": GONE_LEASES, "now": tx.now})
    for worker_id, pid, host in gone:
        text = f"worker {worker_id} was not seen for {GONE_LEASES} of its leases"
        events.note(tx, "worker_dead", text=text, by=f"{host}:{pid}")


def bury(tx: Tx, worker_id: int) -> None:
    """Remove a worker that is known to be dead: what it ran is due to be taken back at once."""
    tx.run(statements.LAPSE_LEASES, {"now": tx.now, "id": worker_id})
    for pid, host in tx.rows(statements.DROP_WORKER, (worker_id,)):
        text = f"worker {worker_id} was killed"
        events.note(tx, "worker_dead", text=text, by=f"{host}:{pid}")


def drop(tx: Tx, worker_id: int) -> None:
    """Remove a worker that leaves."""
    for pid, host in tx.rows(statements.DROP_WORKER, (worker_id,)):
        events.note(tx, "worker_stopped", text=f"worker {worker_id}", by=f"{host}:{pid}")


def has_work(tx: Tx, queues: Sequence[str] | None) -> bool:
    """Tell whether any job waits in these queues that a pause does not keep."""
    names = None if queues is None else json.dumps(list(queues))
    return tx.row(statements.ANY_WAITING, {"queues": names}) is not None
