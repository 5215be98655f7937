"""What a worker's log tells: somebody must be able to see why nothing gets done."""

import logging

import pytest

from slotq import Queue, Worker


def fail(text: str) -> None:
    raise ValueError(text)


def test_each_failed_attempt_is_told_in_one_printable_line(
    queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    job = queue.task(name="t", max_attempts=1)(fail).enqueue("no\n\x1b[2Jreport")
    with caplog.at_level(logging.WARNING, "slotq.worker"):
        Worker(queue, burst=True).run()
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith(f"job {job.id}: attempt 1 of 1 failed: ValueError: no ")
    assert told.isprintable()


def test_an_unknown_task_is_told_once_and_stands_on_the_job(
    queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = [queue.enqueue("gone\n") for _ in range(3)]
    with caplog.at_level(logging.WARNING, "slotq.worker"):
        Worker(queue, burst=True).run()
    (told,) = [record.getMessage() for record in caplog.records]
    assert "task gone" in told
    assert [queue.job(job.id).error for job in jobs] == ["unknown task"] * 3
