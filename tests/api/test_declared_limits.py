"""Limits that code declares: set where there are none, never over what somebody has set."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from slotq import InvalidValue, Limit, LimitHidden, LimitParts, LimitTerms, Queue, declaring_only
from slotq.store import limits
from support.stores import locked
from support.wrongly import wrongly

CODE: dict[str, LimitParts] = {"tenant:*": {"max_running": 3}}


def found(queue: Queue) -> dict[tuple[str | None, str], tuple[int | None, int | None, bool]]:
    return {
        (limit.key or limit.queue, limit.name): (
            limit.max_running, limit.max_starts, limit.declared,
        )
        for limit in queue.limits()
    }  # fmt: skip


def kinds(queue: Queue) -> list[str]:
    return [difference.kind for difference in queue.limit_differences()]


# declare_limits.


def test_what_has_no_row_is_set(queue: Queue) -> None:
    done = queue.declare_limits(
        {
            "tenant:*": {"max_running": 3},
            "vendor": [
                {"max_running": 2, "max_starts": 9, "window": timedelta(minutes=1)},
                {"name": "daily", "max_starts": 500, "window": "day", "timezone": "Asia/Tokyo"},
            ],
        },
        queues={"exports": {"max_running": 10}},
        updated_by="code",
    )
    assert [difference.kind for difference in done] == ["missing"] * 4
    assert {LimitTerms.of(limit) for limit in queue.limits()} == {
        LimitTerms(key="tenant:*", max_running=3),
        LimitTerms(key="vendor", max_running=2, max_starts=9, window=60),
        LimitTerms(key="vendor", name="daily", max_starts=500, window="day", timezone="Asia/Tokyo"),
        LimitTerms(queue="exports", max_running=10),
    }
    assert {(limit.declared, limit.updated_by) for limit in queue.limits()} == {(True, "code")}
    assert [difference.declared for difference in done] == list(queue.declared_limits)
    assert kinds(queue) == []


def test_a_second_start_writes_nothing_and_waits_for_nobody(tmp_path: Path) -> None:
    with Queue(tmp_path / "jobs.db", lock_timeout=0.05) as queue:
        queue.declare_limits(CODE)
        before = queue.limits()
        with locked(queue.path):
            assert queue.declare_limits(CODE) == []
        assert queue.limits() == before


def test_a_declared_row_follows_the_code(queue: Queue) -> None:
    queue.declare_limits({"k": {"max_running": 3, "max_starts": 5, "window": 60}})
    (difference,) = queue.declare_limits({"k": {"max_running": 4}})
    assert difference.kind == "changed"
    assert difference.limit is not None
    assert difference.limit.max_running == 3
    (limit,) = queue.limits()
    assert (limit.max_running, limit.max_starts, limit.window) == (4, None, None)
    assert (limit.declared, limit.version) == (True, 2)


def test_what_somebody_has_set_or_edited_stays(queue: Queue) -> None:
    mine = queue.set_limit("mine", max_running=1)
    queue.declare_limits({"edited": {"max_running": 3}})
    edited = queue.set_limit("edited", max_running=7)
    assert not edited.declared
    assert queue.declare_limits({"edited": {"max_running": 4}, "mine": {"max_running": 4}}) == []
    assert queue.limits() == [edited, mine]
    assert kinds(queue) == ["edited", "edited"]


def test_an_edit_to_the_same_is_an_edit(queue: Queue) -> None:
    queue.declare_limits(CODE)
    queue.set_limit("tenant:*", max_running=3)
    assert kinds(queue) == ["unmarked"]
    assert queue.declare_limits({"tenant:*": {"max_running": 9}}) == []
    assert found(queue) == {("tenant:*", ""): (3, None, False)}


def test_what_code_drops_stays(queue: Queue) -> None:
    queue.declare_limits({"old": {"max_running": 3}, "new": {"max_running": 3}})
    with Queue(queue.path, clock=queue.database.clock) as later:
        assert later.declare_limits({"new": {"max_running": 3}}) == []
        assert kinds(later) == ["gone"]
        assert len(later.limits()) == 2


def test_a_cleared_limit_comes_back_at_the_next_start(queue: Queue) -> None:
    queue.declare_limits(CODE)
    queue.clear_limit("tenant:*")
    assert kinds(queue) == ["missing"]
    queue.declare_limits(CODE)
    assert found(queue) == {("tenant:*", ""): (3, None, True)}


def test_a_declared_limit_acts_on_the_next_claim(queue: Queue) -> None:
    ids = [queue.enqueue("t", key="tenant:a").id for _ in range(5)]
    queue.declare_limits(CODE)
    assert queue.key("tenant:a").max_running == 3
    assert len(ids) == queue.key("tenant:a").waiting


def test_the_events_say_that_code_did_it(queue: Queue) -> None:
    queue.declare_limits(CODE, updated_by="ann")
    queue.declare_limits({"tenant:*": {"max_running": 4}}, updated_by="ann")
    assert [(event.text, event.by) for event in queue.events(kind="limit_set")] == [
        ("max_running 3, declared", "ann"),
        ("max_running 3 -> 4, declared", "ann"),
    ]


def test_what_hides_a_part_is_warned_of_once(queue: Queue) -> None:
    both: dict[str, LimitParts] = {
        "tenant:*": {"max_running": 3},
        "tenant:a": {"max_starts": 5, "window": 60},
    }
    with pytest.warns(LimitHidden, match="hides that of 'tenant:\\*'") as told:
        queue.declare_limits(both)
    assert len(told) == 1
    queue.declare_limits(both)  # warns of nothing: it did nothing


@pytest.mark.parametrize(
    ("given", "queues", "problem"),
    [
        ([], None, "limits must be a mapping by key"),
        ({"k": 3}, None, "limit of key 'k' must be a mapping of its parts"),
        ({"k": [3]}, None, "limit of key 'k' must be a mapping of its parts"),
        ({"k": {"max_running": 0}}, None, "limit of key 'k': max_running must be an integer"),
        ({"k": {"max_running": True}}, None, "from 1 to 1,000,000, not True"),
        ({"k": {"max_runing": 1}}, None, "limit of key 'k': 'max_runing' is no part; there are"),
        ({"k": {"key": "x", "max_running": 1}}, None, "limit of key 'k': key is given by"),
        ({"k": {}}, None, "limit of key 'k': it needs max_running"),
        ({"k": {"max_starts": 1}}, None, "limit of key 'k': window is missing"),
        ({"k": {"max_starts": 1, "window": "year"}}, None, "limit of key 'k': window must be"),
        ({"k": {"max_starts": 1, "window": 9, "timezone": "UTC"}}, None, "timezone is for a"),
        ({"": {"max_running": 1}}, None, "limit of key '': key must have 1 to"),
        ({7: {"max_running": 1}}, None, "limit of key 7: key must be a str"),
        ({"k": [{"max_running": 1}, {"max_running": 2}]}, None, "limit of key 'k' is there twice"),
        ({"a": {"max_running": 1}, "\\a": {"max_running": 1}, "*": {"name": ""}}, None, "needs"),
        ({"a\\\\b": {"max_running": 1}, "a\\b": {"max_running": 1}}, None, "is there twice"),
        (None, {"q": {"max_starts": 1, "window": 60}}, "limit of queue 'q': max_starts is for"),
        (None, {"": {"max_running": 1}}, "limit of queue '': queue must have"),
        (None, [1], "queues must be a mapping by queue"),
    ],
)
def test_one_bad_entry_sets_nothing(
    queue: Queue, given: dict[object, object] | list[object] | None, queues: object, problem: str
) -> None:
    if isinstance(given, dict):
        given = {"good": {"max_running": 1}, **given}
    with pytest.raises(InvalidValue) as told:
        wrongly(queue.declare_limits)(given, queues=queues)
    assert problem in str(told.value)
    assert queue.limits() == []
    assert queue.declared_limits == ()


def test_one_pattern_too_many_sets_nothing(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_PATTERNS", 2)
    with pytest.raises(InvalidValue, match="one pattern too many"):
        queue.declare_limits({f"{n}*": {"max_running": 1} for n in range(3)})
    assert queue.limits() == []


def test_the_last_declaration_of_a_limit_counts(queue: Queue) -> None:
    queue.declare_limits({"a": {"max_running": 1}, "b": {"max_running": 1}})
    queue.declare_limits({"a": {"max_running": 2}}, queues={"a": {"max_running": 3}})
    assert [(terms.key, terms.queue, terms.max_running) for terms in queue.declared_limits] == [
        ("a", None, 2), ("b", None, 1), (None, "a", 3),
    ]  # fmt: skip


def test_a_limit_is_known_however_it_is_written(queue: Queue) -> None:
    queue.declare_limits({"a\\*": {"max_running": 1}, "a\\b": {"max_running": 1}})
    assert queue.declare_limits({"a\\\\b": {"max_running": 1}}) == []
    assert kinds(queue) == []
    assert len(queue.declared_limits) == 2


async def test_twins_declare_likewise(queue: Queue) -> None:
    await queue.adeclare_limits(CODE)
    assert found(queue) == {("tenant:*", ""): (3, None, True)}


# declaring_only.


def test_under_declaring_only_no_file_is_touched(tmp_path: Path) -> None:
    with Queue(tmp_path / "jobs.db") as queue:
        with declaring_only():
            with declaring_only():
                assert queue.declare_limits(CODE) == []
            assert asyncio.run(queue.adeclare_limits(queues={"q": {"max_running": 1}})) == []
            assert len(queue.declared_limits) == 2
            with pytest.raises(InvalidValue):
                wrongly(queue.declare_limits)({"k": 3})
        assert list(tmp_path.iterdir()) == []
        queue.declare_limits(CODE)
        assert found(queue) == {("tenant:*", ""): (3, None, True)}


# apply_limits.


def test_apply_makes_the_file_say_what_the_code_says(queue: Queue) -> None:
    queue.declare_limits(
        {key: {"max_running": 3} for key in ("same", "edited", "unmarked", "gone", "given up")}
    )
    queue.set_limit("edited", max_running=7)
    queue.set_limit("unmarked", max_running=3)
    queue.set_limit("given up", max_running=5)
    queue.set_limit("mine", max_running=9)
    with Queue(queue.path, clock=queue.database.clock) as later:
        with declaring_only():
            later.declare_limits(
                {key: {"max_running": 3} for key in ("same", "edited", "unmarked", "new")}
            )
        differences = later.limit_differences()
        assert [difference.kind for difference in differences] == [
            "edited", "unmarked", "missing", "gone",
        ]  # fmt: skip
        assert later.apply_limits(updated_by="ann") == differences
        assert later.limit_differences() == []
        assert later.apply_limits() == []
    assert found(queue) == {
        ("same", ""): (3, None, True),
        ("edited", ""): (3, None, True),
        ("unmarked", ""): (3, None, True),
        ("new", ""): (3, None, True),
        ("given up", ""): (5, None, False),
        ("mine", ""): (9, None, False),
    }
    assert {event.by for event in queue.events()[-4:]} == {"ann"}


def test_apply_goes_from_pattern_to_pattern_at_the_most(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_PATTERNS", 2)
    queue.declare_limits({"a*": {"max_running": 1}, "b*": {"max_running": 1}})
    with Queue(queue.path, clock=queue.database.clock) as later:
        with declaring_only():
            later.declare_limits({"a*": {"max_running": 1}, "c*": {"max_running": 1}})
        later.apply_limits()
    assert sorted(key or "" for key, _ in found(queue)) == ["a*", "c*"]


# set_limits.


def test_many_are_set_at_once_and_others_left_alone(queue: Queue) -> None:
    queue.declare_limits({"other": {"max_running": 1}, "same": {"max_running": 2}})
    queue.set_limit("old", max_running=1, max_starts=5, window=60)
    before = {limit.key: limit for limit in queue.limits()}
    done = queue.set_limits(
        [
            {"key": "same", "max_running": 2},
            {"key": "old", "max_running": 4},
            {"queue": "q", "max_running": 5, "name": None, "window": None},
            {"key": "p:*", "name": "n", "max_starts": 6, "window": "week"},
        ]
    )
    assert [(each.kind, each.declared and each.declared.max_running) for each in done] == [
        ("edited", 4), ("missing", 5), ("missing", None),
    ]  # fmt: skip
    after = {limit.key: limit for limit in queue.limits()}
    assert (after["other"], after["same"]) == (before["other"], before["same"])
    old = after["old"]
    assert (old.max_running, old.max_starts, old.version, old.declared) == (4, None, 2, False)
    assert found(queue)["q", ""] == (5, None, False)


def test_a_declared_limit_that_is_set_otherwise_is_edited(queue: Queue) -> None:
    queue.declare_limits(CODE)
    queue.set_limits([{"key": "tenant:*", "max_running": 4}])
    assert found(queue) == {("tenant:*", ""): (4, None, False)}


def test_a_dry_run_tells_the_same_and_sets_nothing(queue: Queue) -> None:
    queue.set_limit("k", max_running=1)
    entries = [{"key": "k", "max_running": 2}, {"key": "new", "max_running": 2}]
    before = queue.limits()
    would = queue.set_limits(entries, dry_run=True)
    assert queue.limits() == before
    assert queue.set_limits(entries) == would
    assert queue.set_limits(entries, dry_run=True) == []


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"key": "k"}, "limit 2, of key 'k': it needs max_running"),
        ({"max_running": 1}, "limit 2: key or queue must be given"),
        ({"key": "k", "queue": "q", "max_running": 1}, "limit 2, of key 'k', of queue 'q': key or"),
        ({"key": "k", "max": 1}, "limit 2, of key 'k': 'max' is no part"),
        ({"key": "good", "max_running": 1}, "limit 2, of key 'good' is there twice"),
        ({"key": 7, "max_running": 1}, "limit 2, of key 7: key must be a str"),
        ({"key": "k", "max_running": "1"}, "limit 2, of key 'k': max_running must be an integer"),
        (7, "limit 2 must be a mapping, not 7"),
    ],
)
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_bad_entry_is_named_by_its_number(
    queue: Queue, entry: object, problem: str, dry_run: bool
) -> None:
    with pytest.raises(InvalidValue) as told:
        wrongly(queue.set_limits)([{"key": "good", "max_running": 1}, entry], dry_run=dry_run)
    assert problem in str(told.value)
    assert queue.limits() == []


@pytest.mark.parametrize("entries", ["text", 7, None, {"key": "k", "max_running": 1}])
def test_what_is_no_list_is_refused(queue: Queue, entries: object) -> None:
    with pytest.raises(InvalidValue, match="entries must be a list of mappings"):
        wrongly(queue.set_limits)(entries)


@pytest.mark.parametrize("dry_run", [True, False])
def test_too_many_patterns_are_none(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    monkeypatch.setattr("slotq.store.declared.MOST_PATTERNS", 2)
    queue.set_limit("0*", max_running=1)
    entries = [{"key": f"{n}*", "max_running": 2} for n in range(3)]
    with pytest.raises(InvalidValue, match="limits would be 3 patterns: there can be 2"):
        queue.set_limits(entries, dry_run=dry_run)
    assert [limit.max_running for limit in queue.limits()] == [1]
    assert len(queue.set_limits(entries[:2], dry_run=dry_run)) == 2


def test_values_tell_the_whole_limit(queue: Queue) -> None:
    limit: Limit = queue.set_limit("a\\*", max_starts=5, window="day", timezone="Asia/Tokyo")
    terms = LimitTerms.of(limit)
    assert terms == LimitTerms(key="a\\*", max_starts=5, window="day", timezone="Asia/Tokyo")
    with closing(sqlite3.connect(queue.path)) as connection:
        assert connection.execute("SELECT subject FROM slotq_limits").fetchall() == [("a*",)]
