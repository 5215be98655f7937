"""The installed commands, in processes of their own."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

QWORKER = Path(sys.executable).with_name("qworker")
DEADLINE_S = 30.0
LOOK_S = 0.005
# Without a buffer, what is printed fails and blocks at other places.
UNWANTED = {"SLOTQ_DB", "PYTHONUNBUFFERED"}


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment, without what would change what a command does."""
    kept = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    return kept | dict(changes or {})


def qworker(*words: str, cwd: Path, env: Mapping[str, str] | None = None) -> Done:
    """Run a command to its end."""
    done = subprocess.run(
        [str(QWORKER), *words],
        cwd=cwd,
        env=environment(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


class Started:
    """A command that runs; what it says, on either stream, is kept in a file."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log
        self.pid = process.pid

    @property
    def said(self) -> str:
        return self._log.read_text(encoding="utf-8")

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        return self._process.wait(DEADLINE_S)


@contextlib.contextmanager
def running(
    words: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None
) -> Generator[Started]:
    """Run any command beside the test; it is gone after the block."""
    log = cwd / "command.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            words,
            cwd=cwd,
            env=environment(env),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
        )
    try:
        yield Started(process, log)
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def started(*words: str, cwd: Path, env: Mapping[str, str] | None = None) -> Generator[Started]:
    """Run ``qworker`` beside the test; it is gone after the block."""
    with running([str(QWORKER), *words], cwd=cwd, env=env) as command:
        yield command


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until the condition holds; fail if it does not in time."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {DEADLINE_S:g} s until {what}"
        time.sleep(LOOK_S)
