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
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Final

from slotq.bodies import Body, failure
from slotq.current import Run
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
# For how long a body is put off for which there is no thread.
NO_THREAD_MS: Final = 1_000
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
        has_begun: Set once hooks have seen its beginning, and it enters the file.
        begun_s: When that was, on the monotonic clock.
        has_written: Set once the file is left and nothing more will be written.
    """

    def __init__(
        self, queue: Queue, registration: Registration, *, burst: bool, max_jobs: int | None
    ) -> None:
        self._queue = queue
        self._registration = registration
        self._running: dict[Lease, Run] = {}
        self._hooks = HookRunner(queue.hooks)
        self._report = Report(self._hooks, queue.database.clock)
        self._turns = Turns(
            queue, registration, self._running, Staff(self._begin, self._cancel), self._report,
            burst=burst, max_jobs=max_jobs,
        )  # fmt: skip
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._tasks: dict[Lease, asyncio.Task[End]] = {}
        self._threaded: set[Lease] = set()
        self._done: list[Outcome] = []
        self._threads = ThreadPoolExecutor(registration.slots, thread_name_prefix="slotq-job")
        self._server = asyncio.current_task()
        # A task that was cancelled once, and went on to serve, is not being cancelled now.
        self._cancelled_before = 0 if self._server is None else self._server.cancelling()
        self._handing_back = False
        self._end_process: Callable[[], object] | None = None
        self._has_told_threads = False
        self.has_begun = threading.Event()
        self.begun_s = 0.0
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
    def has_bodies(self) -> bool:
        """Whether any body has not ended, whatever has been written of it."""
        return bool(self._tasks or self._threaded)

    @property
    def has_abandoned(self) -> bool:
        """Whether jobs were handed back while their bodies went on."""
        return self._turns.abandoned > 0

    @property
    def has_used_up(self) -> bool:
        """Whether it has started as many jobs as it may."""
        return self._turns.has_used_up

    def note_stop(self) -> None:
        """Claim nothing more; see ``Turns.note_stop``."""
        self._turns.note_stop()

    def stop(self) -> None:
        """Claim nothing more, and end when the bodies have ended; from any thread."""
        self._turns.stop()

    def hand_back(self) -> None:
        """Cancel async bodies and hand their jobs back; from any thread."""
        self._turns.stop()
        with contextlib.suppress(RuntimeError):  # the loop is gone, and with it the bodies
            self._loop.call_soon_threadsafe(self._hand_back)

    def abandon(self, end_process: Callable[[], object]) -> None:
        """Hand back all that runs; if bodies go on, end the process right after that commit.

        Args:
            end_process: Does not return; called by the thread of the turns.
        """
        self._end_process = end_process
        self._turns.abandon()

    def close_hooks(self, *, patience_s: float) -> None:
        """Call the hooks for the end, and wait for them; from another thread than the loop's."""
        answered = threading.Event()
        with contextlib.suppress(RuntimeError):  # the loop is gone
            self._loop.call_soon_threadsafe(answered.set)
        if answered.wait(PING_S):  # else a body blocks the loop
            closing = self._hooks.close(patience_s=patience_s)
            with contextlib.suppress(TimeoutError, CancelledError):
                asyncio.run_coroutine_threadsafe(closing, self._loop).result(patience_s + PING_S)

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
            self.begun_s = time.monotonic()
            self.has_begun.set()
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
            self._turns.tally.leave(self._queue.database)
            if self._turns.abandoned and self._end_process is not None:
                self._turns.presence.vanish()
                self._end_process()
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

    def _begin(self, runs: Sequence[Run]) -> None:
        """Start bodies; called by the thread of the turns."""
        bodies = [Body(each, self._queue.tasks, self._queue.max_payload) for each in runs]
        on_loop = [body for body in bodies if body.is_async]
        if on_loop:
            self._loop.call_soon_threadsafe(self._begin_async, on_loop)
        for body in bodies:
            if body.is_async:
                continue
            try:
                # A context of its own: what a body sets is not there for the next on its thread.
                self._threaded.add(body.run.lease)
                self._threads.submit(contextvars.Context().run, self._in_thread, body)
            except RuntimeError as error:
                self._do_without_thread(body, error)

    def _begin_async(self, bodies: Sequence[Body]) -> None:
        for body in bodies:
            task = self._loop.create_task(body.acall(self._is_leaving))
            self._tasks[body.run.lease] = task
            task.add_done_callback(functools.partial(self._on_done, body.run))
            if body.run.cancelled or self._is_leaving():
                task.cancel()  # asked before it began, or claimed in the turn that was under way

    def _do_without_thread(self, body: Body, error: RuntimeError) -> None:
        """Put a body off for which no thread is to be had, unless one has it all the same.

        The pool keeps what it could not start a thread for, and gives it to one that gets free.
        """
        if not body.take():
            return
        if not self._has_told_threads:
            self._has_told_threads = True
            logger.warning("no thread to run a job in, so it is put off: %s", error)
        self._threaded.discard(body.run.lease)
        self._turns.post(Outcome(body.run, HandBack(NO_THREAD_MS)))

    def _on_done(self, run: Run, task: asyncio.Task[End]) -> None:
        del self._tasks[run.lease]
        if task.cancelled():
            end: End = Cancelled() if run.cancelled else HandBack()  # before its first step
        else:
            error = task.exception()
            end = task.result() if error is None else failure(error, None)
        if not self._done:
            # What ends in one pass of the loop is handed in together, for one turn to write.
            self._loop.call_soon(self._hand_in)
        self._done.append(Outcome(run, end))

    def _hand_in(self) -> None:
        done, self._done = self._done, []
        self._turns.post(*done)

    def _cancel(self, run: Run) -> None:
        """End the body of a job, if it is one that can be ended; from the thread of the turns."""
        with contextlib.suppress(RuntimeError):  # the loop is gone, and with it the body
            self._loop.call_soon_threadsafe(self._cancel_task, run)

    def _cancel_task(self, run: Run) -> None:
        task = self._tasks.get(run.lease)
        if task is not None:
            task.cancel()

    def _in_thread(self, body: Body) -> None:
        if not body.take():
            return
        try:
            end = body.call()
        except BaseException as error:  # noqa: BLE001  # or its slot would never be free again
            end = failure(error, None)
        self._threaded.discard(body.run.lease)
        self._turns.post(Outcome(body.run, end))


def _settle(ended: "asyncio.Future[None]", failed: BaseException | None) -> None:
    if ended.done():
        return
    if failed is None:
        ended.set_result(None)
    else:
        ended.set_exception(failed)
