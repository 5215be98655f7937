"""Many processes see the same free slot at the same moment: one of them gets it."""

from pathlib import Path

import pytest

from slotq import Queue
from support import history, ledger
from support.history import Event
from support.probe_tasks import command
from support.procs import processes, until
from support.serving import has_succeeded

PROCESSES = 8
WAVES = 20
WAVE = 10


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 3])
def test_a_free_slot_that_eight_processes_see_goes_to_one(tmp_path: Path, most: int) -> None:
    """Field case 2: 200 ready jobs of 20 ms, in waves, each of which finds 8 processes without
    work; the first finds them at a barrier. Who has a slot keeps it while its wave lasts."""
    queue = Queue(tmp_path / "jobs.db", lock_timeout=30)
    queue.set_limit("k", max_running=most)
    ledger.keep(queue.path)
    task = queue.task(name="work", key="k")(nothing)
    commands = [command(queue.path, "--slots", "1", "--barrier")] * PROCESSES
    with processes(commands, tmp_path) as workers:
        for wave in range(WAVES):
            numbers = range(wave * WAVE + 1, (wave + 1) * WAVE + 1)
            calls = [(number, "k", 0.02) for number in numbers]
            task.enqueue_many(calls)
            if wave == 0:
                until(lambda: len(list(tmp_path.glob("ready-*"))) == PROCESSES)
                (tmp_path / "barrier").touch()
                until(lambda: len(queue.workers()) == PROCESSES)
            until(has_succeeded(queue, numbers[-1]))
        assert all(worker.is_alive for worker in workers)
    numbers = range(1, WAVES * WAVE + 1)
    stored = [Event(kind="enqueued", at=0, job=number, key="k") for number in numbers]
    events = history.read(tmp_path / "log")
    leases = history.judge(ledger.read(queue.path), {"k": most})
    bodies = history.judge([*stored, *events], {"k": most})
    for seen in (leases, bodies):
        assert seen.broken == []
        assert seen.peaks == {"k": most}
        assert seen.starts == dict.fromkeys(numbers, 1)
    assert len({event.pid for event in events}) > most, "only one was ever there in time"
    queue.close()


def nothing(_number: int, _key: str, _seconds: float) -> None: ...
