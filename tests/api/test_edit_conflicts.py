"""``if_version``: an edit is for the limit that its maker saw, or it is refused."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from slotq import EditConflict, InvalidValue, Queue
from support.wrongly import wrongly


def test_an_edit_of_what_was_seen_is_made(queue: Queue) -> None:
    seen = queue.set_limit("k", max_running=3)
    edited = queue.set_limit("k", max_running=4, if_version=seen.version)
    assert (edited.max_running, edited.version) == (4, 2)
    assert queue.clear_limit("k", name="", if_version=2) == 1
    assert queue.limits() == []


def test_who_is_late_changes_nothing_and_sees_what_there_is(queue: Queue) -> None:
    seen = queue.set_limit("k", max_running=3)
    theirs = queue.set_limit("k", max_running=4, updated_by="ann")
    before = queue.events()
    with pytest.raises(EditConflict, match="it has version 2 now, by ann") as told:
        queue.set_limit("k", max_running=5, if_version=seen.version)
    assert (told.value.limit, told.value.if_version) == (theirs, 1)
    with pytest.raises(EditConflict) as told:
        queue.clear_limit("k", name="", if_version=1)
    assert (told.value.limit, told.value.if_version) == (theirs, 1)
    assert queue.limits() == [theirs]
    assert queue.events() == before


def test_zero_means_that_there_must_be_none(queue: Queue) -> None:
    made = queue.set_limit("k", max_running=3, if_version=0)
    assert made.version == 1
    with pytest.raises(EditConflict, match="meant for no limit, but it has version 1") as told:
        queue.set_limit("k", max_running=4, if_version=0)
    assert told.value.limit == made
    with pytest.raises(EditConflict):
        queue.clear_limit("k", name="", if_version=0)
    assert queue.limits() == [made]
    assert queue.clear_limit("other", name="", if_version=0) == 0


def test_what_is_gone_is_a_conflict(queue: Queue) -> None:
    with pytest.raises(EditConflict, match="but there is none now") as told:
        queue.set_limit("k", max_running=4, if_version=1)
    assert told.value.limit is None
    with pytest.raises(EditConflict) as told:
        queue.clear_limit("k", name="", if_version=3)
    assert told.value.limit is None
    assert queue.limits() == []


def test_each_name_has_a_version_of_its_own(queue: Queue) -> None:
    queue.set_limit("k", max_running=3)
    queue.set_limit("k", max_running=2)
    queue.set_limit("k", name="n", max_running=9)
    assert queue.set_limit("k", name="n", max_running=8, if_version=1).version == 2
    queue.set_limit(queue="q", max_running=9)
    assert queue.set_limit(queue="q", max_running=8, if_version=1).version == 2
    assert queue.clear_limit("k", name="n", if_version=2) == 1
    assert [(limit.key, limit.version) for limit in queue.limits()] == [("k", 2), (None, 2)]


def test_a_version_of_all_names_is_refused(queue: Queue) -> None:
    limit = queue.set_limit("k", max_running=3)
    with pytest.raises(InvalidValue, match="if_version needs name"):
        queue.clear_limit("k", if_version=1)
    assert queue.limits() == [limit]


@pytest.mark.parametrize("version", [-1, True, 1.0, "1"])
def test_a_version_is_a_whole_number(queue: Queue, version: object) -> None:
    with pytest.raises(InvalidValue, match="if_version must be an integer"):
        wrongly(queue.set_limit)("k", max_running=1, if_version=version)
    with pytest.raises(InvalidValue, match="if_version must be an integer"):
        wrongly(queue.clear_limit)("k", name="", if_version=version)


def test_a_conflict_leaves_the_caller_s_transaction_as_it_was(queue: Queue) -> None:
    queue.set_limit("k", max_running=3)
    with closing(sqlite3.connect(queue.path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE mine (id INTEGER)")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO mine VALUES (7)")
        with pytest.raises(EditConflict):
            queue.set_limit("k", max_running=4, if_version=9, connection=connection)
        assert queue.set_limit("k", max_running=4, if_version=1, connection=connection).version == 2
        connection.execute("COMMIT")
        assert connection.execute("SELECT id FROM mine").fetchall() == [(7,)]
    assert [(limit.max_running, limit.version) for limit in queue.limits()] == [(4, 2)]


async def test_twins_refuse_likewise(queue: Queue) -> None:
    await queue.aset_limit("k", max_running=3)
    with pytest.raises(EditConflict):
        await queue.aset_limit("k", max_running=3, if_version=2)
    with pytest.raises(EditConflict):
        await queue.aclear_limit("k", name="", if_version=2)


def test_of_many_at_once_each_version_is_one_s_own(tmp_path: Path) -> None:
    conflicts: list[EditConflict] = []
    with Queue(tmp_path / "jobs.db") as queue:
        queue.set_limit("k", max_running=1)

        def count_up() -> None:
            for _ in range(25):
                while True:
                    (limit,) = queue.limits()
                    try:
                        queue.set_limit(
                            "k", max_running=(limit.max_running or 0) + 1, if_version=limit.version
                        )
                        break
                    except EditConflict as error:
                        conflicts.append(error)

        threads = [threading.Thread(target=count_up) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (limit,) = queue.limits()
    assert (limit.max_running, limit.version) == (101, 101)
    assert conflicts
