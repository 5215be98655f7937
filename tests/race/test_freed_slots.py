"""Field case 5: however a job ends or its worker dies, its slot goes to the next one."""

import contextlib
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from slotq import Job, Queue
from support import history, ledger
from support.commands import qworker
from support.probe_tasks import command
from support.procs import Process, until
from support.serving import has_passed, has_running
from support.stores import locked

pytestmark = pytest.mark.slow

# At once, as far as a busy machine lets us tell; a lease lasts for 30 s.
AT_ONCE_S = 5.0
# A killed worker is noticed within a second.
NOTICED_S = 10.0


@dataclass(frozen=True, slots=True)
class Scene:
    """A key with one slot: a job has it, another waits for it.

    Attributes:
        queue: The queue.
        holder: The worker in which the first job runs.
        first: The job that has the slot.
        second: The one that waits.
    """

    queue: Queue
    holder: Process
    first: Job
    second: Job

    def has_moved_on(self) -> bool:
        """Tell whether the second job has started."""
        return self.queue.job(self.second.id).started_at is not None

    def opens(self) -> None:
        """Let the body of the first job end."""
        (self.queue.path.parent / "open").touch()


@contextlib.contextmanager
def playing(folder: Path, task: str) -> Generator[Scene]:
    """Play one scene with two workers, and judge it when it is over.

    Args:
        folder: Where its files are.
        task: The body of the first job: ``gate`` runs until the gate opens, whatever its job says;
            ``heed`` leaves also when its job says so; ``agate`` is awaited.
    """
    queue = Queue(folder / "jobs.db", lock_timeout=30)
    queue.set_limit("k", max_running=1)
    ledger.keep(queue.path)
    words = command(queue.path, "--slots", "2", "--lock-timeout", "0.2")
    with Process(words, folder / "holder.txt") as holder:
        first = queue.enqueue(task, args=[1, "k"], key="k", max_attempts=1)
        until(has_running(queue, 1))
        until(lambda: history.read(folder / "log"), what="the first body has begun")
        with Process(words, folder / "other.txt"):
            until(lambda: len(queue.workers()) == 2)
            second = queue.enqueue("mark", args=[2, "k"], key="k")
            scene = Scene(queue, holder, first, second)
            yield scene
            second.wait(timeout=30)
    assert queue.key("k").running == 0
    verdict = history.judge(ledger.read(queue.path), {"k": 1})
    assert verdict.broken == []
    assert verdict.starts == {first.id: 1, second.id: 1}
    queue.close()


def cancel(scene: Scene) -> None:
    done = qworker("--db", str(scene.queue.path), "jobs", "cancel", str(scene.first.id), "--yes",
                   cwd=scene.queue.path.parent)  # fmt: skip
    assert (done.code, done.err) == (0, ""), done


def test_the_slot_of_a_killed_worker(tmp_path: Path) -> None:
    """Field case 5: SIGKILL, and leases of 30 s."""
    with playing(tmp_path, "gate") as scene:
        scene.holder.kill()
        until(scene.has_moved_on, patience_s=NOTICED_S)
        lost = scene.queue.job(scene.first.id)
        assert (lost.state, lost.error) == ("failed", "worker lost")


def test_the_slot_of_a_cancelled_job_whose_body_sees_it(tmp_path: Path) -> None:
    """Field case 5: cancelled by command; the body is a thread."""
    with playing(tmp_path, "heed") as scene:
        cancel(scene)
        until(scene.has_moved_on, patience_s=AT_ONCE_S)
        assert scene.queue.job(scene.first.id).state == "cancelled"


def test_the_slot_of_a_cancelled_job_that_is_awaited(tmp_path: Path) -> None:
    """Field case 5: cancelled by command; the body is a coroutine."""
    with playing(tmp_path, "agate") as scene:
        cancel(scene)
        until(scene.has_moved_on, patience_s=AT_ONCE_S)
        assert scene.queue.job(scene.first.id).state == "cancelled"


def test_the_slot_of_a_cancelled_job_whose_body_goes_on(tmp_path: Path) -> None:
    """Field case 5: the slot is freed once the body has stopped, and not before."""
    with playing(tmp_path, "gate") as scene:
        cancel(scene)
        until(lambda: scene.queue.job(scene.first.id).cancelling)
        until(has_passed(0.5))
        assert not scene.has_moved_on()
        scene.opens()
        until(scene.has_moved_on, patience_s=AT_ONCE_S)
        assert scene.queue.job(scene.first.id).state == "cancelled"


def test_the_slot_of_a_job_that_somebody_tries_to_delete(tmp_path: Path) -> None:
    """Field case 5: a running job is not deleted; once it has ended it is, and frees nothing twice."""
    with playing(tmp_path, "gate") as scene:
        queue, first = scene.queue, scene.first
        refused = queue.delete_many([first.id])
        assert refused.done == ()
        assert f"job {first.id} is running" in refused.refused[first.id]
        assert queue.key("k").running == 1
        assert not scene.has_moved_on()
        scene.opens()
        until(scene.has_moved_on, patience_s=AT_ONCE_S)
        until(lambda: queue.job(first.id).state == "succeeded")
        assert queue.delete_many([first.id]).done == (first.id,)


def test_the_slot_of_a_job_whose_end_cannot_be_written(tmp_path: Path) -> None:
    """Field case 5: others keep the file locked for longer than the worker waits; the end is
    written once it can be, with the attempt that it was."""
    with playing(tmp_path, "gate") as scene:
        with locked(scene.queue.path):
            scene.opens()
            until(lambda: "trying again" in scene.holder.text, what="an end that was not written")
        unlocked_s = time.monotonic()
        until(scene.has_moved_on, patience_s=AT_ONCE_S)
        assert time.monotonic() - unlocked_s < AT_ONCE_S
        done = scene.queue.job(scene.first.id)
        assert (done.state, done.attempt, done.result) == ("succeeded", 1, 1)


def test_the_place_of_a_cancelled_job_that_waits(tmp_path: Path) -> None:
    """Field case 5: what is cancelled or deleted while it waits takes no slot, ever."""
    with playing(tmp_path, "gate") as scene:
        queue = scene.queue
        waiting = [queue.enqueue("mark", args=[n, "k"], key="k", priority=1) for n in (3, 4)]
        assert queue.cancel_many([job.id for job in waiting]).done == tuple(
            job.id for job in waiting
        )
        assert queue.delete_many([waiting[0].id]).done == (waiting[0].id,)
        scene.opens()
        until(scene.has_moved_on, patience_s=AT_ONCE_S)
        assert queue.job(waiting[1].id).started_at is None
