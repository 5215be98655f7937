"""Mistakes on the command line: one line that says what was meant, exit code 2, no traceback."""

from pathlib import Path

import pytest

import slotq
from support.commands import qworker

MISTAKES = [
    (["fly"], "no such command 'fly'"),
    (["enqeue", "a.b"], "no such command 'enqeue'. Did you mean 'enqueue'"),
    (["jobs", "lst"], "no such command 'lst'. Did you mean 'list'"),
    (["--verison"], "no such option: --verison. Did you mean '--version'?"),
    (["show", "3"], "no such command 'show'. Did you mean 'jobs show' or 'keys show'?"),
    (["tail"], "no such command 'tail'. Did you mean 'jobs tail'?"),
    (["jobs", "list", "--state", "failed", "--state", "succeeded"], "--state is given twice"),
    (["jobs", "delete", "--all", "--yes", "--key=a", "--key", "b"], "--key is given twice"),
    (["limits", "set", "--queue", "a", "--queue", "b"], "--queue is given twice"),
    (["enqueue", "a.b", "--kwarg", "n=1", "--kwarg", "n=2"], "--kwarg: 'n' is given twice"),
    (["enqueue", "a.b", "--timeout", "5x"], "--timeout: '5x' has no unit"),
    (["enqueue", "a.b", "--max-attempts", "0"], "'--max-attempts'"),
    (["jobs", "list", "--stat", "failed"], "no such option: --stat. Did you mean '--state'?"),
    (["jobs", "list", "--state", "faild"], "'faild' is not one of "),
    (["jobs", "list", "--state", "faild"], "Did you mean 'failed'?"),
    (["jobs", "list", "--state", "x" * 100_000], "invalid value for '--state': "),
    (["keys", "list", "--sort", "wating"], "Did you mean 'waiting'?"),
    (["run", "app:q", "--order", "ffo"], "Did you mean 'fifo'?"),
    (["jobs", "tail", "--state", "waiting"], "'waiting' is not one of "),
    (["jobs", "list", "--limit", "-1"], "'--limit'"),
    (["jobs", "list", "--limit", "many"], "'many' is not a valid"),
    (["jobs", "list", "--state"], "option '--state' requires an argument."),
    (["jobs", "list", "more"], "unexpected extra argument"),
    (["jobs", "show"], "missing argument 'ID'."),
    (["jobs", "show", "one"], "invalid value for 'ID': 'one'"),
    (["jobs", "wait", "1", "--timeout", "soon"], "'soon' must be a time such as 90, 90s"),
    (["jobs", "wait", "1", "--timeout", "5min"], "Did you mean 5m?"),
    (["jobs", "retry"], "give numbers of jobs, or --all"),
    (["jobs", "retry", "1", "--all"], "give numbers of jobs, or --all"),
    (["jobs", "cancel", "1", "--state", "waiting"], "filters go with --all only"),
    (["enqueue"], "name a task, or give --file"),
    (["enqueue", "a.b", "--arg", "acme"], "'acme' is not JSON. Did you mean '\"acme\"'?"),
    (["enqueue", "a.b", "--arg", "NaN"], "'NaN' is not JSON"),
    (["enqueue", "a.b", "--arg", "[" * 100_000], "is not JSON"),
    (["enqueue", "a.b", "--kwarg", "report"], "'report' must be NAME=JSON"),
    (["enqueue", "a.b", "--kwarg", "report=x"], "'x' is not JSON"),
    (["enqueue", "a.b", "--priority", "high"], "'--priority'"),
    (["enqueue", "a.b", "--max-running", "0"], "'--max-running'"),
    (["enqueue", "a.b", "--max-running", "2"], "max_running needs a key"),
    (["enqueue", "a.b", "--delay", "-1"], "'-1' must be a time"),
    (["enqueue", "a.b", "--delay", "9" * 400], "is too long"),
    (["enqueue", "a.b", "--file", "f", "--arg", "1"], "cannot go with --file"),
    (["enqueue", ""], "task must have 1 to 200 characters"),
    (["limits", "set"], "key or queue must be given"),
    (
        ["limits", "set", "k", "--queue", "q", "--max-running", "1"],
        "key or queue must be given, and not both",
    ),
    (["limits", "set", "k", "--max-running", "few"], "'few' must be a whole number, or none"),
    (["limits", "set", "k", "--max-running", "0"], "max_running must be an integer from 1"),
    (["limits", "set", "k", "--max-starts", "1", "--window", "dya"], "Did you mean 'day'?"),
    (["limits", "set", "k", "--max-starts", "1", "--window", "5x"], "no unit of s, m, h or d"),
    (["limits", "clear"], "key or queue must be given, and not both"),
    (["keys", "show", ""], "must be a key, not none"),
    (["prune", "--older-than", "1y"], "no unit of s, m, h or d"),
    (["jobs", "list", "--key", "x\udcff"], "must not contain lone surrogates"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("usage")
    with slotq.Queue(made / "jobs.db") as q:
        q.enqueue("a.b")
    return made


@pytest.mark.parametrize(("words", "problem"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_told_in_one_line(folder: Path, words: list[str], problem: str) -> None:
    done = qworker(*words, cwd=folder, env={"SLOTQ_DB": "jobs.db"})
    (line,) = done.err.splitlines()
    assert (done.code, done.out) == (2, "")
    assert line.startswith("qworker: ")
    assert problem in line
    assert len(line) < 600


def test_what_was_typed_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    done = qworker("fly\x1b]0;PWN\x07\x9b31m", cwd=tmp_path)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert done.err.rstrip("\n").isprintable()


def test_without_a_file_the_commands_say_how_to_give_one(tmp_path: Path) -> None:
    done = qworker("jobs", "list", cwd=tmp_path)
    assert done.code == 2
    assert (
        done.err
        == "qworker: invalid value for --db: is missing: give a queue file, or set SLOTQ_DB\n"
    )


@pytest.mark.parametrize("words", [(), ("jobs",), ("limits",)])
def test_without_a_command_the_help_is_shown(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = qworker(*words, cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err == qworker(*words, "--help", cwd=tmp_path).out
