"""A command that runs while this process holds slots for it."""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Final

import slotq
from slotq_app.cli import exits, output
from slotq_app.cli.children import reap_strangers
from slotq_app.cli.keeper import Keeper

PASSED: Final = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""What is passed on; the terminal sends all else to both of them, or nobody can catch it."""
TYPED: Final = frozenset({signal.SIGINT, signal.SIGQUIT})
"""What a key of the terminal sends to the command too."""
FIRST_FREE_FD: Final = 3
"""Below are standard input, output and error, also where they are closed."""
NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126
SIGNALLED: Final = 128


class _Told(BaseException):
    """A signal came before the command was started."""


class _Inbox:
    """Signals from before the hold until this process ends.

    Attributes:
        heeded: Those that whoever started this process does not ignore.
        taken: What came before the command was started, or just as it was.
    """

    def __init__(self) -> None:
        self.heeded = {
            number for number in PASSED if signal.getsignal(number) is not signal.SIG_IGN
        }
        self.taken: list[int] = []
        self._raises = False

    def open(self) -> None:
        """Raise the first signal from now on as ``_Told``; others are noted only."""
        self._raises = True
        for number in self.heeded:
            signal.signal(number, self._on_signal)
        # Were it ignored, the command's exit code would be lost.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def note(self) -> None:
        """Raise nothing any more."""
        self._raises = False

    def block(self) -> None:
        """Keep signals for ``wait`` from now on; threads that are started later keep them too."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {*self.heeded, signal.SIGCHLD})

    def wait(self) -> int | None:
        """Wait for the next signal; return it, or None if it is not to be passed on."""
        wanted = {*self.heeded, signal.SIGCHLD}
        if sys.platform == "darwin":  # which does not say who has sent it
            number = signal.sigwait(wanted)
            is_typed = number in TYPED and is_in_foreground()
        else:
            told = signal.sigwaitinfo(wanted)
            number = told.si_signo
            is_typed = number in TYPED and told.si_code > 0  # else it is from a program
        return None if is_typed or number == signal.SIGCHLD else number

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self.taken.append(number)
        if self._raises:
            self._raises = False
            raise _Told


def run(
    queue: slotq.Queue,
    hold: slotq.Hold,
    words: Sequence[str],
    *,
    ttl_s: float,
    keep_going: bool,
) -> int:
    """Take a hold, run a command to its end, and give the hold back.

    Signals go to the command. If this process is killed, the command keeps the slots until their
    TTL ends.

    Args:
        queue: The queue.
        hold: The hold.
        words: The command and its arguments.
        ttl_s: For how long the hold is taken and extended, in seconds.
        keep_going: Whether the command's exit code is returned also if the slots were lost.

    Returns:
        The exit code for this process.

    Raises:
        slotq.SlotqError: The hold was not given, and the command not started.
    """
    inbox = _Inbox()
    code: int | None = None
    is_kept = True
    try:
        with suppress(_Told):
            inbox.open()
            hold.acquire()
            inbox.note()
            if not inbox.taken:
                code, is_kept = _run(inbox, queue, hold, words, ttl_s)
    finally:
        inbox.note()
        if hold.id is not None:
            is_kept = _give_back(hold, is_lost=not is_kept)
    if code is None:
        return SIGNALLED + inbox.taken[0]
    return code if is_kept or keep_going else exits.SLOT_LOST


def _run(
    inbox: _Inbox, queue: slotq.Queue, hold: slotq.Hold, words: Sequence[str], ttl_s: float
) -> tuple[int, bool]:
    """Run the command; return its exit code, and whether the hold was kept meanwhile."""
    # The descriptor that is inherited; other programs' stay what they were: `<(...)` of a shell.
    lock = fcntl.fcntl(hold.fileno(), fcntl.F_DUPFD, FIRST_FREE_FD)
    try:
        child = subprocess.Popen(words, close_fds=False)  # noqa: S603  # what the user asked for
    except OSError as error:
        output.warn(f"{words[0]}: {error.strerror or error}")
        return (NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE), True
    finally:
        os.close(lock)
    inbox.block()
    # One that was typed just now may reach the command twice, which is better than never.
    for number in inbox.taken:
        child.send_signal(number)
    with Keeper(queue, hold, ttl_s) as keeper:
        while child.poll() is None:
            reap_strangers({child.pid})
            passed = inbox.wait()
            if passed is not None:
                child.send_signal(passed)
    code = child.returncode
    return (code if code >= 0 else SIGNALLED - code), not keeper.is_lost


def _give_back(hold: slotq.Hold, *, is_lost: bool) -> bool:
    """Give the slots back; return whether they were this process's until now."""
    number = hold.id
    try:
        hold.release()
    except slotq.HoldExpired as error:
        if not is_lost:
            output.warn(f"{error}; it ended before the command")
        return False
    except slotq.SlotqError as error:
        output.warn(f"warning: hold {number} is not given back, and ends by itself: {error}")
    return not is_lost


def is_in_foreground() -> bool:
    """Tell whether keys of the terminal reach this process and the command."""
    with suppress(OSError):  # there is no terminal
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
        try:
            return os.tcgetpgrp(terminal) == os.getpgrp()
        finally:
            os.close(terminal)
    return False
