"""Keeping a hold: it is extended as time goes on, and its loss is told at once."""

import threading
import time
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self

import slotq
from slotq_app.cli import output

# How often to look whether the hold still stands: nobody tells whose hold is taken back.
LOOK_S: Final = 1.0
# So many times within a TTL a hold is extended, so that one or two may fail.
EXTENSIONS: Final = 3


class Keeper:
    """Extends a hold for the length of a block, on a thread of its own.

    A file that others keep locked is tried again until the hold ends by itself.

    Args:
        queue: Where the hold is.
        hold: The hold, which has its slots; nobody else uses it during the block.
        ttl_s: How long it lasts without being extended, in seconds.
    """

    def __init__(self, queue: slotq.Queue, hold: slotq.Hold, ttl_s: float) -> None:
        self._queue = queue
        self._hold = hold
        self._ttl_s = ttl_s
        self._extended_s = time.monotonic()
        self._stopped = threading.Event()
        self._is_lost = False
        self._told = ""
        self._thread = threading.Thread(target=self._keep, name="qworker-keeper")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopped.set()
        self._thread.join()

    @property
    def is_lost(self) -> bool:
        """Whether the hold ended during the block; that is told already."""
        return self._is_lost

    def _keep(self) -> None:
        while not self._stopped.wait(min(LOOK_S, self._ttl_s / EXTENSIONS)):
            try:
                if self._is_due():
                    self._hold.extend(self._ttl_s)
                    self._extended_s = time.monotonic()
                    self._told = ""
                else:
                    self._look()
            except (slotq.HoldExpired, slotq.FileReplaced) as error:
                self._lose(str(error))
            except slotq.SlotqError as error:
                self._note(error)
            if self._is_lost:
                return

    def _is_due(self) -> bool:
        """Tell whether to extend: by either clock, for the host may have slept."""
        awake_s = time.monotonic() - self._extended_s
        rest_s = self._ttl_s * (EXTENSIONS - 1) / EXTENSIONS
        return awake_s >= self._ttl_s - rest_s or self._left_s() <= rest_s

    def _left_s(self) -> float:
        end = self._hold.expires_at
        assert end is not None, "it has its slots until it is released"
        return (end - datetime.now(UTC)).total_seconds()

    def _look(self) -> None:
        number = self._hold.id
        assert number is not None, "it has its slots until it is released"
        found = self._queue.holds(after=number - 1, limit=1)
        if not found or found[0].id != number:
            raise slotq.HoldExpired(key=self._hold.key, hold_id=number)

    def _note(self, error: slotq.SlotqError) -> None:
        """Go on after an error while there is time, and tell what is worse than a busy file."""
        if time.monotonic() - self._extended_s >= self._ttl_s or self._left_s() <= 0:
            self._lose(f"hold {self._hold.id} could not be extended: {error}")
        elif not isinstance(error, slotq.QueueBusy) and str(error) != self._told:
            self._told = str(error)
            output.warn(f"warning: hold {self._hold.id} cannot be extended for now: {error}")

    def _lose(self, what: str) -> None:
        self._is_lost = True
        output.warn(f"{what}; the command goes on")
