"""Starts and ends of jobs without a worker, on a clock that a test moves."""

from collections.abc import Sequence
from datetime import datetime

from slotq import Queue
from slotq.store import claims, due, statements, workers

LEASE_MS = 30_000


def start(queue: Queue, most: int = 1, *, worker: int = 1, task: str = "t") -> list[claims.Claim]:
    """Start up to so many jobs, as a worker that knows one task would."""
    claimer = claims.Claimer(worker, "fair", None, {task}, LEASE_MS)
    with queue.database.write() as tx:
        while due.handle_due(tx):
            pass
        return claims.claim(tx, claimer, most)


def started(queue: Queue, most: int = 1) -> list[int]:
    """Start up to so many jobs; return their ids."""
    return [claim.id for claim in start(queue, most)]


def finish(queue: Queue, *claimed: claims.Claim) -> None:
    """End runs well."""
    with queue.database.write() as tx:
        for one in claimed:
            assert tx.run(statements.FINISH_JOB, (one.id, one.token, tx.now, None)) == 1


def registered(
    queue: Queue, *tasks: str, queues: Sequence[str] | None = None, lease_ms: int = LEASE_MS
) -> int:
    """Register a worker that does nothing; return its id."""
    worker = workers.Registration(
        pid=1, host="h", queues=queues, slots=4, order="fair", lease_ms=lease_ms, tasks=tasks
    )
    with queue.database.write() as tx:
        return workers.register(tx, worker)


def held(queue: Queue, key: str, slots: int, until: datetime, *, state: str = "held") -> int:
    """Take slots of a known key for a hold, or let it wait for them; return its id."""
    end_ms = int(until.timestamp() * 1000)
    sql = """INSERT INTO slotq_holds (key_id, slots, state, since, until, ttl_ms)
             SELECT id, ?, ?, ?, ?, ? FROM slotq_keys WHERE key = ? RETURNING id"""
    with queue.database.write() as tx:
        return int(tx.value(sql, (slots, state, tx.now, end_ms, end_ms - tx.now, key)))
