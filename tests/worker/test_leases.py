"""Leases: renewed whatever bodies do, lost only by lapsing, and worth nothing once lost."""

import threading
from datetime import UTC, datetime

import pytest

from slotq import Job, Queue, Worker
from slotq.store.due import handle_due
from slotq.testing import ManualClock
from support.procs import auntil, until
from support.serving import has_succeeded, serving, serving_in_thread

# Heartbeats come in real time, each third of this: too seldom for a test to see one.
LONG_S = 3_600


def now(clock: ManualClock) -> datetime:
    return datetime.fromtimestamp(clock.now_ms() / 1_000, UTC)


def lapse(queue: Queue, clock: ManualClock, job: Job) -> None:
    """Let a job's lease lapse, and have somebody else notice before its worker can."""
    with queue.database.write() as tx:
        clock.advance(LONG_S * 1_000)
        tx.now = clock.now_ms()
        handle_due(tx)
    assert queue.job(job.id).error == "worker lost"


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_lease_is_renewed_while_its_body_blocks_all_that_it_can(
    queue: Queue, clock: ManualClock, kind: str
) -> None:
    gate, begun = threading.Event(), threading.Event()

    def body() -> str:
        begun.set()
        gate.wait(30)
        return "done"

    async def blocking() -> str:
        return body()  # the event loop stands still

    job = queue.task(name="t")(body if kind == "plain" else blocking).enqueue()
    with serving_in_thread(Worker(queue, lease=1)):
        begun.wait(20)
        for _ in range(4):
            clock.advance(600)
            # Renewed by the heartbeat, not by the claim.
            until(lambda: (at := queue.job(job.id).lease_until) and (at - now(clock)).seconds == 1)
            queue.key("nobody")
        gate.set()
    done = queue.job(job.id)
    assert (done.state, done.attempt, done.result) == ("succeeded", 1, "done")


def test_a_lease_that_lapsed_unnoticed_is_renewed_all_the_same(
    queue: Queue, clock: ManualClock
) -> None:
    """A laptop slept: nobody took the job meanwhile, so it is still its worker's."""
    gate, begun = threading.Event(), threading.Event()

    @queue.task
    def body() -> None:
        begun.set()
        gate.wait(30)

    job = body.enqueue()
    # With its slots full the worker looks at nothing else, and reaps nobody.
    with serving_in_thread(Worker(queue, lease=1, slots=1)):
        begun.wait(20)
        clock.advance(86_400_000)
        until(lambda: (at := queue.job(job.id).lease_until) and at > now(clock))
        gate.set()
    assert (queue.job(job.id).state, queue.job(job.id).attempt) == ("succeeded", 1)


def test_the_outcome_of_a_lost_lease_is_dropped(
    queue: Queue, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    gate, begun = threading.Event(), threading.Event()

    @queue.task(key="k")
    def body() -> str:
        begun.set()
        gate.wait(30)
        return "zombie"

    job = body.enqueue()
    with serving_in_thread(Worker(queue, slots=1, lease=LONG_S)):
        begun.wait(20)
        lapse(queue, clock, job)
        before = queue.job(job.id)
        assert (before.state, before.attempt, queue.key("k").running) == ("scheduled", 1, 0)
        queue.cancel(job.id)
        gate.set()
        until(lambda: "its lease is lost; what its body returns is dropped" in caplog.text)
    found = queue.job(job.id)
    assert (found.state, found.result, found.attempt) == ("cancelled", None, 1)
    assert queue.key("k").running == 0


def test_a_body_whose_lease_is_lost_keeps_its_worker_slot(queue: Queue, clock: ManualClock) -> None:
    gates, running, most = [threading.Event(), threading.Event()], 0, 0
    begun: list[str] = []
    lock = threading.Lock()

    @queue.task
    def body() -> str:
        nonlocal running, most
        with lock:
            number = len(begun)
            begun.append("run")
            running += 1
            most = max(most, running)
        gates[number].wait(30)
        with lock:
            running -= 1
        return f"run {number}"

    job = body.enqueue()
    with serving_in_thread(Worker(queue, slots=1, lease=LONG_S)):
        until(lambda: len(begun) == 1)
        lapse(queue, clock, job)
        clock.advance(1_000)
        queue.key("nobody")
        assert queue.job(job.id).state == "waiting"
        gates[0].set()
        until(lambda: len(begun) == 2)
        gates[1].set()
    done = queue.job(job.id)
    assert (done.state, done.attempt, done.result, most) == ("succeeded", 2, "run 1", 1)


def test_a_job_whose_worker_is_always_lost_fails_in_the_end(
    queue: Queue, clock: ManualClock
) -> None:
    """One that kills its worker stops after its attempts."""
    gate = threading.Event()
    begun: list[int] = []

    @queue.task(max_attempts=2)
    def body() -> None:
        begun.append(1)
        gate.wait(30)

    job = body.enqueue()
    with serving_in_thread(Worker(queue, slots=4, lease=LONG_S)):
        until(lambda: len(begun) == 1)
        lapse(queue, clock, job)
        assert queue.job(job.id).state == "scheduled"
        clock.advance(1_000)
        until(lambda: len(begun) == 2)
        lapse(queue, clock, job)
        assert queue.job(job.id).state == "failed"
        gate.set()
    found = queue.job(job.id)
    assert (found.state, found.attempt, found.error) == ("failed", 2, "worker lost")


def test_a_lost_lease_is_told_once(
    queue: Queue, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    gate, begun = threading.Event(), threading.Event()

    @queue.task
    def body() -> None:
        begun.set()
        gate.wait(30)

    job = body.enqueue()
    with serving_in_thread(Worker(queue, slots=1, lease=1)):
        begun.wait(20)
        with queue.database.write() as tx:
            tx.run(
                "UPDATE slotq_jobs SET state = 'waiting', attempt = attempt - 1, lease_until = NULL"
            )
        assert queue.cancel(job.id)
        until(lambda: "its lease is lost" in caplog.text)
        (info,) = queue.workers()
        for _ in range(3):
            clock.advance(10)
            until(lambda: queue.workers()[0].seen_at == now(clock))
        gate.set()
    assert caplog.text.count("its lease is lost; what its body returns is dropped") == 1
    assert info.running == 0


def test_a_worker_that_was_forgotten_comes_back_as_the_one_it_was(
    queue: Queue, clock: ManualClock
) -> None:
    with serving_in_thread(Worker(queue, lease=1)):
        (info,) = until(queue.workers)
        with queue.database.write() as tx:
            tx.run("DELETE FROM slotq_workers")
        (again,) = until(queue.workers)
    assert (again.id, again.slots, again.tasks) == (info.id, info.slots, info.tasks)


def test_workers_not_seen_for_long_are_dropped(queue: Queue, clock: ManualClock) -> None:
    with queue.database.write() as tx:
        tx.run(
            "INSERT INTO slotq_workers (pid, host, queues, slots, claim_order, lease_ms,"
            " started_at, seen_at, tasks)"
            " VALUES (1, 'gone', 'null', 1, 'fair', 1000, 0, ?, '[]')",
            (clock.now_ms(),),
        )
    with serving_in_thread(Worker(queue, lease=1)):
        until(lambda: len(queue.workers()) == 2)
        clock.advance(3_001)
        until(lambda: len(queue.workers()) == 1)
        assert queue.workers()[0].host != "gone"


async def test_lapsed_leases_are_reaped_by_any_idle_worker(
    queue: Queue, clock: ManualClock
) -> None:
    ran: list[int] = []
    body = queue.task(name="t")(ran.append)
    job = body.enqueue(1)
    with queue.database.write() as tx:
        tx.run(
            "UPDATE slotq_jobs SET state = 'running', token = 1, attempt = 1, started_at = ?1,"
            " lease_until = ?1 + 5000, lease_ms = 5000, worker_id = 99",
            (clock.now_ms(),),
        )
    async with serving(Worker(queue)):
        await auntil(queue.workers)
        clock.advance(5_000)
        await auntil(lambda: queue.job(job.id).error == "worker lost")
        clock.advance(1_000)
        await auntil(lambda: queue.job(job.id).state == "succeeded")
    assert ran == [1]
    assert queue.job(job.id).attempt == 2


async def test_heartbeats_end_with_the_worker(queue: Queue, clock: ManualClock) -> None:
    async with serving(Worker(queue, lease=1)):
        await auntil(queue.workers)
    assert not [thread for thread in threading.enumerate() if thread.name == "slotq-heartbeat"]


def test_a_clock_set_forward_makes_no_worker_take_back_its_own(
    queue: Queue, clock: ManualClock
) -> None:
    gate, begun = threading.Event(), threading.Event()

    def body() -> None:
        begun.set()
        gate.wait(30)

    job = queue.task(name="t")(body).enqueue()
    short = queue.task(name="short")(lambda: None)
    with serving_in_thread(Worker(queue, slots=2, lease=LONG_S)):
        begun.wait(20)
        clock.advance(2 * LONG_S * 1_000)
        short.enqueue()
        until(has_succeeded(queue, 1))
        assert queue.job(job.id).state == "running"
        gate.set()
    assert (queue.job(job.id).state, queue.job(job.id).attempt) == ("succeeded", 1)


def test_what_one_worker_leaves_for_later_another_on_the_same_queue_does(
    queue: Queue, clock: ManualClock
) -> None:
    """They share a connection, so neither sees the commits of the other as foreign ones."""
    gate, begun = threading.Event(), threading.Event()

    def body() -> None:
        if not begun.is_set():
            begun.set()
            gate.wait(30)
            raise ValueError

    job = queue.task(name="t")(body).enqueue()
    first, second = Worker(queue, slots=1), Worker(queue, slots=1)
    with serving_in_thread(second):
        with serving_in_thread(first):
            begun.wait(20)
            until(lambda: len(queue.workers()) == 2)
            gate.set()
            until(lambda: queue.job(job.id).state == "scheduled")
        clock.advance(2_000)
        until(has_succeeded(queue, 1))
