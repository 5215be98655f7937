"""``qworker events``."""

import json
import signal
from dataclasses import fields
from pathlib import Path

import pytest

import slotq
from support.commands import Done, qworker, started, until

APP = """
import time, slotq
q = slotq.Queue("jobs.db")

@q.task(name="once")
def once():
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("events")
    with slotq.Queue(made / "jobs.db") as q:
        q.set_limit("tenant:*", max_running=3, updated_by="ann")
        q.set_limit("tenant:*", max_running=5, updated_by="ann")
        q.pause(queue="slow", updated_by="bob")
        q.pause(key="a\x1b[31m\n", updated_by="\x1b[2J")
    return made


def events(folder: Path, *words: str) -> Done:
    return qworker("events", *words, "--db", "jobs.db", cwd=folder)


def ids(folder: Path, *words: str) -> list[int]:
    return [event["id"] for event in json.loads(events(folder, *words, "--json").out)]


def test_the_newest_is_last(folder: Path) -> None:
    done = events(folder)
    heading, *lines = done.out.splitlines()
    assert (done.code, done.err) == (0, "")
    assert heading.split() == ["ID", "AT", "KIND", "KEY", "QUEUE", "JOB", "TEXT", "BY"]
    assert [line.split()[0] for line in lines] == ["1", "2", "3", "4"]
    assert lines[1][heading.index("TEXT") :].split("  ")[0] == "max_running 3 -> 5"


def test_json_has_all_of_it(folder: Path) -> None:
    first, *_ = json.loads(events(folder, "--json").out)
    assert list(first) == [field.name for field in fields(slotq.Event)]
    assert (first["kind"], first["key"], first["by"]) == ("limit_set", "tenant:*", "ann")


def test_a_page_and_a_kind_are_chosen(folder: Path) -> None:
    assert ids(folder, "--limit", "2") == [3, 4]
    assert ids(folder, "--limit", "0") == [1, 2, 3, 4]
    assert ids(folder, "--after", "1", "--limit", "2") == [2, 3]
    assert ids(folder, "--kind", "paused") == [3, 4]
    assert ids(folder, "--after", "4") == []


def test_nothing_in_them_acts_on_the_terminal(folder: Path) -> None:
    for words in ([], ["--json"]):
        assert "\x1b" not in events(folder, *words).out


def test_a_kind_that_there_is_not_is_a_usage_error(folder: Path) -> None:
    done = events(folder, "--kind", "pausd")
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith(" Did you mean 'paused'?\n")


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    done = events(tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "there is no such file" in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_killed_worker_and_what_it_ran_are_told(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    run = ("run", "app:q", "--lease", "600s")
    with slotq.Queue(tmp_path / "jobs.db") as q:
        job = q.enqueue("once", key="k", max_attempts=1)
        with started(*run, cwd=tmp_path) as first:
            until(lambda: q.job(job.id).state == "running", "the job runs")
            first.signal(signal.SIGKILL)
            first.wait()
        with started(*run, cwd=tmp_path) as second:
            until(lambda: bool(q.events(kind="lease_lost")), "the job is taken back")
            second.signal(signal.SIGTERM)
            assert second.wait() == 0
    told = json.loads(events(tmp_path, "--json").out)
    assert [(event["kind"], event["job"], event["key"]) for event in told] == [
        ("worker_started", None, None),
        ("worker_started", None, None),
        ("worker_dead", None, None),
        ("lease_lost", job.id, "k"),
        ("worker_stopped", None, None),
    ]
    assert told[2]["by"].endswith(f":{first.pid}")
    assert told[3]["text"] == "worker 1 lost attempt 1 of 1 of once, which is failed now"
    assert told[4]["by"].endswith(f":{second.pid}")
