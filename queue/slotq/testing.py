"""Tools for testing code that uses slotq."""

import threading

from slotq.checks import LAST_MS, integer


class ManualClock:
    """A clock that stands still until it is told to move; safe to share between threads.

    It starts at 2026-01-01 00:00:00 UTC unless told otherwise.
    """

    def __init__(self, now_ms: int = 1_767_225_600_000) -> None:
        self._now_ms = integer("now_ms", now_ms, 0, LAST_MS)
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        """Return the set time, in milliseconds since 1970-01-01 UTC."""
        with self._lock:
            return self._now_ms

    def advance(self, ms: int) -> None:
        """Move by ``ms`` milliseconds; a negative number steps back.

        Raises:
            InvalidValue: If ``ms`` is not an integer, or leads out of the years 1970 to 9999.
        """
        integer("ms", ms, -LAST_MS, LAST_MS)
        with self._lock:
            self._now_ms = integer("now_ms", self._now_ms + ms, 0, LAST_MS)

    def set(self, ms: int) -> None:
        """Move to an instant in milliseconds since 1970-01-01 UTC; it may lie in the past.

        Raises:
            InvalidValue: If ``ms`` is not an integer within the years 1970 to 9999.
        """
        now_ms = integer("ms", ms, 0, LAST_MS)
        with self._lock:
            self._now_ms = now_ms
