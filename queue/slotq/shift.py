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

from slotq.bodies import Body, told
from slotq.current import CurrentJob
from slotq.heartbeat import Heartbeat
from slotq.hookrunner import HookRunner
from slotq.jobqueue import Queue
from slotq.report import Report
from slotq.store.leases import Cancelled, End, HandBack, Lease
from slotq.store.workers import Registration
from slotq.turns import Outcome, Staff, Turns

logger = logging.getLogger("slotq.worker")

# How long cancelled bodies may take to end when the file has gone.
FAREWELL_S: Final = 1.0
# How long the hooks of a worker that leaves may take, all together.
HOOKS_S: Final = 5.0
# How long a loop may take to answer before it counts as blocked.
PING_S: Final = 0.3


class Shift:
    """One run of a worker inside a running event loop.

    Args:
        queue: The queue.
        registration: Who works.
        burst: Whether to end when nothing is left to do.
        max_jobs: Whether to end after so many starts; None for no such number.

    Attributes:
        has_written: Set once the file is left and nothing more will be written.
    """

    def __init__(
        self, queue: Queue, registration: Registration, *, burst: bool, max_jobs: int | None
    ) -> None:
        self._queue = queue
        self._registration = registration
        self._running: dict[Lease, CurrentJob] = {}
        self._hooks = HookRunner(queue.hooks)
        self._report = Report(self._hooks)
        self._turns = Turns(
            queue, registration, self._running, Staff(self._begin, self._cancel), self._report,
            burst=burst, max_jobs=max_jobs,
        )  # fmt: skip
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._tasks: dict[Lease, asyncio.Task[End]] = {}
        self._done: list[Outcome] = []
        self._threads = ThreadPoolExecutor(registration.slots, thread_name_prefix="slotq-job")
        self._server = asyncio.current_task()
        # A task that was cancelled once, and went on to serve, is not being cancelled now.
        self._cancelled_before = 0 if self._server is None else self._server.cancelling()
        self._handing_back = False
        self.has_written = threading.Event()

    @property
    def is_busy(self) -> bool:
        """Whether any job runs."""
        return bool(self._running)

    @property
    def is_async_busy(self) -> bool:
        """Whether any body runs on the event loop."""
        return bool(self._tasks)

    @property
    def has_abandoned(self) -> bool:
        """Whether jobs were handed back while their bodies went on."""
        return self._turns.abandoned > 0

    def stop(self) -> None:
        """Claim nothing more, and end when the bodies have ended; from any thread."""
        self._turns.stop()

    def hand_back(self) -> None:
        """Cancel async bodies and hand their jobs back; from any thread."""
        self._turns.stop()
        with contextlib.suppress(RuntimeError):  # the loop is gone, and with it the bodies
            self._loop.call_soon_threadsafe(self._hand_back)

    def abandon(self) -> None:
        """Hand back all that runs, though bodies go on; see ``Turns.abandon``."""
        self._turns.abandon()

    def close_hooks(self, *, patience_s: float) -> None:
        """Call the hooks for the end, and wait for them; from another thread than the loop's."""
        answered = threading.Event()
        with contextlib.suppress(RuntimeError):  # the loop is gone
            self._loop.call_soon_threadsafe(answered.set)
        if answered.wait(PING_S):  # else a body blocks the loop
            closing = self._hooks.close(patience_s=patience_s)
            with contextlib.suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(closing, self._loop).result(
                    2 * patience_s + PING_S
                )

    async def work(self) -> None:
        """Work until the end of the shift.

        When this is cancelled, async bodies are cancelled and handed back unused, and bodies in
        threads are waited for.

        Raises:
            StoreError: The file can no longer be used.
        """
        cancelled: asyncio.CancelledError | None = None
        try:
            await self._hooks.call("worker_start")
            thread = threading.Thread(target=self._live, name="slotq-turns", daemon=True)
            thread.start()
            while not self._ended.done():
                try:
                    await asyncio.wait((self._ended,))
                except asyncio.CancelledError as error:
                    cancelled = error
                    self._hand_back()
            thread.join()  # it has just said that it ends
            if self._tasks and not self.has_abandoned:
                # The file is gone: nobody can say any more whose jobs these are.
                self._hand_back()
                await asyncio.wait(self._tasks.values(), timeout=FAREWELL_S)
        finally:
            self._threads.shutdown(wait=False)
            await self._hooks.close(patience_s=HOOKS_S)
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
                self._turns.presence.leave()
        except BaseException as error:  # noqa: BLE001  # handed to whoever serves
            failed = error
        self.has_written.set()
        with contextlib.suppress(RuntimeError):  # the loop is gone: nobody to tell
            self._loop.call_soon_threadsafe(_settle, self._ended, failed)

    def _take_turns(self) -> None:
        heartbeat = Heartbeat(
            self._queue.database, self._turns.presence.worker_id, self._registration, self._running,
            self._report, keep_finished_ms=self._queue.keep_finished_ms,
        )  # fmt: skip
        heartbeat.start()
        try:
            self._turns.run()
        finally:
            heartbeat.stop()

    def _hand_back(self) -> None:
        self._handing_back = True
        self._turns.stop()
        for task in self._tasks.values():
            task.cancel()

    def _is_leaving(self) -> bool:
        """Tell whether a body that is cancelled is so because the worker leaves."""
        return self._handing_back or (
            self._server is not None and self._server.cancelling() > self._cancelled_before
        )

    def _begin(self, jobs: Sequence[CurrentJob]) -> None:
        """Start bodies; called by the thread of the turns."""
        bodies = [Body(each, self._queue.tasks, self._queue.max_payload) for each in jobs]
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
                self._turns.post(Outcome(body.job, HandBack()))

    def _begin_async(self, bodies: Sequence[Body]) -> None:
        for body in bodies:
            task = self._loop.create_task(body.arun(self._is_leaving))
            self._tasks[body.job.lease] = task
            task.add_done_callback(functools.partial(self._on_done, body.job))
            if body.job.cancelled or self._is_leaving():
                task.cancel()  # asked before it began, or claimed in the turn that was under way

    def _on_done(self, job: CurrentJob, task: asyncio.Task[End]) -> None:
        del self._tasks[job.lease]
        if task.cancelled():
            end: End = Cancelled() if job.cancelled else HandBack()  # before its first step
        else:
            error = task.exception()
            end = task.result() if error is None else told(error, None)
        if not self._done:
            # What ends in one pass of the loop is handed in together, for one turn to write.
            self._loop.call_soon(self._hand_in)
        self._done.append(Outcome(job, end))

    def _hand_in(self) -> None:
        done, self._done = self._done, []
        self._turns.post(*done)

    def _cancel(self, job: CurrentJob) -> None:
        """End the body of a job, if it is one that can be ended; from the thread of the turns."""
        with contextlib.suppress(RuntimeError):  # the loop is gone, and with it the body
            self._loop.call_soon_threadsafe(self._cancel_task, job)

    def _cancel_task(self, job: CurrentJob) -> None:
        task = self._tasks.get(job.lease)
        if task is not None:
            task.cancel()

    def _in_thread(self, body: Body) -> None:
        self._turns.post(Outcome(body.job, body.run()))


def _settle(ended: "asyncio.Future[None]", failed: BaseException | None) -> None:
    if ended.done():
        return
    if failed is None:
        ended.set_result(None)
    else:
        ended.set_exception(failed)
