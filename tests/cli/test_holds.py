"""``qworker holds``: list and release, and holds where keys are shown."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

import slotq
from support.commands import Done, qworker, until
from support.gates import CODE, gated


def holds(folder: Path, *words: str) -> Done:
    return qworker("holds", *words, "--db", "jobs.db", cwd=folder)


def test_holds_are_listed_as_a_table_and_as_json(tmp_path: Path) -> None:
    names = {field.name for field in fields(slotq.HoldInfo)}
    with slotq.Queue(tmp_path / "jobs.db") as q:
        q.stats()
        assert holds(tmp_path, "list", "--json") == Done(0, "[]\n", "")
        with q.hold("k", slots=2, label="\x1b[31mred") as held:
            (row,) = json.loads(holds(tmp_path, "list", "--json").out)
            assert set(row) == names
            assert (row["id"], row["key"], row["slots"]) == (held.id, "k", 2)
            assert (row["state"], row["label"], row["job"]) == ("held", "\x1b[31mred", None)
            heading, line = holds(tmp_path, "list").out.splitlines()
    assert heading.split()[:4] == ["ID", "KEY", "SLOTS", "STATE"]
    assert line.split()[:4] == ["1", "k", "2", "held"]
    assert line[heading.index("LABEL") :].startswith("\\x1b[31mred")


def test_one_that_waits_is_listed_too(tmp_path: Path) -> None:
    with (
        slotq.Queue(tmp_path / "jobs.db") as q,
        q.hold("k"),
        gated("--max-running", "1", "--wait", "inf", "--label", "b", folder=tmp_path),
    ):
        until(lambda: len(q.holds()) == 2, "it waits")
        rows = json.loads(holds(tmp_path, "list", "--json").out)
    assert [(row["state"], row["label"]) for row in rows] == [("held", ""), ("waiting", "b")]
    assert rows[1]["expires_at"] is None


@pytest.mark.parametrize(
    ("words", "expected", "told"),
    [
        (["--key", "b"], [2, 4], ""),
        (["--key", "no"], [], ""),
        (["--limit", "3"], [1, 2, 3], "qworker: 3 shown; --after 3 goes on, --limit 0 shows all\n"),
        (["--limit", "1", "--key", "b", "--after", "2"], [4], ""),
        (["--after", "3"], [4, 5], ""),
        (["--limit", "0"], [1, 2, 3, 4, 5], ""),
    ],
)
def test_lists_are_filtered_and_bounded(
    tmp_path: Path, words: list[str], expected: list[int], told: str
) -> None:
    with slotq.Queue(tmp_path / "jobs.db") as q:
        for key in "ababa":
            q.hold(key).acquire()
        done = holds(tmp_path, "list", "--json", *words)
    assert [row["id"] for row in json.loads(done.out)] == expected
    assert done.err == told


def test_a_pattern_is_warned_of_and_a_second_key_refused(tmp_path: Path) -> None:
    with slotq.Queue(tmp_path / "jobs.db") as q:
        q.stats()
    assert "* is not a pattern here" in holds(tmp_path, "list", "--key", "a*").err
    done = holds(tmp_path, "list", "--key", "a", "--key", "b")
    assert (done.code, done.err) == (2, "qworker: --key is given twice\n")


def test_anybody_can_release_a_hold_once(tmp_path: Path) -> None:
    with slotq.Queue(tmp_path / "jobs.db") as q:
        q.set_limit("k", max_running=1)
        held = q.hold("k").acquire()
        number = str(held.id)
        assert holds(tmp_path, "release", number) == Done(0, f"released hold {number}\n", "")
        told = f"qworker: there is no hold {number}, or it has ended already\n"
        assert holds(tmp_path, "release", number) == Done(1, "", told)
        with q.hold("k"), pytest.raises(slotq.HoldExpired):
            held.release()
        (event,) = q.events(kind="hold_released")
        assert event.key == "k"
        assert event.by.endswith("@qworker")


@pytest.mark.parametrize("number", ["-1", "x", "1.5", "9" * 30])
def test_what_is_no_number_is_a_usage_error(tmp_path: Path, number: str) -> None:
    with slotq.Queue(tmp_path / "jobs.db") as q:
        q.stats()
    done = holds(tmp_path, "release", "--", number)
    assert (done.code, done.err.count("\n")) == (2, 1)


def test_the_slots_of_commands_are_shown_with_their_key(tmp_path: Path) -> None:
    with gated("--slots", "2", "--max-running", "3", folder=tmp_path) as command:
        assert command.pid
        shown = qworker("keys", "show", "k", "--json", "--db", "jobs.db", cwd=tmp_path)
        assert json.loads(shown.out)["held"] == 2
        (row,) = json.loads(qworker("keys", "list", "--json", "--db", "jobs.db", cwd=tmp_path).out)
        assert (row["key"], row["held"]) == ("k", 2)
        assert command.end() == CODE
