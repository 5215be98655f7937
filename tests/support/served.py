"""Workers and runs as a file shows them, with nobody there."""

from slotq import KeyRow, Queue, Snapshot
from slotq.store.workers import Registration, register


def rows(frame: Snapshot) -> dict[str, KeyRow]:
    return {row.key: row for row in frame.keys}


def serve(queue: Queue, *queues: str, lease_ms: int = 3_600_000) -> int:
    """Register a worker of these queues, or of all."""
    worker = Registration(
        pid=7,
        host="h",
        queues=queues or None,
        slots=9,
        order="fair",
        lease_ms=lease_ms,
        tasks=["t"],
    )
    with queue.database.write() as tx:
        return register(tx, worker)


def start(queue: Queue, *ids: int, lease_ms: int = 3_600_000) -> None:
    with queue.database.write() as tx:
        for job in ids:
            tx.run(
                "UPDATE slotq_jobs SET state = 'running', attempt = attempt + 1, token = token + 1, "
                "started_at = ?2, lease_until = ?2 + ?3, lease_ms = ?3, worker_id = 1 WHERE id = ?1",
                (job, tx.now, lease_ms),
            )
