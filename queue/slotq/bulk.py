"""What a program does to many jobs at once, in transactions of a bounded size."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from slotq import arguments
from slotq.access import Access, Steps
from slotq.errors import InvalidValue, JobNotFound
from slotq.model import Bulk
from slotq.store import due, jobs
from slotq.store.transaction import Tx

# What is done in one transaction, so that others get their turn in between: some 20 ms.
BATCH: Final = 500

Verb = Callable[[Tx, int], bool | None]


class Bulks(Access):
    """The verbs for many jobs; each returns what was done and what was not, job by job."""

    def retry_many(self, ids: Iterable[int]) -> Bulk:
        """Put failed and cancelled jobs in line again, each as ``retry`` does.

        Two programs that retry the same jobs at once retry each of them once: the other is told
        that it is waiting or running again. If this is interrupted, or raises ``QueueBusy`` on
        its way, what is done stays done, 500 jobs at a time; to call it again is safe.

        Args:
            ids: Ids of jobs, any number; one that is named twice counts once.

        Returns:
            The jobs that this call put in line, and why it did not do so with the others.

        Raises:
            InvalidValue: An id is not valid; nothing was done.
            QueueBusy: Others kept the file locked for too long.
        """
        return self._in_bulk(_Batches(jobs.retry, ids))

    def cancel_many(self, ids: Iterable[int]) -> Bulk:
        """Cancel jobs, each as ``cancel`` does; see ``retry_many`` for the rest."""
        return self._in_bulk(_Batches(jobs.cancel, ids))

    def delete_many(self, ids: Iterable[int]) -> Bulk:
        """Delete jobs, each as ``delete`` does; see ``retry_many`` for the rest."""
        return self._in_bulk(_Batches(jobs.delete, ids))

    async def aretry_many(self, ids: Iterable[int]) -> Bulk:
        """Do what ``retry_many`` does, without blocking the loop or other calls of this queue."""
        return await self._ain_bulk(_Batches(jobs.retry, ids))

    async def acancel_many(self, ids: Iterable[int]) -> Bulk:
        """Do what ``cancel_many`` does, without blocking the loop or other calls of this queue."""
        return await self._ain_bulk(_Batches(jobs.cancel, ids))

    async def adelete_many(self, ids: Iterable[int]) -> Bulk:
        """Do what ``delete_many`` does, without blocking the loop or other calls of this queue."""
        return await self._ain_bulk(_Batches(jobs.delete, ids))

    def _in_bulk(self, batches: "_Batches") -> Bulk:
        self._write_steps(batches.steps())
        return batches.bulk()

    async def _ain_bulk(self, batches: "_Batches") -> Bulk:
        await self._awrite_steps(batches.steps())
        return batches.bulk()


class _Batches:
    """One verb done to many jobs, batch by batch, and what came of it."""

    def __init__(self, verb: Verb, ids: Iterable[int]) -> None:
        self._verb = verb
        self._ids = _checked(ids)
        self._done: list[int] = []
        self._refused: dict[int, str] = {}

    def steps(self) -> Steps:
        # As before each verb: the job of a dead worker, say, no longer runs.
        while (yield due.handle_due):
            pass
        for at in range(0, len(self._ids), BATCH):
            yield functools.partial(self._act, ids=self._ids[at : at + BATCH])
        return len(self._done)

    def bulk(self) -> Bulk:
        return Bulk(done=tuple(self._done), refused=self._refused)

    def _act(self, tx: Tx, ids: Sequence[int]) -> int:
        for job_id in ids:
            try:
                if self._verb(tx, job_id) is not False:
                    self._done.append(job_id)
                else:
                    self._refused[job_id] = f"job {job_id} had ended before"
            except (InvalidValue, JobNotFound) as error:
                self._refused[job_id] = str(error)
        return len(self._done)


def _checked(ids: Iterable[int]) -> list[int]:
    try:
        given = iter(ids)
    except TypeError as error:
        raise InvalidValue(name="ids", problem="must be ids of jobs", value=ids) from error
    return list(dict.fromkeys(map(arguments.job_id, given)))
