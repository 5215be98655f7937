"""Completion in the shell: live values, no errors, no files made."""

import subprocess
from pathlib import Path

import pytest

import slotq
from support.commands import QWORKER, environment

# Bash takes words apart at these, though it shows them as one.
BREAKS = (":", "=")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("completion")
    with slotq.Queue(made / "jobs.db") as q:
        q.set_limit("tenant:*", max_running=3)
        q.set_limit("vendor x", max_starts=9, window=60, name="daily")
        q.enqueue("app.export", key="tenant:acme", queue="slow")
        q.enqueue("app.import", key="tenant:apex")
        q.cancel(q.enqueue("app.import", key="two words").id)
        q.hold("held key").acquire()
        q.enqueue("app.import", key="bad\nkey\x1b[31m")
    (made / "text.db").write_text("no database\n" * 100, encoding="utf-8")
    return made


def in_bash(folder: Path, typed: str, db: str = "jobs.db") -> list[str]:
    """What bash is offered at the end of a line; a space ends the last word."""
    words: list[str] = []
    for word in typed.split(" "):
        rest = word
        while (at := min((rest.find(b) for b in BREAKS if b in rest), default=-1)) >= 0:
            words += [part for part in (rest[:at], rest[at]) if part]
            rest = rest[at + 1 :]
        if rest or not word:
            words.append(rest)
    return ask(
        folder,
        {
            "_QWORKER_COMPLETE": "complete_bash",
            "COMP_WORDS": "\n".join(words),
            "COMP_CWORD": str(len(words) - 1),
            "SLOTQ_DB": db,
        },
    )


def ask(folder: Path, env: dict[str, str]) -> list[str]:
    done = subprocess.run(
        [str(QWORKER)],
        cwd=folder,
        env=environment(env),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert "Traceback" not in done.stdout
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("qworker lim", ["limits"]),
        ("qworker jobs re", ["retry"]),
        ("qworker jobs list --st", ["--state"]),
        ("qworker jobs list --state f", ["failed"]),
        ("qworker keys list --sort ru", ["running"]),
        ("qworker jobs list --key ", ["'held key'", "tenant:acme", "tenant:apex", "'two words'"]),
        ("qworker jobs list --key tenant:a", ["acme", "apex"]),
        ("qworker jobs list --key=tenant:ac", ["acme"]),
        ("qworker keys show tenant:", ["acme", "apex"]),
        ("qworker jobs list --queue ", ["default", "slow"]),
        ("qworker jobs tail --task app.e", ["app.export"]),
        ("qworker enqueue app.", ["app.export", "app.import"]),
        ("qworker jobs cancel ", ["1", "2", "4"]),
        ("qworker jobs retry ", ["3"]),
        ("qworker jobs delete 3", ["3"]),
        ("qworker jobs show ", ["1", "2", "4"]),
        ("qworker limits clear ", ["'tenant:*'", "'vendor x'"]),
        ("qworker limits set k --name d", ["daily"]),
        ("qworker limits set --queue s", ["slow"]),
        ("qworker hold tenant:a", ["acme", "apex"]),
        ("qworker hold --max-running 1 tenant:ac", ["acme"]),
        ("qworker holds list --key he", ["'held key'"]),
        ("qworker holds release ", ["1"]),
        ("qworker keys pause tenant:", ["acme", "apex"]),
        ("qworker keys resume tenant:ac", ["acme"]),
        ("qworker queues pause s", ["slow"]),
        ("qworker queues resume d", ["default"]),
        ("qworker events --kind pa", ["paused"]),
    ],
)
def test_bash_is_offered_what_there_is(folder: Path, typed: str, offered: list[str]) -> None:
    assert sorted(in_bash(folder, typed)) == sorted(offered)


@pytest.mark.parametrize(
    ("shell", "expected"), [("fish", "tenant:acme"), ("zsh", '"tenant\\\\:acme"')]
)
def test_other_shells_are_offered_the_same(folder: Path, shell: str, expected: str) -> None:
    env = {
        "_QWORKER_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": "qworker keys show tenant:ac",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_WORD_TO_COMPLETE": "tenant:ac",
        "SLOTQ_DB": "jobs.db",
    }
    assert expected in "\n".join(ask(folder, env))


@pytest.mark.parametrize("db", ["missing.db", "text.db", ".", ""])
def test_a_file_that_cannot_be_used_offers_nothing(folder: Path, db: str) -> None:
    before = sorted(folder.iterdir())
    for typed in ("qworker keys show ", "qworker jobs retry ", "qworker jobs list --task "):
        assert in_bash(folder, typed, db) == []
    assert sorted(folder.iterdir()) == before


def test_the_file_that_is_typed_is_asked(folder: Path) -> None:
    for typed in (
        "qworker --db jobs.db keys show tenant:ac",
        "qworker keys --db jobs.db show tenant:ac",
        "qworker keys show --db jobs.db tenant:ac",
    ):
        assert in_bash(folder, typed, "missing.db") == ["acme"]


def test_bash_itself_takes_the_script(folder: Path) -> None:
    script = f"""
PATH={QWORKER.parent}:$PATH
eval "$(_QWORKER_COMPLETE=source_bash qworker)"
COMP_WORDS=(qworker keys show tenant : ac) COMP_CWORD=5
_qworker_completion qworker
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=folder,
        env=environment({"SLOTQ_DB": "jobs.db"}),
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("acme\n", "")


def test_nonsense_from_a_shell_is_quiet(folder: Path) -> None:
    for env in ({}, {"COMP_WORDS": "qworker", "COMP_CWORD": "many"}):
        assert ask(folder, {"_QWORKER_COMPLETE": "complete_bash", **env}) == []
    assert ask(folder, {"_QWORKER_COMPLETE": "complete_tcsh"}) == []
