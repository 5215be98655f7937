"""What is shown of a key that nothing is known of yet."""

from collections.abc import Generator
from contextlib import closing

import pytest

from slotq.store import reads
from slotq.store.limits import Span
from support.twin import Twin
from support.twin_core import scratch


@pytest.fixture
def twin() -> Generator[Twin]:
    with scratch() as folder, closing(Twin(folder / "jobs.db")) as opened:
        yield opened


def test_unseen_key_has_no_oldest_job_though_unkeyed_ones_wait(twin: Twin) -> None:
    twin.enqueue("")
    with twin.database.read() as reader:
        assert reads.key(reader, "unseen", twin.clock.now_ms()).oldest_waiting_at is None


def test_unseen_key_shows_the_window_with_the_least_room(twin: Twin) -> None:
    twin.set_limit("*", "a", max_starts=5, window=Span(1_000))
    twin.set_limit("*", "b", max_starts=2, window=Span(60_000))
    with twin.database.read() as reader:
        shown = reads.key(reader, "unseen", twin.clock.now_ms())
    assert (shown.starts, shown.max_starts, shown.window) == (0, 2, 60.0)
