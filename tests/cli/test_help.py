"""The commands and options that there are, as ``--help`` of the installed command tells them."""

import re
import subprocess
from typing import get_args, get_type_hints

import pytest

import slotq
from slotq_app.cli import durations, event_commands, filters
from support.commands import QWORKER, environment

FILTERS = "--state --key --queue --task"
# The table of commands in docs/design.md; --db and --help are everywhere and not repeated.
COMMANDS = {
    "run": "--app-dir --slots --processes --queue --order --fair --round-robin --fifo --lease "
    "--grace --burst --reload --max-jobs --max-memory --log-format --log-level",
    "enqueue": "--arg --kwarg --key --queue --priority --delay --max-running --max-attempts "
    "--timeout --expires --dedupe --file",
    "jobs list": f"{FILTERS} --limit --after --json",
    "jobs show": "--json",
    "jobs why": "--json",
    "jobs wait": "--timeout",
    "jobs tail": f"{FILTERS} --json",
    "jobs retry": f"--all {FILTERS} --yes",
    "jobs cancel": f"--all {FILTERS} --yes",
    "jobs delete": f"--all {FILTERS} --yes",
    "limits list": "--json",
    "limits set": "--queue --max-running --max-starts --window --timezone --name --json",
    "limits clear": "--queue --name",
    "limits diff": "--app-dir --json",
    "limits apply": "--app-dir --dry-run",
    "limits export": "",
    "limits import": "--dry-run",
    "keys list": "--sort --limit --json",
    "keys show": "--json",
    "keys pause": "",
    "keys resume": "",
    "queues list": "--json",
    "queues pause": "",
    "queues resume": "",
    "hold": "--ttl --wait --slots --max-running --label --keep-going",
    "holds list": "--key --limit --after --json",
    "holds release": "",
    "workers list": "--json",
    "events": "--limit --after --kind --json",
    "stats": "--json",
    "prune": "--older-than",
    "demo": "--workers --slots --order --fair --round-robin --fifo --jobs --keep",
}
ARGUMENTS = {
    "run": "APP", "enqueue": "TASK", "jobs show": "ID", "jobs why": "ID", "jobs wait": "ID",
    "jobs retry": "ID", "jobs cancel": "ID", "jobs delete": "ID", "limits set": "KEY",
    "limits clear": "KEY", "limits diff": "APP", "limits apply": "APP", "limits import": "FILE",
    "keys show": "KEY", "keys pause": "KEY", "keys resume": "KEY", "queues pause": "QUEUE",
    "queues resume": "QUEUE", "hold": "KEY COMMAND", "holds release": "ID",
}  # fmt: skip
GROUPS = ("jobs", "limits", "keys", "queues", "holds", "workers")
EVERYWHERE = {"--db", "--help"}


def help_of(*words: str) -> str:
    """The help of a command, on a terminal of 80 columns."""
    done = subprocess.run(
        [str(QWORKER), *words, "--help"],
        env=environment({"COLUMNS": "80"}),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert max(map(len, done.stdout.splitlines())) <= 80
    return done.stdout


def commands_in(text: str) -> set[str]:
    _, _, listed = text.partition("\nCommands:\n")
    return set(re.findall(r"^  (\w+)", listed, re.MULTILINE))


def options_in(text: str) -> set[str]:
    _, _, listed = text.partition("\nOptions:\n")
    return set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", listed, re.MULTILINE))


def arguments_in(text: str) -> set[str]:
    _, _, listed = text.partition("\nOptions:\n")[0].partition("\nArguments:\n")
    return set(re.findall(r"^  \[?([A-Z]+)", listed, re.MULTILINE))


def test_the_commands_are_those_of_the_table() -> None:
    found: set[str] = set()
    for name in commands_in(help_of()):
        inner: set[str] = set()
        if name in GROUPS:
            text = help_of(name)
            assert options_in(text) >= EVERYWHERE
            inner = commands_in(text)
        found |= {f"{name} {word}" for word in inner} or {name}
    assert found == set(COMMANDS)


@pytest.mark.slow
def test_the_options_are_those_of_the_table() -> None:
    for command, options_of_it in COMMANDS.items():
        text = help_of(*command.split())
        assert text.startswith(f"Usage: qworker {command} "), command
        assert "``" not in text, command
        assert options_in(text) == {*options_of_it.split(), *EVERYWHERE}, command
        assert arguments_in(text) == set(ARGUMENTS.get(command, "").split()), command


def test_a_command_that_takes_several_numbers_shows_it() -> None:
    assert help_of("jobs", "retry").startswith("Usage: qworker jobs retry [OPTIONS] [ID...]\n")


def test_choices_are_those_of_the_engine() -> None:
    assert get_args(filters.State) == get_args(get_type_hints(slotq.Job)["state"])
    assert get_args(event_commands.EventKind) == get_args(get_type_hints(slotq.Event)["kind"])
    assert get_args(durations.Period) == get_args(
        get_args(get_type_hints(slotq.Limit)["window"])[1]
    )
