"""A write happens as a whole or not at all, and no lock stays behind, whatever comes between."""

import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final

import pytest

from slotq.errors import FileReplaced, QueueBusy, StoreError
from slotq.store import handles, jobs
from slotq.store.connection import Database
from slotq.store.transaction import Reader, Tx
from slotq.store.turnstile import Turnstile
from support.partner import Partner, RefusedError, wait_until_taken
from support.procs import until
from support.stores import (
    ONE_CALL,
    TERMS,
    Stores,
    UseOf,
    add,
    integrity,
    job_ids,
    open_files,
    read_once,
    write_once,
)

SHORT_S: Final = 0.2


def add_inside(tx: Tx) -> None:
    jobs.add(tx, TERMS, ONE_CALL)


@pytest.mark.parametrize(
    "error", [ValueError("no"), KeyboardInterrupt(), SystemExit(1), GeneratorExit()], ids=repr
)
def test_any_exception_undoes_the_block(stores: Stores, error: BaseException) -> None:
    database = stores.open()
    with pytest.raises(type(error)), database.write() as tx:
        add_inside(tx)
        raise error
    assert (job_ids(database.path), add(database)) == ([], [1])


def test_a_failing_statement_is_told_as_ours(stores: Stores) -> None:
    database = stores.open()
    with pytest.raises(StoreError, match="no such table"), database.write() as tx:
        add_inside(tx)
        tx.rows("SELECT * FROM missing")
    with pytest.raises(StoreError, match="no such table"), database.read() as reader:
        reader.rows("SELECT * FROM missing")
    assert (read_once(database), add(database)) == (0, [1])


def test_a_full_file_undoes_the_block_and_the_connection_works_on(stores: Stores) -> None:
    database = stores.open()
    add(database)
    with database.write() as tx:
        most = tx.value("PRAGMA max_page_count")
        tx.value(f"PRAGMA max_page_count = {tx.value('PRAGMA page_count') + 5}")
    large = jobs.Call(f'["{"x" * 4_000}"]', "{}", "")
    with pytest.raises(StoreError, match="the disk is full"), database.write() as tx:
        jobs.add_many(tx, TERMS, [large] * 1_000)
    assert job_ids(database.path) == [1]
    with database.write() as tx:
        tx.value(f"PRAGMA max_page_count = {most}")
        assert jobs.add_many(tx, TERMS, [large] * 100) == range(2, 102)
    assert integrity(database.path) == "ok"


def test_a_failing_commit_undoes_the_block_and_the_connection_works_on(stores: Stores) -> None:
    """A foreign key that is checked at the end makes COMMIT itself fail."""
    database = stores.open()
    with database.write() as tx:
        tx.run("CREATE TABLE parent (id INTEGER PRIMARY KEY)")
        tx.run("CREATE TABLE child (id REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")
        for statement in ("COMMIT", "PRAGMA foreign_keys = 1", "BEGIN IMMEDIATE"):
            tx.run(statement)
    with pytest.raises(StoreError, match="FOREIGN KEY constraint failed"), database.write() as tx:
        add_inside(tx)
        tx.run("INSERT INTO child VALUES (7)")
    assert (job_ids(database.path), add(database)) == ([], [1])


def test_a_disk_that_takes_no_more_at_commit_undoes_the_block(
    stores: Stores, partner: Partner
) -> None:
    """The log cannot grow: what was written of the transaction counts for nothing."""
    database = stores.open()
    add(database)
    partner.ask("use", str(database.path), 5.0)
    partner.ask("add", 1)
    partner.ask("limit_files", database.log.size() + 50_000)
    partner.ask("begin")
    partner.ask("fill", 300_000)
    with pytest.raises(RefusedError, match=r"StoreError: .*jobs\.db: reading or writing it failed"):
        partner.ask("commit")
    assert add(database) == [3]
    partner.ask("limit_files", -1)
    assert partner.ask("add", 1) == [4]
    assert (job_ids(database.path), integrity(database.path)) == ([1, 2, 3, 4], "ok")


class Interrupter:
    """Raises KeyboardInterrupt at the n-th of the places where Python lets signals in.

    Those are the end of a call of C, and the beginning of a function of Python.
    """

    def __init__(self, place: int) -> None:
        self._left = place
        self.has_raised = False

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event in {"call", "c_return"}:
            self._left -= 1
            if self._left == 0:
                self.has_raised = True
                raise KeyboardInterrupt


def interrupted(place: int, action: Callable[[], object]) -> bool:
    """Run it with an interrupt; return whether it came to that."""
    interrupter = Interrupter(place)
    try:
        sys.setprofile(interrupter)
        action()
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    return interrupter.has_raised


def assert_nothing_is_held(database: Database) -> None:
    """Nobody is inside: neither a thread of this process, nor, as others see it, the process."""
    turnstile = Turnstile(database.directory)
    assert turnstile.enter(0.0)
    turnstile.leave()
    turnstile.close()
    others = sqlite3.connect(database.path, timeout=0, isolation_level=None)
    others.execute("BEGIN IMMEDIATE")
    others.close()


def test_an_interrupt_at_any_place_leaves_no_lock_and_no_half(stores: Stores) -> None:
    database = stores.open(lock_timeout_s=SHORT_S)

    def write() -> None:
        with database.write() as tx:
            add_inside(tx)
            add_inside(tx)

    write()
    known, place = 2, 1
    while interrupted(place, write):
        assert_nothing_is_held(database)
        now = len(job_ids(database.path))
        assert now in {known, known + 2}, place
        write()
        known, place = now + 2, place + 1
    assert place > 30


def test_an_interrupt_at_any_place_of_a_read_leaves_no_lock(stores: Stores) -> None:
    database = stores.open(lock_timeout_s=SHORT_S)
    add(database)
    place = 1
    while interrupted(place, lambda: read_once(database)):
        assert read_once(database) == 1, place
        place += 1
    assert place > 10


# What its maker could not yet note is closed by the garbage collector, which warns of it.
@pytest.mark.filterwarnings("ignore:unclosed", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("use", [write_once, read_once])
@pytest.mark.parametrize("is_there", [True, False])
def test_an_interrupt_at_any_place_of_an_opening_leaves_no_lock(
    stores: Stores, use: UseOf, is_there: bool
) -> None:
    place, was_interrupted = 1, True
    while was_interrupted:
        name = "jobs.db" if is_there else f"{place}.db"
        if is_there:
            add(stores.open(name))
            stores.close()
        database = stores.open(name, lock_timeout_s=SHORT_S)
        was_interrupted = interrupted(place, partial(use, database))
        assert write_once(database)
        assert_nothing_is_held(database)
        database.close()
        # There are some 400 places, and thousands where the schema is made, one like the other.
        place += 7 if is_there else 151
    assert place > 30


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_signals_leave_no_lock(stores: Stores) -> None:
    """The same with a real timer, at whatever place it comes."""
    database = stores.open(lock_timeout_s=SHORT_S)
    add(database)
    interrupts = 0
    is_armed = False

    def interrupt(*_: object) -> None:
        nonlocal is_armed
        # Once at a time: a second one could come where the first has been caught.
        if is_armed:
            is_armed = False
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGPROF, interrupt)
    try:
        while interrupts < 100:
            try:
                wait_s = 0.0001 + interrupts % 97 / 200_000
                signal.setitimer(signal.ITIMER_PROF, wait_s, 0.01)
                while True:
                    is_armed = True  # again: one that comes while something is freed is swallowed
                    add(database)
            except KeyboardInterrupt:
                interrupts += 1
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    assert_nothing_is_held(database)
    assert add(database)


def busy(use: Callable[[], object]) -> QueueBusy:
    """Return the error of what waits in vain; that it waited, but not for long."""
    began = time.monotonic()
    with pytest.raises(QueueBusy) as caught:
        use()
    assert SHORT_S <= time.monotonic() - began < SHORT_S + 5
    assert SHORT_S <= caught.value.waited_s < SHORT_S + 5
    return caught.value


def test_a_foreign_writer_is_waited_for_until_the_deadline(
    stores: Stores, partner: Partner
) -> None:
    database = stores.open(lock_timeout_s=SHORT_S)
    add(database)
    partner.ask("foreign", str(database.path), "BEGIN IMMEDIATE")
    assert "still locked by others after 0.2 s" in str(busy(lambda: add(database)))
    partner.ask("foreign", str(database.path), "ROLLBACK")
    assert add(database) == [2]


def test_a_foreign_writer_that_ends_in_time_is_waited_for(stores: Stores, partner: Partner) -> None:
    database = stores.open(lock_timeout_s=30)
    add(database)
    partner.ask("foreign", str(database.path), "BEGIN IMMEDIATE")
    writer = threading.Thread(target=add, args=(database,))
    writer.start()
    wait_until_taken(database.directory / "lock")
    partner.ask("foreign", str(database.path), "COMMIT")
    writer.join()
    assert job_ids(database.path) == [1, 2]


def test_a_stopped_process_does_not_hang_the_others(stores: Stores, partner: Partner) -> None:
    database = stores.open(lock_timeout_s=SHORT_S)
    add(database)
    partner.ask("use", str(database.path), 5.0)
    partner.ask("begin")
    partner.ask("fill", 10)
    partner.stop()
    busy(lambda: add(database))
    assert read_once(database) == 1
    partner.go_on()
    partner.ask("commit")
    assert (add(database), job_ids(database.path)) == ([3], [1, 2, 3])


def test_a_process_stopped_between_the_two_locks_does_not_hang_the_others(
    stores: Stores, partner: Partner
) -> None:
    database = stores.open(lock_timeout_s=SHORT_S)
    add(database)
    holder = Turnstile(database.directory)
    assert holder.enter(time.monotonic())
    partner.tell("enter", str(database.directory), 30.0)
    wait_until_taken(database.directory / "gate")
    partner.stop()
    holder.leave()
    holder.close()
    busy(lambda: add(database))
    partner.go_on()
    assert partner.hear() is True
    partner.ask("leave")
    assert add(database) == [2]


def test_a_killed_holder_frees_at_once(stores: Stores, partner: Partner) -> None:
    database = stores.open(lock_timeout_s=30)
    add(database)
    partner.ask("use", str(database.path), 5.0)
    partner.ask("begin")
    partner.ask("fill", 10)
    partner.kill()
    began = time.monotonic()
    assert add(database) == [2]
    assert time.monotonic() - began < 5


def test_threads_of_one_process_take_turns(stores: Stores) -> None:
    database = stores.open(lock_timeout_s=30)
    with database.write() as tx:
        tx.run("CREATE TABLE number (value INTEGER)")
        tx.run("INSERT INTO number VALUES (0)")

    def count_up() -> None:
        for _ in range(100):
            with database.write() as tx:
                value = tx.value("SELECT value FROM number")
                tx.run("UPDATE number SET value = ?", (value + 1,))
            with database.read() as reader:
                assert reader.value("SELECT value FROM number") > value

    in_threads(*[count_up] * 4)
    with database.read() as reader:
        assert reader.value("SELECT value FROM number") == 400


def in_threads(*actions: Callable[[], object]) -> None:
    """Run all at once; fail if one fails."""
    errors: list[BaseException] = []

    def run(action: Callable[[], object]) -> None:
        try:
            action()
        except BaseException as error:  # noqa: BLE001  # whatever it is, the test shows it
            errors.append(error)

    threads = [threading.Thread(target=run, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_a_reader_sees_one_state_and_stops_no_writer(stores: Stores, partner: Partner) -> None:
    database = stores.open()
    add(database)
    partner.ask("use", str(database.path), 5.0)
    assert partner.ask("read") == 1
    assert add(database, 2) == [2, 3]
    assert partner.ask("count") == 1
    partner.ask("read_end")
    assert partner.ask("read") == 3
    partner.ask("read_end")
    with database.read() as reader:
        assert reader.value("SELECT count(*) FROM slotq_jobs") == 3
        add(database)
        assert reader.value("SELECT count(*) FROM slotq_jobs") == 3


def test_readers_of_one_process_wait_until_the_deadline(stores: Stores) -> None:
    database = stores.open(lock_timeout_s=SHORT_S)
    add(database)
    with database.read():
        in_threads(lambda: busy(lambda: read_once(database)))
        in_threads(lambda: busy(database.data_version))
        in_threads(lambda: busy(database.close))
    assert read_once(database) == 1


def test_close_inside_a_transaction_of_the_same_thread_does_not_hang(stores: Stores) -> None:
    """As a signal handler may do it that ends the program."""
    database = stores.open(lock_timeout_s=SHORT_S)
    with database.write() as tx:
        add_inside(tx)
        busy(database.close)
        busy(lambda: add(database))
        add_inside(tx)
    assert job_ids(database.path) == [1, 2]


def test_close_lets_others_wait_and_they_open_it_again(stores: Stores, tmp_path: Path) -> None:
    database = stores.open(lock_timeout_s=30)
    add(database)
    begun = threading.Barrier(5)

    def use() -> None:
        begun.wait()
        for _ in range(20):
            add(database)
            read_once(database)

    def close() -> None:
        begun.wait()
        for _ in range(20):
            database.close()

    in_threads(use, use, use, close, close)
    assert (len(job_ids(database.path)), integrity(database.path)) == (61, "ok")
    database.close()
    assert open_files(tmp_path) == []
    assert add(database) == [62]


def test_versions_change_when_others_commit_and_when_the_file_is_opened_again(
    stores: Stores,
) -> None:
    mine, other = stores.open(), stores.open()
    add(mine)
    versions = [mine.data_version()]

    def changed() -> bool:
        versions.append(mine.data_version())
        return versions[-1] not in versions[:-1]

    assert mine.data_version() == versions[0]
    add(mine)
    assert changed()
    add(other)
    assert changed()
    mine.close()
    assert changed()
    with mine.write() as tx:
        own = mine.foreign_version(tx)
        add_inside(tx)
    assert mine.foreign_version() == own
    add(other)
    assert mine.foreign_version() != own
    mine.close()
    assert mine.foreign_version() == -1


@pytest.fixture
def always_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handles, "IDENTITY_EVERY_S", 0.0)


@pytest.mark.usefixtures("always_look")
@pytest.mark.parametrize("use", [write_once, read_once, Database.check_identity])
@pytest.mark.parametrize("how", ["deleted", "replaced", "locks deleted", "locks replaced"])
def test_a_file_that_went_is_noticed(
    stores: Stores, tmp_path: Path, how: str, use: Callable[[Database], object]
) -> None:
    database = stores.open()
    add(database)
    read_once(database)
    lock = database.directory / "lock"
    went = database.path if "locks" not in how else lock
    went.rename(tmp_path / "gone")
    if "replaced" in how:
        went.write_bytes(b"")
    before = sorted(tmp_path.iterdir())
    for _ in range(3):
        with pytest.raises(FileReplaced) as caught:
            use(database)
        assert str(tmp_path / "jobs.db") in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before
    database.close()
    if how == "deleted":
        assert add(database) == [1]


@pytest.mark.usefixtures("always_look")
def test_a_link_that_leads_elsewhere_is_noticed(stores: Stores, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to("one.db")
    database = stores.open("link.db")
    add(database)
    add(stores.open("two.db"))
    (tmp_path / "link.db").unlink()
    (tmp_path / "link.db").symlink_to("two.db")
    with pytest.raises(FileReplaced):
        add(database)


def test_what_a_block_gave_is_of_no_use_after_it(stores: Stores, tmp_path: Path) -> None:
    database = stores.open()
    add(database)
    with database.write() as tx:
        add_inside(tx)
    with database.read() as reader:
        assert reader.value("SELECT count(*) FROM slotq_jobs") == 2
    for left in (tx, reader):
        with pytest.raises(sqlite3.ProgrammingError, match="closed cursor"):
            left.rows("SELECT 1")
    database.close()
    assert open_files(tmp_path) == []


def test_a_block_that_is_dropped_unleft_lets_go(stores: Stores) -> None:
    database = stores.open(lock_timeout_s=SHORT_S)
    add(database)
    for begin in (database.write, database.read):
        block = begin()
        seen: Reader = block.__enter__()
        assert seen.value("SELECT count(*) FROM slotq_jobs") == 1
        del block
    assert_nothing_is_held(database)
    assert (add(database), read_once(database)) == ([2], 2)


def test_a_wait_in_another_thread_ends_when_the_turn_comes(stores: Stores) -> None:
    database = stores.open(lock_timeout_s=30)
    add(database)
    done = threading.Event()

    def write() -> None:
        add(database)
        done.set()

    with database.write():
        writer = threading.Thread(target=write)
        writer.start()
        until(writer.is_alive)
        assert not done.is_set()
    writer.join()
    assert job_ids(database.path) == [1, 2]
