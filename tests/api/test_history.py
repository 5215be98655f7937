"""History for charts: what is asked for, what is kept, and for how long."""

import contextlib
import os
import random
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from slotq import HistoryBucket, InvalidValue, Queue
from slotq.store import history
from slotq.store.history import GRAINS, Cell, Kind, Place
from slotq.testing import ManualClock
from support.served import start
from support.wrongly import wrongly

START = datetime(2026, 1, 1, tzinfo=UTC)


def put(
    queue: Queue, kind: Kind, *refs: str | int, starts: int = 0, rest: Cell | None = None
) -> None:
    """Have something counted now."""
    cell = replace(rest or Cell(), starts=starts)
    with queue.database.write() as tx:
        at = history.bucket(kind, tx.now)
        history.add(tx, {Place(kind, at, ref): cell for ref in refs})
        history.sweep(tx)


def asked(queue: Queue, kind: Kind, name: str) -> list[HistoryBucket]:
    return queue.history(queue=name) if kind == "queue" else queue.history(key=f"of {name}")


def rows(queue: Queue) -> int:
    with queue.database.read() as reader:
        return int(reader.value("SELECT count(*) FROM slotq_history"))


@pytest.fixture(autouse=True)
def two_queues(queue: Queue) -> None:
    for name in ("one", "two"):
        queue.enqueue("t", queue=name, key=f"of {name}")


async def test_queues_are_told_apart_and_summed_up(queue: Queue, clock: ManualClock) -> None:
    put(queue, "queue", "one", starts=3, rest=Cell(finishes=2, failures=1, waiting=5))
    put(queue, "queue", "two", starts=30, rest=Cell(waiting=1))
    put(queue, "queue", "one")  # nobody looked again
    clock.advance(20_000)
    put(queue, "queue", "two", rest=Cell(finishes=4))
    first = HistoryBucket(
        at=START,
        seconds=10,
        starts=3,
        finishes=2,
        failures=1,
        waiting=5,
        wait_p50=None,
        wait_p95=None,
    )
    assert queue.history(queue="one") == [first]
    assert [each.starts for each in queue.history(queue="two")] == [30, 0]
    both = queue.history()
    assert [(each.at, each.starts, each.waiting) for each in both] == [
        (START, 33, 6),
        (START + timedelta(seconds=20), 0, None),
    ]
    assert await queue.ahistory() == both
    assert queue.history(queue="three") == []


def test_a_key_has_spans_of_a_minute(queue: Queue, clock: ManualClock) -> None:
    clock.advance(59_999)
    put(queue, "key", 1, starts=1)
    clock.advance(1)
    put(queue, "key", 1, starts=2)
    found = [(each.at, each.seconds, each.starts) for each in queue.history(key="of one")]
    assert found == [(START, 60, 1), (START + timedelta(minutes=1), 60, 2)]
    assert queue.history(key="of two") == queue.history(key="never used") == []


def test_since_begins_with_the_span_in_which_it_lies(queue: Queue, clock: ManualClock) -> None:
    for number in range(6):
        put(queue, "queue", "one", starts=number)
        clock.advance(10_000)
    for name in ("one", None):
        found = queue.history(queue=name, since=START + timedelta(seconds=39.999))
        assert [each.starts for each in found] == [3, 4, 5]
        assert len(queue.history(queue=name, since=START - timedelta(days=99))) == 6
        assert queue.history(queue=name, since=START + timedelta(days=99)) == []


def test_what_was_lost_has_failed(queue: Queue, clock: ManualClock) -> None:
    ids = [queue.enqueue("t", key="k", max_attempts=most).id for most in (1, 2)]
    cancelled = queue.enqueue("t", key="k").id
    start(queue, *ids, cancelled, lease_ms=1_000)
    queue.cancel(cancelled)
    clock.advance(1_000)
    queue.key("k")
    assert [span.failures for span in queue.history(queue="default")] == [2]
    assert [span.failures for span in queue.history(key="k")] == [2]


def test_holds_are_starts_of_their_key(queue: Queue, clock: ManualClock) -> None:
    queue.hold("k", slots=2).acquire().release()
    assert queue.history(key="k") == []  # in memory still
    clock.advance(1_000)
    queue.hold("k").acquire()
    assert [span.starts for span in queue.history(key="k")] == [3]
    queue.hold("other").acquire()
    queue.close()
    assert [span.starts for span in queue.history(key="other")] == [1]


def test_a_forked_child_does_not_write_what_its_parent_counted(
    queue: Queue, clock: ManualClock
) -> None:
    queue.hold("k").acquire().release()
    pid = os.fork()
    if pid == 0:
        clock.advance(1_000)
        queue.hold("mine").acquire()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    queue.close()
    assert [span.starts for span in queue.history(key="k")] == [1]


@pytest.mark.parametrize("commit", [True, False])
def test_holds_in_a_caller_s_transaction_are_counted_there(
    queue: Queue, clock: ManualClock, commit: bool
) -> None:
    with contextlib.closing(sqlite3.connect(queue.path, isolation_level=None)) as connection:
        for _ in range(2):
            connection.execute("BEGIN IMMEDIATE")
            queue.hold("k", connection=connection).acquire()
            connection.execute("COMMIT" if commit else "ROLLBACK")
            clock.advance(1_000)
    assert [span.starts for span in queue.history(key="k")] == ([2] if commit else [])


@pytest.mark.parametrize(("kind", "ref"), [("queue", "one"), ("key", 1)])
def test_what_is_too_old_is_neither_told_nor_kept(
    queue: Queue, clock: ManualClock, kind: Kind, ref: str | int
) -> None:
    put(queue, kind, ref, starts=1)
    keep = GRAINS[kind].keep_ms
    clock.advance(keep - 1)
    assert len(asked(queue, kind, "one")) == 1
    clock.advance(1)
    assert asked(queue, kind, "one") == []
    put(queue, kind, ref, starts=1)
    clock.advance(1)
    put(queue, kind, ref, starts=1)
    assert rows(queue) == 1


@pytest.mark.parametrize("kind", ["queue", "key"])
def test_a_span_has_room_for_so_many(
    queue: Queue, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are in it go on to be counted, others are left out."""
    grain = GRAINS[kind]._replace(most=1)
    monkeypatch.setitem(GRAINS, kind, grain)
    first, second = ("one", "two") if kind == "queue" else (1, 2)
    put(queue, kind, first, starts=1)
    put(queue, kind, second, first, starts=1)
    assert [each.starts for each in asked(queue, kind, "one")] == [2]
    assert asked(queue, kind, "two") == []


def test_sweeps_are_bounded(
    queue: Queue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "SWEEP_BATCH", 2)
    put(queue, "key", *range(1, 8), starts=1)
    clock.advance(GRAINS["key"].keep_ms * 2)
    left: list[int] = []
    for _ in range(4):
        put(queue, "queue", "three")
        left.append(rows(queue))
    assert left == [5, 3, 1, 0]


def test_a_key_that_was_pruned_leaves_nothing_to_the_next(queue: Queue) -> None:
    """Its number is not given again, as that of a deleted row with the greatest number would be."""
    queue.cancel(2)
    queue.delete(2)
    put(queue, "key", 2, starts=1)
    queue.prune()
    queue.enqueue("t", key="another")
    assert queue.history(key="another") == queue.history(key="of two") == []


def test_percentiles_of_any_waits_are_within_a_fifth() -> None:
    dice = random.Random(5)
    for _ in range(200):
        waits = sorted(int(dice.paretovariate(0.5)) for _ in range(dice.randrange(1, 60)))
        bins: dict[int, int] = {}
        for wait in waits:
            number = history.bin_of(wait)
            bins[number] = bins.get(number, 0) + 1
        for share in (0.5, 0.95):
            true = waits[max(0, -int(-share * len(waits) // 1) - 1)] / 1_000
            assert history.percentile(bins, share) == pytest.approx(true, rel=0.2), waits


def test_wrong_arguments_are_refused(queue: Queue) -> None:
    ask = wrongly(queue.history)
    for wrong in ({"key": "k", "queue": "q"}, {"key": ""}, {"key": 3}, {"queue": ""}, {"queue": 3}):
        with pytest.raises(InvalidValue):
            ask(**wrong)
    for since in (datetime(2026, 1, 1), 3, "now"):  # noqa: DTZ001
        with pytest.raises(InvalidValue):
            ask(since=since)
