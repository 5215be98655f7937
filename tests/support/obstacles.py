"""Keys in whose way only windows and holds stand, made by dice on a clock that a test moves."""

import random
import warnings
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from slotq import Hold, InvalidValue, LimitExceeded, LimitHidden, Queue, literal
from slotq.model import Window
from slotq.testing import ManualClock
from support.starting import finish, registered, start

# New York has days of 23 and 25 hours, Kolkata is half an hour off, on Lord Howe island the clocks
# move by half an hour.
ZONES: Final = ("UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")
UNITS: Final[tuple[Window, ...]] = ("minute", "hour", "day", "week", "month")
# A turn of the year, and the evenings before clocks are moved.
BEGINNINGS: Final = tuple(
    datetime(2026, month, day, hour, 59, 58, tzinfo=UTC)
    for month, day, hour in ((12, 31, 23), (3, 8, 4), (11, 1, 3), (4, 4, 14), (10, 3, 15))
)
STEPS_MS: Final = (0, 1, 400, 999, 1_000, 1_000, 7_000, 60_000, 3_600_000, 40_000_000)


class Scene:
    """A key with a past, in a file of its own.

    Attributes:
        queue: The queue of the file.
        clock: Its clock.
        dice: What decides.
        seen: How often each thing happened.
    """

    key = "k:*"

    def __init__(self, path: Path, seed: int) -> None:
        self.dice = random.Random(seed)
        begin = self.dice.choice(BEGINNINGS) + timedelta(
            milliseconds=self.dice.randrange(10_000_000)
        )
        self.clock = ManualClock(int(begin.timestamp() * 1000))
        self.queue = Queue(path, clock=self.clock)
        self.seen: Counter[str] = Counter()
        self._holds: list[Hold] = []

    def __enter__(self) -> Self:
        registered(self.queue, "t", lease_ms=10**12)
        for _ in range(self.dice.choice((1, 2, 3))):
            self.set_limit()
        for _ in range(self.dice.randrange(2, 12)):
            self.clock.advance(self.dice.choice(STEPS_MS))
            self.dice.choice(
                (self.take, self.take, self.take, self.run, self.set_limit, self.end)
            )()
        if self.dice.random() < 0.4:
            self.set_limit(lower=True)
        # Nobody has looked since: what has ended is still there.
        self.clock.advance(self.dice.choice(STEPS_MS[:7]))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.queue.close()

    def set_limit(self, *, lower: bool = False) -> None:
        """Set a limit that the key obeys, or lower how many slots it has."""
        with warnings.catch_warnings(action="ignore", category=LimitHidden):
            if lower:
                self.queue.set_limit(literal(self.key), max_running=self.dice.choice((1, 2)))
            else:
                self._set_limit()
        running = self.queue.key(self.key)
        if running.max_running is not None and running.held > running.max_running:
            self.seen["cap lowered below what is held"] += 1

    def _set_limit(self) -> None:
        dice = self.dice
        subject = dice.choice((literal(self.key), "k:*", "*"))
        name = dice.choice(("", "a", "b"))
        kind = dice.randrange(4)
        if kind <= 1:
            self.queue.set_limit(subject, max_running=dice.randrange(1, 8), name=name)
        elif kind == 2:
            window = dice.choice((0.5, 1, 7.001, 60, 90_000))
            self.queue.set_limit(
                subject, max_starts=dice.randrange(1, 7), window=window, name=name, timezone=None
            )
        else:
            self.queue.set_limit(
                subject,
                max_starts=dice.randrange(1, 7),
                window=dice.choice(UNITS),
                timezone=dice.choice(ZONES),
                name=name,
            )

    def wanted(self) -> Hold:
        """Return a hold that is not taken yet."""
        dice = self.dice
        return self.queue.hold(
            self.key,
            slots=dice.choice((1, 1, 2, 3)),
            ttl=dice.choice((0.001, 0.7, 5, 61, 3_600, 86_400)),
            max_running=dice.choice((None, None, None, 1, 3, 5)),
        )

    def take(self) -> None:
        """Take slots, if they are to be had."""
        hold = self.wanted()
        try:
            self._holds.append(hold.acquire())
        except (LimitExceeded, InvalidValue) as error:
            self.seen[type(error).__name__] += 1

    def end(self) -> None:
        """Extend a hold, or give it back."""
        now = self.clock.now_ms()
        for hold in self._holds:
            end = hold.expires_at
            if end is not None and end.timestamp() * 1000 > now:
                if self.dice.random() < 0.5:
                    hold.extend(self.dice.choice((0.5, 3, 100)))
                else:
                    hold.release()
                return

    def run(self) -> None:
        """Run a job of the key from its start to its end."""
        job = self.queue.enqueue("t", key=self.key)
        claimed = start(self.queue)
        finish(self.queue, *claimed)
        if not claimed:
            self.queue.cancel(job.id)
