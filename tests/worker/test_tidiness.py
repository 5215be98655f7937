"""What workers clean up as they go: old jobs, idle keys, their own traces."""

import os
from datetime import timedelta
from pathlib import Path

from slotq import Queue, Worker
from slotq.testing import ManualClock
from support.procs import until
from support.serving import serving_in_thread


def note(value: object = None) -> object:
    return value


def test_finished_jobs_are_deleted_at_the_age_that_the_queue_says(
    tmp_path: Path, clock: ManualClock
) -> None:
    with Queue(tmp_path / "jobs.db", clock=clock, keep_finished=timedelta(hours=1)) as queue:
        task = queue.task(name="t")(note)
        task.enqueue_many([()] * 1_200)
        task.options(delay=86_400).enqueue()
        Worker(queue, slots=50, burst=True).run()
        clock.advance(3_599_000)
        young = task.enqueue()
        with serving_in_thread(Worker(queue, lease=1)):
            until(lambda: queue.job(young.id).state == "succeeded")
            for _ in range(2):
                assert queue.stats().succeeded == 1_201
                clock.advance(499)
                until(lambda: seen_ms(queue) == clock.now_ms())
            clock.advance(2)
            until(lambda: queue.stats().succeeded == 1)
        assert queue.job(young.id).state == "succeeded"
        assert queue.stats().scheduled == 1


def seen_ms(queue: Queue) -> int:
    return round(queue.workers()[0].seen_at.timestamp() * 1_000)


def test_none_keeps_them_for_ever(tmp_path: Path, clock: ManualClock) -> None:
    with Queue(tmp_path / "jobs.db", clock=clock, keep_finished=None) as queue:
        queue.task(name="t")(note).enqueue()
        with serving_in_thread(Worker(queue, lease=1)):
            until(lambda: queue.stats().succeeded == 1)
            clock.advance(100 * 366 * 86_400_000)
            # The second beat comes after the first has tidied up.
            until(lambda: seen_ms(queue) == clock.now_ms())
            clock.advance(1)
            until(lambda: seen_ms(queue) == clock.now_ms())
        assert queue.stats().succeeded == 1


def test_keys_with_nothing_to_remember_are_forgotten(queue: Queue, clock: ManualClock) -> None:
    task = queue.task(name="t")(note)
    for number in range(20):
        job = task.options(key=f"k{number}").enqueue()
        queue.delete(job.id)
    task.options(key="kept", delay=60).enqueue()
    with serving_in_thread(Worker(queue, lease=1)):
        until(lambda: queue.stats().keys == 1)


def test_a_worker_takes_its_traces_with_it(queue: Queue) -> None:
    queue.stats()
    folder = queue.database.directory
    with serving_in_thread(Worker(queue)):
        until(lambda: [name for name in os.listdir(folder) if name.startswith("wake-")])  # noqa: PTH208
    assert not [name for name in os.listdir(folder) if name.startswith("wake-")]  # noqa: PTH208
    assert queue.workers() == []
