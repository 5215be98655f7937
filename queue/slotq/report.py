"""What a worker says of its jobs: to its log, and to the hooks of the application."""

import logging
import time
from collections.abc import Mapping
from typing import Final, Literal

from slotq.clock import Clock
from slotq.current import Run
from slotq.errors import one_line
from slotq.hookrunner import HookRunner
from slotq.hooks import RunEvent
from slotq.model import State
from slotq.store.leases import Cancelled, End, Failure
from slotq.store.rows import instant

logger = logging.getLogger("slotq.worker")

# Unknown tasks that a worker names in its log, each once.
MOST_TOLD: Final = 100


class Report:
    """The voice of one worker; its methods may be called from any thread.

    Args:
        hooks: The application's, called beside the worker.
        clock: The queue's.
    """

    def __init__(self, hooks: HookRunner, clock: Clock) -> None:
        self._hooks = hooks
        self._clock = clock
        self._unknown: set[str] = set()

    def started(self, run: Run) -> None:
        """Tell that a job was claimed and begins."""
        if self._hooks.wants("started"):
            self._tell("started", run, "running", None)

    def ended(self, run: Run, end: End, state: State) -> None:
        """Tell how a run ended, and in which state its job is now that this is written."""
        if logger.isEnabledFor(logging.DEBUG):
            took_s = time.monotonic() - run.began_s if run.began_s else 0.0
            logger.debug("job %d: %s in %.3f s", run.claim.id, state, took_s, extra=run.log_extra)
        if isinstance(end, Failure):
            logger.warning(
                "job %d: attempt %d of %d failed: %s",
                run.claim.id,
                run.claim.attempt,
                run.claim.max_attempts,
                one_line(end.error),
                extra=run.log_extra,
            )
            if self._hooks.wants("failed"):
                self._tell("failed", run, state, end.error)
        elif self._hooks.wants("finished"):
            error = end.error if isinstance(end, Cancelled) else None
            self._tell("finished", run, state, error)

    def lost(self, run: Run) -> None:
        """Tell, once, that a lease is lost."""
        if run.lost:
            return
        run.lost = True
        logger.warning(
            "job %d: its lease is lost; what its body returns is dropped",
            run.claim.id,
            extra=run.log_extra,
        )
        if self._hooks.wants("lost"):
            self._tell("lost", run, "running", "lease lost")

    def unknown(self, task: str) -> None:
        """Tell, once, that a task is not known here."""
        text = one_line(task)
        if text not in self._unknown and len(self._unknown) < MOST_TOLD:
            self._unknown.add(text)
            logger.warning("task %s is not known here; its jobs wait for a worker that does", text)

    def _tell(
        self,
        kind: Literal["started", "finished", "failed", "lost"],
        run: Run,
        state: State,
        error: str | None,
    ) -> None:
        claim = run.claim
        self._hooks.tell(
            RunEvent(
                kind=kind,
                at=instant(self._clock.now_ms()),
                job=claim.id,
                task=claim.task,
                queue=claim.queue,
                key=claim.key or None,
                attempt=claim.attempt,
                max_attempts=claim.max_attempts,
                state=state,
                error=error,
                seconds=time.monotonic() - run.began_s if run.began_s else None,
            )
        )


class Known:
    """The tasks that a worker knows.

    Attributes:
        misses: How often it was asked for one that it does not know.
    """

    def __init__(self, tasks: Mapping[str, object], report: Report) -> None:
        self._tasks = tasks
        self._report = report
        self.misses = 0

    def __contains__(self, name: object) -> bool:
        if name in self._tasks:
            return True
        self.misses += 1
        self._report.unknown(str(name))
        return False
