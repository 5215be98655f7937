"""``qworker keys``, ``queues``, ``workers``, ``stats`` and ``prune``."""

import json
import os
from dataclasses import fields
from pathlib import Path

import pytest

import slotq
from support.commands import Done, qworker, started, until

APP = "import slotq\nq = slotq.Queue('jobs.db')\nq.task(name='app.work')(lambda: None)\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("overviews")
    with slotq.Queue(made / "jobs.db") as q:
        q.set_limit("tenant:*", max_running=3, max_starts=9, window=60)
        q.enqueue_batch({"task": "a.b", "key": "tenant:small"} for _ in range(2))
        q.enqueue_batch({"task": "a.b", "key": "tenant:large", "queue": "slow"} for _ in range(5))
        q.enqueue("a.b", key="late", delay=60)
        q.enqueue("a.b")
        q.cancel(q.enqueue("a.b").id)
    return made


def command(folder: Path, *words: str) -> Done:
    return qworker(*words, "--db", "jobs.db", cwd=folder)


def names_of(value: type) -> set[str]:
    return {field.name for field in fields(value)}


def test_keys_are_listed_the_busiest_first(folder: Path) -> None:
    rows = json.loads(command(folder, "keys", "list", "--json").out)
    assert set(rows[0]) == names_of(slotq.Key)
    assert [row["key"] for row in rows][:2] == ["tenant:large", "tenant:small"]
    heading, first, *_ = command(folder, "keys", "list").out.splitlines()
    assert dict(zip(heading.split(), first.split(), strict=False))["KEY"] == "tenant:large"
    assert first.split()[:7] == ["tenant:large", "0", "0", "3", "5", "0", "0/9"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--sort", "key"], ["late", "tenant:large", "tenant:small"]),
        (["--sort", "scheduled", "--limit", "1"], ["late"]),
        (["--limit", "0", "--sort", "key"], ["late", "tenant:large", "tenant:small"]),
    ],
)
def test_keys_are_sorted_and_bounded(folder: Path, words: list[str], expected: list[str]) -> None:
    rows = json.loads(command(folder, "keys", "list", "--json", *words).out)
    assert [row["key"] for row in rows] == expected


def test_a_key_is_shown_with_its_limits(folder: Path) -> None:
    shown = json.loads(command(folder, "keys", "show", "tenant:small", "--json").out)
    assert set(shown) == names_of(slotq.Key)
    assert (shown["waiting"], shown["max_running"], shown["window"]) == (2, 3, 60)
    assert [limit["key"] for limit in shown["limits"]] == ["tenant:*"]
    text = command(folder, "keys", "show", "tenant:small").out
    own, _, table = text.partition("\n\n")
    assert ["waiting", "2"] in [line.split() for line in own.splitlines()]
    assert table.splitlines()[1].startswith("tenant:*")


def test_a_key_that_was_never_used_is_idle(folder: Path) -> None:
    shown = json.loads(command(folder, "keys", "show", "nobody", "--json").out)
    assert (shown["waiting"], shown["running"], shown["limits"]) == (0, 0, [])


def test_a_key_that_nothing_has_had_is_told(folder: Path) -> None:
    told = "qworker: no job and no limit has had key tenant:nobody\n"
    assert command(folder, "keys", "show", "tenant:nobody").err == told
    assert command(folder, "keys", "show", "tenant:small").err == ""


def test_a_key_with_a_limit_or_with_jobs_that_ended_is_known(tmp_path: Path) -> None:
    with slotq.Queue(tmp_path / "jobs.db") as q:
        q.set_limit(slotq.literal("a*"), max_running=1)
        q.cancel(q.enqueue("a.b", key="ended").id)
    assert command(tmp_path, "keys", "show", "a*").err == ""
    assert command(tmp_path, "keys", "show", "ended").err == ""


def test_a_list_of_keys_that_has_more_says_so(folder: Path) -> None:
    told = "qworker: 2 shown; --limit 0 shows all\n"
    assert command(folder, "keys", "list", "--limit", "2").err == told
    assert command(folder, "keys", "list", "--limit", "3").err == ""


def test_queues_are_listed(folder: Path) -> None:
    rows = json.loads(command(folder, "queues", "list", "--json").out)
    assert [(row["name"], row["waiting"]) for row in rows] == [("default", 3), ("slow", 5)]
    assert set(rows[0]) == names_of(slotq.QueueInfo)
    _, *lines = command(folder, "queues", "list").out.splitlines()
    assert [line.split()[:3] for line in lines] == [["default", "3", "1"], ["slow", "5", "0"]]


def test_stats_are_numbers(folder: Path) -> None:
    shown = json.loads(command(folder, "stats", "--json").out)
    assert set(shown) == names_of(slotq.Stats)
    assert (shown["waiting"], shown["scheduled"], shown["cancelled"]) == (8, 1, 1)
    lines = dict(line.split() for line in command(folder, "stats").out.splitlines())
    assert lines["waiting"] == "8"


def test_workers_are_listed(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    with slotq.Queue(tmp_path / "jobs.db") as q:
        q.stats()
        assert command(tmp_path, "workers", "list", "--json").out == "[]\n"
        with started("run", "app:q", "--slots", "3", "--queue", "slow", cwd=tmp_path):
            until(lambda: len(q.workers()) == 1, "the worker is there")
            (row,) = json.loads(command(tmp_path, "workers", "list", "--json").out)
            heading, line = command(tmp_path, "workers", "list").out.splitlines()
    assert set(row) == names_of(slotq.WorkerInfo)
    assert (row["slots"], row["queues"], row["tasks"]) == (3, ["slow"], ["app.work"])
    assert row["pid"] != os.getpid()
    assert heading.split()[0] == "ID"
    assert line.split()[1] == str(row["pid"])


def test_prune_deletes_what_ended_long_enough_ago(tmp_path: Path) -> None:
    with slotq.Queue(tmp_path / "jobs.db") as q:
        for _ in range(3):
            q.cancel(q.enqueue("a.b").id)
        q.enqueue("a.b")
        assert command(tmp_path, "prune") == Done(0, "deleted 0 jobs\n", "")
        assert command(tmp_path, "prune", "--older-than", "1h").out == "deleted 0 jobs\n"
        assert command(tmp_path, "prune", "--older-than", "0").out == "deleted 3 jobs\n"
        assert [job.state for job in q.jobs()] == ["waiting"]
