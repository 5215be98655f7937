"""A ``qworker run`` with a parent that supervises worker processes, as seen from outside."""

import contextlib
import os
import signal
from collections.abc import Generator, Mapping
from pathlib import Path

from support.commands import Started, started, until

APP = """
import os
import pathlib
import time

import slotq

q = slotq.Queue("jobs.db")


def append(name, text):
    with open(name, "a") as file:
        file.write(f"{text}\\n")


@q.task
def who(number: int) -> int:
    append("ran", f"{number} {os.getpid()}")
    return os.getpid()


@q.task
def dawdle(name: str) -> str:
    append("began", f"{name} {os.getpid()}")
    while not pathlib.Path("go").exists():
        time.sleep(0.005)
    return "whole"


@q.task
async def adawdle(name: str) -> str:
    import asyncio

    append("began", f"{name} {os.getpid()}")
    while not pathlib.Path("go").exists():
        await asyncio.sleep(0.005)
    return "whole"


@q.task
def linger(name: str) -> None:
    append("began", f"{name} {os.getpid()}")
    time.sleep(60)


@q.task
def deafen() -> None:
    import ctypes

    append("began", f"deaf {os.getpid()}")
    ctypes.PyDLL(None).sleep(60)  # with the interpreter's lock held


@q.task
def leave(code: int) -> None:
    os._exit(code)


@q.task
def swell(size: int) -> None:
    global ballast
    ballast = b"x" * size
"""


def write_app(folder: Path) -> Path:
    """Put the app into a folder; return the folder."""
    (folder / "app.py").write_text(APP, encoding="utf-8")
    return folder


def lines(path: Path) -> list[str]:
    """The whole lines of a file; none if it is not there."""
    if not path.exists():
        return []
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def began(folder: Path) -> dict[str, int]:
    """The names of the ``dawdle`` jobs that have begun, with the process of the last start."""
    pairs = (line.split() for line in lines(folder / "began"))
    return {name: int(pid) for name, pid in pairs}


def state_of(pid: int) -> str:
    """The state letter of a process; "" if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return text.rpartition(")")[2].split()[0]


def is_gone(pid: int) -> bool:
    """Whether a process has ended, taken note of or not."""
    return state_of(pid) in {"", "Z", "X"}


def heeds(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler of its own for a signal."""
    try:
        text = Path(f"/proc/{pid}/status").read_text("utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    (mask,) = (line.split()[1] for line in text.splitlines() if line.startswith("SigCgt:"))
    return bool(int(mask, 16) >> (number - 1) & 1)


def children_of(pid: int) -> list[int]:
    """The children of a process, also those that have ended and were not taken note of."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(word) for word in text.split()]


def descriptors_of(pid: int) -> int:
    """How many file descriptors a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@contextlib.contextmanager
def fleet(
    *words: str, cwd: Path, serving: int = 0, env: Mapping[str, str] | None = None
) -> Generator[Started]:
    """Run ``qworker run app:q`` with these options; nothing of it is left after the block.

    Args:
        words: Options.
        cwd: The folder of the app.
        serving: How many workers to wait for.
        env: Changes of the environment.
    """
    with started("run", "app:q", *words, cwd=cwd, env=env) as parent:
        try:
            until(lambda: parent.said.count(" serving ") >= serving, "the workers serve")
            yield parent
        finally:
            left = children_of(parent.pid)
            for pid in (parent.pid, *left):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            until(lambda: all(map(is_gone, left)), "the children are gone")
