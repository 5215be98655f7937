"""The worker: claims jobs, runs their bodies, writes how they ended."""

import asyncio
import contextlib
import logging
import os
import socket
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, TypeGuard

from slotq import checks
from slotq.errors import InvalidValue, StoreError
from slotq.guards import BodyThreads, guarded_task
from slotq.jobqueue import Queue
from slotq.leaving import Leaving, end_process
from slotq.model import ORDERS, Order
from slotq.shift import Shift
from slotq.store.workers import Registration

logger = logging.getLogger("slotq.worker")

MOST_SLOTS: Final = 10_000
LEASE_MS: Final = (1_000, 3_600_000)
FAILED: Final = 1
LONGEST_GRACE_MS: Final = 86_400_000
MOST_JOBS: Final = 1_000_000_000


class Worker:
    """Runs the jobs of one queue file, as many at once as it has slots.

    ``async def`` bodies run on the event loop, others in threads. Several workers, in one process
    or in many, share a file and its limits.

    Args:
        queue: The queue, with the tasks that the worker knows.
        slots: How many jobs it runs at once, 1 to 10,000.
        queues: Names of the queues that it serves; None for every queue, also new ones.
        order: ``fair``, ``round-robin`` or ``fifo``.
        lease: Seconds, or a timedelta, from 1 to 3,600: how long its jobs stay its own when it is
            not heard of.
        burst: Whether to leave once no job waits in its queues, instead of waiting for more. Jobs
            scheduled for later, or of a paused key or queue, are not waited for.
        grace: Seconds, or a timedelta, from 0 to 86,400: how long ``run`` lets jobs run on after a
            signal before it hands them back.
        max_jobs: Leave after so many starts, once these have ended; from 1, None for no such number.

    Raises:
        InvalidValue: An argument is of a wrong type or out of its range.
    """

    def __init__(
        self,
        queue: Queue,
        *,
        slots: int = 8,
        queues: Sequence[str] | None = None,
        order: Order = "fair",
        lease: float | timedelta = 30,
        burst: bool = False,
        grace: float | timedelta = 25,
        max_jobs: int | None = None,
    ) -> None:
        self._queue = _queue(queue)
        self._slots = checks.integer("slots", slots, 1, MOST_SLOTS)
        self._queues = _names(queues)
        checks.choice("order", order, ORDERS)
        self._order: Order = order
        self._lease_ms = checks.seconds_ms("lease", lease, low_ms=LEASE_MS[0], high_ms=LEASE_MS[1])
        self._burst = checks.boolean("burst", burst)
        self._grace_s = checks.seconds_ms("grace", grace, low_ms=0, high_ms=LONGEST_GRACE_MS) / 1000
        self._max_jobs = (
            None if max_jobs is None else checks.integer("max_jobs", max_jobs, 1, MOST_JOBS)
        )
        self._shift: Shift | None = None
        self._stopping = False
        self._has_used_up = False
        self._has_bodies = False

    def run(self) -> None:
        """Work until told to stop by SIGTERM or SIGINT, or until a burst is done.

        The first signal stops claiming at once and lets the jobs run on for the grace; what runs
        then is handed back with its attempt unused. A second signal hands back at once. A body in a
        thread cannot be ended: if one runs on when its job is handed back, the whole process ends
        there, and this does not return; nor if the file can no longer be used while one runs (exit
        code 1).

        Raises:
            InvalidValue: An event loop runs in this thread already: await ``serve`` there.
            StoreError: The file can no longer be used.
            SystemExit: A second signal came: 130 for SIGINT, 143 for SIGTERM.
        """
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop()
            raise InvalidValue(name="run()", problem="would block the running loop: await serve()")
        code = asyncio.run(self._run())
        if code:
            raise SystemExit(code)

    async def serve(self) -> None:
        """Work inside a running event loop, until ``stop`` or until a burst is done.

        No signal handlers are installed. When the task that serves is cancelled, async bodies are
        cancelled and handed back unused, and bodies in threads are waited for.

        Raises:
            InvalidValue: It serves already.
            StoreError: The file can no longer be used.
        """
        if self._shift is not None:
            raise InvalidValue(name="worker", problem="is serving already")
        shift = self._shift = Shift(
            self._queue, self._registration(), burst=self._burst, max_jobs=self._max_jobs
        )
        try:
            if self._stopping:
                shift.stop()
            await shift.work()
        finally:
            self._has_used_up = shift.has_used_up
            self._has_bodies = shift.has_bodies
            self._shift = None
            self._stopping = False

    @property
    def has_used_up(self) -> bool:
        """Whether its last time of serving started all of its ``max_jobs``."""
        return self._has_used_up

    def stop(self) -> None:
        """Stop claiming; the worker leaves when the jobs that run have ended. From any thread.

        One that does not serve yet leaves as soon as it does.
        """
        self._stopping = True
        shift = self._shift
        if shift is not None:
            shift.stop()

    async def _run(self) -> int:
        """Serve, and see the worker out at a signal; return the exit code."""
        asyncio.get_running_loop().set_task_factory(guarded_task)
        asyncio.get_running_loop().set_default_executor(
            BodyThreads(thread_name_prefix="slotq-body")
        )
        if threading.current_thread() is not threading.main_thread():
            await self.serve()
            return 0
        with Leaving(self.stop, lambda: self._shift, self._grace_s) as leaving:
            try:
                await self.serve()
            except StoreError as error:
                if self._has_bodies:
                    # They would keep the process, which could do nothing for the queue any more.
                    logger.error("%s", error)  # noqa: TRY400  # one line for people
                    end_process(FAILED)
                raise
        return leaving.code

    def _registration(self) -> Registration:
        return Registration(
            pid=os.getpid(),
            host=socket.gethostname(),
            queues=self._queues,
            slots=self._slots,
            order=self._order,
            lease_ms=self._lease_ms,
            tasks=self._queue.tasks,
        )


def _queue(queue: object) -> Queue:
    if not isinstance(queue, Queue):
        raise InvalidValue(name="queue", problem="must be a slotq.Queue", value=queue)
    return queue


def _names(queues: object) -> tuple[str, ...] | None:
    if queues is None:
        return None
    if not _is_sequence(queues) or not queues:
        problem = "must be a list of queue names, or None for every queue"
        raise InvalidValue(name="queues", problem=problem, value=queues)
    return tuple(dict.fromkeys(checks.text("queues", name) for name in queues))


def _is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, (list, tuple))
