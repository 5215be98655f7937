"""The slots of a worker and the limit of a key: the smaller one is what runs, and all of it."""

from pathlib import Path

import pytest

from slotq import Queue
from support import history, ledger
from support.history import Event
from support.probe_tasks import command
from support.procs import processes, until
from support.serving import has_succeeded

JOBS = 60


@pytest.mark.parametrize("task", ["work", "awork"])
@pytest.mark.parametrize(("slots", "cap", "peak"), [(10, 4, 4), (3, 10, 3)])
def test_the_smaller_of_slots_and_cap_is_what_runs(
    tmp_path: Path, task: str, slots: int, cap: int, peak: int
) -> None:
    queue = Queue(tmp_path / "jobs.db", lock_timeout=30)
    queue.set_limit("k", max_running=cap)
    ledger.keep(queue.path)
    for number in range(1, JOBS + 1):
        queue.enqueue(task, args=[number, "k", 0.01], key="k")
    with processes([command(queue.path, "--slots", str(slots))], tmp_path):
        until(has_succeeded(queue, JOBS))
    stored = [Event(kind="enqueued", at=0, job=number, key="k") for number in range(1, JOBS + 1)]
    leases = history.judge([*stored, *ledger.read(queue.path)], {"k": cap})
    bodies = history.judge([*stored, *history.read(tmp_path / "log")], {"k": cap})
    for seen in (leases, bodies):
        assert seen.broken == []
        assert seen.peaks == {"k": peak}
        assert set(seen.starts.values()) == {1}
    queue.close()
