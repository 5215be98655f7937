"""What a worker process and the parent that supervises it tell each other.

A socket connects them. The child says over it that it is ready, or that it leaves to be replaced;
the parent says nothing: that its end closes tells the child that the parent is gone.
"""

import contextlib
import os
import signal
import socket
import threading
from typing import Final

VARIABLE: Final = "SLOTQ_RUN_CHANNEL"
"""Environment variable that tells a child which file descriptor is its end."""

READY: Final = b"r"
RECYCLED: Final = b"x"


class Parent:
    """The parent of this process, as seen from the child.

    Args:
        channel: The child's end.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        threading.Thread(target=self._outlive, name="slotq-parent", daemon=True).start()

    def tell_ready(self) -> None:
        """Say that the app is loaded, and its file can be used."""
        self._tell(READY)

    def tell_recycled(self) -> None:
        """Say that this process leaves in good order, for another to take its place."""
        self._tell(RECYCLED)

    def _tell(self, word: bytes) -> None:
        with contextlib.suppress(OSError):  # the parent is gone, which is seen below
            self._channel.send(word)

    def _outlive(self) -> None:
        with contextlib.suppress(OSError):
            self._channel.recv(1)
        # As if the parent had still passed on a signal: whatever this process is doing, it knows
        # how to leave then.
        os.kill(os.getpid(), signal.SIGTERM)


def to_parent() -> Parent | None:
    """Return the parent that supervises this process; None for a worker of its own.

    What this process starts, such as the commands of jobs, does not inherit the connection.
    """
    number = os.environ.pop(VARIABLE, "")
    if not number.isdecimal():
        return None
    try:
        channel = socket.socket(fileno=int(number))
    except (OSError, OverflowError):  # somebody has set the variable, and there is no socket
        return None
    os.set_inheritable(channel.fileno(), False)
    return Parent(channel)
