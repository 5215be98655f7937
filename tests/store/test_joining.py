"""A write inside the caller's transaction is part of it, whatever the caller has set."""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slotq.errors import InvalidValue, QueueBusy, StoreError
from slotq.keys import parse_subject
from slotq.store import claims, due, jobs, limits
from slotq.store.connection import Database
from slotq.store.transaction import Tx
from slotq.testing import ManualClock
from support.partner import Partner, wait_until_taken
from support.recount import Rows, recount
from support.stores import (
    ONE_CALL,
    TERMS,
    Stores,
    add,
    add_bulk,
    job_ids,
    looking,
    open_files,
    run_one,
)

SHORT_S = 0.3


@pytest.fixture
def database(stores: Stores) -> Database:
    """A queue with one job, in a file that has a table of the caller's."""
    opened = stores.open(lock_timeout_s=SHORT_S)
    add(opened)
    with opened.write() as tx:
        tx.run("CREATE TABLE theirs (text TEXT)")
    return opened


@contextmanager
def connected(path: Path | str) -> Generator[sqlite3.Connection]:
    connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


@pytest.fixture
def caller(database: Database) -> Generator[sqlite3.Connection]:
    with connected(database.path) as connection:
        yield connection


def enqueue(database: Database, connection: sqlite3.Connection) -> int:
    with database.join(connection) as tx:
        return jobs.add(tx, TERMS, ONE_CALL)[0]


def theirs(path: Path) -> list[str]:
    with looking(path) as connection:
        return [text for (text,) in connection.execute("SELECT text FROM theirs")]


def test_it_commits_with_the_callers_data(database: Database, caller: sqlite3.Connection) -> None:
    caller.execute("BEGIN IMMEDIATE")
    caller.execute("INSERT INTO theirs VALUES ('mine')")
    assert enqueue(database, caller) == 2
    assert caller.execute("SELECT count(*) FROM slotq_jobs").fetchone() == (2,)
    assert (job_ids(database.path), theirs(database.path)) == ([1], [])
    caller.execute("COMMIT")
    assert (job_ids(database.path), theirs(database.path)) == ([1, 2], ["mine"])
    assert add(database) == [3]


def test_it_rolls_back_with_the_callers_data(
    database: Database, caller: sqlite3.Connection
) -> None:
    caller.execute("BEGIN IMMEDIATE")
    caller.execute("INSERT INTO theirs VALUES ('mine')")
    enqueue(database, caller)
    caller.execute("ROLLBACK")
    assert (job_ids(database.path), theirs(database.path)) == ([1], [])
    assert add(database) == [2]


def test_savepoints_of_the_caller_hold_it_too(
    database: Database, caller: sqlite3.Connection
) -> None:
    """Also one of the name that is ours."""
    caller.execute("BEGIN IMMEDIATE")
    enqueue(database, caller)
    caller.execute("SAVEPOINT slotq")
    caller.execute("INSERT INTO theirs VALUES ('undone')")
    enqueue(database, caller)
    caller.execute("ROLLBACK TO slotq")
    assert enqueue(database, caller) == 3
    caller.execute("COMMIT")
    assert (job_ids(database.path), theirs(database.path)) == ([1, 2, 3], [])


def fail_in_sql(tx: Tx) -> None:
    tx.run("INSERT INTO missing VALUES (1)")


def fail_in_a_trigger(tx: Tx) -> None:
    tx.run("UPDATE slotq_jobs SET lane_id = 77")


def fail_in_python(_: Tx) -> None:
    raise ZeroDivisionError


def interrupt(_: Tx) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("fail", "kind"),
    [
        (fail_in_sql, StoreError),
        (fail_in_a_trigger, StoreError),
        (fail_in_python, ZeroDivisionError),
        (interrupt, KeyboardInterrupt),
    ],
)
def test_a_failure_undoes_only_ours(
    database: Database,
    caller: sqlite3.Connection,
    fail: Callable[[Tx], None],
    kind: type[BaseException],
) -> None:
    caller.execute("BEGIN IMMEDIATE")
    caller.execute("INSERT INTO theirs VALUES ('before')")
    enqueue(database, caller)
    with pytest.raises(kind), database.join(caller) as tx:
        add_bulk(tx, 3)
        fail(tx)
    assert caller.in_transaction
    caller.execute("INSERT INTO theirs VALUES ('after')")
    caller.execute("COMMIT")
    assert (job_ids(database.path), theirs(database.path)) == ([1, 2], ["before", "after"])


def test_a_full_disk_is_told_even_if_sqlite_ends_the_transaction(
    database: Database, caller: sqlite3.Connection
) -> None:
    pages = caller.execute("PRAGMA page_count").fetchone()[0]
    caller.execute(f"PRAGMA max_page_count = {pages + 3}")
    caller.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="the disk is full"), database.join(caller) as tx:
        add_bulk(tx, 10_000)
    if caller.in_transaction:
        caller.execute("COMMIT")
    assert (job_ids(database.path), add(database)) == ([1], [2])


def refused(database: Database, connection: sqlite3.Connection) -> str:
    before = connection.text_factory
    with pytest.raises(InvalidValue) as caught:
        enqueue(database, connection)
    assert connection.text_factory is before
    assert job_ids(database.path) == [1]
    return str(caught.value)


def test_it_is_refused_outside_a_transaction(
    database: Database, caller: sqlite3.Connection
) -> None:
    caller.text_factory = bytes
    said = "connection is in no transaction: begin one with BEGIN IMMEDIATE first"
    assert refused(database, caller) == said


def test_it_is_refused_on_another_file(database: Database, stores: Stores, tmp_path: Path) -> None:
    add(stores.open("other.db"))
    for place in (tmp_path / "other.db", ":memory:", ""):
        with connected(place) as connection:
            connection.execute("BEGIN IMMEDIATE")
            said = refused(database, connection)
            assert f"not on {database.path}" in said
            assert ("a database in memory" in said) == (place in {":memory:", ""})


def test_it_is_refused_where_our_file_is_not_the_main_one(
    database: Database, tmp_path: Path
) -> None:
    with connected(tmp_path / "other.db") as connection:
        connection.execute("ATTACH ? AS jobs", (str(database.path),))
        connection.execute("BEGIN IMMEDIATE")
        assert "not on" in refused(database, connection)


def test_a_closed_connection_is_refused(database: Database, caller: sqlite3.Connection) -> None:
    caller.close()
    assert "connection cannot be used" in refused(database, caller)


def test_a_connection_of_another_thread_is_refused(
    database: Database, caller: sqlite3.Connection
) -> None:
    caller.execute("BEGIN IMMEDIATE")
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(refused(database, caller)))
    thread.start()
    thread.join()
    assert "connection cannot be used" in said[0]


def test_other_names_of_the_file_are_accepted(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link.db").symlink_to(database.path)
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("link.db", "./jobs.db", str(database.path)), start=2):
        with connected(name) as connection:
            connection.execute("BEGIN IMMEDIATE")
            assert enqueue(database, connection) == number
            connection.execute("COMMIT")


def test_a_name_that_is_no_text_is_accepted(stores: Stores) -> None:
    database = stores.open(os.fsdecode(b"\xff.db"))
    add(database)
    with connected(os.fspath(database.path)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        assert enqueue(database, connection) == 2
        connection.execute("COMMIT")


class Odd(sqlite3.Connection):
    """A connection that hands out cursors of its own kind."""


def for_its_owner_only(*_: object) -> sqlite3.Cursor:
    raise AssertionError


setattr(Odd, "cursor", for_its_owner_only)  # noqa: B010  # its type does not matter here


def as_dict(cursor: sqlite3.Cursor, row: tuple[object, ...]) -> dict[str, object]:
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}


def with_row_factory(connection: sqlite3.Connection) -> None:
    connection.row_factory = sqlite3.Row


def with_dicts(connection: sqlite3.Connection) -> None:
    connection.row_factory = as_dict


def with_bytes(connection: sqlite3.Connection) -> None:
    connection.text_factory = bytes


def with_isolation(connection: sqlite3.Connection) -> None:
    connection.isolation_level = "DEFERRED"


PRAGMAS = [
    "automatic_index = 0",
    "case_sensitive_like = 1",
    "cell_size_check = 1",
    "foreign_keys = 1",
    "full_column_names = 1",
    "legacy_alter_table = 1",
    "recursive_triggers = 1",
    "reverse_unordered_selects = 1",
    "secure_delete = 1",
    "short_column_names = 0",
    "synchronous = 0",
    "temp_store = 2",
    "trusted_schema = 0",
]


def with_pragma(pragma: str) -> Callable[[sqlite3.Connection], None]:
    def setting(connection: sqlite3.Connection) -> None:
        connection.execute(f"PRAGMA {pragma}").fetchall()

    setting.__name__ = pragma
    return setting


SETTINGS = [with_row_factory, with_dicts, with_bytes, with_isolation, *map(with_pragma, PRAGMAS)]


def story(tx: Tx) -> None:
    """Some of everything, so that every trigger has its turn."""
    window = limits.Change(max_running=2, max_starts=40, window=limits.Span(ms=60_000))
    for subject in ("k*", "k1", "*"):
        target = limits.Target.of(parse_subject(subject), subject[1:])
        limits.set_limit(tx, target, window, "test")
    for key in ("k1", "K1", "k2", "", "k3"):
        add_bulk(tx, 4, key)
    for _ in range(5):
        assert run_one(tx)
    claimer = claims.Claimer(1, "round-robin", ["default"], {"t"}, 1)
    assert len(claims.claim(tx, claimer, 6)) == 6
    limits.clear_limit(tx, limits.Target.of(parse_subject("k*"), "*"), every_name=True)
    limits.set_limit(
        tx, limits.Target.of(parse_subject("k1"), "1"), limits.Change(max_running=9), "test"
    )
    waiting = tx.value("SELECT max(id) FROM slotq_jobs WHERE state = 'waiting'")
    assert jobs.cancel(tx, waiting)
    jobs.retry(tx, waiting)
    jobs.delete(tx, waiting)
    due.handle_due(tx)
    assert jobs.prune(tx, tx.now, 3) == 3
    jobs.prune_keys(tx, 0, 100)


def content(path: Path) -> list[object]:
    with looking(path) as connection:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        return [
            connection.execute(f"SELECT * FROM {name}").fetchall()
            for name in sorted(name for (name,) in tables.fetchall())
        ]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda each: each.__name__)
def test_settings_of_the_caller_change_nothing_and_stay(
    stores: Stores, setting: Callable[[sqlite3.Connection], None]
) -> None:
    clock = ManualClock()
    alone, joined = stores.open("alone.db", clock=clock), stores.open("joined.db", clock=clock)
    for each in (alone, joined):
        add(each)
    with alone.write() as tx:
        story(tx)
    with connected(joined.path) as connection:
        setting(connection)
        before = settings_of(connection)
        connection.execute("BEGIN IMMEDIATE")
        with joined.join(connection) as tx:
            story(tx)
        assert settings_of(connection) == before
        connection.execute("COMMIT")
    assert content(joined.path) == content(alone.path)
    with connected(joined.path) as connection:
        recount(Rows(connection), None)


def settings_of(connection: sqlite3.Connection) -> list[object]:
    names = [pragma.split(" ")[0] for pragma in PRAGMAS]
    asked = sqlite3.Cursor(connection)
    values = [asked.execute(f"PRAGMA {name}").fetchall() for name in names]
    return [connection.row_factory, connection.text_factory, connection.isolation_level, values]


def test_a_connection_of_another_class_is_used_by_its_base(database: Database) -> None:
    connection = sqlite3.connect(database.path, isolation_level=None, factory=Odd)
    sqlite3.Cursor(connection).execute("BEGIN IMMEDIATE")
    assert enqueue(database, connection) == 2
    sqlite3.Cursor(connection).execute("COMMIT")
    connection.close()


def test_a_transaction_that_has_read_and_lost_is_told_at_once(
    stores: Stores, database: Database, caller: sqlite3.Connection
) -> None:
    patient = stores.open(lock_timeout_s=60)
    caller.execute("BEGIN")
    caller.execute("SELECT * FROM theirs").fetchall()
    add(database)
    began = time.monotonic()
    with pytest.raises(QueueBusy, match="begin it with BEGIN IMMEDIATE") as caught:
        enqueue(patient, caller)
    assert time.monotonic() - began < 30
    assert caught.value.hint
    assert caller.in_transaction
    caller.execute("ROLLBACK")
    caller.execute("BEGIN IMMEDIATE")
    assert enqueue(patient, caller) == 3
    caller.execute("COMMIT")


@pytest.mark.parametrize("has_read", [True, False])
def test_a_deferred_transaction_that_has_not_lost_can_write(
    database: Database, caller: sqlite3.Connection, has_read: bool
) -> None:
    caller.execute("BEGIN")
    if has_read:
        caller.execute("SELECT * FROM theirs").fetchall()
    assert enqueue(database, caller) == 2
    caller.execute("COMMIT")
    assert job_ids(database.path) == [1, 2]


def test_a_deferred_transaction_waits_for_others_until_the_deadline(
    database: Database, caller: sqlite3.Connection, partner: Partner
) -> None:
    """The caller's own time-out is 0."""
    partner.ask("use", str(database.path), 5.0)
    partner.ask("begin")
    caller.execute("BEGIN")
    began = time.monotonic()
    with pytest.raises(QueueBusy) as caught:
        enqueue(database, caller)
    assert time.monotonic() - began >= SHORT_S
    assert (caught.value.waited_s >= SHORT_S, caught.value.hint) == (True, "")
    partner.ask("commit")
    assert enqueue(database, caller) == 2
    caller.execute("COMMIT")


def test_it_does_not_wait_for_a_thread_that_waits_for_the_caller(
    stores: Stores, database: Database, caller: sqlite3.Connection
) -> None:
    shared = stores.open(lock_timeout_s=60)
    add(shared)
    caller.execute("BEGIN IMMEDIATE")
    writer = threading.Thread(target=add, args=(shared,))
    writer.start()
    wait_until_taken(database.directory / "lock")
    began = time.monotonic()
    assert enqueue(shared, caller) == 3
    assert time.monotonic() - began < 30
    caller.execute("COMMIT")
    writer.join()
    assert job_ids(database.path) == [1, 2, 3, 4]


def test_the_first_use_may_be_inside_a_transaction(
    stores: Stores, database: Database, caller: sqlite3.Connection
) -> None:
    caller.execute("BEGIN IMMEDIATE")
    fresh = stores.open(lock_timeout_s=SHORT_S)
    assert enqueue(fresh, caller) == 2
    caller.execute("COMMIT")


def test_a_queue_is_not_made_amid_a_transaction(stores: Stores, tmp_path: Path) -> None:
    """A write-ahead log is begun outside of one: that is told, and not waited for for ever."""
    database = stores.open("new.db", lock_timeout_s=SHORT_S)
    with connected(tmp_path / "new.db") as connection:
        connection.execute("CREATE TABLE theirs (text TEXT)")
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(QueueBusy, match="use the queue once before the transaction begins"):
            enqueue(database, connection)
        connection.execute("INSERT INTO theirs VALUES ('kept')")
        connection.execute("COMMIT")
        assert add(database) == [1]
        connection.execute("BEGIN IMMEDIATE")
        assert enqueue(database, connection) == 2
        connection.execute("COMMIT")
    assert theirs(database.path) == ["kept"]


def test_what_is_wrong_with_the_file_is_told_as_ever(
    stores: Stores, caller: sqlite3.Connection, tmp_path: Path
) -> None:
    (tmp_path / "picture.db").write_bytes(b"\x89PNG\r\n" * 2_000)
    caller.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="it is not a database"):
        enqueue(stores.open("picture.db"), caller)
    with pytest.raises(StoreError, match="there is no folder"):
        enqueue(stores.open("missing/jobs.db"), caller)
    caller.execute("ROLLBACK")


def test_a_read_only_connection_is_told(database: Database) -> None:
    connection = sqlite3.connect(
        f"{database.path.as_uri()}?mode=ro", uri=True, isolation_level=None
    )
    connection.execute("BEGIN")
    with pytest.raises(StoreError, match="read-only"):
        enqueue(database, connection)
    connection.close()


def test_it_keeps_nothing_of_the_caller_open(database: Database, tmp_path: Path) -> None:
    with connected(database.path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with database.join(connection) as tx:
            add_bulk(tx, 3)
        connection.execute("COMMIT")
    database.close()
    assert open_files(tmp_path) == []
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        tx.value("SELECT 1")
