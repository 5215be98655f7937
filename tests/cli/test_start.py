"""How the command starts and how it is interrupted: quick, lean and quiet."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import slotq
from support.commands import DEADLINE_S, QWORKER, environment, started

HEAVY = {"textual", "pydantic", "asyncio", "aiosqlite", "rich.console", "rich.table", "pygments"}
LOADED = """
import atexit, sys
@atexit.register
def tell():
    print("loaded", *sys.modules, file=sys.stderr)
from slotq_app.start import main
sys.argv = ["qworker", *sys.argv[1:]]
main()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("start")
    with slotq.Queue(made / "jobs.db") as q:
        q.enqueue("app.export", key="tenant:acme")
    (made / "limits.toml").write_text("[[limit]]\nkey = 'k'\nmax_running = 3\n", encoding="utf-8")
    return made


def loaded_by(folder: Path, *words: str) -> set[str]:
    """The modules that a command has loaded when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *words],
        cwd=folder,
        env=environment({"SLOTQ_DB": "jobs.db"}),
        capture_output=True,
        text=True,
        check=False,
    )
    *_, last = done.stderr.splitlines()
    first, *names = last.split()
    assert first == "loaded"
    return set(names)


@pytest.mark.parametrize(
    "words",
    ["--help", "jobs --help", "jobs lst", "jobs list --state faild", "enqueue a.b --arg x",
     "hold --help", "hold k true", "hold k --ttl 0 -- true"],
)  # fmt: skip
def test_help_and_usage_errors_do_not_load_the_engine(folder: Path, words: str) -> None:
    found = loaded_by(folder, *words.split())
    assert found & (HEAVY | {"slotq", "rich"}) == set()


@pytest.mark.parametrize(
    "words",
    ["jobs list", "jobs list --json", "jobs show 1", "keys list", "limits list", "stats",
     "jobs retry 1", "enqueue a.b", "limits set k --max-running 3", "keys pause k", "events",
     "limits import limits.toml", "limits export", "holds list", "hold k --max-running 3 -- true"],
)  # fmt: skip
def test_a_command_loads_nothing_heavy(folder: Path, words: str) -> None:
    found = loaded_by(folder, *words.split())
    assert "slotq" in found
    assert found & HEAVY == set()
    assert ("tomlkit" in found) == (words == "limits export")


def test_the_start_loads_nothing_before_signals_are_set() -> None:
    code = "import sys, slotq_app.start; print('typer' in sys.modules, 'slotq' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


# Interrupts the process at the moment that this module is looked for.
INTERRUPTED = """
import os, signal, sys
from slotq_app.start import main
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
sys.argv = ["qworker", "jobs", "list"]
main()
"""


@pytest.mark.parametrize("name", ["slotq_app.cli", "typer", "slotq", "slotq.jobqueue"])
def test_an_interrupt_while_loading_is_quiet(folder: Path, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(name=name)],
        cwd=folder,
        env=environment({"SLOTQ_DB": "jobs.db"}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_interrupt_at_work_is_quiet(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lines")
    words = ["enqueue", "a.b", "--file", "lines", "--db", "jobs.db"]
    with started(*words, cwd=tmp_path) as command, (tmp_path / "lines").open("w"):
        # It has begun: it has opened the other end.
        command.signal(signal.SIGINT)
        assert command.wait() == 130
    assert command.said == ""
    assert not (tmp_path / "jobs.db").exists()


def test_an_interrupt_that_is_ignored_stays_so(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lines")
    words = ["enqueue", "a.b", "--file", "lines", "--db", "jobs.db"]
    process = subprocess.Popen(
        ["bash", "-c", 'trap "" INT; exec "$@"', "bash", str(QWORKER), *words],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
    )
    with (tmp_path / "lines").open("w") as lines:
        process.send_signal(signal.SIGINT)
        lines.write("{}\n")
    out, _ = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, out) == (0, b"enqueued 1 job, 1 to 1\n")
