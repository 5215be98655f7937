"""What a worker says of its jobs: to its log, and to the hooks of the application."""

import logging
import time
from datetime import UTC, datetime
from typing import Final, Literal

from slotq.current import CurrentJob
from slotq.errors import one_line
from slotq.hookrunner import HookRunner
from slotq.hooks import RunEvent
from slotq.model import State
from slotq.store.leases import Cancelled, End, Failure, state_after

logger = logging.getLogger("slotq.worker")

# Unknown tasks that a worker names in its log, each once.
MOST_TOLD: Final = 100


class Report:
    """The voice of one worker; its methods may be called from any thread.

    Args:
        hooks: The application's, called beside the worker.
    """

    def __init__(self, hooks: HookRunner) -> None:
        self._hooks = hooks
        self._unknown: set[str] = set()

    def started(self, job: CurrentJob) -> None:
        """Tell that a job was claimed and begins."""
        if self._hooks.wants("started"):
            self._tell("started", job, "running", None)

    def ended(self, job: CurrentJob, end: End) -> None:
        """Tell how a run ended, once that is written."""
        if isinstance(end, Failure):
            logger.warning(
                "job %d: attempt %d of %d failed: %s",
                job.id,
                job.attempt,
                job.max_attempts,
                one_line(end.error),
                extra=job.log_extra,
            )
            if self._hooks.wants("failed"):
                state: State = "cancelled" if job.cancelled else state_after(end)
                self._tell("failed", job, state, end.error)
        elif self._hooks.wants("finished"):
            error = end.error if isinstance(end, Cancelled) else None
            self._tell("finished", job, state_after(end), error)

    def lost(self, job: CurrentJob) -> None:
        """Tell, once, that a lease is lost."""
        if job.lost:
            return
        job.lost = True
        logger.warning(
            "job %d: its lease is lost; what its body returns is dropped",
            job.id,
            extra=job.log_extra,
        )
        if self._hooks.wants("lost"):
            self._tell("lost", job, "running", "lease lost")

    def unknown(self, task: str) -> None:
        """Tell, once, that a task is not known here."""
        text = one_line(task)
        if text not in self._unknown and len(self._unknown) < MOST_TOLD:
            self._unknown.add(text)
            logger.warning("task %s is not known here; its jobs wait for a worker that does", text)

    def _tell(
        self,
        kind: Literal["started", "finished", "failed", "lost"],
        job: CurrentJob,
        state: State,
        error: str | None,
    ) -> None:
        self._hooks.tell(
            RunEvent(
                kind=kind,
                at=datetime.now(UTC),
                job=job.id,
                task=job.task,
                queue=job.queue,
                key=job.key,
                attempt=job.attempt,
                max_attempts=job.max_attempts,
                state=state,
                error=error,
                seconds=time.monotonic() - job.began_s if job.began_s else None,
            )
        )
