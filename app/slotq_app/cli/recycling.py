"""When a worker process has done its share, and another is to take its place."""

import logging
import os
import resource
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from slotq_app.cli.exits import CommandFailed

logger = logging.getLogger("slotq.run")

LOOK_S: Final = 1.0
STATM: Final = Path("/proc/self/statm")


class MemoryWatch:
    """Looks once a second, during its block, how much memory this process takes.

    Args:
        max_bytes: How much it may take; None for any.
        on_over: Called once when it takes more, in a thread of its own.

    Attributes:
        is_over: Whether it has taken more.
    """

    def __init__(self, max_bytes: int | None, on_over: Callable[[], None]) -> None:
        self._max_bytes = max_bytes
        self._on_over = on_over
        self._ended = threading.Event()
        self.is_over = False

    def __enter__(self) -> Self:
        if self._max_bytes is not None:
            taken = resident_bytes()
            if taken > self._max_bytes:
                # It would be replaced for ever.
                problem = f"the app takes {_text(taken)} before it runs any job"
                raise CommandFailed(
                    f"--max-memory {_text(self._max_bytes)} is too little: {problem}"
                )
            threading.Thread(target=self._look, name="slotq-memory", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def _look(self) -> None:
        assert self._max_bytes is not None, "the thread is for a limit"
        while not self._ended.wait(LOOK_S):
            taken = resident_bytes()
            if taken > self._max_bytes:
                logger.info(
                    "takes %s, more than %s: leaves when its jobs have ended",
                    _text(taken),
                    _text(self._max_bytes),
                )
                self.is_over = True
                self._on_over()
                return


def resident_bytes(told_in: Path = STATM) -> int:
    """Return the memory that this process takes; where that is not told, the most it ever took."""
    try:
        return int(told_in.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


def _text(size: int) -> str:
    return f"{size / 1024**2:.0f}M"
