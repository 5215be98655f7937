"""``qworker limits list``, ``set`` and ``clear``."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

import slotq
from support.commands import Done, qworker


def limits(folder: Path, *words: str) -> Done:
    return qworker("limits", *words, "--db", "jobs.db", cwd=folder)


def found(folder: Path) -> list[slotq.Limit]:
    with slotq.Queue(folder / "jobs.db", create=False) as q:
        return q.limits()


def test_a_limit_is_set_changed_part_by_part_and_cleared(tmp_path: Path) -> None:
    done = limits(tmp_path, "set", "tenant:*", "--max-running", "3")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[1].split()[:4] == ["tenant:*", "-", "-", "3"]
    limits(tmp_path, "set", "tenant:*", "--max-starts", "100", "--window", "1m")
    (limit,) = found(tmp_path)
    assert (limit.max_running, limit.max_starts, limit.window) == (3, 100, 60)
    assert (limit.version, limit.updated_by.endswith("@qworker")) == (2, True)
    limits(tmp_path, "set", "tenant:*", "--max-running", "none")
    (limit,) = found(tmp_path)
    assert (limit.max_running, limit.max_starts) == (None, 100)
    assert limits(tmp_path, "clear", "tenant:*") == Done(0, "cleared 1 limit\n", "")
    assert limits(tmp_path, "clear", "tenant:*") == Done(0, "cleared 0 limits\n", "")
    assert found(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "window", "zone"),
    [
        (["--window", "90"], 90, None),
        (["--window", "1.5s"], 1.5, None),
        (["--window", "2h"], 7_200, None),
        (["--window", "7d"], 604_800, None),
        (["--window", "day"], "day", "UTC"),
        (["--window", "month", "--timezone", "Europe/Berlin"], "month", "Europe/Berlin"),
    ],
)
def test_a_window_is_a_time_or_a_period(
    tmp_path: Path, words: list[str], window: object, zone: str | None
) -> None:
    assert limits(tmp_path, "set", "k", "--max-starts", "5", *words).code == 0
    (limit,) = found(tmp_path)
    assert (limit.max_starts, limit.window, limit.timezone) == (5, window, zone)


def test_starts_are_removed_with_their_window(tmp_path: Path) -> None:
    limits(tmp_path, "set", "k", "--max-running", "1", "--max-starts", "5", "--window", "60s")
    assert limits(tmp_path, "set", "k", "--max-starts", "none").code == 0
    (limit,) = found(tmp_path)
    assert (limit.max_running, limit.max_starts, limit.window) == (1, None, None)
    done = limits(tmp_path, "set", "k", "--max-running", "none")
    assert done.code == 2
    assert "clear_limit" in done.err or "clear" in done.err


def test_queues_and_names_tell_limits_apart(tmp_path: Path) -> None:
    limits(tmp_path, "set", "--queue", "exports", "--max-running", "10")
    limits(tmp_path, "set", "k", "--max-running", "2")
    limits(tmp_path, "set", "k", "--name", "daily", "--max-starts", "9", "--window", "day")
    assert {(limit.key, limit.queue, limit.name) for limit in found(tmp_path)} == {
        (None, "exports", ""), ("k", None, ""), ("k", None, "daily")
    }  # fmt: skip
    assert limits(tmp_path, "clear", "k", "--name", "daily").out == "cleared 1 limit\n"
    assert limits(tmp_path, "clear", "--queue", "exports").out == "cleared 1 limit\n"
    assert [(limit.key, limit.name) for limit in found(tmp_path)] == [("k", "")]


def test_a_hidden_part_is_warned_of_in_one_line(tmp_path: Path) -> None:
    limits(tmp_path, "set", "tenant:*", "--max-running", "3")
    done = limits(tmp_path, "set", "tenant:acme", "--max-starts", "5", "--window", "60s")
    (line,) = done.err.splitlines()
    assert done.code == 0
    assert line.startswith("qworker: warning: ")
    assert "tenant:acme" in line
    assert done.out.count("\n") == 2


def test_lists_are_tables_and_json(tmp_path: Path) -> None:
    names = {field.name for field in fields(slotq.Limit)}
    words = ["k", "--max-running", "3", "--max-starts", "5", "--window", "1m", "--json"]
    assert set(json.loads(limits(tmp_path, "set", *words).out)) == names
    (row,) = json.loads(limits(tmp_path, "list", "--json").out)
    assert set(row) == names
    assert (row["key"], row["max_running"], row["max_starts"], row["window"]) == ("k", 3, 5, 60)
    heading, line = limits(tmp_path, "list").out.splitlines()
    assert line[heading.index("WINDOW") :].split()[0] == "60s"


def test_a_list_tells_what_is_hidden_beside_it(tmp_path: Path) -> None:
    limits(tmp_path, "set", "tenant:*", "--max-starts", "5", "--window", "1m")
    warned = limits(tmp_path, "set", "tenant:\x1b[31m", "--max-running", "1")
    for words in ("list",), ("list", "--json"):
        done = limits(tmp_path, *words)
        assert done.err == warned.err
        assert "hides that of 'tenant:*', but has no max_starts" in done.err
        assert "\x1b" not in done.err
        assert "hides" not in done.out
