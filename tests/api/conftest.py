"""A queue in a file of its own, whose time stands still."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slotq import Queue, Watcher, open_reader
from slotq.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def queue(tmp_path: Path, clock: ManualClock) -> Iterator[Queue]:
    with Queue(tmp_path / "jobs.db", clock=clock) as made:
        yield made


@pytest.fixture
def reader(queue: Queue, clock: ManualClock) -> Iterator[Watcher]:
    queue.stats()  # makes the file
    with open_reader(queue.path, clock=clock) as opened:
        yield opened
