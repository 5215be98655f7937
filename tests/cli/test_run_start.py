"""``qworker run`` with several processes, on an app or a file that cannot be used."""

from pathlib import Path

import pytest

import slotq
from support.commands import qworker, until
from support.fleet import children_of, fleet, lines, write_app

GOOD = "import slotq\nq = slotq.Queue('jobs.db')\nq.task(name='print')(print)\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_app(tmp_path)


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("def broken(:\n", "qworker: importing bad failed: SyntaxError: "),
        ("import no_such_thing\n", "qworker: importing bad failed: ModuleNotFoundError: "),
        (f"{GOOD}1 / 0\n", "qworker: importing bad failed: ZeroDivisionError: division by zero ("),
        (
            "import slotq\nq = slotq.Queue('nowhere/jobs.db')\n",
            "nowhere/jobs.db: there is no folder",
        ),
    ],
)
def test_an_app_that_cannot_be_used_is_told_once(folder: Path, code: str, cause: str) -> None:
    """Case 52: the cause in one line, and no job is touched."""
    (folder / "bad.py").write_text(code, encoding="utf-8")
    with slotq.Queue(folder / "jobs.db") as q:
        job = q.enqueue("print")
        done = qworker("run", "bad:q", "--processes", "3", cwd=folder)
        assert (q.job(job.id).state, q.job(job.id).attempt) == ("waiting", 0)
    (line,) = done.err.splitlines()
    assert done.code == 1
    assert cause in line


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("nowhere:q",), "there is no module 'nowhere' in "),
        (("app:nothing",), "app.py) has no attribute 'nothing'"),
        (("app:q", "--db", "other.db"), "other.db is not the file of app:q"),
        (("app:q", "--queue", ""), "queues must have 1 to 200 characters"),
    ],
)
def test_a_usage_error_of_the_children_is_told_once(
    folder: Path, words: tuple[str, ...], problem: str
) -> None:
    done = qworker("run", *words, "--processes", "3", cwd=folder)
    assert (done.code, done.out) == (2, "")
    assert " ".join(done.err.split()).count(problem) == 1
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--processes", "0"), "--processes"),
        (("--processes", "257"), "--processes"),
        (("--grace", "-1"), "--grace"),
        (("--grace", "nan"), "invalid value for '--grace': 'nan' must be a time"),
        (("--grace", "2d"), "'--grace': '2d' must be from 0s to 1d"),
        (("--max-jobs", "0"), "--max-jobs"),
        (("--max-memory", "0"), "'0' must be a size such as 300M or 1G"),
        (("--max-memory", "much"), "'much' must be a size such as 300M or 1G"),
        (("--max-memory", "-5M"), "'-5M' must be a size such as 300M or 1G"),
        (("--log-format", "xml"), "--log-format"),
    ],
)
def test_an_option_out_of_its_range_is_a_usage_error(
    folder: Path, words: tuple[str, ...], problem: str
) -> None:
    done = qworker("run", "app:q", "--burst", *words, cwd=folder)
    assert (done.code, done.out) == (2, "")
    assert problem in done.err


def test_a_process_that_dies_while_it_starts_is_tried_again(folder: Path) -> None:
    """Only what the app or the command line is to blame for ends the start at once."""
    code = "import os, pathlib\nif not pathlib.Path('tried').exists():\n"
    code += "    pathlib.Path('tried').touch()\n    os.kill(os.getpid(), 9)\n"
    (folder / "main.py").write_text(f"{code}from app import q\n", encoding="utf-8")
    done = qworker("run", "main:q", "--burst", "--processes", "2", cwd=folder)
    assert done.code == 0, done.err
    assert "has died: signal 9 (SIGKILL); another starts in 0.1 s" in done.err
    assert done.err.count(" serving ") == 2


def test_the_others_wait_until_the_first_has_loaded_the_app(folder: Path) -> None:
    code = "import os, pathlib, time\nopen('loading', 'a').write(f'{os.getpid()}\\n')\n"
    code += "while not pathlib.Path('go').exists():\n    time.sleep(0.005)\n"
    (folder / "app.py").write_text(f"{code}{GOOD}", encoding="utf-8")
    with fleet("--processes", "3", cwd=folder) as parent:
        until(lambda: len(lines(folder / "loading")) == 1, "the first loads the app")
        assert len(children_of(parent.pid)) == 1
        (folder / "go").touch()
        until(lambda: parent.said.count(" serving ") == 3, "all serve")
        assert {int(pid) for pid in lines(folder / "loading")} == set(children_of(parent.pid))


@pytest.mark.parametrize("value", ["x", "0", "99", "9" * 30])
def test_a_variable_of_the_name_that_children_get_does_no_harm(folder: Path, value: str) -> None:
    done = qworker("run", "app:q", "--burst", cwd=folder, env={"SLOTQ_RUN_CHANNEL": value})
    assert (done.code, "stopped;" in done.err) == (0, True)
