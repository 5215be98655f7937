"""Seeing a worker out in time, from a thread that no body can block."""

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

from slotq.shift import HOOKS_S, Shift

logger = logging.getLogger("slotq.worker")

LOOK_S: Final = 0.02
# Without a job that runs there is nothing to wait for but a locked file.
IDLE_S: Final = 0.8
# How long cancelled async bodies may take to end, at the end of the grace and when hurried.
FAREWELL_S: Final = 0.5
HURRIED_S: Final = 0.1
# How long handing back may take while others keep the file locked.
HAND_BACK_S: Final = 1.0
# How long what was logged may take to be written, at the very end.
FLUSH_S: Final = 0.2


class Leaving:
    """The end of a worker that was told to go by a signal.

    Its jobs may run on for the grace, then they are handed back. A body that runs on even then must
    not share its slot with the next run of its job: so the process ends there.

    Args:
        shift: The shift.
        grace_s: How long bodies may run on, in seconds.
    """

    def __init__(self, shift: Shift, grace_s: float) -> None:
        self._shift = shift
        self._grace_s = grace_s
        self._hurried = threading.Event()
        self._over = threading.Event()
        self.code = 0

    def begin(self, name: str) -> None:
        """Stop claiming, and see to the rest; safe in a signal handler, as what it calls.

        Args:
            name: The signal's.
        """
        self._shift.stop()
        threading.Thread(target=self._see_out, name="slotq-leaving", daemon=True).start()
        say(
            "%s: no new jobs; those that run have %g s, once more hands them back now",
            name,
            self._grace_s,
        )

    def hurry(self, name: str, code: int) -> None:
        """Hand back now, and end with this exit code."""
        self.code = code
        self._hurried.set()
        say("%s again: handing back what runs", name)

    def end(self) -> None:
        """The worker has left by itself; or not quite, then the process ends here."""
        self._over.set()
        if self._shift.has_abandoned:
            end_process(self.code)

    def _see_out(self) -> None:
        self._wait(self._grace_s, self._has_waited_enough)
        if self._over.is_set():
            return
        hurried = self._hurried.is_set()
        self._shift.hand_back()
        if self._shift.is_async_busy:
            farewell_s = HURRIED_S if hurried else FAREWELL_S
            self._wait(farewell_s, lambda: not self._shift.is_async_busy)
        if self._shift.is_busy:
            # Before the jobs are handed back: from then on their bodies must not run.
            self._shift.close_hooks(patience_s=FAREWELL_S if hurried else HOOKS_S)
        self._shift.abandon()
        if not self._shift.has_begun.is_set():
            end_process(self.code)  # a hook for the beginning goes on, and nothing was claimed
        if not self._shift.has_written.wait(HAND_BACK_S):
            say("the file is still locked: jobs that run here come back by themselves")
        elif not self._shift.has_abandoned and self._over.wait(HOOKS_S + FAREWELL_S):
            return
        end_process(self.code)

    def _has_waited_enough(self) -> bool:
        if self._hurried.is_set():
            return True
        shift = self._shift
        if shift.is_busy or shift.has_written.is_set() or not shift.has_begun.is_set():
            return False
        return time.monotonic() > shift.begun_s + IDLE_S and not self._wait(
            IDLE_S, lambda: self._hurried.is_set() or shift.is_busy or shift.has_written.is_set()
        )

    def _wait(self, most_s: float, until: Callable[[], bool]) -> bool:
        """Wait until something is so, or the worker has left; return whether it was in time."""
        end_s = time.monotonic() + most_s
        while not until():
            if time.monotonic() >= end_s:
                return False
            if self._over.wait(LOOK_S):
                break
        return True


def say(text: str, *values: object) -> None:
    """Log, and wait for nobody: another thread may be stuck in a log that nobody reads."""
    _aside(lambda: logger.info(text, *values))


def end_process(code: int) -> None:
    """End this process at once, whatever its threads do."""
    _aside(_flush)
    os._exit(code)


def _flush() -> None:
    with contextlib.suppress(OSError, ValueError):  # a closed pipe
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()


def _aside(work: Callable[[], object]) -> None:
    """Do something on another thread, and wait for it a moment."""
    thread = threading.Thread(target=work, name="slotq-aside", daemon=True)
    with contextlib.suppress(RuntimeError):  # no more threads are to be had
        thread.start()
        thread.join(FLUSH_S)
