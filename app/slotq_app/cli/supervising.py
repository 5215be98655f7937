"""The parent of several worker processes: starts them, replaces them, passes signals on.

It never imports the app, so nothing that the app does can hurt it. All that happens comes to one
loop: signals, the ends of children, what they say, changes of the source, and instants.
"""

import enum
import logging
import selectors
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from signal import SIGINT, SIGTERM, Signals
from typing import TYPE_CHECKING, Final

from slotq_app.cli.children import Child, End, reap_strangers
from slotq_app.cli.exits import FAILED, line_of
from slotq_app.cli.signals import SignalInbox

if TYPE_CHECKING:
    from slotq_app.cli.reloading import SourceWatch

logger = logging.getLogger("slotq.run")

# So many deaths within so long are no accident: the parent gives up.
MOST_DEATHS: Final = 5
DEATHS_WITHIN_S: Final = 60.0
# From a death to the start of another process; twice as long after each further one.
FIRST_BACKOFF_S: Final = 0.1
# How a worker ends that was told to: by itself, in a hurry, or before it could heed a signal.
TOLD: Final = frozenset({0, 128 + SIGINT, 128 + SIGTERM, -SIGINT, -SIGTERM})
# How much longer than it may a child takes to leave before it is killed.
PATIENCE_S: Final = 8.0
# Changed files that are named in a line.
SHOWN_FILES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a parent is to keep running.

    Attributes:
        processes: How many workers.
        grace_s: How long a worker that was told to leave lets its jobs run.
        burst: Whether a worker that leaves with exit code 0 is done.
        reload_dir: The folder whose changes restart the workers; None for no restarts.
    """

    processes: int
    grace_s: float
    burst: bool
    reload_dir: Path | None


class Phase(enum.Enum):
    """What the parent is about."""

    PROVING = enum.auto()
    """One worker runs, to show that the app can be loaded and its file used."""
    SERVING = enum.auto()
    """All workers run."""
    RELOADING = enum.auto()
    """The workers were told to leave, and will be started again."""
    BROKEN = enum.auto()
    """A change has made the app unusable; the next one is waited for."""
    LEAVING = enum.auto()
    """The workers were told to leave, and so will the parent."""


class Supervisor:
    """Keeps worker processes running until a signal, or until a burst is done."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._selector = selectors.DefaultSelector()
        self._phase = Phase.PROVING
        self._has_served = False
        self._children: list[Child] = []
        self._starts_s = [0.0]  # when to start processes, on the monotonic clock
        self._deaths: deque[tuple[float, str]] = deque(maxlen=MOST_DEATHS)
        self._signals = 0
        self._kill_at_s: float | None = None
        self._code = 0

    def run(self) -> int:
        """Supervise; return the exit code for this process."""
        with ExitStack() as stack:
            stack.enter_context(self._selector)
            inbox = stack.enter_context(SignalInbox())
            self._selector.register(inbox, selectors.EVENT_READ)
            watch = self._watch(stack)
            while not self._is_over():
                self._start_due()
                self._selector.select(self._timeout_s())
                numbers = inbox.take()  # before the look: who ends after it sends another
                for child in tuple(self._children):
                    self._look_at(child)
                reap_strangers({child.pid for child in self._children})
                for number in numbers:
                    self._on_signal(number)
                if watch is not None:
                    self._heed(watch)
                self._go_on()
        return self._code

    def _watch(self, stack: ExitStack) -> "SourceWatch | None":
        if self._plan.reload_dir is None:
            return None
        # Takes a while to load, and for this option only.
        from slotq_app.cli.reloading import SourceWatch  # noqa: PLC0415

        watch = stack.enter_context(SourceWatch(self._plan.reload_dir))
        self._selector.register(watch, selectors.EVENT_READ)
        return watch

    def _is_over(self) -> bool:
        return not (self._children or self._starts_s or self._phase is Phase.BROKEN)

    def _timeout_s(self) -> float | None:
        instants = list(self._starts_s)
        if self._kill_at_s is not None:
            instants.append(self._kill_at_s)
        return max(0.0, min(instants) - time.monotonic()) if instants else None

    def _start_due(self) -> None:
        now_s = time.monotonic()
        due = [instant for instant in self._starts_s if instant <= now_s]
        self._starts_s = [instant for instant in self._starts_s if instant > now_s]
        for _ in due:
            if self._phase is Phase.LEAVING:
                return
            try:
                child = Child.start()
            except OSError as error:
                self._on_death("a new worker process", f"it cannot be started ({line_of(error)})")
                continue
            self._children.append(child)
            self._selector.register(child, selectors.EVENT_READ)

    def _look_at(self, child: Child) -> None:
        was_silent = child.is_silent
        end = child.look()
        if child.is_silent and not was_silent:
            self._selector.unregister(child)
        if child.is_ready and self._phase is Phase.PROVING:
            self._phase = Phase.SERVING
            self._has_served = True
            self._starts_s += [time.monotonic()] * (self._plan.processes - 1)
        if end is not None:
            if not child.is_silent:  # something that it has started keeps the connection
                self._selector.unregister(child)
            child.close()
            self._children.remove(child)
            self._on_end(child, end)

    def _on_end(self, child: Child, end: End) -> None:
        if self._phase in {Phase.RELOADING, Phase.LEAVING}:
            if end.code not in TOLD and not child.is_killed:
                logger.error("worker process %d has died: %s", child.pid, end)
                if self._phase is Phase.LEAVING:
                    self._code = self._code or FAILED
        elif end.code == 0 and child.is_recycled:
            logger.info("worker process %d is replaced by another", child.pid)
            self._starts_s.append(time.monotonic())
        elif end.code == 0 and child.is_ready and self._plan.burst:
            pass  # no job waits
        elif self._phase is Phase.PROVING and end.code > 0:
            self._on_unusable(end)
        else:
            self._on_death(f"worker process {child.pid}", str(end))

    def _on_unusable(self, end: End) -> None:
        """Take note that the app cannot be served, for a reason that the child has told."""
        if self._has_served and self._plan.reload_dir is not None:
            logger.error("the workers start again with the next change of the source")
            self._phase = Phase.BROKEN
        else:
            self._leave(end.code)

    def _on_death(self, who: str, how: str) -> None:
        now_s = time.monotonic()
        self._deaths.append((now_s, how))
        recent = [how for at_s, how in self._deaths if at_s > now_s - DEATHS_WITHIN_S]
        if len(recent) == MOST_DEATHS:
            logger.error(
                "%d worker processes have died within %g s, so the others are stopped: %s",
                MOST_DEATHS,
                DEATHS_WITHIN_S,
                ", ".join(recent),
            )
            self._leave(FAILED)
            return
        delay_s = FIRST_BACKOFF_S * 2 ** (len(recent) - 1)
        logger.warning("%s has died: %s; another starts in %g s", who, how, delay_s)
        self._starts_s.append(now_s + delay_s)

    def _on_signal(self, number: Signals) -> None:
        if number not in {SIGTERM, SIGINT}:
            return  # a child has ended: it is looked at anyway
        self._signals += 1
        match self._signals:
            case 1:
                text = (
                    "%s: the workers leave when their jobs have ended, once more hands these back"
                )
            case 2:
                text = "%s again: the jobs of the workers are handed back"
            case _:
                text = "%s once more: the workers are killed"
        logger.info(text, number.name)
        self._leave(self._code or (0 if self._signals == 1 else 128 + number))

    def _heed(self, watch: "SourceWatch") -> None:
        files = watch.take()
        if watch.trouble is not None and self._phase is not Phase.LEAVING:
            logger.error("changes of the source cannot be seen: %s", watch.trouble)
            self._leave(FAILED)
        elif files:
            self._on_change(files)

    def _on_change(self, files: Sequence[str]) -> None:
        if self._phase is Phase.BROKEN:
            self._prove()
        elif self._phase in {Phase.PROVING, Phase.SERVING}:
            logger.info(
                "the source has changed: %s; the workers start again when their jobs have ended",
                ", ".join(files[:SHOWN_FILES]),
            )
            self._phase = Phase.RELOADING
            self._starts_s.clear()
            self._tell_to_leave(1)

    def _prove(self) -> None:
        self._phase = Phase.PROVING
        self._starts_s = [time.monotonic()]

    def _leave(self, code: int) -> None:
        self._phase = Phase.LEAVING
        self._code = code
        self._starts_s.clear()
        self._tell_to_leave(max(1, self._signals))

    def _tell_to_leave(self, times: int) -> None:
        for child in self._children:
            child.tell_to_leave(times)
        patience_s = PATIENCE_S + (self._plan.grace_s if times == 1 else 0)
        self._kill_at_s = time.monotonic() + patience_s

    def _go_on(self) -> None:
        """Do what the children that were told to leave leave to do."""
        if not self._children:
            self._kill_at_s = None
            if self._phase is Phase.RELOADING:
                self._prove()
        elif self._kill_at_s is not None and self._kill_at_s <= time.monotonic():
            for child in self._children:
                logger.error("worker process %d did not leave in time: killed", child.pid)
            if self._phase is Phase.LEAVING:
                self._code = self._code or FAILED
            self._tell_to_leave(3)
