"""Where the queue reads the time."""

import time
from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    """A source of wall-clock time; it may step back."""

    def now_ms(self) -> int:
        """Return whole milliseconds since 1970-01-01 UTC."""
        ...


class SystemClock:
    """The host's own clock."""

    def now_ms(self) -> int:
        """Return whole milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000
