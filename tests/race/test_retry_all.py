"""Field case 55: everybody retries everything at once, and each job is retried once."""

import json
from pathlib import Path

import pytest

from slotq import Bulk, Queue, Worker
from support import history, ledger
from support.history import Event
from support.probe_tasks import command
from support.procs import Process, processes, until
from support.serving import has_running, has_succeeded

RETRY = """
import json, sys, time, pathlib
import slotq

q = slotq.Queue("jobs.db", lock_timeout=30)
q.stats()
pathlib.Path(sys.argv[1]).touch()
while not pathlib.Path("go").exists():
    time.sleep(0.001)
bulk = q.retry_many(json.loads(pathlib.Path("ids").read_text()))
print(json.dumps([bulk.done, list(bulk.refused.items())]))
"""


def retried_by_two(queue: Queue, ids: list[int]) -> list[Bulk]:
    """Let two processes retry the same jobs at the same moment; return what each was told."""
    folder = queue.path.parent
    (folder / "ids").write_text(json.dumps(ids), encoding="utf-8")
    (folder / "retry.py").write_text(RETRY, encoding="utf-8")
    with processes([["retry.py", "ready-1"], ["retry.py", "ready-2"]], folder) as programs:
        until(lambda: len(list(folder.glob("ready-*"))) == 2)
        (folder / "go").touch()
        told = [json.loads(program.finish()) for program in programs]
    return [Bulk(done=tuple(done), refused=dict(refused)) for done, refused in told]


def always_works(number: int) -> int:
    return number


def always_fails(*_: object) -> None:
    raise RuntimeError("no")


def test_two_programs_retry_each_job_once_and_limits_hold(tmp_path: Path) -> None:
    queue = Queue(tmp_path / "jobs.db")
    queue.task(name="awork")(always_fails)
    queue.task(name="mark")(always_works)
    for number in range(100):
        queue.enqueue("awork", args=[number, "k", 0.003], key="k", max_attempts=1)
    done = queue.enqueue("mark", args=[100]).id
    Worker(queue, burst=True).run()
    failed = [job.id for job in queue.jobs(state="failed")]
    cancelled = queue.enqueue("mark", args=[101]).id
    queue.cancel(cancelled)
    assert (len(failed), queue.job(done).state) == (100, "succeeded")
    with Process(command(queue.path, "--slots", "1"), tmp_path / "busy.txt"):
        running = queue.enqueue("gate", args=[102]).id
        until(has_running(queue, 1))
        waiting = queue.enqueue("mark", args=[103]).id
        ledger.keep(queue.path)
        queue.set_limit("k", max_running=3, max_starts=20, window=0.2)
        others = {job_id: queue.job(job_id) for job_id in (running, done, waiting, cancelled)}

        first, second = retried_by_two(queue, [running, *failed, done, waiting, 10**9])

        assert sorted((*first.done, *second.done)) == failed
        for bulk, other in ((first, second), (second, first)):
            assert set(bulk.refused) == {running, done, waiting, 10**9, *other.done}
            assert f"job {running} is running" in bulk.refused[running]
            assert f"job {waiting} is waiting" in bulk.refused[waiting]
            assert f"job {done} is succeeded" in bulk.refused[done]
            assert bulk.refused[10**9] == f"job {10**9} does not exist"
        for job_id in (running, done, waiting, cancelled):
            assert queue.job(job_id) == others[job_id]
        with processes([command(queue.path)] * 2, tmp_path):
            until(has_succeeded(queue, 102))
        (tmp_path / "open").touch()
        queue.job(running).wait(timeout=30)
    assert {queue.job(job_id).attempt for job_id in failed} == {1}
    assert len(queue.jobs(limit=1_000)) == 104
    stored = [Event(kind="enqueued", at=0, job=job_id, key="k") for job_id in failed]
    stored += [Event(kind="enqueued", at=0, job=job_id) for job_id in (running, waiting)]
    verdict = history.judge([*stored, *ledger.read(queue.path)])
    assert verdict.broken == []
    assert "k" in verdict.reached & verdict.filled
    assert {verdict.starts[job_id] for job_id in failed} == {1}
    queue.close()


@pytest.mark.slow
def test_two_programs_share_more_jobs_than_one_transaction_takes(tmp_path: Path) -> None:
    queue = Queue(tmp_path / "jobs.db")
    task = queue.task(name="t")(always_fails)
    ids = task.enqueue_many([()] * 2_300)
    queue.cancel_many(ids)
    first, second = retried_by_two(queue, ids)
    assert sorted((*first.done, *second.done)) == ids
    assert set(first.refused) == set(second.done)
    assert set(second.refused) == set(first.done)
    assert queue.stats().waiting == 2_300
    queue.close()
