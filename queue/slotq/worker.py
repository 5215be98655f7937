"""The worker: claims jobs, runs their bodies, writes how they ended."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, TypeGuard

from slotq import checks
from slotq.errors import InvalidValue
from slotq.jobqueue import Queue
from slotq.model import ORDERS, Order
from slotq.shift import Shift
from slotq.store.workers import Registration

logger = logging.getLogger("slotq.worker")

MOST_SLOTS: Final = 10_000
LEASE_MS: Final = (1_000, 3_600_000)


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
    ) -> None:
        self._queue = _queue(queue)
        self._slots = checks.integer("slots", slots, 1, MOST_SLOTS)
        self._queues = _names(queues)
        checks.choice("order", order, ORDERS)
        self._order: Order = order
        self._lease_ms = checks.seconds_ms("lease", lease, low_ms=LEASE_MS[0], high_ms=LEASE_MS[1])
        self._burst = checks.boolean("burst", burst)
        self._shift: Shift | None = None
        self._stopping = False

    def run(self) -> None:
        """Work until told to stop by SIGTERM or SIGINT, or until a burst is done.

        The first signal stops claiming and waits for the jobs that run; a second one ends the
        process, and its jobs run again elsewhere once their leases lapse.

        Raises:
            InvalidValue: An event loop runs in this thread already: await ``serve`` there.
            StoreError: The file can no longer be used.
        """
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop()
            raise InvalidValue(name="run()", problem="would block the running loop: await serve()")
        asyncio.run(self._run())

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
        shift = self._shift = Shift(self._queue, self._registration(), burst=self._burst)
        try:
            if self._stopping:
                shift.stop()
            await shift.work()
        finally:
            self._shift = None
            self._stopping = False

    def stop(self) -> None:
        """Stop claiming; the worker leaves when the jobs that run have ended. From any thread.

        One that does not serve yet leaves as soon as it does.
        """
        self._stopping = True
        shift = self._shift
        if shift is not None:
            shift.stop()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()

        def on_signal(number: int) -> None:
            logger.info(
                "%s: no new jobs, waiting for those that run; once more ends it at once",
                signal.Signals(number).name,
            )
            self.stop()
            for each in handled:
                loop.remove_signal_handler(each)
            # A second one ends the process at once. Ctrl-C too: KeyboardInterrupt would wait for
            # the bodies in threads.
            signal.signal(signal.SIGINT, signal.SIG_DFL)

        handled = (signal.SIGTERM, signal.SIGINT)
        is_main = threading.current_thread() is threading.main_thread()
        before = {number: signal.getsignal(number) for number in handled}
        if is_main:
            for number in handled:
                loop.add_signal_handler(number, on_signal, number)
        try:
            await self.serve()
        finally:
            for number in handled:
                with contextlib.suppress(ValueError, RuntimeError):
                    loop.remove_signal_handler(number)
            if is_main:
                for number, handler in before.items():
                    # None stands for one that was not set from Python, and cannot be set again.
                    signal.signal(number, signal.SIG_DFL if handler is None else handler)

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
