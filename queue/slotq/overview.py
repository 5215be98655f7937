"""What is to be seen of a queue: jobs and their ends, keys, queues, workers, numbers."""

import functools
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from slotq import arguments, checks
from slotq.access import Access, twin
from slotq.errors import FileReplaced, InvalidValue, JobCancelled, JobFailed
from slotq.event import EVENT_KINDS, Event, EventKind
from slotq.frames import HistoryBucket
from slotq.model import STATES, Job, Key, QueueInfo, Reason, State, Stats, WorkerInfo
from slotq.store import due, events, history, reads, reasons

# How often somebody who waits for a job looks at it: soon at first, then less often.
FIRST_LOOK_S: Final = 0.001
LAST_LOOK_S: Final = 0.05


class Overview(Access):
    """The verbs that look and change nothing."""

    def job(self, job_id: int) -> Job:
        """Return a job.

        Raises:
            InvalidValue: The id is no integer from 0 on; the other verbs check likewise.
            JobNotFound: There is none with this id.
            StoreError: The file cannot be used; so the other verbs.
        """
        wanted = arguments.job_id(job_id)
        return self._read(lambda reader: reads.job(reader, wanted, self))

    def jobs(
        self,
        *,
        state: State | None = None,
        key: str | None = None,
        queue: str | None = None,
        task: str | None = None,
        limit: int = 100,
        after: int = 0,
    ) -> list[Job]:
        """Return jobs by id, a page at a time.

        Lists do not read what can be large: ``args``, ``kwargs``, ``traceback`` and ``result`` of
        these jobs are None; ``Queue.job`` has them.

        Args:
            state: Only jobs in this state.
            key: Only jobs of this key; "" for those without one.
            queue: Only jobs of this queue.
            task: Only jobs of this task.
            limit: Most jobs to return, 1 to 1,000,000.
            after: Only jobs with a greater id: the last one of the page before.
        """
        filters = _filters(state, key, queue, task)
        most = checks.integer("limit", limit, 1, arguments.MOST)
        start = checks.integer("after", after, 0, arguments.LARGEST_ID)
        return self._read(lambda reader: reads.jobs(reader, self, filters, limit=most, after=start))

    def ended(
        self,
        *,
        since: datetime,
        state: State | None = None,
        key: str | None = None,
        queue: str | None = None,
        task: str | None = None,
        limit: int = 100,
        after: int = 0,
    ) -> list[Job]:
        """Return jobs that have ended, the oldest end first; like ``jobs``, without what is large.

        For the next page, and for what has ended meanwhile, ask again with ``finished_at`` and
        ``id`` of the last one as ``since`` and ``after``. What ended after the clock was set back
        may lie before an end that was seen already.

        Args:
            since: Only jobs that ended at this instant or later; an aware datetime.
            state: Only jobs in this state; none has ended in one of the first three.
            key: Only jobs of this key; "" for those without one.
            queue: Only jobs of this queue.
            task: Only jobs of this task.
            limit: Most jobs to return, 1 to 1,000,000.
            after: Of those that ended exactly at ``since``, only jobs with a greater id.
        """
        start = checks.instant_ms("since", since)
        filters = _filters(state, key, queue, task)
        most = checks.integer("limit", limit, 1, arguments.MOST)
        last = checks.integer("after", after, 0, arguments.LARGEST_ID)
        return self._read(
            lambda reader: reads.ended(reader, self, filters, since=start, limit=most, after=last)
        )

    def why(self, job_id: int) -> list[Reason]:
        """Return every reason that a job is not running; empty if it runs or has ended.

        Each of them is enough to keep it from starting now, so all must be over first. What has
        fallen due by now is handled first. ``until`` is exact for windows and run times; where
        running jobs stand in the way it is an estimate from the ends of their leases, which are
        renewed while they run. The reasons, with their data, in the order in which they are given:

        - ``paused``: its ``key`` or its ``queue``.
        - ``no worker``: none that is registered serves its ``queue``.
        - ``unknown task``: no worker of its ``queue`` knows its ``task``; or one that did not came
          to it, and it is tried again at ``until``.
        - ``window``: its ``key`` has no start left; ``limits`` lists each ``limit`` that is full,
          and ``until`` when.
        - ``slots``: as many slots as ``max_running`` of its ``key`` are in use, ``running`` of them.
          ``holders`` has up to 20 that have them, each with the id of its ``job`` or ``hold``, its
          ``slots`` and ``until`` when. Likewise ``own slots``, for the job's own ``max_running``,
          and ``queue slots``, for that of its ``queue``.
        - ``held up``: so many as are ``waiting`` for a hold on its ``key`` come first; ``holds`` has
          up to 20 of their ids.
        - ``retry``: an ``attempt`` of ``max_attempts`` failed with an ``error``.
        - ``scheduled``: its time has not come.
        - ``behind``: waiting jobs of its group go first, so many as ``ahead`` says: exact to 1,000,
          then "1000+". 0, and no other reason, if it starts with the next worker slot that is free
          for its group.

        Raises:
            JobNotFound: There is none with this id.
        """
        wanted = arguments.job_id(job_id)
        self._handle_due()
        return self._read(lambda reader: reasons.why(reader, wanted, self.now_ms()))

    def key(self, key: str) -> Key:
        """Return how a key stands now; one that was never used is idle.

        What has fallen due by now, such as the end of a dead worker's lease, is handled first.
        """
        name = checks.key("key", key)
        if not name:
            raise InvalidValue(name="key", problem="must be a key, not none", value=key)
        self._handle_due()
        return self._read(lambda reader: reads.key(reader, name, self.now_ms()))

    def keys(self, *, sort: reads.KeySort = "waiting", limit: int = 100) -> list[Key]:
        """Return keys.

        Args:
            sort: The most ``waiting``, ``running`` or ``scheduled`` first, or by ``key``.
            limit: Most keys to return, 1 to 1,000,000.
        """
        checks.choice("sort", sort, reads.KEY_SORTS)
        most = checks.integer("limit", limit, 1, arguments.MOST)
        self._handle_due()
        return self._read(
            lambda reader: reads.keys(reader, sort=sort, limit=most, now=self.now_ms())
        )

    def queues(self) -> list[QueueInfo]:
        """Return every queue that was ever used, by name."""
        return self._read(reads.queues)

    def workers(self) -> list[WorkerInfo]:
        """Return every registered worker."""
        return self._read(reads.workers)

    def events(
        self, *, limit: int = 100, after: int | None = None, kind: EventKind | None = None
    ) -> list[Event]:
        """Return what happened to the file, the newest last: edits, pauses, lost leases and more.

        The newest 10,000 events are kept. To follow them, ask again with the ``id`` of the last one
        as ``after``.

        Args:
            limit: Most events to return, 1 to 1,000,000.
            after: Only those after the event with this id, from there on; 0 for the oldest that
                are kept, None for the newest.
            kind: Only events of this kind; see ``Event``.
        """
        most = checks.integer("limit", limit, 1, arguments.MOST)
        start = None if after is None else checks.integer("after", after, 0, arguments.LARGEST_ID)
        if kind is not None:
            checks.choice("kind", kind, EVENT_KINDS)
        return self._read(
            lambda reader: events.list_events(reader, limit=most, after=start, kind=kind)
        )

    def history(
        self, *, key: str | None = None, queue: str | None = None, since: datetime | None = None
    ) -> list[HistoryBucket]:
        """Return what happened in the last hours, in spans of time; the oldest first.

        Workers count it in memory and write it about once a second, with what they write anyway:
        a worker that is killed takes up to a second of it along. Starts count the slots of holds, too,
        which are written with the next hold of their queue or as it is closed. A span in which nothing happened
        and nobody looked is left out. Queues have spans of 10 s, kept for two hours, at most 1,000
        queues in each; keys have spans of 60 s, kept for an hour, at most 10,000 keys in each.
        What is beyond is left out.

        Args:
            key: Only jobs of this key.
            queue: Only jobs of this queue; without key and queue, those of all queues together.
            since: The span of this instant is the first, an aware datetime; None for all.

        Raises:
            InvalidValue: Both a key and a queue are given, or one is no such thing.
        """
        if key is not None and queue is not None:
            raise InvalidValue(name="queue", problem="goes without a key", value=queue)
        kind: history.Kind = "queue" if key is None else "key"
        name = None if queue is None else checks.text("queue", queue)
        if key is not None:
            name = checks.key("key", key)
            if not name:
                raise InvalidValue(name="key", problem="must be a key, not none", value=key)
        first = 0 if since is None else checks.instant_ms("since", since)
        return self._read(lambda reader: history.read(reader, kind, name, first, self.now_ms()))

    def stats(self) -> Stats:
        """Return the whole file in numbers."""
        return self._read(
            lambda reader: reads.stats(
                reader, file_bytes=self._file_bytes(), log_bytes=self.database.log.size()
            )
        )

    def wait_for(self, job_id: int, *, timeout: float | None = None) -> object:
        """Wait for a job to end; see ``Job.wait``."""
        for pause_s in _looks(timeout):
            job = self._look(job_id)
            if job.finished_at is not None:
                _check_end(job)
                return self._decoded(job)
            time.sleep(pause_s)
        raise _late(job_id, timeout)

    async def await_for(self, job_id: int, *, timeout: float | None = None) -> object:  # noqa: ASYNC109
        """Wait for a job to end without blocking the event loop; see ``Job.await_result``."""
        # Loaded where there is a loop; it would double the time that loading this package takes.
        import asyncio  # noqa: PLC0415

        for pause_s in _looks(timeout):
            job = await self.hop(functools.partial(self._look, job_id), None)
            if job.finished_at is not None:
                _check_end(job)
                return self._decoded(job)
            await asyncio.sleep(pause_s)
        raise _late(job_id, timeout)

    ajob = twin(job)
    ajobs = twin(jobs)
    aended = twin(ended)
    awhy = twin(why)
    akey = twin(key)
    akeys = twin(keys)
    aqueues = twin(queues)
    aworkers = twin(workers)
    aevents = twin(events)
    ahistory = twin(history)
    astats = twin(stats)

    def _look(self, job_id: int) -> Job:
        """Return a job as it is once what is due is handled: without a worker nobody else would."""
        self._handle_due()
        return self.job(job_id)

    def _decoded(self, job: Job) -> object:
        """Return the result of a job; who knows its task returns it in its type."""
        return job.result

    def _handle_due(self) -> None:
        """Handle what has fallen due, without the write lock if there is nothing."""
        now = self.now_ms()
        if self._read(lambda reader: due.is_due(reader, now)):
            while self._write(due.handle_due):
                pass

    def _file_bytes(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError as error:
            raise FileReplaced(path=self.path) from error


def _filters(state: object, key: object, queue: object, task: object) -> dict[str, str | None]:
    return {
        "state": None if state is None else checks.choice("state", state, STATES),
        "key": None if key is None else checks.key("key", key),
        "queue": None if queue is None else checks.text("queue", queue),
        "task": None if task is None else checks.text("task", task),
    }


def _looks(timeout: object) -> Iterator[float]:
    """Yield how long to wait before the next look at a job, until the time is over."""
    end_s = float("inf")
    if timeout is not None:
        ms = checks.seconds_ms("timeout", timeout, low_ms=0, high_ms=checks.LONGEST_MS)
        end_s = time.monotonic() + ms / 1000
    pause_s = FIRST_LOOK_S
    while (left_s := end_s - time.monotonic()) > 0:
        yield min(pause_s, left_s)
        pause_s = min(pause_s * 1.5, LAST_LOOK_S)
    yield 0.0


def _late(job_id: int, timeout: float | None) -> TimeoutError:
    return TimeoutError(f"job {job_id} has not ended within {timeout} s")


def _check_end(job: Job) -> None:
    """Check that a job has ended well."""
    if job.state == "failed":
        raise JobFailed(job_id=job.id, error=job.error or "", traceback=job.traceback)
    if job.state == "cancelled":
        raise JobCancelled(job_id=job.id, reason=job.error or "")
