"""A frame judges by now what nobody has handled yet, and tells why nothing starts."""

from datetime import UTC, datetime, timedelta

import pytest

from slotq import Queue, Watcher
from slotq.testing import ManualClock
from support.served import rows, serve, start

START = datetime(2026, 1, 1, tzinfo=UTC)


# Why nothing starts.


def why(reader: Watcher, key: str = "k") -> str:
    return rows(reader.snapshot())[key].why


def test_each_reason_is_told_in_a_word(queue: Queue, reader: Watcher, clock: ManualClock) -> None:
    job = queue.enqueue("t", key="k", delay=5)
    assert why(reader) == "scheduled"
    queue.cancel(job.id)
    assert why(reader) == "idle"
    ids = [queue.enqueue("t", key="k", max_running=1).id for _ in range(4)]
    assert why(reader) == "no worker"
    serve(queue, "another")
    assert why(reader) == "no worker"
    serve(queue)
    assert why(reader) == "open"
    queue.set_limit(queue="default", max_running=1)
    start(queue, ids[0])
    assert why(reader) == "own slots"
    queue.enqueue("t", key="k")
    assert why(reader) == "queue slots"
    queue.clear_limit(queue="default")
    assert why(reader) == "open"
    queue.set_limit("k", max_running=1)
    assert why(reader) == "slots"
    queue.set_limit("k", max_starts=1, window=60, name="w")
    with queue.database.write() as tx:
        tx.run("UPDATE slotq_keys SET seq = seq + 1, started_at = ?", (tx.now,))
    assert (why(reader), rows(reader.snapshot())["k"].next_start_at) == (
        "window",
        START + timedelta(seconds=60),
    )
    queue.pause(key="k")
    assert why(reader) == "paused"
    queue.resume(key="k")
    queue.pause(queue="default")
    assert why(reader) == "paused"


def test_holds_that_wait_hold_a_key_up(queue: Queue, reader: Watcher) -> None:
    serve(queue)
    queue.enqueue("t", key="k")
    with queue.database.write() as tx:
        tx.run(
            "INSERT INTO slotq_holds (key_id, state, since, until, ttl_ms) "
            "SELECT id, 'waiting', ?1, ?1 + 5000, 5000 FROM slotq_keys WHERE key = 'k'",
            (tx.now,),
        )
    assert why(reader) == "held up"
    assert reader.snapshot().holders == ()


# What nobody has handled.


def test_a_lapsed_lease_does_not_run(queue: Queue, reader: Watcher, clock: ManualClock) -> None:
    ids = [queue.enqueue("t", key="k", max_attempts=most).id for most in (1, 2)]
    start(queue, *ids, lease_ms=1_000)
    clock.advance(999)
    assert rows(reader.snapshot())["k"].running == 2
    clock.advance(1)
    frame = reader.snapshot()
    row = rows(frame)["k"]
    assert (row.running, row.scheduled, row.share, frame.totals.running) == (0, 1, 0.0, 0)
    assert (frame.totals.failed, frame.totals.scheduled, frame.queues[0].running) == (1, 1, 0)
    queue.key("k")  # handles it
    again = reader.snapshot()
    assert (again.totals, again.queues, again.keys) == (frame.totals, frame.queues, frame.keys)


def test_a_lapsed_lease_makes_room_in_its_queue(
    queue: Queue, reader: Watcher, clock: ManualClock
) -> None:
    serve(queue)
    queue.set_limit(queue="default", max_running=1)
    start(queue, queue.enqueue("t", key="k", max_attempts=1).id, lease_ms=1_000)
    queue.enqueue("t", key="k")
    assert why(reader) == "queue slots"
    clock.advance(1_000)
    frame = reader.snapshot()
    assert (frame.queues[0].running, rows(frame)["k"].why) == (0, "open")


def test_a_lapsed_job_whose_end_was_asked_for_is_cancelled(
    queue: Queue, reader: Watcher, clock: ManualClock
) -> None:
    job = queue.enqueue("t", key="k")
    start(queue, job.id, lease_ms=1_000)
    queue.cancel(job.id)
    clock.advance(1_000)
    frame = reader.snapshot()
    totals = frame.totals
    assert (totals.cancelled, totals.failed, totals.scheduled) == (1, 0, 0)
    assert rows(frame)["k"].scheduled == 0
    queue.key("k")  # handles it
    assert reader.snapshot().totals == totals


def test_an_ended_hold_is_gone(queue: Queue, reader: Watcher, clock: ManualClock) -> None:
    queue.set_limit("k", max_running=1)
    serve(queue)
    queue.hold("k", ttl=1).acquire()
    queue.enqueue("t", key="k")
    clock.advance(999)
    frame = reader.snapshot()
    assert (len(frame.holders), frame.totals.held, frame.keys[0].held) == (1, 1, 1)
    assert frame.keys[0].why == "slots"
    clock.advance(1)
    frame = reader.snapshot()
    assert (frame.holders, frame.totals.held, frame.keys[0].held) == ((), 0, 0)
    assert frame.keys[0].why == "open"
    queue.hold("small").acquire()
    queue.hold("large", slots=9, ttl=1).acquire()
    clock.advance(1_000)
    assert [row.key for row in reader.snapshot(sort="held").keys] == ["small", "k", "large"]


def test_a_job_whose_time_has_come_waits(queue: Queue, reader: Watcher, clock: ManualClock) -> None:
    serve(queue)
    queue.enqueue("t", key="k", delay=5)
    queue.enqueue("t", key="k", delay=9)
    clock.advance(5_000)
    frame = reader.snapshot()
    row = frame.keys[0]
    assert (row.waiting, row.scheduled, row.why) == (1, 1, "open")
    assert (
        row.oldest_waiting_at == frame.queues[0].oldest_waiting_at == START + timedelta(seconds=5)
    )
    assert (frame.totals.waiting, frame.totals.scheduled) == (1, 1)


def test_an_expired_job_is_cancelled(queue: Queue, reader: Watcher, clock: ManualClock) -> None:
    queue.enqueue("t", key="k", expires=5)
    queue.enqueue("t", key="k", expires=5, delay=1)
    clock.advance(5_000)
    frame = reader.snapshot()
    assert (frame.keys[0].waiting, frame.keys[0].scheduled, frame.totals.cancelled) == (0, 0, 2)
    assert (frame.keys[0].oldest_waiting_at, frame.keys[0].why) == (None, "idle")


@pytest.mark.parametrize("window", [60, "minute"])
def test_a_window_that_has_opened_is_open(
    queue: Queue, reader: Watcher, clock: ManualClock, window: float
) -> None:
    serve(queue)
    queue.set_limit("k", max_starts=1, window=window)
    queue.hold("k").acquire()
    queue.enqueue("t", key="k")
    clock.advance(59_999)
    row = rows(reader.snapshot())["k"]
    assert (row.why, row.starts, row.next_start_at) == ("window", 1, START + timedelta(seconds=60))
    clock.advance(1)
    row = rows(reader.snapshot())["k"]
    assert (row.why, row.starts, row.next_start_at) == ("open", 0, None)


def test_a_worker_that_is_gone_serves_nothing(
    queue: Queue, reader: Watcher, clock: ManualClock
) -> None:
    serve(queue, lease_ms=1_000)
    queue.enqueue("t", key="k")
    clock.advance(3_000)
    assert (why(reader), len(reader.snapshot().workers)) == ("open", 1)
    clock.advance(1)
    frame = reader.snapshot()
    assert (frame.keys[0].why, frame.workers, frame.queues[0].workers) == ("no worker", (), 0)
