"""``qworker enqueue``: one job, or all of a file."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import slotq
from slotq_app.cli import exits, job_lines
from support.commands import QWORKER, Done, environment, qworker, started, until
from support.terminals import on_terminal, plain


def enqueue(folder: Path, *words: str) -> Done:
    return qworker("enqueue", *words, "--db", "jobs.db", cwd=folder)


def jobs(folder: Path) -> list[slotq.Job]:
    with slotq.Queue(folder / "jobs.db") as q:
        return [q.job(job.id) for job in q.jobs()]


def write(folder: Path, *lines: object) -> None:
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    (folder / "jobs.jsonl").write_text(text, encoding="utf-8")


def test_the_number_alone_is_printed(tmp_path: Path) -> None:
    assert enqueue(tmp_path, "a.b") == Done(0, "1\n", "")
    assert enqueue(tmp_path, "a.b") == Done(0, "2\n", "")
    (first, _) = jobs(tmp_path)
    assert (first.task, first.args, first.kwargs, first.key) == ("a.b", [], {}, None)
    assert (first.queue, first.priority, first.state) == ("default", 0, "waiting")


def test_every_option_reaches_the_job(tmp_path: Path) -> None:
    words = [
        "app.export", "--arg", '"acme"', "--arg", "-7", "--arg", '{"a": [1, null]}',
        "--kwarg", "report=7", "--kwarg", 'note="a=b"', "--key", "tenant:acme", "--queue", "slow",
        "--priority", "-5", "--delay", "2h", "--max-running", "3", "--dedupe", "x",
        "--max-attempts", "2", "--timeout", "1m", "--expires", "3h",
    ]  # fmt: skip
    assert enqueue(tmp_path, *words).out == "1\n"
    (job,) = jobs(tmp_path)
    assert job.args == ["acme", -7, {"a": [1, None]}]
    assert job.kwargs == {"report": 7, "note": "a=b"}
    assert (job.key, job.queue, job.priority, job.max_running) == ("tenant:acme", "slow", -5, 3)
    assert (job.run_at - job.created_at).total_seconds() == 7_200
    assert (job.max_attempts, job.timeout) == (2, 60)
    assert job.expires is not None
    assert (job.expires - job.created_at).total_seconds() == 10_800
    assert enqueue(tmp_path, "app.export", "--dedupe", "x").out == "1\n"


def test_a_timeout_of_none_is_none(tmp_path: Path) -> None:
    enqueue(tmp_path, "a.b", "--timeout", "none")
    assert [job.timeout for job in jobs(tmp_path)] == [None]


def test_a_task_that_no_worker_knows_is_told(tmp_path: Path) -> None:
    code = "import slotq\nq = slotq.Queue('jobs.db')\nq.task(name='app.hello')(print)\n"
    (tmp_path / "app.py").write_text(code, encoding="utf-8")
    with slotq.Queue(tmp_path / "jobs.db") as q, started("run", "app:q", cwd=tmp_path):
        until(lambda: len(q.workers()) == 1, "the worker is there")
        assert enqueue(tmp_path, "app.hello") == Done(0, "1\n", "")
        done = enqueue(tmp_path, "ap.hello")
    warning = "no worker now knows task ap.hello. Did you mean 'app.hello'?"
    assert done == Done(0, "2\n", f"qworker: warning: {warning}\n")


def test_a_file_of_jobs_is_stored(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"task": "a.b", "args": [1], "kwargs": {"n": 2}, "key": "k", "max_running": 1},
        "",
        {"task": "a.c", "queue": "slow", "priority": 9, "delay": 60, "max_attempts": 2},
        {"task": "a.d", "run_at": "2100-01-31T12:00:00Z", "expires": "2100-02-01T00:00:00+01:00"},
        {"task": "a.e", "timeout": None, "store_result": False, "dedupe": "x"},
        {"task": "a.e", "dedupe": "x"},
    )
    done = enqueue(tmp_path, "--file", "jobs.jsonl")
    assert done == Done(0, "enqueued 4 jobs, 1 to 4; 1 found a job of their dedupe text\n", "")
    b, c, d, e = jobs(tmp_path)
    assert (b.task, b.args, b.kwargs, b.key, b.max_running) == ("a.b", [1], {"n": 2}, "k", 1)
    assert (c.queue, c.priority, c.max_attempts, c.state) == ("slow", 9, 2, "scheduled")
    assert d.run_at.isoformat() == "2100-01-31T12:00:00+00:00"
    assert d.expires is not None
    assert d.expires.isoformat() == "2100-01-31T23:00:00+00:00"
    assert (e.task, e.timeout) == ("a.e", None)


def test_options_are_for_lines_without_their_own(tmp_path: Path) -> None:
    write(tmp_path, {"args": [1]}, {"task": "a.c", "priority": 1, "key": None})
    enqueue(tmp_path, "a.b", "--file", "jobs.jsonl", "--priority", "5", "--key", "k")
    found = [(job.task, job.priority, job.key) for job in jobs(tmp_path)]
    assert found == [("a.b", 5, "k"), ("a.c", 1, None)]


def test_an_instant_of_a_line_stands_before_a_delay_for_all(tmp_path: Path) -> None:
    write(tmp_path, {"run_at": "2100-01-01T00:00:00Z"}, {})
    done = enqueue(tmp_path, "a.b", "--file", "jobs.jsonl", "--delay", "1h")
    assert (done.code, done.err) == (0, "")
    first, second = jobs(tmp_path)
    assert first.run_at.year == 2100
    assert (second.run_at - second.created_at).total_seconds() == 3_600


def test_a_slow_writer_of_lines_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lines")
    words = ["enqueue", "a.b", "--file", "lines", "--db", "jobs.db"]
    with slotq.Queue(tmp_path / "jobs.db", lock_timeout=1) as q:
        q.stats()
        with started(*words, cwd=tmp_path) as command:
            with (tmp_path / "lines").open("w") as lines:
                lines.write("{}\n")
                lines.flush()
                mine = q.enqueue("a.c").id
            assert command.wait() == 0
        assert [(job.id, job.task) for job in q.jobs()] == [(mine, "a.c"), (mine + 1, "a.b")]


def test_jobs_come_from_standard_input_too(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(QWORKER), "enqueue", "a.b", "--file", "-", "--db", "jobs.db"],
        cwd=tmp_path,
        env=environment(),
        input="{}\n{}\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "enqueued 2 jobs, 1 to 2\n"


GOOD = {"task": "a.b"}
BAD_LINES = [
    ("{", "is not JSON ("),
    ("[1]", "must be a JSON object"),
    ("{}", "task must be a str"),
    ('{"task": "a.b", "priority": true}', "priority must be an integer"),
    ('{"task": "a.b", "args": {}}', "args must be a list"),
    ('{"task": "a.b", "args": [NaN]}', "NaN is no JSON number"),
    ('{"task": "a.b", "max_running": 2}', "max_running needs a key"),
    ('{"task": "a.b", "qeue": "x"}', "has no meaning for 'qeue'. Did you mean 'queue'?"),
    ('{"task": "a.b", "connection": 1}', "has no meaning for 'connection'"),
    ('{"task": "a.b", "run_at": "soon"}', "run_at must be an instant such as "),
    ('{"task": "a.b", "run_at": "2100-01-01T00:00:00"}', "run_at must"),
    ('{"task": "a.b", "args": ["' + "x" * 1_100_000 + '"]}', "takes over 1,100,000 bytes as JSON"),
    ("[" * 100_000, "is not JSON (nested too deep)"),
]


@pytest.mark.parametrize(("line", "problem"), BAD_LINES, ids=range(len(BAD_LINES)))
def test_what_is_no_job_is_said_with_its_line(tmp_path: Path, line: str, problem: str) -> None:
    write(tmp_path, "", GOOD, line, GOOD)
    place = str(tmp_path / "jobs.jsonl")
    with slotq.Queue(tmp_path / "jobs.db") as q, job_lines.opened(place, {}) as lines:
        with pytest.raises(exits.CommandFailed) as caught:
            job_lines.store(q, lines)
        assert q.jobs() == []
    said = str(caught.value)
    assert said.startswith(f"{place}, line 3: ")
    assert problem in said
    assert said.endswith("; none of its jobs are stored")


@pytest.mark.parametrize(("line", "problem"), BAD_LINES[3:5])
def test_one_bad_line_stores_nothing(tmp_path: Path, line: str, problem: str) -> None:
    write(tmp_path, *[GOOD] * 700, line, GOOD)
    done = enqueue(tmp_path, "--file", "jobs.jsonl")
    (said,) = done.err.splitlines()
    assert (done.code, done.out) == (1, "")
    assert said.startswith("qworker: jobs.jsonl, line 701: ")
    assert problem in said
    assert jobs(tmp_path) == []


def test_bytes_that_are_no_text_are_named_by_their_line(tmp_path: Path) -> None:
    (tmp_path / "jobs.jsonl").write_bytes(b'{"task": "a.b"}\n{"task": "\xff"}\n')
    done = enqueue(tmp_path, "--file", "jobs.jsonl")
    assert (done.code, jobs(tmp_path)) == (1, [])
    assert "jobs.jsonl, line 2: is not UTF-8" in done.err


def test_a_line_without_an_end_is_not_read_into_memory(tmp_path: Path) -> None:
    with (tmp_path / "jobs.jsonl").open("wb") as file:
        file.truncate(2**30)  # takes no room: there is nothing in it
    done = enqueue(tmp_path, "--file", "jobs.jsonl")
    assert (done.code, jobs(tmp_path)) == (1, [])
    assert "jobs.jsonl, line 1: is longer than 16,777,216 bytes" in done.err


@pytest.mark.parametrize("place", ["missing.jsonl", "."])
def test_a_file_that_cannot_be_read_is_told_in_one_line(tmp_path: Path, place: str) -> None:
    done = enqueue(tmp_path, "--file", place)
    (line,) = done.err.splitlines()
    assert (done.code, done.out) == (1, "")
    assert line.startswith("qworker: ")


def test_a_progress_bar_is_for_terminals_only(tmp_path: Path) -> None:
    write(tmp_path, *[GOOD] * 50)
    words = ["enqueue", "--file", "jobs.jsonl", "--db", "jobs.db"]
    assert qworker(*words, cwd=tmp_path) == Done(0, "enqueued 50 jobs, 1 to 50\n", "")
    shown = plain(on_terminal(*words, cwd=tmp_path).out)
    assert "100%" in shown
    assert shown.rstrip().endswith("enqueued 50 jobs, 51 to 100")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="a process's memory is bounded on Linux only")
def test_a_large_file_needs_little_memory(tmp_path: Path) -> None:
    line = json.dumps({"task": "a.b", "args": ["x" * 15_000], "key": "k"}) + "\n"
    with (tmp_path / "jobs.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(line for _ in range(10_000))
    size = (tmp_path / "jobs.jsonl").stat().st_size
    most = 140_000_000
    assert size > most
    done = subprocess.run(
        [str(QWORKER), "enqueue", "--file", "jobs.jsonl", "--db", "jobs.db"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (most, most)),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "enqueued 10000 jobs, 1 to 10000\n"
