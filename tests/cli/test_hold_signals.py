"""``qworker hold`` and signals: the command gets each of them, once."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

import slotq
from support.commands import DEADLINE_S, QWORKER, environment, running, started, until
from support.fleet import is_gone
from support.gates import gated
from support.namespaces import UNSHARE, can_unshare

PASSED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
# Notes each signal, and leaves with the last of them.
COMMAND = f"""
import os, signal, sys
heeded = [getattr(signal, name) for name in {PASSED!r}]
signal.pthread_sigmask(signal.SIG_BLOCK, heeded)
with open("pid-new", "w") as pid:
    pid.write(str(os.getpid()))
os.rename("pid-new", "pid")
while True:
    name = signal.Signals(signal.sigwait(heeded)).name
    with open("told", "a") as told:
        told.write(name + "\\n")
    if name == "SIGUSR2":
        sys.exit(5)
"""
WORDS = ("hold", "k", "--max-running", "1", "--db", "jobs.db", "--", sys.executable, "-c", COMMAND)


def told(folder: Path) -> list[str]:
    path = folder / "told"
    return path.read_text().split() if path.exists() else []


def until_count(folder: Path, count: int) -> None:
    until(lambda: len(told(folder)) >= count, f"{count} signals are told")


def until_told(folder: Path, *names: str) -> None:
    until_count(folder, len(names))
    assert told(folder) == list(names)


def test_signals_reach_the_command(tmp_path: Path) -> None:
    with started(*WORDS, cwd=tmp_path) as command:
        until((tmp_path / "pid").exists, "the command runs")
        for count, name in enumerate(PASSED, start=1):
            command.signal(getattr(signal, name))
            until_told(tmp_path, *PASSED[:count])
        assert command.wait() == 5
    assert command.said == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_both_and_frees_the_slot(tmp_path: Path, number: signal.Signals) -> None:
    with (
        slotq.Queue(tmp_path / "jobs.db") as q,
        gated("--max-running", "1", folder=tmp_path) as command,
    ):
        pid = command.pid
        command.qworker.signal(number)
        assert command.qworker.wait() == 128 + number
        assert is_gone(pid)
        assert q.holds() == []
        assert "qworker" not in command.qworker.said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_while_it_waits_leaves_the_line(tmp_path: Path, number: signal.Signals) -> None:
    with (
        slotq.Queue(tmp_path / "jobs.db") as q,
        q.hold("k"),
        gated("--max-running", "1", "--wait", "inf", folder=tmp_path) as command,
    ):
        until(lambda: len(q.holds()) == 2, "it waits")
        command.qworker.signal(number)
        assert command.qworker.wait() == 128 + number
        assert [info.state for info in q.holds()] == ["held"]
        assert not command.has_begun
        assert command.qworker.said == ""


def test_a_signal_that_is_ignored_stays_so(tmp_path: Path) -> None:
    words = ["bash", "-c", 'trap "" HUP; exec "$@"', "bash", str(QWORKER), *WORDS]
    with running(words, cwd=tmp_path) as command:
        until((tmp_path / "pid").exists, "the command runs")
        command.signal(signal.SIGHUP)
        command.signal(signal.SIGUSR1)
        until_told(tmp_path, "SIGUSR1")
        command.signal(signal.SIGUSR2)
        assert command.wait() == 5


def test_what_sends_to_the_whole_group_loses_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [str(QWORKER), *WORDS], cwd=tmp_path, env=environment(), start_new_session=True
    )
    try:
        until((tmp_path / "pid").exists, "the command runs")
        os.killpg(process.pid, signal.SIGUSR2)
        assert process.wait(DEADLINE_S) == 5
    finally:
        process.kill()
        process.wait()


@pytest.mark.skipif(not can_unshare(), reason="no PID namespace can be made here")
def test_the_first_process_of_a_container_leaves_no_zombies(tmp_path: Path) -> None:
    """It gets the children of all that die there."""
    os.mkfifo(tmp_path / "go")
    (tmp_path / "stray.sh").write_text("echo $$ > new; mv new stray; read -r _ < go\n")
    (tmp_path / "main.sh").write_text(STRAYING)
    words = [*UNSHARE, str(QWORKER), *WORDS[:7], "sh", "main.sh"]
    with running(words, cwd=tmp_path) as command:
        assert command.wait() == 0


# Leaves a process to the first one, and waits until its end was taken note of.
STRAYING = """
(sh stray.sh &)
until [ -e stray ]; do :; done
echo > go
while kill -0 "$(cat stray)"; do :; done
"""


def test_a_parent_that_ignores_its_children_gets_the_exit_code(tmp_path: Path) -> None:
    words = ["hold", "k", "--max-running", "1", "--db", "jobs.db", "--", "sh", "-c", "exit 7"]
    done = subprocess.run(
        [sys.executable, "-c", IGNORANT, str(QWORKER), *words],
        cwd=tmp_path,
        env=environment(),
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 7


IGNORANT = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""


@contextmanager
def on_terminal(folder: Path) -> Generator[tuple[int, int]]:
    """Run the command on a terminal; give ``qworker``'s process and what types into it."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(QWORKER, [str(QWORKER), *WORDS], environment())
    try:
        until((folder / "pid").exists, "the command runs")
        yield pid, terminal
    finally:
        os.kill(int((folder / "pid").read_text()), signal.SIGKILL)
        os.close(terminal)
        os.waitpid(pid, 0)


@pytest.mark.parametrize(("typed", "name"), [(b"\x03", "SIGINT"), (b"\x1c", "SIGQUIT")])
def test_what_is_typed_reaches_the_command_once(tmp_path: Path, typed: bytes, name: str) -> None:
    with on_terminal(tmp_path) as (pid, terminal):
        for count in range(1, 4):
            os.write(terminal, typed)
            until_count(tmp_path, 2 * count - 1)
            # What was passed on after the one that was typed would be there before this one.
            os.kill(pid, signal.SIGUSR1)
            until_told(tmp_path, *[name, "SIGUSR1"] * count)


def test_what_a_program_sends_reaches_it_on_a_terminal_too(tmp_path: Path) -> None:
    with on_terminal(tmp_path) as (pid, _):
        os.kill(pid, signal.SIGINT)
        until_told(tmp_path, "SIGINT")


def test_a_terminal_that_is_closed_is_told_of(tmp_path: Path) -> None:
    """It tells the leader of its session alone."""
    with on_terminal(tmp_path) as (_, terminal):
        os.dup2(os.open(os.devnull, os.O_RDWR), terminal)
        until_told(tmp_path, "SIGHUP")


def test_a_process_knows_whether_keys_of_a_terminal_reach_it() -> None:
    """Where a system does not tell who has sent a signal, it goes by this."""
    code = "from slotq_app.cli.held_command import is_in_foreground as f; print(f())"
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-c", code], environment())
    said = os.read(terminal, 100)
    os.waitpid(pid, 0)
    os.close(terminal)
    assert said == b"True\r\n"
    alone = subprocess.run(
        [sys.executable, "-c", code], start_new_session=True, capture_output=True, check=True
    )
    assert alone.stdout == b"False\n"
