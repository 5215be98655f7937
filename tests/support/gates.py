"""Commands under ``qworker hold`` that say that they run, and end when they are let go."""

import contextlib
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from support.commands import Started, started, until
from support.fleet import is_gone

CODE: Final = 7
# Says which process it is, waits at its gate, and ends with a code of its own.
WAITING: Final = f"""
cd ..
echo $$ > "pid-$0.new"
mv "pid-$0.new" "pid-$0"
read -r _ < "gate-$0"
exit {CODE}
"""


class Gated:
    """A command that waits at a gate, under ``qworker hold``.

    Attributes:
        qworker: What holds the slot for it.
    """

    def __init__(self, qworker: Started, folder: Path, name: str) -> None:
        self.qworker = qworker
        self._pid = folder / f"pid-{name}"
        self._gate = folder / f"gate-{name}"

    @property
    def has_begun(self) -> bool:
        return self._pid.exists()

    @property
    def pid(self) -> int:
        """Its process, once it runs."""
        until(lambda: self.has_begun, "the command runs")
        return int(self._pid.read_text())

    def let_go(self) -> None:
        """Let it end; gone when this returns."""

        def has_ended() -> bool:
            # It may be on its way to the gate, or on its way out.
            with contextlib.suppress(OSError), open_gate(self._gate) as gate:
                gate.write(b"\n")
            return is_gone(self.pid)

        until(has_ended, "the command has ended")

    def kill(self) -> None:
        """End it at once."""
        os.kill(self.pid, signal.SIGKILL)

    def end(self) -> int:
        """Let it end; return the exit code of what held the slot."""
        self.let_go()
        return self.qworker.wait()


def open_gate(path: Path) -> BinaryIO:
    """Open a gate that somebody waits at.

    Raises:
        OSError: Nobody does.
    """
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_NONBLOCK), "wb", buffering=0)


@contextmanager
def gated(*options: str, folder: Path, name: str = "a", key: str = "k") -> Generator[Gated]:
    """Hold a slot in ``jobs.db`` for a command that waits; both are gone after the block."""
    own = folder / name  # where it says what it says
    own.mkdir()
    os.mkfifo(folder / f"gate-{name}")
    words = ["hold", key, "--db", "../jobs.db", *options, "--", "sh", "-c", WAITING, name]
    with started(*words, cwd=own) as qworker:
        command = Gated(qworker, folder, name)
        try:
            yield command
        finally:
            if command.has_begun:
                command.let_go()
