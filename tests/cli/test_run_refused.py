"""What ``qworker run`` refuses, how it says so, and with which exit code."""

from pathlib import Path

import pytest

import slotq
from support.commands import qworker

GOOD = "import slotq\nq = slotq.Queue('jobs.db')\nq.task(name='print')(print)\nnumber = 7\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(GOOD, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("app", "'app' must be module:attribute, such as app:q"),
        ("app:", "'app:' must be module:attribute"),
        (":q", "':q' must be module:attribute"),
        ("app.py:q:r", "'app.py:q:r' must be module:attribute"),
        ("./app:q", "'./app:q' must be module:attribute"),
        ("app:\x1b[31mq", r"'app:\x1b[31mq' must be module:attribute"),
        ("nowhere:q", "there is no module 'nowhere' in "),
        ("nowhere.app:q", "there is no module 'nowhere' in "),
        ("app.inner:q", "there is no module 'app.inner' in "),
        ("app.py:q", "there is no module 'app.py' in "),
        ("app.py:q", "; did you mean 'app:q'?"),
        ("app:nothing", "app.py) has no attribute 'nothing'"),
        ("app:q.nothing", "app has no attribute 'nothing'"),
        ("app:number", "app:number is of type int, not a slotq.Queue"),
        ("app:slotq", "app:slotq is of type module, not a slotq.Queue"),
    ],
)
def test_a_wrong_app_is_a_usage_error(folder: Path, target: str, problem: str) -> None:
    done = qworker("run", target, "--burst", cwd=folder)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("qworker: invalid value for APP: ")
    assert problem in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("def broken(:\n", "SyntaxError: "),
        ("import no_such_thing\n", "ModuleNotFoundError: No module named 'no_such_thing' ("),
        ("1 / 0\n", "ZeroDivisionError: division by zero ("),
        ("raise RuntimeError('two\\nlines \\x1b[31m')\n", r"RuntimeError: two lines \x1b[31m ("),
        ("raise SystemExit(3)\n", "SystemExit: 3 ("),
        ("import slotq\nslotq.Queue('')\n", "InvalidValue: path is missing"),
    ],
)
def test_an_app_whose_code_fails_is_told_in_one_line(folder: Path, code: str, cause: str) -> None:
    (folder / "bad.py").write_text(code, encoding="utf-8")
    done = qworker("run", "bad:q", "--burst", cwd=folder)
    (line,) = done.err.splitlines()
    assert done.code == 1
    assert line.startswith(f"qworker: importing bad failed: {cause}")
    assert "bad.py, line " in line


def test_a_failing_app_leaves_the_waiting_jobs_alone(folder: Path) -> None:
    code = f"{GOOD}raise RuntimeError('later')\n"
    (folder / "bad.py").write_text(code, encoding="utf-8")
    with slotq.Queue(folder / "jobs.db") as q:
        job = q.enqueue("print")
        assert qworker("run", "bad:q", "--burst", cwd=folder).code == 1
        assert (q.job(job.id).state, q.job(job.id).attempt) == ("waiting", 0)
        assert q.workers() == []


@pytest.mark.parametrize("words", [["--db", "other.db", "run"], ["run", "--db", "other.db"]])
def test_db_that_is_another_file_than_the_apps_is_refused(folder: Path, words: list[str]) -> None:
    done = qworker(*words, "app:q", "--burst", cwd=folder)
    assert done.code == 2
    assert f"{folder / 'other.db'} is not the file of app:q, which is {folder / 'jobs.db'}" in (
        done.err.replace("\n", " ")
    )
    assert not (folder / "other.db").exists()


@pytest.mark.parametrize(
    ("place", "problem"),
    [("nowhere/jobs.db", "there is no folder "), ("app.py", "not "), (".", "")],
)
def test_a_file_that_cannot_be_used_is_told_in_one_line(
    folder: Path, place: str, problem: str
) -> None:
    code = f"import slotq\nq = slotq.Queue({place!r})\n"
    (folder / "lost.py").write_text(code, encoding="utf-8")
    done = qworker("run", "lost:q", "--burst", cwd=folder)
    (line,) = done.err.splitlines()
    assert done.code == 1
    assert line.startswith(f"qworker: {(folder / place)}: ")
    assert problem in line


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--slots", "0"], "'--slots'"),
        (["--slots", "many"], "'--slots'"),
        (["--lease", "0.5"], "'--lease'"),
        (["--lease", "3601"], "'--lease'"),
        (["--lease", "nan"], "invalid value for '--lease': 'nan' must be a time"),
        (["--lease", "2h"], "'--lease': '2h' must be from 1s to 1h"),
        (["--order", "lifo"], "'--order'"),
        (["--fair", "--fifo"], "one order only, not fair and fifo"),
        (["--round-robin", "--order", "fair"], "one order only, not fair and round-robin"),
        (["--queue", ""], "queues must have 1 to 200 characters"),
        (["--app-dir", "nowhere"], "'--app-dir'"),
        (["--no-such-option"], "--no-such-option"),
        (["another"], "another"),
    ],
)
def test_a_bad_option_is_a_usage_error(folder: Path, words: list[str], problem: str) -> None:
    done = qworker("run", "app:q", "--burst", *words, cwd=folder)
    assert (done.code, done.out) == (2, "")
    assert problem in done.err
    assert "Traceback" not in done.err


def test_without_an_app_it_says_what_is_missing(folder: Path) -> None:
    done = qworker("run", cwd=folder)
    assert done.code == 2
    assert done.err == "qworker: missing argument 'APP'.\n"
