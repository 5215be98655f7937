"""The worker processes of the demo."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Final

APP: Final = "slotq_app.demo.app:q"
# A job takes well under a second, so a worker that was told to stop leaves soon.
STOP_S: Final = 5.0


class Worker:
    """One ``qworker run`` in a process of its own, which leaves when no job waits.

    Args:
        number: Which one, for people.
        database: The queue file.
        options: More options of ``qworker run``.
    """

    def __init__(self, number: int, database: Path, options: Sequence[str]) -> None:
        self.number = number
        self._log = database.with_name(f"{database.name}.worker-{number}.log")
        # -P: what lies in the current folder is no part of the demo.
        command = [sys.executable, "-P", "-m", "slotq_app", "run", APP, "--burst", *options]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603  # our own command, no shell
                [*command, "--app-dir", str(database.parent)],
                env={**os.environ, "SLOTQ_DB": str(database)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is for the demo, which then stops its workers in good order.
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        """Whether its process lives."""
        return self._process.poll() is None

    @property
    def trouble(self) -> str | None:
        """How it ended, in one line; None while it lives and after a good end."""
        code = self._process.poll()
        if not code:
            return None
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        text = self._log.read_text(encoding="utf-8", errors="replace").split("\n")
        last = next((line for line in reversed(text) if line.strip()), "it has said nothing")
        return f"worker {self.number} (process {self._process.pid}) {how}: {last.strip()}"

    def tell_to_stop(self) -> None:
        """Send SIGTERM; no error if it has left already."""
        self._process.terminate()

    def wait(self, until: float) -> None:
        """Wait until it has left, or kill it at an instant of the monotonic clock."""
        try:
            self._process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def workers(count: int, database: Path, options: Sequence[str]) -> Generator[list[Worker]]:
    """Start workers; none is left when the block has ended, however it ended."""
    started: list[Worker] = []
    try:
        while len(started) < count:
            started.append(Worker(len(started) + 1, database, options))
        yield started
    finally:
        for worker in started:
            worker.tell_to_stop()
        until = time.monotonic() + STOP_S
        for worker in started:
            worker.wait(until)
