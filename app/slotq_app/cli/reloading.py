"""Noticing that the source of an app has changed."""

import contextlib
import os
import socket
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import watchfiles

from slotq_app.cli.exits import line_of


class SourceWatch:
    """Watches the Python files under a folder during its block, in a thread of its own.

    Args:
        folder: The folder; what tools keep in it, such as environments and caches, is left out.

    Attributes:
        trouble: Why the folder is watched no more; None while it is.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._is_none_of_tools = watchfiles.DefaultFilter()
        self._changed: deque[str] = deque()
        self._stop = threading.Event()
        self.trouble: str | None = None
        self._thread = threading.Thread(target=self._watch, name="slotq-reload", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._reader.close()
        self._writer.close()

    def fileno(self) -> int:
        """Return the descriptor that can be read when something has changed."""
        return self._reader.fileno()

    def take(self) -> Sequence[str]:
        """Return the files, by their paths in the folder, that have changed since the last time."""
        with contextlib.suppress(BlockingIOError):
            self._reader.recv(4_096)
        return sorted({self._changed.popleft() for _ in range(len(self._changed))})

    def _watch(self) -> None:
        try:
            for changes in watchfiles.watch(
                self._folder,
                watch_filter=self._is_source,
                stop_event=self._stop,
                ignore_permission_denied=True,
            ):
                self._changed.extend(os.path.relpath(path, self._folder) for _, path in changes)
                self._writer.send(b"c")
        except Exception as error:  # noqa: BLE001  # told by whoever takes the changes
            self.trouble = line_of(error)
            self._writer.send(b"e")

    def _is_source(self, change: watchfiles.Change, path: str) -> bool:
        return path.endswith(".py") and self._is_none_of_tools(change, path)
