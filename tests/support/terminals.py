"""Commands on a terminal of their own, of a given width."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from pathlib import Path

from support.commands import DEADLINE_S, QWORKER, Done, environment

LINES = 40
SILENCE_S = 0.5
# What moves the cursor or colours, not what is said.
_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_terminal(
    *words: str,
    cwd: Path,
    columns: int = 80,
    answer: str = "",
    env: Mapping[str, str] | None = None,
) -> Done:
    """Run ``qworker`` to its end on a terminal; all that it says is in ``out``.

    Args:
        *words: Its arguments.
        cwd: Where it runs.
        columns: How wide the terminal is.
        answer: What is typed when it says nothing for a while.
        env: Changes of the environment.
    """
    ours, its = pty.openpty()
    try:
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, columns, 0, 0))
        process = subprocess.Popen(
            [str(QWORKER), *words],
            cwd=cwd,
            env=_environment(env or {}),
            stdin=its,
            stdout=its,
            stderr=its,
            start_new_session=True,
            # Its controlling terminal, for Ctrl-C to reach it.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )
    finally:
        os.close(its)
    try:
        said = _read_all(ours, answer)
        return Done(process.wait(DEADLINE_S), said.decode(), "")
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _environment(changes: Mapping[str, str]) -> dict[str, str]:
    # What would be taken for the width and the colours of this terminal.
    left_out = {"COLUMNS", "LINES", "NO_COLOR"}
    kept = {name: value for name, value in environment().items() if name not in left_out}
    return kept | {"TERM": "xterm-256color"} | dict(changes)


def plain(text: str) -> str:
    """Return what a terminal was sent, without sequences."""
    return _SEQUENCE.sub("", text).replace("\r\n", "\n")


def _read_all(terminal: int, answer: str) -> bytes:
    said = b""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], SILENCE_S)[0]:
            # It waits for an answer. Who presses Ctrl-C just before it waits must press it again.
            os.write(terminal, answer.encode())
            continue
        try:
            part = os.read(terminal, 65_536)
        except OSError:  # the other side is gone
            return said
        if not part:
            return said
        said += part
    raise TimeoutError(f"still running after {DEADLINE_S:g} s: {said.decode()}")
