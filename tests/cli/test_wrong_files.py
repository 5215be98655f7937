"""A mistyped path makes no file, and a file that is no queue stays as it is."""

import hashlib
import sqlite3
from pathlib import Path

import pytest

from support.commands import qworker

READING = [
    "jobs list", "jobs show 1", "jobs why 1", "jobs wait 1", "jobs tail", "jobs retry 1",
    "jobs cancel 1", "jobs delete 1", "jobs retry --all --yes", "jobs cancel --all --yes",
    "jobs delete --all --yes", "limits list", "limits clear k", "keys list", "keys show k",
    "queues list", "holds list", "holds release 1", "workers list", "stats", "prune",
]  # fmt: skip
CREATING = ["enqueue a.b", "limits set k --max-running 1", "hold k --max-running 1 -- true"]
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(256)) * 4


def listing(folder: Path) -> dict[str, str]:
    """Every file below a folder, with what is in it."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    } | {str(path.relative_to(folder)): "" for path in folder.rglob("*") if path.is_dir()}


def wrong_files(folder: Path) -> None:
    (folder / "empty.db").touch()
    (folder / "picture.png").write_bytes(PNG)
    (folder / "text.db").write_text("no database at all\n" * 100, encoding="utf-8")
    (folder / "inner").mkdir()
    connection = sqlite3.connect(folder / "foreign.db")
    connection.execute("CREATE TABLE slotq_like (id INTEGER PRIMARY KEY, note TEXT)")
    connection.execute("INSERT INTO slotq_like (note) VALUES ('mine')")
    connection.commit()
    connection.close()


# All commands open the file in one way; so each is tried with two places, some with every place.
PLACES = ("missing.db", "foreign.db")
MORE_PLACES = ("empty.db", "picture.png", "text.db", "inner", "no/jobs.db")
THOROUGH = {"jobs list", "prune"}


@pytest.mark.parametrize("command", READING)
def test_a_command_that_looks_makes_and_changes_nothing(tmp_path: Path, command: str) -> None:
    wrong_files(tmp_path)
    before = listing(tmp_path)
    for place in PLACES + MORE_PLACES if command in THOROUGH else PLACES:
        done = qworker(*command.split(), "--db", place, cwd=tmp_path)
        (line,) = done.err.splitlines()
        assert (done.code, done.out) == (1, ""), (place, done)
        assert line.startswith(f"qworker: {tmp_path / place}: ")
        assert listing(tmp_path) == before, place


@pytest.mark.parametrize("command", CREATING)
def test_a_command_that_adds_makes_a_file_but_takes_no_other(tmp_path: Path, command: str) -> None:
    wrong_files(tmp_path)
    before = listing(tmp_path)
    for place in ("picture.png", "text.db", "inner", "no/jobs.db"):
        done = qworker("--db", place, *command.split(), cwd=tmp_path)
        (line,) = done.err.splitlines()
        assert (done.code, done.out) == (1, ""), (place, done)
        assert line.startswith(f"qworker: {tmp_path / place}: ")
        assert listing(tmp_path) == before, place
    assert qworker("--db", "new.db", *command.split(), cwd=tmp_path).code == 0
    assert (tmp_path / "new.db").stat().st_size > 0


@pytest.mark.parametrize(
    ("words", "environ", "found"),
    [
        (["--db", "a.db", "jobs", "list"], None, "a.db"),
        (["jobs", "--db", "a.db", "list"], None, "a.db"),
        (["jobs", "list", "--db", "a.db"], None, "a.db"),
        (["--db", "b.db", "jobs", "list", "--db", "a.db"], None, "a.db"),
        (["--db", "b.db", "jobs", "--db", "a.db", "list"], None, "a.db"),
        (["jobs", "list"], "a.db", "a.db"),
        (["--db", "a.db", "jobs", "list"], "b.db", "a.db"),
        (["stats", "--db", "a.db"], "b.db", "a.db"),
    ],
)
def test_the_file_is_the_nearest_one_given(
    tmp_path: Path, words: list[str], environ: str | None, found: str
) -> None:
    done = qworker(*words, cwd=tmp_path, env={"SLOTQ_DB": environ} if environ else {})
    assert done.code == 1
    assert done.err.startswith(f"qworker: {tmp_path / found}: ")
