"""Claims: waiting jobs become running ones, in the order of one worker."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from slotq.model import Order
from slotq.store import statements
from slotq.store.leases import Lease
from slotq.store.transaction import Row, Tx

# Unkeyed starts in a row in a queue, after which the next start is a keyed job if one can start.
KEYED_FLOOR: Final = 15
NO_FLOOR: Final = 2_147_483_647

# Jobs of unknown tasks put back in one transaction, and for how long: doubling, or short when a
# registered worker knows the task.
UNKNOWN_BATCH: Final = 100
UNKNOWN_FIRST_MS: Final = 5_000
UNKNOWN_LAST_MS: Final = 300_000
UNKNOWN_KNOWN_MS: Final = 1_000

OFFERS: Final[dict[Order, str]] = {
    "fair": statements.OFFER_FAIR,
    "round-robin": statements.OFFER_ROBIN,
    "fifo": statements.OFFER_FIFO,
}
KEEPERS: Final[dict[Order, str]] = {
    "fair": statements.KEEP_FAIR,
    "round-robin": statements.KEEP_ROBIN,
    "fifo": statements.KEEP_FIFO,
}


class Claim(NamedTuple):
    """A job that has begun, and the right to end it."""

    run_at: int
    id: int
    token: int
    attempt: int
    max_attempts: int
    task: str
    args: str
    kwargs: str
    timeout_ms: int | None
    store_result: int
    queue: str
    key: str
    key_id: int

    @property
    def lease(self) -> Lease:
        """What ends it."""
        return self.id, self.token


WIDTH: Final = len(Claim._fields)


@dataclass(frozen=True, slots=True)
class Claimer:
    """Who claims, and how.

    Attributes:
        worker_id: The registered worker that gets the leases.
        order: The order of its claims.
        queues: Queues it serves; None for every queue, also new ones.
        tasks: Names of the tasks it knows.
        lease_ms: Length of its leases.
    """

    worker_id: int
    order: Order
    queues: Sequence[str] | None
    tasks: Container[str]
    lease_ms: int


def claim(tx: Tx, claimer: Claimer, want: int) -> list[Claim]:
    """Start up to ``want`` jobs; the same as that many claims of one.

    What is due must have been handled in this transaction.
    """
    claims: list[Claim] = []
    unknown = 0
    sql = OFFERS[claimer.order]
    queues = _queues(tx, claimer.queues)
    offers: dict[str, Row] = {}
    stale = queues
    # Where no keyed job can start: nothing that happens here brings one.
    unkeyed: set[str] = set()
    while len(claims) < want and unknown < UNKNOWN_BATCH:
        for queue in stale:
            offer = None if queue in unkeyed else tx.row(sql, (queue, KEYED_FLOOR))
            if offer is None:
                unkeyed.add(queue)
                offer = tx.row(sql, (queue, NO_FLOOR))
            if offer is None:
                offers.pop(queue, None)
            else:
                offers[queue] = offer
        if not offers:
            if not claims and tx.run(KEEPERS[claimer.order]):
                unkeyed.clear()
                continue
            break
        queue, offer = min(offers.items(), key=_place)
        job = Claim._make(offer[-WIDTH:])
        # The rest of an offer depends on its own queue, its room on its key in all.
        stale = [q for q, other in offers.items() if q == queue or other[-1] == job.key_id != 0]
        if job.task in claimer.tasks:
            _start(tx, claimer, job)
            claims.append(job)
        else:
            unknown += 1
            _put_back(tx, job.id)
    return claims


def _place(item: tuple[str, Row]) -> Row:
    """Where an offer stands among those of other queues: in the order of its statement."""
    return item[1][: 2 - WIDTH]


def _queues(tx: Tx, names: Sequence[str] | None) -> Sequence[str]:
    return [name for (name,) in tx.rows(statements.QUEUE_NAMES)] if names is None else names


def _start(tx: Tx, claimer: Claimer, job: Claim) -> None:
    started = tx.run(statements.START_JOB, (job.id, tx.now, claimer.lease_ms, claimer.worker_id))
    assert started == 1, "an offer is a waiting job, and nobody else writes"


def _put_back(tx: Tx, job_id: int) -> None:
    tx.run(
        statements.PUT_BACK_UNKNOWN,
        {
            "id": job_id,
            "now": tx.now,
            "known_ms": UNKNOWN_KNOWN_MS,
            "first_ms": UNKNOWN_FIRST_MS,
            "last_ms": UNKNOWN_LAST_MS,
        },
    )
