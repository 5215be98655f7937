"""What ``qworker run`` logs: for people, as JSON, and with hostile text in it."""

import json
import re
from datetime import datetime
from pathlib import Path

import pytest

import slotq
from support.commands import qworker
from support.fleet import write_app

HOSTILE = 'a\r\n2026-01-01 00:00:00,000 INFO slotq.run: forged\n{"level": "INFO"}\x1b[2J\x9b1m\u202e\u2028z'
APP = """
import logging
import slotq

q = slotq.Queue("jobs.db")
logger = logging.getLogger("mine")


@q.task
def say(text: str) -> None:
    logger.warning("heard %s", text)


@q.task
async def asay(text: str) -> None:
    logger.warning("heard %s", text)


@q.task
def stumble(text: str) -> None:
    try:
        raise ValueError(text)
    except ValueError:
        logger.exception("stumbled")


@q.task(max_attempts=1)
def fail(text: str) -> None:
    raise ValueError(text)


@q.task
def stack() -> None:
    logger.warning("here", stack_info=True)


@q.task
def misuse() -> None:
    logger.warning("%d apples", "no")
"""
STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (INFO|WARNING|ERROR) [\w.]+\[\d+\]: ")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    return tmp_path


def logged(
    folder: Path, task: str, *args: str, key: str | None = None, words: tuple[str, ...] = ()
) -> list[str]:
    """The lines that a worker logs beside its first and last, for one job."""
    with slotq.Queue(folder / "jobs.db") as q:
        q.enqueue(f"app.{task}", args=args, key=key)
    done = qworker("run", "app:q", "--burst", *words, cwd=folder)
    assert done.code == 0, done.err
    _, *between, _ = done.err[:-1].split("\n")
    return between


def without_pid(line: str) -> str:
    """A line for people without the number of the process that logged it, which it must have."""
    text, count = re.subn(r"\[\d+\]: ", ": ", line, count=1)
    assert count == 1 or not STAMP.match(line)
    return text


def as_json(folder: Path, task: str, *args: str, key: str | None = None) -> list[dict[str, object]]:
    lines = logged(folder, task, *args, key=key, words=("--log-format", "json"))
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("task", ["say", "asay"])
def test_a_line_for_people_names_the_job_that_logs_it(folder: Path, task: str) -> None:
    (line,) = logged(folder, task, "it", key="tenant:acme")
    assert without_pid(line).endswith(
        f"WARNING mine: heard it [job=1 task=app.{task} key=tenant:acme attempt=1]"
    )


@pytest.mark.parametrize("task", ["say", "asay"])
def test_a_json_line_has_the_job_that_logs_it(folder: Path, task: str) -> None:
    (line,) = as_json(folder, task, "it", key="tenant:acme")
    at = datetime.fromisoformat(str(line.pop("time")))
    assert at.utcoffset() is not None
    assert isinstance(line.pop("pid"), int)
    assert line == {
        "level": "WARNING",
        "logger": "mine",
        "message": "heard it",
        "job": 1,
        "task": f"app.{task}",
        "key": "tenant:acme",
        "attempt": 1,
    }


def test_the_instant_of_a_json_line_is_utc_to_the_millisecond(folder: Path) -> None:
    (line,) = as_json(folder, "say", "it")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(line["time"]))
    assert "key" not in line


def test_what_the_worker_says_of_a_job_names_it_too(folder: Path) -> None:
    (line,) = as_json(folder, "fail", "no", key="k")
    assert (line["logger"], line["job"], line["task"]) == ("slotq.worker", 1, "app.fail")
    assert (line["key"], line["attempt"]) == ("k", 1)


def test_every_line_of_a_fleet_is_json(folder: Path) -> None:
    write_app(folder)
    with slotq.Queue(folder / "jobs.db") as q:
        for number in range(3):
            q.enqueue("app.who", args=[number])
    words = ("--burst", "--processes", "2", "--max-jobs", "1", "--log-format", "json")
    done = qworker("run", "app:q", *words, cwd=folder)
    messages = [json.loads(line)["message"] for line in done.err.splitlines()]
    assert any("is replaced by another" in message for message in messages)


@pytest.mark.parametrize("task", ["say", "asay", "fail"])
def test_hostile_text_makes_no_line_of_its_own_for_people(folder: Path, task: str) -> None:
    (line,) = logged(folder, task, HOSTILE, key=HOSTILE)
    assert STAMP.match(line)
    assert line.isprintable()


@pytest.mark.parametrize("task", ["say", "asay", "fail", "stumble"])
def test_hostile_text_makes_no_line_of_its_own_as_json(folder: Path, task: str) -> None:
    lines = logged(folder, task, HOSTILE, key=HOSTILE, words=("--log-format", "json"))
    (line,) = lines
    assert line.isascii()
    assert line.isprintable()
    assert str(json.loads(line)["message"]).isprintable()


def test_a_traceback_for_people_keeps_its_lines_and_forges_none(folder: Path) -> None:
    first, *story = logged(folder, "stumble", HOSTILE)
    assert without_pid(first).endswith("ERROR mine: stumbled [job=1 task=app.stumble attempt=1]")
    assert story[0] == "  Traceback (most recent call last):"
    assert any("ValueError: a" in line for line in story)
    assert all(line.startswith("  ") and line.isprintable() for line in story)


def test_a_traceback_in_json_is_a_text_of_its_own(folder: Path) -> None:
    (line,) = as_json(folder, "stumble", "no")
    assert line["message"] == "stumbled"
    story = str(line["exception"]).split("\n")
    assert (story[0], story[-1]) == ("Traceback (most recent call last):", "ValueError: no")


def test_a_stack_that_was_asked_for_is_told_like_a_traceback(folder: Path) -> None:
    (line,) = as_json(folder, "stack")
    assert str(line["exception"]).startswith("Stack (most recent call last):\n")


def test_a_message_whose_arguments_do_not_fit_is_logged_all_the_same(folder: Path) -> None:
    (line,) = logged(folder, "misuse")
    expected = "WARNING mine: %d apples (its arguments do not fit: TypeError: "
    assert expected in without_pid(line)


@pytest.mark.parametrize(
    ("words", "expected"),
    [((), "mine INFO heard it"), (("--log-format", "text"), "INFO mine: heard it")],
)
def test_a_format_that_was_asked_for_replaces_the_apps_own(
    folder: Path, words: tuple[str, ...], expected: str
) -> None:
    """Its levels stay: what it wants to see is none of the format's business."""
    code = "import logging\nlogging.basicConfig(level=logging.INFO, "
    code += "format='%(name)s %(levelname)s %(message)s')\n"
    (folder / "app.py").write_text(code + APP.replace("logger.warning", "logger.info"))
    lines = logged(folder, "say", "it", words=words)
    assert [expected in without_pid(line) for line in lines] == [True]


@pytest.mark.parametrize(
    ("level", "said"),
    [
        ((), ["serving", "heard", "stopped"]),
        (("--log-level", "debug"), ["serving", "seen", "heard", "stopped"]),
        (("--log-level", "warning"), ["heard"]),
    ],
)
def test_what_the_worker_says_of_its_own_depends_on_the_level(
    folder: Path, level: tuple[str, ...], said: list[str]
) -> None:
    code = APP.replace(
        "logger.warning(", "logging.getLogger('slotq.x').debug('seen')\n    logger.warning("
    )
    (folder / "app.py").write_text(code, encoding="utf-8")
    with slotq.Queue(folder / "jobs.db") as q:
        q.enqueue("app.say", args=["it"])
    done = qworker("run", "app:q", "--burst", "--log-format", "json", *level, cwd=folder)
    records = [json.loads(line) for line in done.err.splitlines()]
    assert [
        record["message"].split()[0].rstrip(";")
        for record in records
        if record["logger"] != "slotq.worker"
    ] == said


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (("bad:q",), 1, "importing bad failed: ZeroDivisionError"),
        (("bad:q", "--processes", "2"), 1, "importing bad failed: ZeroDivisionError"),
        (("nowhere:q",), 2, "there is no module 'nowhere'"),
        (("app:q", "--max-memory", "much"), 2, "'much' must be a size"),
    ],
)
def test_in_json_a_failure_is_a_record_too(
    folder: Path, words: tuple[str, ...], code: int, problem: str
) -> None:
    (folder / "bad.py").write_text("1 / 0\n", encoding="utf-8")
    done = qworker("run", *words, "--burst", "--log-format", "json", cwd=folder)
    (record,) = map(json.loads, done.err.splitlines())
    assert (done.code, record["level"]) == (code, "ERROR")
    assert problem in record["message"]
