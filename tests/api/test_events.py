"""Events: what is noted, with the thing itself or not at all, and how it is listed."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from slotq import Event, InvalidValue, Queue
from slotq.event import EVENT_KINDS
from slotq.store import events, workers
from slotq.testing import ManualClock
from support.starting import LEASE_MS, finish, registered, start
from support.wrongly import wrongly

START = datetime(2026, 1, 1, tzinfo=UTC)


def told(queue: Queue, kind: str) -> list[tuple[str | None, str]]:
    return [
        (event.key or event.queue, event.text) for event in queue.events() if event.kind == kind
    ]


def test_an_event_tells_what_when_and_who(queue: Queue, clock: ManualClock) -> None:
    clock.advance(1_500)
    queue.set_limit("tenant:*", max_running=3, updated_by="ann")
    assert queue.events() == [
        Event(
            id=1, at=START + timedelta(seconds=1.5), kind="limit_set", key="tenant:*", queue=None,
            job=None, text="max_running 3", by="ann",
        )
    ]  # fmt: skip


def test_an_edit_tells_what_it_changes(queue: Queue) -> None:
    queue.set_limit("k", max_running=3)
    queue.set_limit("k", max_running=5)
    queue.set_limit("k", max_starts=100, window=90.5)
    queue.set_limit("k", window="day", timezone="Europe/Berlin")
    queue.set_limit("k", max_running=None, max_starts=9)
    queue.set_limit("k")
    queue.set_limit("k", name="daily", max_running=1)
    queue.set_limit(queue="q", max_running=2)
    assert told(queue, "limit_set") == [
        ("k", "max_running 3"),
        ("k", "max_running 3 -> 5"),
        ("k", "max_starts none -> 100 in 90.5 s"),
        ("k", "max_starts 100 in 90.5 s -> 100 in a day of Europe/Berlin"),
        (
            "k",
            "max_running 5 -> none, "
            "max_starts 100 in a day of Europe/Berlin -> 9 in a day of Europe/Berlin",
        ),
        ("k", "as it was"),
        ("k", "daily: max_running 1"),
        ("q", "max_running 2"),
    ]


def test_each_limit_that_is_cleared_is_told(queue: Queue) -> None:
    queue.set_limit(r"a\*", max_running=3)
    queue.set_limit(r"a\*", name="hourly", max_starts=5, window=3_600)
    queue.set_limit(queue="q", max_running=2)
    assert queue.clear_limit(r"a\*", updated_by="bob") == 2
    assert queue.clear_limit(r"a\*") == 0
    assert queue.clear_limit(queue="q", name="") == 1
    assert told(queue, "limit_cleared") == [
        (r"a\*", "was max_running 3"),
        (r"a\*", "hourly: was max_starts 5 in 3600 s"),
        ("q", "was max_running 2"),
    ]
    assert queue.events(kind="limit_cleared")[0].by == "bob"


def test_an_event_goes_with_the_caller_s_transaction(queue: Queue) -> None:
    queue.stats()
    with closing(sqlite3.connect(queue.path, isolation_level=None)) as connection:
        for end, count in (("ROLLBACK", 0), ("COMMIT", 1)):
            connection.execute("BEGIN IMMEDIATE")
            queue.set_limit("k", max_running=3, connection=connection)
            connection.execute(end)
            assert len(queue.events()) == count


def test_what_is_refused_is_no_event(queue: Queue) -> None:
    with pytest.raises(InvalidValue):
        queue.set_limit("k")
    assert queue.events() == []


def test_a_lapsed_lease_is_told_with_its_job(queue: Queue, clock: ManualClock) -> None:
    worker = registered(queue, "t")
    queue.enqueue("t", key="k", queue="q", max_attempts=2)
    queue.enqueue("t")
    start(queue, 2, worker=worker)
    clock.advance(LEASE_MS)
    queue.key("k")  # handles what is due
    lost = queue.events(kind="lease_lost")
    assert [(event.job, event.key, event.queue) for event in lost] == [
        (1, "k", "q"), (2, None, "default"),
    ]  # fmt: skip
    assert lost[0].text == f"worker {worker} lost attempt 1 of 2 of t, which is scheduled now"
    clock.advance(2_000)
    start(queue, 2, worker=worker)
    clock.advance(LEASE_MS)
    queue.key("k")
    (last,) = (event for event in queue.events(after=lost[-1].id) if event.job == 1)
    assert last.text == f"worker {worker} lost attempt 2 of 2 of t, which is failed now"


def test_workers_are_told_as_they_come_and_go(queue: Queue, clock: ManualClock) -> None:
    first, second, third = (registered(queue, "t", queues=["a", "b"]) for _ in range(3))
    with queue.database.write() as tx:
        workers.drop(tx, first)
        workers.drop(tx, first)
        workers.bury(tx, second)
    clock.advance(workers.GONE_LEASES * LEASE_MS + 1)
    with queue.database.write() as tx:
        workers.drop_gone(tx)
        workers.drop_gone(tx)
    found = [(event.kind, event.text, event.by) for event in queue.events()]
    assert found == [
        *(("worker_started", f"worker {n}, 4 slots, a, b", "h:1") for n in (first, second, third)),
        ("worker_stopped", f"worker {first}", "h:1"),
        ("worker_dead", f"worker {second} was killed", "h:1"),
        ("worker_dead", f"worker {third} was not seen for 3 of its leases", "h:1"),
    ]


def test_a_clock_that_is_set_back_is_told(queue: Queue, clock: ManualClock) -> None:
    queue.enqueue("t")
    clock.advance(-500)
    queue.enqueue("t")
    assert queue.events() == []
    clock.advance(-3_600_000)
    queue.enqueue("t")
    queue.enqueue("t")
    (event,) = queue.events()
    assert (event.kind, event.text) == ("clock_set_back", "by at least 3,600.5 s")
    assert event.at == START - timedelta(seconds=3_600.5)


def test_claims_and_ends_note_nothing(queue: Queue) -> None:
    queue.set_limit("k", max_running=3)
    for _ in range(5):
        queue.enqueue("t", key="k")
    finish(queue, *start(queue, 3))
    assert [event.kind for event in queue.events()] == ["limit_set"]


def many(queue: Queue, count: int) -> None:
    with queue.database.write() as tx:
        for number in range(count):
            events.note(tx, "paused" if number % 2 else "resumed", key=str(number))


def test_a_page_ends_with_the_newest(queue: Queue) -> None:
    assert queue.events() == []
    many(queue, 250)
    assert [event.id for event in queue.events()] == list(range(151, 251))
    assert [event.id for event in queue.events(limit=2)] == [249, 250]
    assert [event.id for event in queue.events(after=248)] == [249, 250]
    assert [event.id for event in queue.events(after=3, limit=2)] == [4, 5]
    assert [event.id for event in queue.events(after=0, limit=2)] == [1, 2]
    assert queue.events(after=250) == []
    assert [event.id for event in queue.events(kind="paused", limit=2)] == [248, 250]
    assert [event.id for event in queue.events(kind="paused", after=3, limit=2)] == [4, 6]


def test_the_newest_ten_thousand_are_kept(queue: Queue) -> None:
    many(queue, 10_250)
    found = [event.id for event in queue.events(limit=1_000_000)]
    assert len(found) in range(10_000, 10_100)
    assert found == list(range(found[0], 10_251))


def test_text_of_any_kind_is_kept_short(queue: Queue) -> None:
    with queue.database.write() as tx:
        events.note(tx, "paused", text="a\0b" + "x" * 5_000, by="\udc80")
    (event,) = queue.events()
    assert len(event.text) <= events.TEXT_CHARACTERS + 10
    assert event.text.startswith("a\\x00b")
    assert event.by == "\\udc80"


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 1_000_001}, "limit"),
        ({"after": -1}, "after"),
        ({"after": True}, "after"),
        ({"kind": "pause"}, "kind"),
        ({"kind": 7}, "kind"),
    ],
)
def test_a_wrong_call_is_refused(queue: Queue, arguments: dict[str, object], name: str) -> None:
    with pytest.raises(InvalidValue) as error:
        wrongly(queue.events)(**arguments)
    assert error.value.name == name


def test_the_kinds_are_a_closed_list(queue: Queue) -> None:
    assert len(set(EVENT_KINDS)) == len(EVENT_KINDS) == 10
    for kind in EVENT_KINDS:
        assert queue.events(kind=kind) == []
