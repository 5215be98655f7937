"""Fair order over several workers: each slot that one of them frees goes to the poorest group."""

from collections.abc import Callable
from pathlib import Path

import pytest

from slotq import Queue
from support import fairness, history, ledger
from support.probe_tasks import command
from support.procs import processes, until

WORKERS = 3
SMALL = ("b", "c", "d", "e", "f")
EACH = 20
FLOOD = 400


@pytest.mark.slow
def test_each_freed_slot_goes_to_the_group_with_the_fewest_running(tmp_path: Path) -> None:
    """Three workers of one slot, one tenant with a flood, five with a few jobs now and then."""
    queue = Queue(tmp_path / "jobs.db", lock_timeout=30)
    queue.stats()
    ledger.keep(queue.path)
    flood = queue.task(name="work", key="a")(nothing)
    with processes([command(queue.path, "--slots", "1")] * WORKERS, tmp_path) as workers:
        until(lambda: len(queue.workers()) == WORKERS)
        flood.enqueue_many([(0, "a", 0.004)] * FLOOD)
        for turn in range(EACH):
            for number, key in enumerate(SMALL):
                # Of different lengths, so that slots are freed one by one.
                seconds = 0.002 + 0.001 * ((turn + number) % 4)
                queue.enqueue("work", args=[0, key, seconds], key=key)
            # Some are there together, some alone: not more than a few wait at once.
            until(has_at_most(queue, turn % 4))
        until(lambda: queue.stats().succeeded == FLOOD + EACH * len(SMALL))
        assert all(worker.is_alive for worker in workers)
    events = ledger.read(queue.path)
    assert history.judge(events).broken == []
    found = fairness.judge(events)
    assert found.broken == []
    assert found.choices > EACH, "all groups were alike: nothing was proved"
    assert found.ties > EACH
    kinds = [(event.kind, event.key) for event in events if event.kind == "start"]
    last_small = max(kinds.index(start) for start in kinds if start[1] != "a")
    assert any(key == "a" for _, key in kinds[last_small:]), "the flood was over too soon"
    assert len({job.worker for job in queue.jobs(limit=1_000)}) == WORKERS
    queue.close()


def has_at_most(queue: Queue, waiting: int) -> Callable[[], bool]:
    """Return a look at whether so few jobs of the small tenants wait, or fewer."""
    return lambda: sum(queue.key(key).waiting for key in SMALL) <= waiting


def nothing(_number: int, _key: str, _seconds: float) -> None: ...
