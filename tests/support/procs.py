"""Waiting for conditions, and processes that tests start, stop, continue and kill."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self, TypeVar

TESTS: Final = Path(__file__).resolve().parents[1]
PATIENCE_S: Final = 30.0
LOOK_S: Final = 0.002

T = TypeVar("T")


def until(look: Callable[[], T], *, patience_s: float = PATIENCE_S, what: str = "") -> T:
    """Look again and again until what is seen is truthy; return it."""
    deadline = time.monotonic() + patience_s
    while True:
        if seen := look():
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience_s} s: {what or look}, last seen: {seen!r}")
        time.sleep(LOOK_S)


async def auntil(look: Callable[[], T], *, patience_s: float = PATIENCE_S) -> T:
    """Look again and again until what is seen is truthy, with the event loop free meanwhile."""
    deadline = time.monotonic() + patience_s
    while not (seen := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience_s} s, last seen: {seen!r}")
        await asyncio.sleep(LOOK_S)
    return seen


class Process:
    """A Python process that a test owns; it works in the folder of the file that it prints to."""

    def __init__(
        self, arguments: Sequence[str], out: Path, extra: Mapping[str, str] | None = None
    ) -> None:
        paths = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.out = out
        with out.open("wb") as sink:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                cwd=out.parent,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **(extra or {})},
            )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.send(signal.SIGCONT)
            self.kill()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def text(self) -> str:
        """What it printed so far."""
        return self.out.read_text(encoding="utf-8", errors="replace")

    def send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once; gone when this returns."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Freeze it; frozen when this returns."""
        self.send(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def go_on(self) -> None:
        self.send(signal.SIGCONT)

    def wait(self, patience_s: float = PATIENCE_S) -> int:
        """Wait for its end; return its exit code."""
        try:
            return self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still alive after {patience_s} s:\n{self.text}") from None

    def finish(self, patience_s: float = PATIENCE_S) -> str:
        """Wait for its good end; return what it printed."""
        code = self.wait(patience_s)
        assert code == 0, f"exit code {code}:\n{self.text}"
        return self.text

    def cpu_s(self) -> float:
        """Return the processor time that it has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def processes(commands: Sequence[Sequence[str]], folder: Path) -> Generator[list[Process]]:
    """Start processes and end those left at the end of the block."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(Process(command, folder / f"process-{number}.txt"))
            for number, command in enumerate(commands)
        ]


def run_script(code: str, folder: Path, *, name: str = "app.py", **extra: str) -> str:
    """Run code as a script of its own in a folder; return what it printed."""
    script = folder / name
    script.write_text(code, encoding="utf-8")
    with Process([str(script)], folder / f"{name}.txt", extra) as process:
        return process.finish()
