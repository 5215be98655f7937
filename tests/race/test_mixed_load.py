"""Everything at once, by many processes: no caller is ever told that the file is locked."""

from pathlib import Path

import pytest

from slotq import Queue
from support.procs import processes


@pytest.mark.parametrize(
    ("count", "seconds"), [(4, 2.0), pytest.param(8, 60.0, marks=pytest.mark.soak)]
)
@pytest.mark.filterwarnings("ignore::slotq.LimitHidden")
def test_mixed_calls_of_many_processes_never_find_it_locked(
    tmp_path: Path, count: int, seconds: float
) -> None:
    """Field case 36: enqueue, claim, renew, limits, prune and lists, with default settings."""
    path = tmp_path / "jobs.db"
    commands = [
        ["-W", "ignore", "-m", "support.mixed_load", str(path), str(seconds), str(seed)]
        for seed in range(count)
    ]
    with processes(commands, tmp_path) as loads:
        slowest = [load.finish(seconds + 30).split() for load in loads]
    assert [len(lines) for lines in slowest] == [1] * count, slowest
    assert max(float(line) for (line,) in slowest) < 5
    with Queue(path) as queue:
        stats = queue.stats()
        assert stats.running == 0
        assert stats.workers == 0
