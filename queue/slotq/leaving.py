"""Seeing a worker out in time, from a thread that no body can block."""

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Final, NoReturn

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

    def begin(self) -> None:
        """Stop claiming, and see to the rest."""
        self._shift.stop()
        threading.Thread(target=self._see_out, name="slotq-leaving", daemon=True).start()

    def hurry(self, code: int) -> None:
        """Hand back now, and end with this exit code; safe in a signal handler."""
        self.code = code
        self._hurried.set()

    def end(self) -> None:
        """The worker has left by itself; or not quite, then the process ends here."""
        self._over.set()
        if self._shift.has_abandoned:
            end_process(self.code)

    def _see_out(self) -> None:
        idle_end_s = time.monotonic() + IDLE_S
        self._wait(self._grace_s, lambda: self._is_hurried(idle_end_s))
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
        if not self._shift.has_written.wait(HAND_BACK_S):
            logger.warning("the file is still locked: jobs that run here come back by themselves")
        elif not self._shift.has_abandoned and self._over.wait(HOOKS_S + FAREWELL_S):
            return
        end_process(self.code)

    def _is_hurried(self, idle_end_s: float) -> bool:
        if self._hurried.is_set():
            return True
        has_left = self._shift.has_written.is_set()
        return not has_left and not self._shift.is_busy and time.monotonic() > idle_end_s

    def _wait(self, most_s: float, until: Callable[[], bool]) -> None:
        end_s = time.monotonic() + most_s
        while not until() and time.monotonic() < end_s and not self._over.wait(LOOK_S):
            pass


def end_process(code: int) -> NoReturn:
    """End this process at once, whatever its threads do."""
    with contextlib.suppress(OSError, ValueError):  # a closed pipe
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
