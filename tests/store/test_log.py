"""The write-ahead log is folded in time, by one process alone, and says what keeps it from that."""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slotq.store import jobs, log
from slotq.store.connection import Database
from slotq.store.log import Folded, LogKeeper
from slotq.store.opening import connect
from slotq.store.turnstile import Turnstile
from support.partner import Partner
from support.procs import until
from support.stores import ONE_CALL, TERMS, Stores, add, integrity, job_ids, read_once

NEVER_S = 3_600.0


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes that a few jobs reach; no watch wakes by itself."""
    monkeypatch.setattr(log, "FOLD_AT_BYTES", 200_000)
    monkeypatch.setattr(log, "QUIET_BYTES", 50_000)
    monkeypatch.setattr(log, "QUIET_S", NEVER_S)
    monkeypatch.setattr(log, "READERS_MS", 20)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch looks often."""
    monkeypatch.setattr(log, "QUIET_S", 0.02)


def begin(stores: Stores) -> Database:
    """Return a database with one job and next to no log: a schema is a large one."""
    database = stores.open(lock_timeout_s=30)
    add(database)
    database.close()
    return database


def grow(database: Database, beyond: int) -> None:
    """Add jobs until the log is larger than that."""
    while database.log.size() <= beyond:
        add(database)


def watches() -> int:
    return sum(thread.name == "slotq-log" for thread in threading.enumerate())


class Alone:
    """The pieces that fold a log, apart from any database."""

    def __init__(self, database: Database) -> None:
        self.writer = connect(database.path, mode="rw", durable=False)
        self.turnstile = Turnstile(database.directory)
        self.keeper = LogKeeper(database.path, self.fold)
        self.tries = 0

    def fold(self, more_than: int = 0, wait_s: float = 0.0) -> Folded:
        """Fold at once or not at all."""
        self.tries += 1
        deadline = time.monotonic() + wait_s
        return self.keeper.fold(more_than, self.writer, self.turnstile, deadline)

    def close(self) -> None:
        """End."""
        self.writer.close()
        self.turnstile.close()


def test_a_large_log_is_folded_by_the_commit_that_made_it_so(stores: Stores) -> None:
    database = begin(stores)
    sizes: list[int] = []
    while 0 not in sizes:
        add(database)
        sizes.append(database.log.size())
    assert 190_000 < max(sizes) <= 220_000
    with database.read() as reader:
        assert reader.value("SELECT count(*) FROM slotq_jobs") == len(sizes) + 1
    database.close()
    assert (len(job_ids(database.path)), integrity(database.path)) == (len(sizes) + 1, "ok")


def test_a_small_log_is_left_alone(stores: Stores) -> None:
    database = begin(stores)
    grow(database, 20_000)
    alone = Alone(database)
    size = database.log.size()
    assert alone.fold(more_than=size) is Folded.DONE
    assert (database.log.size(), watches()) == (size, 0)
    assert alone.fold(more_than=size - 1) is Folded.DONE
    assert database.log.size() == 0
    alone.close()


def test_a_log_is_never_folded_while_a_process_of_ours_writes(
    stores: Stores, partner: Partner
) -> None:
    database = begin(stores)
    grow(database, 20_000)
    alone = Alone(database)
    size = database.log.size()
    partner.ask("use", str(database.path), 5.0)
    partner.ask("begin")
    partner.ask("fill", 10)
    assert alone.fold() is Folded.NO_TURN
    assert database.log.size() == size
    partner.ask("commit")
    assert alone.fold() is Folded.DONE
    assert database.log.size() == 0
    assert add(database)
    alone.close()


def test_an_old_snapshot_keeps_the_log_and_one_process_tries_for_all(
    stores: Stores, partner: Partner
) -> None:
    database = begin(stores)
    partner.ask("use", str(database.path), 5.0)
    assert partner.ask("read") == 1
    grow(database, 100_000)
    one, two = Alone(database), Alone(database)
    assert one.fold() is Folded.READERS
    began = time.monotonic()
    assert [two.fold() for _ in range(50)] == [Folded.READERS] * 50
    assert time.monotonic() - began < 50 * log.READERS_MS / 1000
    assert partner.ask("count") == 1
    partner.ask("read_end")
    until(lambda: two.fold() is Folded.DONE)
    assert database.log.size() == 0
    one.close()
    two.close()


def test_a_log_that_a_reader_keeps_is_folded_later_and_its_size_is_warned_of(
    stores: Stores,
    partner: Partner,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log, "WARN_BYTES", 400_000)
    monkeypatch.setattr(log, "RETRY_S", 0.05)
    database = begin(stores)
    partner.ask("use", str(database.path), 5.0)
    partner.ask("read")
    large = jobs.Call(f'["{"x" * 100_000}"]', "{}", "")
    sizes: list[int] = []

    def is_warned() -> bool:
        with database.write() as tx:
            jobs.add(tx, TERMS, large)
        sizes.append(database.log.size())
        return bool(caplog.messages)

    with caplog.at_level(logging.WARNING, "slotq.log"):
        until(is_warned)
        for _ in range(30):
            is_warned()
    (message,) = caplog.messages
    assert str(database.path) in message
    assert " MB: a reader keeps an old snapshot open" in message
    assert sizes[0] < log.WARN_BYTES < sizes[-1]
    partner.ask("read_end")

    def is_folded() -> bool:
        add(database)
        return database.log.size() < log.FOLD_AT_BYTES

    until(is_folded)


@pytest.mark.usefixtures("quick")
def test_a_log_is_folded_when_all_is_quiet_and_the_watch_ends(stores: Stores) -> None:
    database = begin(stores)
    grow(database, log.QUIET_BYTES)
    assert until(lambda: database.log.size() == 0)
    until(lambda: watches() == 0)
    grow(database, log.QUIET_BYTES)
    assert until(lambda: database.log.size() == 0)


@pytest.mark.usefixtures("quick")
def test_a_quiet_log_that_a_reader_keeps_is_tried_again(stores: Stores, partner: Partner) -> None:
    database = begin(stores)
    partner.ask("use", str(database.path), 5.0)
    partner.ask("read")
    grow(database, log.QUIET_BYTES)
    turnstile = Turnstile(database.directory)
    assert until(lambda: turnstile.is_marked(NEVER_S))
    assert database.log.size() > 0
    partner.ask("read_end")
    assert until(lambda: database.log.size() == 0)


@pytest.mark.usefixtures("quick")
def test_a_log_that_only_joined_transactions_add_to_is_folded(stores: Stores) -> None:
    database = begin(stores)
    connection = sqlite3.connect(database.path, isolation_level=None)
    sizes: list[int] = []
    while not sizes or sizes[-1] >= max(sizes):
        connection.execute("BEGIN IMMEDIATE")
        with database.join(connection) as tx:
            jobs.add(tx, TERMS, ONE_CALL)
        connection.execute("COMMIT")
        sizes.append(database.log.size())
    assert until(lambda: database.log.size() <= log.QUIET_BYTES)
    assert integrity(database.path) == "ok"
    connection.close()


def test_closing_leaves_no_large_log_to_others(stores: Stores, partner: Partner) -> None:
    database = begin(stores)
    partner.ask("use", str(database.path), 5.0)
    partner.ask("add", 1)
    grow(database, log.QUIET_BYTES)
    database.close()
    assert partner.ask("log_size") == 0
    assert watches() == 0
    assert partner.ask("add", 1)


def test_a_watch_of_a_closed_file_ends(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit may start one just as another thread closes the file."""
    database = begin(stores)
    other = stores.open()
    grow(other, log.QUIET_BYTES)
    monkeypatch.setattr(log, "QUIET_S", 0.01)
    database.log.joined()
    until(lambda: watches() == 1)
    assert other.log.size() > log.QUIET_BYTES
    assert add(other)


def test_a_full_process_table_fails_no_commit(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError

    monkeypatch.setattr(threading.Thread, "start", refuse)
    database = begin(stores)
    grow(database, 2 * log.QUIET_BYTES)
    assert add(database)


def test_automatic_checkpoints_are_off_on_every_connection(stores: Stores, tmp_path: Path) -> None:
    database = begin(stores)
    caller = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)
    asked = "PRAGMA wal_autocheckpoint"
    with database.write() as tx:
        assert tx.value(asked) == 0
    with database.read() as reader:
        assert reader.value(asked) == 0
    assert caller.execute(asked).fetchone() == (1_000,)
    caller.execute("BEGIN IMMEDIATE")
    with database.join(caller):
        pass
    caller.execute("COMMIT")
    assert caller.execute(asked).fetchone() == (0,)
    caller.close()


def test_folding_in_several_processes_loses_nothing(
    stores: Stores, partners: Callable[[int], list[Partner]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "FOLD_AT_BYTES", 60_000)
    database = begin(stores)
    everyone = partners(3)
    for each in everyone:
        each.ask("use", str(database.path), 30.0)
        each.ask("fold_at", 60_000)
        each.tell("add", 150)
    add(database, 150)
    read_once(database)
    assert sum(len(each.hear_ids()) for each in everyone) == 450
    assert (len(job_ids(database.path)), integrity(database.path)) == (601, "ok")
    # One that could not get its turn left the fold to the next commit.
    until(lambda: add(database) and database.log.size() < 60_000)
    assert integrity(database.path) == "ok"
