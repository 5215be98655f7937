"""What a worker counts for charts, and when it writes it."""

import threading
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from slotq import HistoryBucket, Queue, Retry, Snooze, Worker
from slotq.store.claims import Claim
from slotq.tally import Tally
from slotq.testing import ManualClock
from support.procs import until
from support.serving import serving_in_thread

START = datetime(2026, 1, 1, tzinfo=UTC)


def counts(buckets: Sequence[HistoryBucket]) -> list[tuple[int, int, int]]:
    return [(each.starts, each.finishes, each.failures) for each in buckets]


def body(what: str) -> None:
    if what == "fail":
        raise RuntimeError
    if what == "retry":
        raise Retry(delay=60)
    if what == "snooze":
        raise Snooze(60)


def test_each_end_counts_as_what_it_is(queue: Queue) -> None:
    task = queue.task(name="t", key="k:{what}", max_attempts=3)(body)
    for what in ("good", "good", "fail", "retry", "snooze"):
        task.enqueue(what)
    Worker(queue, burst=True).run()
    assert counts(queue.history()) == [(5, 2, 2)]
    assert counts(queue.history(queue="default")) == [(5, 2, 2)]
    assert counts(queue.history(key="k:good")) == [(2, 2, 0)]
    assert counts(queue.history(key="k:fail")) == [(1, 0, 1)]
    assert counts(queue.history(key="k:retry")) == [(1, 0, 1)]
    assert counts(queue.history(key="k:snooze")) == [(1, 0, 0)]


def test_jobs_without_a_key_count_for_their_queue_alone(queue: Queue) -> None:
    queue.task(name="t", queue="one")(body).enqueue("good")
    Worker(queue, burst=True).run()
    assert counts(queue.history(queue="one")) == [(1, 1, 0)]
    assert queue.history(queue="default") == []


@pytest.mark.parametrize("wait_ms", [0, 1, 2, 3, 50, 999, 1_000, 86_400_000])
def test_waits_are_told_to_within_a_fifth(queue: Queue, clock: ManualClock, wait_ms: int) -> None:
    queue.task(name="t")(body).enqueue("good")
    clock.advance(wait_ms)
    Worker(queue, burst=True).run()
    (found,) = queue.history()
    assert found.wait_p50 is not None
    assert found.wait_p50 == found.wait_p95 == pytest.approx(wait_ms / 1_000, rel=0.2)


def test_percentiles_are_of_the_starts(queue: Queue, clock: ManualClock) -> None:
    task = queue.task(name="t")(body)
    task.enqueue_many([("good",)] * 6)
    clock.advance(99_000)
    task.enqueue_many([("good",)] * 94)
    clock.advance(1_000)
    Worker(queue, burst=True).run()
    (found,) = queue.history()
    assert found.wait_p50 == pytest.approx(1, rel=0.2)
    assert found.wait_p95 == pytest.approx(100, rel=0.2)


def test_what_is_counted_is_written_about_once_a_second(queue: Queue, clock: ManualClock) -> None:
    task = queue.task(name="t")(body)
    with serving_in_thread(Worker(queue, lease=3_600)):
        task.enqueue("good").wait(timeout=20)
        clock.advance(999)
        task.enqueue("good").wait(timeout=20)
        assert queue.history() == []
        clock.advance(1)
        until(lambda: counts(queue.history()) == [(2, 2, 0)])


def test_a_worker_whose_slots_are_full_writes_what_it_counted(
    queue: Queue, clock: ManualClock
) -> None:
    gate = threading.Event()

    @queue.task
    def wait() -> None:
        gate.wait(30)

    job = wait.enqueue()
    with serving_in_thread(Worker(queue, slots=1, lease=3_600)):
        until(lambda: queue.job(job.id).state == "running")
        clock.advance(1_000)
        until(lambda: counts(queue.history()) == [(1, 0, 0)])
        gate.set()


def test_a_worker_looks_how_many_jobs_wait_once_a_span(queue: Queue, clock: ManualClock) -> None:
    """Also when it starts nothing; and it says so when no more do."""
    task = queue.task(name="t", key="k", queue="q")(body)
    task.options(key="none").enqueue("good")
    with serving_in_thread(Worker(queue, queues=["q"], lease=3_600)):
        until(lambda: queue.queues()[0].waiting == 0)
        queue.set_limit(queue="q", max_running=1)
        queue.pause(queue="q")
        jobs = task.enqueue_many([("good",)] * 7)
        until(lambda: passes(clock) and seen(queue)[-1:] == [7])
        queue.cancel_many(jobs)
        until(lambda: passes(clock) and seen(queue)[-1] == 0)
    assert set(seen(queue)[1:-1]) == {7}


def passes(clock: ManualClock) -> bool:
    clock.advance(100)
    return True


def seen(queue: Queue) -> list[int | None]:
    return [each.waiting for each in queue.history(queue="q")]


def test_a_key_tells_what_waits_of_it(queue: Queue) -> None:
    queue.set_limit("k", max_starts=2, window=60)
    queue.task(name="t", key="k")(body).enqueue_many([("good",)] * 5)
    with serving_in_thread(Worker(queue)):
        until(lambda: queue.key("k").starts == 2 and queue.key("k").running == 0)
    (found,) = queue.history(key="k")
    assert (found.starts, found.finishes, found.waiting) == (2, 2, 3)


def test_workers_add_to_the_same_span(queue: Queue, clock: ManualClock) -> None:
    task = queue.task(name="t", key="k")(body)
    for wait_ms in (5_000, 5_000, 1_000):
        task.enqueue_many([("good",)] * 2)
        clock.advance(wait_ms)
        Worker(queue, burst=True).run()
    (found,) = queue.history(key="k")
    assert (found.starts, found.finishes) == (6, 6)
    assert found.wait_p50 == found.wait_p95 == pytest.approx(5, rel=0.2)


def a_claim(now: int, key_id: int = 0) -> Claim:
    return Claim(now, 1, 1, 1, 5, "t", "[]", "{}", None, 0, "default", "", key_id)


def test_each_span_gets_what_happened_in_it(queue: Queue, clock: ManualClock) -> None:
    """Though all of it is written at once."""
    queue.enqueue("t", key="k")
    tally, now = Tally(), clock.now_ms()
    for at, count in ((now + 9_999, 1), (now + 10_000, 2), (now + 59_999, 4), (now + 60_000, 8)):
        tally.add(at, [a_claim(at, 1)] * count, ())
    clock.advance(60_000)
    tally.leave(queue.database)
    assert [each.starts for each in queue.history()] == [1, 2, 4, 8]
    assert [each.starts for each in queue.history(key="k")] == [7, 8]


def test_what_is_in_memory_is_bounded(
    queue: Queue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys beyond are left out; those that are in it go on to be counted."""
    monkeypatch.setattr("slotq.tally.MOST_CELLS", 2)
    for key in ("one", "two"):
        queue.enqueue("t", key=key)
    tally, now = Tally(), clock.now_ms()
    for _ in range(2):
        tally.add(now, [a_claim(now, 1), a_claim(now, 2)], ())
    tally.leave(queue.database)
    assert [each.starts for each in queue.history(key="one")] == [2]
    assert (queue.history(key="two"), queue.history()[0].starts) == ([], 4)


def test_what_is_left_for_the_next_turn_goes_on_to_be_counted(
    queue: Queue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slotq.tally.BATCH", 1)
    queue.enqueue("t", key="k")
    tally, now = Tally(), clock.now_ms()
    for _ in range(3):
        tally.add(now, [a_claim(now, 1)], ())
        with queue.database.write() as tx:
            tally.write(tx, is_last=True)
    tally.add(now, (), ())
    tally.leave(queue.database)
    assert [each.starts for each in queue.history()] == [3]
    assert [each.starts for each in queue.history(key="k")] == [3]


def test_a_turn_that_is_undone_loses_and_doubles_nothing(queue: Queue, clock: ManualClock) -> None:
    task = queue.task(name="t", key="k")(body)
    task.enqueue("good")
    tally, now = Tally(), clock.now_ms()
    tally.add(now, [a_claim(now)] * 3, ())
    for _ in range(2):
        with pytest.raises(KeyError), queue.database.write() as tx:
            tally.write(tx, is_last=True)
            raise KeyError
    with queue.database.write() as tx:
        tally.write(tx, is_last=True)
    tally.add(clock.now_ms(), (), ())
    tally.leave(queue.database)
    assert counts(queue.history()) == [(3, 0, 0)]


def test_a_clock_that_was_set_back_breaks_nothing(queue: Queue, clock: ManualClock) -> None:
    task = queue.task(name="t", key="k")(body)
    task.enqueue("good")
    Worker(queue, burst=True).run()
    clock.advance(-600_000)
    task.enqueue("good")
    Worker(queue, burst=True).run()
    (found,) = queue.history()
    assert (found.at.timestamp(), found.starts) == (START.timestamp() - 600, 1)
    clock.advance(600_000)
    assert counts(queue.history(key="k")) == [(1, 1, 0)], "what lay in the future is gone"
