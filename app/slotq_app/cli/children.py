"""A worker process, as seen from the parent that supervises it."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Self

from typing_extensions import override

from slotq_app.cli import channel

# What a child is sent the first, the second and the third time it is told to leave. The second is
# another signal than the first: two alike that come too close together would be one.
LEAVE: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class End:
    """How a process ended; a negative code is a signal."""

    code: int

    @override
    def __str__(self) -> str:
        if self.code >= 0:
            return f"exit code {self.code}"
        try:
            return f"signal {-self.code} ({signal.Signals(-self.code).name})"
        except ValueError:
            return f"signal {-self.code}"


class Child:
    """One worker process.

    Attributes:
        pid: Its process id.
        is_ready: Whether it has said that its app is loaded and its file can be used.
        is_recycled: Whether it has said that it leaves for another to take its place.
        is_silent: Whether it will say no more.
    """

    def __init__(self, process: subprocess.Popen[bytes], ours: socket.socket) -> None:
        self._process = process
        self._channel = ours
        self._told = 0
        self.pid = process.pid
        self.is_ready = False
        self.is_recycled = False
        self.is_silent = False

    @classmethod
    def start(cls) -> Self:
        """Start a process that runs the command of this one, as a child.

        It is in a session of its own: Ctrl-C on the terminal reaches the parent alone.

        Raises:
            OSError: There is no room for another process.
        """
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            with theirs:
                process = subprocess.Popen(  # noqa: S603  # our own command, no shell
                    [sys.executable, *sys.orig_argv[1:]],
                    env={**os.environ, channel.VARIABLE: str(theirs.fileno())},
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            raise
        return cls(process, ours)

    def fileno(self) -> int:
        """Return the descriptor on which it is heard."""
        return self._channel.fileno()

    def look(self) -> End | None:
        """Take in what it has said; return how it ended, or None while it lives."""
        code = self._process.poll()  # first: what it said before its end is heard then
        with contextlib.suppress(BlockingIOError):
            while words := self._channel.recv(64):
                self.is_ready = self.is_ready or channel.READY in words
                self.is_recycled = self.is_recycled or channel.RECYCLED in words
            self.is_silent = True
        return None if code is None else End(code)

    def tell_to_leave(self, times: int) -> None:
        """Send it what it has not been sent yet of so many signals; no error if it has ended.

        Args:
            times: 1 to let its jobs end, 2 to hand them back at once, 3 to kill it.
        """
        for number in LEAVE[self._told : times]:
            self._process.send_signal(number)
        self._told = max(self._told, times)

    @property
    def is_killed(self) -> bool:
        """Whether it was sent the last of those signals."""
        return self._told >= len(LEAVE)

    def close(self) -> None:
        """Close the connection, which tells it to leave if it still lives."""
        self._channel.close()


def reap_strangers(own: Collection[int]) -> None:
    """Take note of the ends of processes that others have left to this one.

    The first process of a container gets the children of all that die in it.

    Args:
        own: The process ids that are looked at by other means.
    """
    if os.getpid() != 1:
        return
    with contextlib.suppress(ChildProcessError):
        while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if found.si_pid in own:
                return  # it hides the others until it is looked at, which is soon
            os.waitpid(found.si_pid, 0)
