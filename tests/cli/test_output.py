"""What commands print: safe, aligned, fitted to a terminal, and quiet when nobody reads."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from rich.cells import cell_len

import slotq
from support.commands import QWORKER, environment, qworker
from support.terminals import on_terminal, plain

# What a job may say, if somebody wants to do harm or is just unlucky.
HOSTILE = (
    "\x1b]0;PWN\x07", "\x1b[2J", "\x9b31m", "a\nb\rc\td", "\u202eabc", "\u2066x", "[bold]x[/bold]",
    "[@click=app.quit]x[/]", "\\[", "\x7f\x85\u2028", "\ufeff\u200bz",
)  # fmt: skip
WIDE = ("日本語キー", "e\u0301te", "👩\u200d💻👍🏽", "ＡＢＣ")  # noqa: RUF001


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("output")
    with slotq.Queue(made / "jobs.db") as q:

        def fail(text: str) -> None:
            raise ValueError(text)

        for number, text in enumerate(HOSTILE + WIDE):
            task = q.task(name=f"{text}{number}", max_attempts=1)(fail)
            task.options(key=text, queue=f"q{text}").enqueue(text)
            q.set_limit(slotq.literal(text), max_running=1, name=f"n{text}", updated_by=text)
        slotq.Worker(q, burst=True).run()
    return made


def printed(folder: Path, *words: str, env: dict[str, str] | None = None) -> str:
    done = qworker(*words, "--db", "jobs.db", cwd=folder, env=env)
    assert done.code == 0, done.err
    return done.out


LISTS = ("jobs list", "limits list", "keys list", "queues list", "workers list")
SHOWS = (*(f"jobs show {n}" for n in (1, 4, 5)), "keys show \u202eabc")
ACTING = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)


@pytest.mark.parametrize("words", LISTS + SHOWS)
def test_text_of_jobs_cannot_act_on_the_terminal(folder: Path, words: str) -> None:
    text = printed(folder, *words.split())
    assert ACTING.findall(text) == []
    raw = printed(folder, *words.split(), "--json")
    assert raw.isascii()
    assert ACTING.findall(raw) == []
    json.loads(raw)


def test_json_brings_text_back_as_it_was(folder: Path) -> None:
    rows = json.loads(printed(folder, "jobs", "list", "--json"))
    assert [row["key"] for row in rows] == [*HOSTILE, *WIDE]


def test_markup_is_text(folder: Path) -> None:
    text = printed(folder, "jobs", "list")
    assert "[bold]x[/bold]" in text
    assert "[@click=app.quit]x[/]" in text


@pytest.mark.parametrize("words", ["jobs list", "limits list", "keys list"])
def test_columns_stay_aligned_whatever_is_in_them(folder: Path, words: str) -> None:
    heading, *lines = printed(folder, *words.split()).splitlines()
    assert len(lines) == len(HOSTILE + WIDE)
    # Where an instant, or else the first number, stands in columns of a terminal.
    mark = re.compile(r" \d+ " if words == "keys list" else r"20\d\d-")
    places = {cell_len(line[: found.start()]) for line in lines if (found := mark.search(line))}
    assert len(places) == 1
    assert heading.count("  ") > 5


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_a_table_fits_its_terminal(folder: Path, columns: int) -> None:
    words = ["jobs", "list", "--db", "jobs.db"]
    text = plain(on_terminal(*words, cwd=folder, columns=columns, env={"NO_COLOR": "1"}).out)
    widths = [cell_len(line) for line in text.splitlines()]
    assert len(widths) == 1 + len(HOSTILE + WIDE)
    assert ("…" in text) is (columns < 200)
    if columns >= 80:
        assert max(widths) <= columns


def test_states_have_colours_on_a_terminal_only(folder: Path) -> None:
    words = ["jobs", "list", "--db", "jobs.db"]
    assert "\x1b[31mfailed\x1b[0m" in on_terminal(*words, cwd=folder).out
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in on_terminal(*words, cwd=folder, env=env).out
    assert "\x1b" not in printed(folder, *words[:2])


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_encoding_without_the_signs_is_no_error(folder: Path, encoding: str) -> None:
    assert "\\u" in printed(folder, "jobs", "list", env={"PYTHONIOENCODING": encoding})


@pytest.mark.parametrize("words", ["jobs list --limit 0", "jobs list --limit 0 --json", "--help"])
def test_a_closed_pipe_is_quiet(folder: Path, words: str) -> None:
    process = subprocess.Popen(
        [str(QWORKER), *words.split()],
        cwd=folder,
        env=environment({"SLOTQ_DB": "jobs.db"}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() in {0, 1}
    process.stderr.close()


@pytest.mark.parametrize("closed", ["1", "2"])
def test_a_stream_that_is_closed_is_no_fault(folder: Path, closed: str) -> None:
    for words in ("jobs list", "--help", "keys show a", "enqueue"):
        done = subprocess.run(
            ["bash", "-c", f"exec {closed}>&-; exec {QWORKER} {words}"],
            cwd=folder,
            env=environment({"SLOTQ_DB": "jobs.db"}),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == (2 if words == "enqueue" else 0)
        assert "Traceback" not in done.stderr


def test_output_that_cannot_be_written_is_an_error(folder: Path) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [str(QWORKER), "jobs", "list", "--db", "jobs.db"],
            cwd=folder,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.stderr.count("\n") == 1, done.stderr
    line = done.stderr
    assert done.returncode == 1
    assert "No space left on device" in line
