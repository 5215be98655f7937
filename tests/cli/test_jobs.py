"""``qworker jobs list``, ``show``, ``why`` and ``wait`` on one prepared file."""

import json
from dataclasses import fields
from datetime import datetime
from pathlib import Path

import pytest

import slotq
from support.commands import Done, qworker

LONG = "x" * 3_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("jobs")
    with slotq.Queue(made / "jobs.db") as q:

        @q.task(name="app.double")
        def double(number: int) -> int:
            return number * 2

        @q.task(name="app.fail", max_attempts=1)
        def fail(reason: str) -> None:
            raise ValueError(reason)

        double.options(key="tenant:acme").enqueue(21)
        fail.enqueue(f"no such report\n{LONG}")
        slotq.Worker(q, burst=True).run()
        double.options(key="tenant:acme", queue="slow", delay=3_600, priority=7).enqueue(1)
        double.options(key="tenant:other", max_running=2).enqueue(number=2)
        q.enqueue("app.unknown")
        q.cancel(q.enqueue("app.unknown").id)
    return made


def command(folder: Path, *words: str) -> Done:
    return qworker("--db", "jobs.db", *words, cwd=folder)


def rows(folder: Path, *words: str) -> list[dict[str, object]]:
    done = command(folder, *words, "--json")
    assert done.code == 0, done.err
    found: list[dict[str, object]] = json.loads(done.out)
    return found


def ids(folder: Path, *words: str) -> list[object]:
    return [row["id"] for row in rows(folder, "jobs", "list", *words)]


def test_a_table_has_a_line_for_each_job(folder: Path) -> None:
    heading, *lines = command(folder, "jobs", "list").out.splitlines()
    assert heading.split("  ")[0] == "ID"
    assert [line.split()[:4] for line in lines] == [
        ["1", "succeeded", "app.double", "default"],
        ["2", "failed", "app.fail", "default"],
        ["3", "scheduled", "app.double", "slow"],
        ["4", "waiting", "app.double", "default"],
        ["5", "waiting", "app.unknown", "default"],
        ["6", "cancelled", "app.unknown", "default"],
    ]
    starts = {line.index(word) for line, word in zip(lines, ["app"] * len(lines), strict=True)}
    assert starts == {heading.index("TASK")}


def test_outside_a_terminal_nothing_is_shortened_or_coloured(folder: Path) -> None:
    text = command(folder, "jobs", "list", "--state", "failed").out
    assert "\x1b" not in text
    error = rows(folder, "jobs", "list", "--state", "failed")[0]["error"]
    assert isinstance(error, str)
    assert error in text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--state", "waiting"], [4, 5]),
        (["--key", "tenant:acme"], [1, 3]),
        (["--key", ""], [2, 5, 6]),
        (["--queue", "slow"], [3]),
        (["--task", "app.double", "--state", "waiting"], [4]),
        (["--limit", "2"], [1, 2]),
        (["--limit", "2", "--after", "2"], [3, 4]),
        (["--limit", "0"], [1, 2, 3, 4, 5, 6]),
        (["--after", "6"], []),
    ],
)
def test_a_list_has_what_its_filters_let_through(
    folder: Path, words: list[str], expected: list[int]
) -> None:
    assert ids(folder, *words) == expected


def test_names_in_json_are_the_fields_of_a_job(folder: Path) -> None:
    names = {field.name for field in fields(slotq.Job)}
    (row,) = rows(folder, "jobs", "list", "--limit", "1")
    assert set(row) == names
    shown = json.loads(command(folder, "jobs", "show", "2", "--json").out)
    assert set(shown) == names
    assert shown["args"] == [f"no such report\n{LONG}"]
    assert LONG in shown["traceback"]
    assert shown["state"] == "failed"


def test_instants_in_json_are_utc(folder: Path) -> None:
    (row,) = rows(folder, "jobs", "list", "--limit", "1")
    text = row["created_at"]
    assert isinstance(text, str)
    assert text.endswith("Z")
    with slotq.Queue(folder / "jobs.db") as q:
        assert datetime.fromisoformat(text) == q.job(1).created_at


def test_show_tells_all_of_a_job(folder: Path) -> None:
    lines = command(folder, "jobs", "show", "2").out.splitlines()
    told = dict(line.split(maxsplit=1) for line in lines if line[:1].isalpha() and " " in line)
    assert told["state"] == "failed"
    assert told["attempt"] == "1"
    assert told["key"] == "-"
    assert json.loads(told["args"]) == [f"no such report\n{LONG}"]
    # A traceback keeps its lines, below its name.
    at = lines.index("traceback")
    assert lines[at + 1].startswith("    Traceback")


def test_a_job_that_does_not_exist_is_a_run_time_error(folder: Path) -> None:
    for words in (["show", "99"], ["why", "99"], ["wait", "99"]):
        done = command(folder, "jobs", *words)
        assert (done.code, done.out, done.err) == (1, "", "qworker: job 99 does not exist\n")


def test_why_tells_every_reason(folder: Path) -> None:
    reasons = rows(folder, "jobs", "why", "3")
    assert "scheduled" in {reason["kind"] for reason in reasons}
    assert set(reasons[0]) == {field.name for field in fields(slotq.Reason)}
    heading, *lines = command(folder, "jobs", "why", "4").out.splitlines()
    assert heading.split() == ["REASON", "UNTIL", "TEXT"]
    assert any(line.startswith("no worker") for line in lines)


def test_why_of_a_job_that_is_where_it_should_be_says_so(folder: Path) -> None:
    for job_id, standing in ((1, "has succeeded"), (2, "has failed"), (6, "was cancelled")):
        done = command(folder, "jobs", "why", str(job_id))
        assert done == Done(0, "", f"qworker: job {job_id} {standing}\n")
    assert command(folder, "jobs", "why", "1", "--json") == Done(0, "[]\n", "")


def test_the_end_of_somebodys_lease_is_not_told_as_the_end_of_a_wait(tmp_path: Path) -> None:
    with slotq.Queue(tmp_path / "jobs.db") as q:

        @q.task(name="app.look")
        def look() -> str:
            return command(tmp_path, "jobs", "why", "2").out

        q.set_limit("k", max_running=1)
        job, _ = look.options(key="k").enqueue_many([(), ()])
        slotq.Worker(q, burst=True, max_jobs=1).run()
        text = q.job(job).result
    assert isinstance(text, str)
    assert ["slots", "-"] in [line.split()[:2] for line in text.splitlines()]


def test_a_list_that_has_more_says_how_to_see_it(folder: Path) -> None:
    told = "qworker: 2 shown; --after 4 goes on, --limit 0 shows all\n"
    for words in ([], ["--json"]):
        done = command(folder, "jobs", "list", "--limit", "2", "--after", "2", *words)
        assert (done.code, done.err) == (0, told)
        assert command(folder, "jobs", "list", "--limit", "6", *words).err == ""


def test_a_filter_that_looks_like_a_pattern_is_warned_of(folder: Path) -> None:
    told = "qworker: warning: --key takes one key as it is, and * is not a pattern here\n"
    assert command(folder, "jobs", "list", "--key", "tenant:*").err == told
    done = command(folder, "jobs", "cancel", "--all", "--yes", "--key", "tenant:*")
    assert done == Done(0, "cancelled 0 jobs\n", told)


def test_wait_prints_the_result_as_json(folder: Path) -> None:
    done = command(folder, "jobs", "wait", "1")
    assert (done.code, done.out, done.err) == (0, "42\n", "")


def test_wait_tells_a_failure_in_one_line(folder: Path) -> None:
    done = command(folder, "jobs", "wait", "2")
    (line,) = done.err.splitlines()
    assert (done.code, done.out) == (1, "")
    assert line.startswith("qworker: job 2 failed: ")
    assert "no such report" in line
    done = command(folder, "jobs", "wait", "6")
    assert (done.code, done.err) == (1, "qworker: job 6 was cancelled\n")


def test_wait_gives_up_in_time(folder: Path) -> None:
    done = command(folder, "jobs", "wait", "4", "--timeout", "0.05s")
    assert (done.code, done.out) == (75, "")
    assert done.err == "qworker: job 4 has not ended within 0.05 s\n"


def test_all_jobs_of_a_long_list_are_there(tmp_path: Path) -> None:
    with slotq.Queue(tmp_path / "jobs.db") as q:
        q.enqueue_batch({"task": "a.b", "key": f"k{n % 3}"} for n in range(2_500))
    assert ids(tmp_path, "--limit", "0") == list(range(1, 2_501))
    assert ids(tmp_path, "--limit", "0", "--key", "k0") == list(range(1, 2_501, 3))
    assert ids(tmp_path, "--limit", "1200", "--after", "5") == list(range(6, 1_206))
    lines = command(tmp_path, "jobs", "list", "--limit", "0").out.splitlines()
    assert len(lines) == 2_501
    assert {len(line) for line in lines[1:]} == {len(lines[1])}
