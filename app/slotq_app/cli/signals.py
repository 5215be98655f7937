"""Signals that a loop waits for together with everything else, so that none is lost."""

import signal
import socket
from collections.abc import Sequence
from types import FrameType
from typing import Self

HEEDED = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)


class SignalInbox:
    """Keeps the signals that arrive during its block, in order, until they are taken."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def __enter__(self) -> Self:
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in HEEDED:
            signal.signal(number, _noted)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        self._reader.close()
        self._writer.close()

    def fileno(self) -> int:
        """Return the descriptor that can be read when a signal has arrived."""
        return self._reader.fileno()

    def take(self) -> Sequence[signal.Signals]:
        """Return the signals that have arrived since it was last asked."""
        try:
            return [signal.Signals(number) for number in self._reader.recv(4_096)]
        except BlockingIOError:
            return []


def _noted(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the interpreter has written the number to the inbox."""
