"""Nobody starves: a flood on one key, and a key at its limit at the head of the line."""

import asyncio
import itertools
import time
from pathlib import Path

import pytest

from slotq import Queue, Worker
from slotq.model import Order
from support import ledger
from support.history import Event
from support.probe_tasks import command
from support.procs import auntil, processes, until
from support.serving import count_commits, serving


def nothing(number: int) -> None: ...


def waits(events: list[Event], key: str) -> int:
    """Return how many other jobs started between the arrival and the start of a key's one job."""
    (job,) = [e.job for e in events if e.kind == "enqueued" and e.key == key]
    kinds = [(e.kind, e.job) for e in events if e.kind in {"enqueued", "start"}]
    between = kinds[kinds.index(("enqueued", job)) : kinds.index(("start", job))]
    return sum(kind == "start" for kind, _ in between)


@pytest.mark.parametrize(("order", "slots"), [("fair", 2), ("round-robin", 1)])
async def test_a_flood_on_one_key_starves_nobody(tmp_path: Path, order: Order, slots: int) -> None:
    """Field case 28: five single jobs behind a flood that is refilled all the time."""
    queue = Queue(tmp_path / "jobs.db")
    queue.stats()
    ledger.keep(queue.path)
    running: dict[str, int] = {}
    most = 0

    @queue.task(key="{key}")
    async def body(key: str) -> None:
        nonlocal most
        running[key] = running.get(key, 0) + 1
        most = max(most, running[key])
        await asyncio.sleep(0)
        running[key] -= 1

    body.enqueue_many([("A",)] * 5_000)
    async with serving(*(Worker(queue, slots=1, order=order) for _ in range(slots))):
        await auntil(lambda: queue.stats().succeeded > 50)
        for key in "BCDEF":
            await body.aenqueue(key)
            await body.aenqueue_many([("A",)] * 100)
        await auntil(lambda: len(running) == 6)
        # Alone, A has all slots; what is left of it is of no interest.
        most = 0
        await auntil(lambda: most == slots)
        with queue.database.write() as tx:
            tx.run("UPDATE slotq_jobs SET state = 'cancelled', finished_at = 0 "
                   "WHERE state = 'waiting'")  # fmt: skip
    events = ledger.read(queue.path)
    assert [key for key in "BCDEF" if waits(events, key) > 10] == []
    queue.close()


def test_claims_stay_quick_over_many_jobs_and_keys(tmp_path: Path) -> None:
    """Field case 28: under 20 ms a claim at 50,000 ready jobs over 5,000 keys."""
    queue = Queue(tmp_path / "jobs.db")
    ran: list[float] = []

    @queue.task(key="{key}")
    async def body(key: str) -> None:
        ran.append(time.perf_counter())
        if len(ran) == 500:
            worker.stop()

    queue.set_limit("*", max_running=3)
    body.enqueue_many([(f"k{number % 5_000}",) for number in range(50_000)])
    worker = Worker(queue, slots=1)
    asyncio.run(worker.serve())
    gaps = sorted(after - before for before, after in itertools.pairwise(ran))
    assert gaps[len(gaps) * 95 // 100] < 0.02
    queue.close()


def test_a_key_at_its_limit_stands_in_nobody_s_way(tmp_path: Path) -> None:
    """Field case 29: B goes at once; then, with all blocked, workers sleep and write nothing."""
    queue = Queue(tmp_path / "jobs.db")
    queue.set_limit("A", max_running=1)
    task = queue.task(name="gate", key="A", priority=1_000)(nothing)
    commands = [command(queue.path, "--lease", "3600", "--slots", "1")] * 4
    with processes(commands, tmp_path) as workers:
        until(lambda: len(queue.workers()) == 4)
        blocking = queue.enqueue("gate", args=[0], key="A", priority=1_001)
        until(lambda: queue.job(blocking.id).state == "running")
        task.enqueue_many([(0,)] * 20_000)
        other = queue.enqueue("mark", args=[1], key="B", priority=-1_000)
        other.wait(timeout=20)
        # What was counted for charts is written after a second.
        until(lambda: count_commits(queue.path, 1.2) == 0)
        used_s, began_s = [worker.cpu_s() for worker in workers], time.monotonic()
        commits = count_commits(queue.path, 2)
        took_s = time.monotonic() - began_s
        spent_s = sum(worker.cpu_s() - was for worker, was in zip(workers, used_s, strict=True))
        assert commits <= len(workers)  # each takes a turn every 10 s, for a sample
        assert spent_s / took_s < 0.1  # the gate itself polls
        assert queue.key("A").running == 1
        (tmp_path / "open").touch()
        until(lambda: queue.job(blocking.id).state == "succeeded")
        for worker in workers:
            worker.kill()
    queue.close()
