"""A worker's shift: from the moment it enters the file until it leaves it.

The thread of the turns owns the shift: it registers, claims, writes and leaves. The event loop runs
async bodies and waits for that thread; a pool of threads runs the other bodies.
"""

import asyncio
import contextlib
import contextvars
import functools
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from slotq.bodies import Body, failure
from slotq.heartbeat import Heartbeat
from slotq.jobqueue import Queue
from slotq.store.claims import Claim
from slotq.store.leases import End, HandBack
from slotq.store.workers import Registration
from slotq.turns import Turns

logger = logging.getLogger("slotq.worker")

# How long cancelled bodies may take to end when the file has gone.
FAREWELL_S: Final = 1.0


class Shift:
    """One run of a worker inside a running event loop.

    Args:
        queue: The queue.
        registration: Who works.
        burst: Whether to end when nothing is left to do.
    """

    def __init__(self, queue: Queue, registration: Registration, *, burst: bool) -> None:
        self._queue = queue
        self._registration = registration
        self._running: set[tuple[int, int]] = set()
        self._turns = Turns(queue, registration, self._running, self._begin, burst=burst)
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._tasks: set[asyncio.Task[End]] = set()
        self._threads = ThreadPoolExecutor(registration.slots, thread_name_prefix="slotq-job")
        self._server = asyncio.current_task()
        # A task that was cancelled once, and went on to serve, is not being cancelled now.
        self._cancelled_before = 0 if self._server is None else self._server.cancelling()

    def stop(self) -> None:
        """Claim nothing more, and end when the bodies have ended; from any thread."""
        self._turns.stop()

    async def work(self) -> None:
        """Work until the end of the shift.

        When this is cancelled, async bodies are cancelled and handed back unused, and bodies in
        threads are waited for.

        Raises:
            StoreError: The file can no longer be used.
        """
        thread = threading.Thread(target=self._live, name="slotq-turns", daemon=True)
        thread.start()
        cancelled: asyncio.CancelledError | None = None
        try:
            while not self._ended.done():
                try:
                    await asyncio.wait((self._ended,))
                except asyncio.CancelledError as error:
                    cancelled = error
                    self._hand_back()
        finally:
            self._threads.shutdown(wait=False)
        thread.join()  # it has just said that it ends
        if self._tasks:
            # The file is gone: nobody can say any more whose jobs these are.
            self._hand_back()
            await asyncio.wait(self._tasks, timeout=FAREWELL_S)
        self._ended.result()
        if cancelled is not None:
            raise cancelled

    def _live(self) -> None:
        failed: BaseException | None = None
        try:
            try:
                if self._turns.register():
                    self._take_turns()
            finally:
                self._turns.leave()
        except BaseException as error:  # noqa: BLE001  # handed to whoever serves
            failed = error
        with contextlib.suppress(RuntimeError):  # the loop is gone: nobody to tell
            self._loop.call_soon_threadsafe(_settle, self._ended, failed)

    def _take_turns(self) -> None:
        heartbeat = Heartbeat(
            self._queue.database, self._turns.worker_id, self._registration, self._running,
            self._queue.keep_finished_ms,
        )  # fmt: skip
        heartbeat.start()
        try:
            self._turns.run()
        finally:
            heartbeat.stop()

    def _hand_back(self) -> None:
        self._turns.stop()
        for task in self._tasks:
            task.cancel()

    def _is_cancelled(self) -> bool:
        return self._server is not None and self._server.cancelling() > self._cancelled_before

    def _begin(self, claims: Sequence[Claim]) -> None:
        """Start bodies; called by the thread of the turns."""
        bodies = [Body(each, self._queue.tasks, self._queue.max_payload) for each in claims]
        on_loop = [body for body in bodies if body.is_async]
        if on_loop:
            self._loop.call_soon_threadsafe(self._begin_async, on_loop)
        for body in bodies:
            if body.is_async:
                continue
            try:
                # A context of its own: what a body sets is not there for the next on its thread.
                self._threads.submit(contextvars.Context().run, self._in_thread, body)
            except RuntimeError as error:  # no more threads are to be had
                logger.warning("no thread to run a job in: %s", error)
                self._turns.post(body.outcome(HandBack()))

    def _begin_async(self, bodies: Sequence[Body]) -> None:
        for body in bodies:
            task = self._loop.create_task(body.arun(self._is_cancelled))
            self._tasks.add(task)
            task.add_done_callback(functools.partial(self._on_done, body))
            if self._is_cancelled():
                task.cancel()  # claimed in the turn that was under way

    def _on_done(self, body: Body, task: asyncio.Task[End]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            end: End = HandBack()  # before its first step
        else:
            error = task.exception()
            end = task.result() if error is None else failure(error)
        self._turns.post(body.outcome(end))

    def _in_thread(self, body: Body) -> None:
        self._turns.post(body.outcome(body.run()))


def _settle(ended: "asyncio.Future[None]", failed: BaseException | None) -> None:
    if failed is None:
        ended.set_result(None)
    else:
        ended.set_exception(failed)
