"""Instants and delays mean the same in every time zone of the host."""

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slotq import Queue
from support.procs import run_script

ZONES = ("Australia/Sydney", "America/New_York", "UTC")

ENQUEUE = """
import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo
import slotq

time.tzset()
q = slotq.Queue("jobs.db")
york = ZoneInfo("America/New_York")
for naive in (datetime(2026, 7, 1, 9), datetime.now() + timedelta(minutes=3)):
    for options in ({"run_at": naive}, {"expires": naive}):
        try:
            q.enqueue("t", **options)
        except slotq.InvalidValue as error:
            print("time zone" in str(error))
q.enqueue("delay", delay=3600)
q.enqueue("gap", run_at=datetime(2026, 3, 8, 2, 30, tzinfo=york))
q.enqueue("fold 0", run_at=datetime(2026, 11, 1, 1, 30, tzinfo=york, fold=0))
q.enqueue("fold 1", run_at=datetime(2026, 11, 1, 1, 30, tzinfo=york, fold=1))
q.enqueue("past", run_at=datetime.now().astimezone() - timedelta(hours=1))
q.enqueue("soon", run_at=datetime.now().astimezone() + timedelta(milliseconds=200))
"""
WORK = """
import time
import slotq

time.tzset()
q = slotq.Queue("jobs.db")
q.task(name="past")(lambda: "ran")
q.task(name="soon")(lambda: worker.stop())
worker = slotq.Worker(q, slots=1)
worker.run()
"""


@pytest.mark.parametrize(("enqueuer", "worker"), list(itertools.pairwise((*ZONES, ZONES[0]))))
def test_due_times_do_not_depend_on_the_zone_of_the_host(
    tmp_path: Path, enqueuer: str, worker: str
) -> None:
    """Field case 21: enqueuer and worker in different zones; naive times, gaps and folds."""
    assert run_script(ENQUEUE, tmp_path, TZ=enqueuer).split() == ["True"] * 4
    with Queue(tmp_path / "jobs.db") as queue:
        jobs = {job.task: job for job in queue.jobs()}
        delay = jobs["delay"].run_at - jobs["delay"].created_at
        assert delay == timedelta(hours=1)
        assert abs(datetime.now(UTC) - jobs["delay"].created_at) < timedelta(minutes=1)
        assert jobs["gap"].run_at == datetime(2026, 3, 8, 7, 30, tzinfo=UTC)
        assert jobs["fold 0"].run_at == datetime(2026, 11, 1, 5, 30, tzinfo=UTC)
        assert jobs["fold 1"].run_at == datetime(2026, 11, 1, 6, 30, tzinfo=UTC)
        assert jobs["past"].state == "waiting"
        assert all(job.run_at.tzinfo is UTC for job in jobs.values())
        run_script(WORK, tmp_path, name="work.py", TZ=worker)
        ran = {job.task for job in queue.jobs(state="succeeded")}
        assert ran == {"past", "soon"}
        (soon,) = queue.jobs(task="soon")
        assert soon.started_at is not None
        assert soon.started_at >= soon.run_at
