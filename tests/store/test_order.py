"""What is put in line first goes first, also at one instant, and no number is given twice."""

from collections.abc import Callable

import pytest

from slotq.errors import JobNotFound
from slotq.model import ORDERS, Order
from slotq.store import claims, jobs, leases
from slotq.store.transaction import Tx
from slotq.testing import ManualClock
from support.stores import TERMS, Stores, add, job_ids


def finish_all(tx: Tx, order: Order) -> list[int]:
    """Claim one by one and finish each; return the ids in that order."""
    claimer = claims.Claimer(1, order, None, {"t"}, 30_000)
    done: list[int] = []
    while claimed := claims.claim(tx, claimer, 1):
        (one,) = claimed
        assert leases.end(tx, one.lease, leases.Success("1"))
        done.append(one.id)
    return done


@pytest.mark.parametrize("order", ORDERS)
def test_jobs_of_one_instant_run_as_they_were_stored(stores: Stores, order: Order) -> None:
    """Field case 31."""
    database = stores.open(clock=ManualClock())
    with database.write() as tx:
        stored = jobs.add_many(tx, TERMS, [jobs.Call("[]", "{}", "k")] * 100)
        assert finish_all(tx, order) == list(stored) == list(range(1, 101))


OLD: list[Callable[[Tx], object]] = [
    lambda tx: jobs.cancel(tx, 100),
    lambda tx: jobs.retry(tx, 100),
    lambda tx: jobs.delete(tx, 100),
]


def test_a_number_is_never_given_again(stores: Stores) -> None:
    """Field case 31: the newest row is gone, its number is not."""
    database = stores.open(clock=ManualClock())
    with database.write() as tx:
        jobs.add_many(tx, TERMS, [jobs.Call("[]", "{}", "k")] * 100)
        assert len(finish_all(tx, "fair")) == 100
        assert jobs.prune(tx, tx.now, 1_000) == 100
    assert (job_ids(database.path), add(database)) == ([], [101])
    with database.write() as tx:
        for use in OLD:
            with pytest.raises(JobNotFound):
                use(tx)
        assert not leases.end(tx, (100, 1), leases.Success("1"))
        assert leases.renew(tx, [(100, 1)]) == [(100, 1)]
    assert job_ids(database.path) == [101]
