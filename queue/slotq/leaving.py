"""Seeing a worker out in time, by a thread that nothing can block.

Signals reach that thread through a socket that Python's own C handler writes to. So they are heard
though a body blocks the event loop, and no handler has to take a lock that the code which it
interrupts may hold.
"""

import contextlib
import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Final, NoReturn, Self

from slotq.shift import HOOKS_S, Shift

logger = logging.getLogger("slotq.worker")

HANDLED: Final = (signal.SIGTERM, signal.SIGINT)
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
# How often to look for signals that the socket does not tell of.
POLL_MS: Final = 200

Handler = Callable[[int, FrameType | None], object] | int | signal.Handlers | None

_entered: "Leaving | None" = None
# Of each thread that forks: which signals it had blocked before.
_masks = threading.local()


class Leaving:
    """The end of a worker that is told to go by a signal; used as a block around its work.

    Its jobs may run on for the grace, then they are handed back. A body that runs on even then must
    not share its slot with the next run of its job: so the process ends there.

    Args:
        stop: Makes the worker claim nothing more.
        shift: Returns its shift; None before that begins.
        grace_s: How long bodies may run on, in seconds.

    Attributes:
        code: The exit code of a worker that was hurried; else 0.
    """

    def __init__(
        self, stop: Callable[[], None], shift: Callable[[], Shift | None], grace_s: float
    ) -> None:
        self._stop = stop
        self._find_shift = shift
        self._shift: Shift | None = None
        self._grace_s = grace_s
        self._over = threading.Event()
        self._ours, self._theirs = socket.socketpair()
        self._by_fd = 0
        self._by_handler = 0
        self._last = signal.SIGTERM
        self._before: dict[int, Handler] = {}
        self._fd_before = -1
        self.code = 0

    def __enter__(self) -> Self:
        global _entered  # noqa: PLW0603  # a process has one set of handlers
        self._ours.settimeout(0)
        self._theirs.settimeout(0)
        threading.Thread(target=self._watch, name="slotq-leaving", daemon=True).start()
        _entered = self
        for number in HANDLED:
            self._before[number] = signal.signal(number, self._note)
        self._fd_before = signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        global _entered  # noqa: PLW0603
        self.give_back()
        _entered = None
        self._over.set()
        self._theirs.close()

    def give_back(self) -> None:
        """Let signals do what they did before."""
        signal.set_wakeup_fd(self._fd_before)
        for number, handler in self._before.items():
            # None stands for one that was not set from Python, and cannot be set again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def let_go(self) -> None:
        """In a forked child: signals are its own affair, and the socket is its parent's."""
        self.give_back()
        self._over.set()
        self._ours.close()
        self._theirs.close()

    def _note(self, number: int, _: FrameType | None) -> None:
        """Note a signal that the socket may not tell of: somebody may have taken its place."""
        self._last = signal.Signals(number)
        self._by_handler += 1
        shift = self._find_shift()
        if shift is not None:
            shift.note_stop()  # no later than now, though the rest takes a moment

    def _signals(self) -> int:
        """Return how many signals have come so far."""
        with contextlib.suppress(OSError):
            for byte in self._ours.recv(64):
                if byte in HANDLED:
                    self._last = signal.Signals(byte)
                    self._by_fd += 1
        return max(self._by_fd, self._by_handler)

    def _watch(self) -> None:
        poll = select.poll()
        poll.register(self._ours, select.POLLIN)
        while not self._over.is_set() and self._signals() == 0:
            poll.poll(POLL_MS)
        if not self._over.is_set():
            self._see_out()
        self._ours.close()

    def _see_out(self) -> None:
        self._stop()
        say(
            "%s: no new jobs; those that run have %g s, once more hands them back now",
            self._last.name,
            self._grace_s,
        )
        self._wait(self._grace_s, self._has_waited_enough)
        if self._over.is_set():
            return
        if self._signals() > 1:
            self.code = 128 + self._last
            say("%s again: handing back what runs", self._last.name)
        shift = self._found()
        if shift is None or not shift.has_begun.is_set():
            end_process(self.code)  # a hook for the beginning goes on, and nothing was claimed
        shift.hand_back()
        if shift.is_async_busy:
            farewell_s = HURRIED_S if self.code else FAREWELL_S
            self._wait(farewell_s, lambda: not shift.is_async_busy)
        if shift.is_busy and not shift.has_bodies:
            # Its bodies have ended; only the file may keep it from writing so.
            self._wait(IDLE_S, lambda: not shift.is_busy)
        if shift.is_busy:
            # Before the jobs are handed back: from then on their bodies must not run.
            shift.close_hooks(patience_s=FAREWELL_S if self.code else HOOKS_S)
            _aside(_flush)
        shift.abandon(lambda: os._exit(self.code))
        if not shift.has_written.wait(HAND_BACK_S):
            say("the file is still locked: jobs that run here come back by themselves")
        elif self._over.wait(HOOKS_S + FAREWELL_S):
            return
        end_process(self.code)

    def _has_waited_enough(self) -> bool:
        if self._signals() > 1:
            return True
        shift = self._found()
        if shift is None or not self._is_idle(shift):
            return False
        self._wait(IDLE_S, lambda: self._signals() > 1 or not self._is_idle(shift))
        return self._signals() > 1 or self._is_idle(shift)

    def _found(self) -> Shift | None:
        self._shift = self._find_shift() or self._shift
        return self._shift

    def _is_idle(self, shift: Shift) -> bool:
        """Tell whether it could have left long ago: nothing runs, so a locked file keeps it."""
        return shift.has_begun.is_set() and not shift.is_busy and not shift.has_written.is_set()

    def _wait(self, most_s: float, until: Callable[[], bool]) -> None:
        """Wait until something is so, or the worker has left."""
        end_s = time.monotonic() + most_s
        while not until() and time.monotonic() < end_s and not self._over.wait(LOOK_S):
            pass


def say(text: str, *values: object) -> None:
    """Log, and wait for nobody: another thread may be stuck in a log that nobody reads."""
    _aside(lambda: logger.info(text, *values))


def end_process(code: int) -> NoReturn:
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


def _hold_signals() -> None:
    """Before a fork: the child must not take a signal for its parent's."""
    if _entered is not None:
        _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)


def _let_signals_in() -> None:
    before: set[int] | None = getattr(_masks, "before", None)
    if before is not None:
        _masks.before = None
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _forget() -> None:
    if _entered is not None:
        _entered.let_go()
    _let_signals_in()


os.register_at_fork(before=_hold_signals, after_in_parent=_let_signals_in, after_in_child=_forget)
