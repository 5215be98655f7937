"""Looking at a file without ever writing: one consistent frame, judged by now."""

import os
import shutil
import tempfile
import threading
from contextlib import closing
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slotq import (
    FileReplaced,
    InvalidValue,
    Key,
    KeyRow,
    NotAQueue,
    Queue,
    SchemaTooNew,
    StoreError,
    Watcher,
    open_reader,
)
from slotq.frames import FRAME_SORTS
from slotq.store import migrate
from slotq.store.connection import Database
from slotq.testing import ManualClock
from support.procs import run_script
from support.served import serve, start
from support.stores import locked, looking, tree
from support.wrongly import wrongly

START = datetime(2026, 1, 1, tzinfo=UTC)
FAR = START + timedelta(days=1)


# What a frame shows.


def test_a_frame_shows_all_that_single_looks_do(queue: Queue, reader: Watcher) -> None:
    serve(queue)
    queue.set_limit("*", max_running=4, max_starts=9, window=60)
    queue.set_limit("a", max_starts=3, window="day", name="daily")
    queue.set_limit(queue="q", max_running=50)
    for key, count in (("a", 5), ("b", 2), ("", 3)):
        for priority in (0, 3):
            for _ in range(count):
                queue.enqueue("t", key=key, queue="q", priority=priority)
    queue.enqueue("t", key="b", queue="q2", max_running=1)
    queue.enqueue("t", key="c", delay=60)
    start(queue, 1, 2, 12)
    with queue.hold("b", slots=2, label="nightly"):
        frame = reader.snapshot()
        assert frame.queues == tuple(queue.queues())
        assert frame.workers == tuple(queue.workers())
        assert frame.holders == tuple(queue.holds())
        stats = queue.stats()
        for name in (
            "scheduled",
            "waiting",
            "running",
            "held",
            "keys",
            "queues",
            "limits",
            "workers",
        ):
            assert getattr(frame.totals, name) == getattr(stats, name), name
        for row in frame.keys:
            shown = queue.key(row.key)
            for field in fields(Key):
                assert getattr(row, field.name) == getattr(shown, field.name), field.name
        assert [row.key for row in frame.keys] == ["a", "b", "c"]
        assert (frame.matching, frame.at) == (3, START)
        assert [row.share for row in frame.keys] == [2 / 5, 3 / 5, 0.0]


def test_what_failed_is_counted(queue: Queue, reader: Watcher) -> None:
    ids = [queue.enqueue("t").id for _ in range(3)]
    queue.cancel_many(ids)
    assert reader.snapshot().totals.cancelled == 3


def test_an_empty_file_has_an_empty_frame(reader: Watcher) -> None:
    frame = reader.snapshot()
    assert (frame.keys, frame.matching, frame.queues, frame.holders) == ((), 0, (), ())
    assert (frame.totals.waiting, frame.totals.keys) == (0, 0)


# Pages.


@pytest.fixture
def busy(queue: Queue) -> Queue:
    """Keys with one lane each, and with nothing: k3 has most waiting, k4 is the oldest."""
    for number, (waiting, scheduled) in enumerate([(2, 0), (0, 3), (1, 1), (5, 0), (1, 2)]):
        for place in range(waiting):
            queue.enqueue("t", key=f"k{number}", run_at=START - timedelta(seconds=number + place))
        for _ in range(scheduled):
            queue.enqueue("t", key=f"k{number}", delay=60)
    queue.pause(key="idle")
    start(queue, 1)
    queue.hold("k1", slots=3).acquire()
    queue.hold("idle", slots=1).acquire() if not queue.key("idle").paused else None
    return queue


ORDERS = {
    "key": ["idle", "k0", "k1", "k2", "k3", "k4"],
    "waiting": ["k3", "k0", "k2", "k4", "k1", "idle"],
    "scheduled": ["k1", "k4", "k2", "k0", "k3", "idle"],
    "running": ["k1", "k0", "k2", "k3", "k4", "idle"],
    "held": ["k1", "k0", "k2", "k3", "k4", "idle"],
    "oldest": ["k3", "k4", "k2", "k0", "k1", "idle"],
    "next_start": ["k0", "k1", "k2", "k3", "k4", "idle"],
}


def test_every_order_is_tried() -> None:
    assert ORDERS.keys() == set(FRAME_SORTS)


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("sort", FRAME_SORTS)
def test_keys_come_in_order_page_by_page(
    queue: Queue, reader: Watcher, sort: str, *, several: bool
) -> None:
    look = wrongly(reader.snapshot)
    if several:  # where some key has several lanes, the store asks otherwise
        job = queue.enqueue("t", key="k1", queue="other", delay=60)
        queue.cancel(job.id)
    wanted = ORDERS[sort]
    if sort == "key":
        wanted = wanted[::-1]
    for limit in (1, 2, 4, 50):
        pages = [look(sort=sort, limit=limit, offset=first) for first in range(0, 6, limit)]
        assert [row.key for page in pages for row in page.keys] == wanted
        assert {page.matching for page in pages} == {6}
        up = [
            look(sort=sort, descending=False, limit=limit, offset=first)
            for first in range(0, 6, limit)
        ]
        names = [row.key for page in up for row in page.keys]
        assert sorted(names) == sorted(wanted)
        assert sort != "key" or names == wanted[::-1]
        values = [value_of(row, sort) for page in up for row in page.keys]
        assert values == sorted(values)
    assert look(sort=sort, offset=6).keys == look(sort=sort, limit=0).keys == ()


def value_of(row: KeyRow, sort: str) -> float:
    oldest, opens = row.oldest_waiting_at or FAR, row.next_start_at or START
    return {
        "key": 0,
        "waiting": row.waiting,
        "scheduled": row.scheduled,
        "running": row.running + row.held,
        "held": row.held,
        "oldest": -oldest.timestamp(),
        "next_start": opens.timestamp(),
    }[sort]


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("sort", FRAME_SORTS)
def test_a_filter_is_a_part_of_the_key(reader: Watcher, sort: str) -> None:
    look = wrongly(reader.snapshot)
    for text, found in (("k", 5), ("3", 1), ("%", 0), ("K", 0), ("dl", 1)):
        for descending in (True, False):
            frame = look(sort=sort, filter=text, descending=descending)
            assert (frame.matching, len(frame.keys)) == (found, found)
            assert all(text in row.key for row in frame.keys)
    assert look(sort=sort, filter="").matching == 6


def test_a_key_with_lanes_in_several_queues_counts_as_a_whole(
    queue: Queue, reader: Watcher
) -> None:
    assert reader.snapshot().keys == ()
    for name in ("one", "two", "three"):
        queue.enqueue("t", key="wide", queue=name)
    queue_jobs(queue, "deep", 2)
    assert [row.waiting for row in reader.snapshot().keys] == [3, 2]
    assert [row.key for row in reader.snapshot(limit=1).keys] == ["wide"]


def test_a_page_is_right_whatever_the_one_before_was(queue: Queue, reader: Watcher) -> None:
    """Keys with much less than the last one on the page before are left out at first."""
    ids = {key: queue_jobs(queue, key, count) for key, count in (("a", 9), ("b", 8), ("c", 2))}

    def names(limit: int = 2) -> list[str]:
        return [row.key for row in reader.snapshot(limit=limit).keys]

    assert names() == names() == ["a", "b"]
    queue.cancel_many(ids["a"][:8])
    assert names() == names() == ["b", "c"]
    queue_jobs(queue, "a", 5)
    assert names() == ["b", "a"]
    queue.cancel_many(ids["b"])
    assert (names(), names(1), names(3)) == (["a", "c"], ["a"], ["a", "c", "b"])


def queue_jobs(queue: Queue, key: str, count: int) -> list[int]:
    return [queue.enqueue("t", key=key).id for _ in range(count)]


def test_wrong_arguments_are_refused(reader: Watcher) -> None:
    for wrong in (
        {"sort": "age"}, {"sort": None}, {"descending": 1}, {"filter": 3}, {"filter": "a\0"},
        {"limit": -1}, {"limit": 1_001}, {"limit": True}, {"offset": -1}, {"offset": 1_000_001},
    ):  # fmt: skip
        with pytest.raises(InvalidValue):
            wrongly(reader.snapshot)(**wrong)


# Changes.


def test_a_commit_is_a_change_and_time_is_none(
    queue: Queue, reader: Watcher, clock: ManualClock
) -> None:
    assert reader.changed()
    first = reader.snapshot()
    assert not reader.changed()
    clock.advance(86_400_000)
    assert not reader.changed()
    queue.enqueue("t")
    assert reader.changed()
    assert reader.changed(), "until it is looked at"
    assert reader.snapshot().version != first.version
    assert not reader.changed()


def test_a_frame_is_of_one_instant_while_others_write(queue: Queue, tmp_path: Path) -> None:
    """Slots move from key to key, one each: a frame between two commits would see none, or two."""
    queue.set_limit("k*", max_running=1)
    keys = [f"k{number}" for number in range(8)]
    for key in keys:
        queue.enqueue("t", key=key, delay=60)
    done = threading.Event()

    def move() -> None:
        hold = queue.hold(keys[0])
        hold.acquire()
        place = 0
        while not done.is_set():
            place = (place + 1) % 8
            with queue.database.write() as tx:
                tx.run("DELETE FROM slotq_holds")
                tx.run(
                    "INSERT INTO slotq_holds (key_id, state, since, until, ttl_ms) "
                    "SELECT id, 'held', ?1, ?1 + 600000, 600000 FROM slotq_keys WHERE key = ?2",
                    (tx.now, keys[place]),
                )

    mover = threading.Thread(target=move)
    seen: set[str] = set()
    with open_reader(queue.path, clock=queue.database.clock) as reader:
        mover.start()
        try:
            while len(seen) < 5:
                frame = reader.snapshot()
                held = [row.key for row in frame.keys if row.held]
                assert len(held) == frame.totals.held == len(frame.holders)
                assert held == [hold.key for hold in frame.holders]
                seen.update(held)
        finally:
            done.set()
            mover.join()


def test_threads_share_a_reader(queue: Queue, reader: Watcher) -> None:
    queue.enqueue("t", key="k")
    found: list[int] = []

    def look() -> None:
        found.extend(reader.snapshot().totals.waiting for _ in range(50))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1] * 200


# The file.


def test_it_takes_no_lock_and_leaves_the_file_as_it_was(queue: Queue, clock: ManualClock) -> None:
    queue.enqueue("t", key="k")
    queue.close()
    before = tree(queue.path.parent)
    with open_reader(queue.path, clock=clock) as reader:
        assert reader.snapshot().totals.waiting == 1
    assert tree(queue.path.parent) == before
    with locked(queue.path), open_reader(queue.path, lock_timeout=0.001) as reader:
        assert reader.changed()
        assert reader.snapshot().totals.waiting == 1


def test_its_connection_cannot_write(queue: Queue, clock: ManualClock) -> None:
    queue.stats()
    database = Database(
        queue.path, clock=clock, create=False, durable=False, lock_timeout_s=1, looks_only=True
    )
    with closing(database), pytest.raises(StoreError), database.read() as reader:
        reader.rows("UPDATE slotq_clock SET now = 1")


def test_what_is_no_queue_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database, but long enough to look like one" * 99)
    (tmp_path / "empty.db").touch()
    before = tree(tmp_path)
    for name in ("nothing.db", "text.db", "empty.db", "none/jobs.db"):
        with pytest.raises(NotAQueue):
            open_reader(tmp_path / name)
    assert tree(tmp_path) == before
    with pytest.raises(InvalidValue):
        open_reader(":memory:")
    with pytest.raises(InvalidValue):
        wrongly(open_reader)(3)


def test_a_file_of_a_newer_library_is_refused(queue: Queue) -> None:
    queue.stats()
    with locked(queue.path) as connection:
        connection.execute(f"PRAGMA user_version = {migrate.newest() + 1}")
    queue.close()
    with pytest.raises(SchemaTooNew):
        open_reader(queue.path)


def test_a_file_of_an_older_library_is_left_as_it_is(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.stats()
    queue.close()
    monkeypatch.setattr(migrate, "newest", lambda: 2)
    with pytest.raises(StoreError, match="older library"):
        open_reader(queue.path)
    with looking(queue.path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_file_that_is_gone_is_noticed_at_once(
    queue: Queue, reader: Watcher, *, is_replaced: bool
) -> None:
    reader.snapshot()
    queue.close()
    other = queue.path.with_name("other.db")
    shutil.copyfile(queue.path, other)
    queue.path.unlink()
    if is_replaced:
        other.rename(queue.path)
    for look in (reader.changed, reader.snapshot, reader.changed):
        with pytest.raises(FileReplaced):
            look()


def test_a_closed_reader_opens_again(queue: Queue, reader: Watcher) -> None:
    reader.snapshot()
    reader.close()
    assert reader.changed()
    assert reader.snapshot().totals.keys == 0
    with closing(reader):
        pass


STRANGER = """
import os, sys
import slotq
from slotq.store import migrate

migrate.newest()
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
with slotq.open_reader(os.environ["SLOTQ_DB"]) as reader:
    print(reader.changed(), reader.snapshot().totals.waiting)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user")
def test_who_may_not_write_may_look_while_the_file_is_in_use(tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="slotq-"))  # those of pytest are closed to others
    try:
        folder.chmod(0o755)
        with Queue(folder / "jobs.db") as queue:
            queue.enqueue("t")
            before = tree(folder).keys()
            told = run_script(STRANGER, tmp_path, SLOTQ_DB=str(queue.path))
            assert told.split()[:2] == ["True", "1"]  # where it may write, coverage says more
            assert tree(folder).keys() == before
    finally:
        shutil.rmtree(folder)
