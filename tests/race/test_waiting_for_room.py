"""Field case 19: a job that waits for its limit uses no attempt and keeps its place."""

import itertools
from pathlib import Path

import pytest

from slotq import Queue
from support import history, ledger
from support.probe_tasks import command
from support.procs import processes, until
from support.serving import has_succeeded

JOBS = 12
PUT_OFF = 4
WORKERS = 3


@pytest.mark.slow
@pytest.mark.parametrize("window_s", [0.25, pytest.param(1.0, marks=pytest.mark.soak)])
def test_limited_jobs_start_in_order_with_their_first_attempt(
    tmp_path: Path, window_s: float
) -> None:
    """Field case 19: 12 jobs, one start in each window and one at once, three workers, and one job
    that asks once to be put off; two attempts used by waiting would be all that a job has."""
    queue = Queue(tmp_path / "jobs.db", lock_timeout=30)
    queue.stats()
    ledger.keep(queue.path)
    queue.set_limit("k", max_running=1, max_starts=1, window=window_s)
    for number in range(1, JOBS + 1):
        task = "snooze" if number == PUT_OFF else "mark"
        queue.enqueue(task, args=[number, "k"], key="k", max_attempts=2)
    with processes([command(queue.path)] * WORKERS, tmp_path):
        until(has_succeeded(queue, JOBS))
    assert {(job.attempt, job.max_attempts) for job in queue.jobs()} == {(1, 2)}
    events = ledger.read(queue.path)
    verdict = history.judge(events)
    assert verdict.broken == []
    assert verdict.filled == {"k"}
    starts = [event for event in events if event.kind == "start"]
    # Put off, it comes back at its own time: behind those that were due before.
    again = [event.job for event in starts].index(PUT_OFF, PUT_OFF)
    order = [event.job for event in starts]
    assert order[:again] + order[again + 1 :] == list(range(1, JOBS + 1))
    gaps_s = [(after.at - before.at) / 1_000 for before, after in itertools.pairwise(starts)]
    assert min(gaps_s) >= window_s
    # A worker that looked again only now and then would need far longer.
    assert sum(gaps_s) < window_s * JOBS * 14 / 12 + 3
    assert len({job.worker for job in queue.jobs()}) > 1
    queue.close()
