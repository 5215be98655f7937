"""The hooks of an application as a worker calls them.

They run beside the worker, one after another: nothing waits for them but the beginning and the end
of its shift, and whatever they do is logged and forgotten.
"""

import asyncio
import contextlib
import inspect
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from queue import SimpleQueue
from typing import Final, Literal

from slotq.errors import one_line, told
from slotq.hooks import HookName, Hooks, RunEvent

logger = logging.getLogger("slotq.worker")

# A function that takes longer is left to itself, and the next one called.
LONGEST_S: Final = 30.0
# Events that wait to be told; more are dropped, or a slow function would fill the memory.
MOST_WAITING: Final = 10_000

Done = asyncio.Future[object]


class HookThread:
    """A thread that calls functions for an event loop; it keeps no process from ending."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: SimpleQueue[tuple[Done, Callable[[], object]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="slotq-hook", daemon=True)
        self._has_begun = False

    def call(self, function: Callable[[], object]) -> Done:
        """Have a function called; return what it will return."""
        if not self._has_begun:
            self._thread.start()
            self._has_begun = True
        done = self._loop.create_future()
        self._calls.put((done, function))
        return done

    def end(self) -> None:
        """Call no more, after the function that runs."""
        self._calls.put(None)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            done, function = call
            result: object = None
            error: BaseException | None = None
            try:
                result = function()
            except BaseException as raised:  # noqa: BLE001  # told where it is waited for
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop is gone: nobody to tell
                self._loop.call_soon_threadsafe(_settle, done, result, error)


class HookRunner:
    """Calls the hooks of one worker, in its event loop and on a thread of their own.

    Args:
        hooks: Those of the queue.
    """

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[RunEvent] = deque()
        self._teller: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._thread = HookThread(self._loop)
        self._dropped = 0

    def wants(self, name: HookName) -> bool:
        """Tell whether anybody listens."""
        return bool(self._hooks.of(name))

    def tell(self, event: RunEvent) -> None:
        """Have the functions called for an event, soon; from any thread."""
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append(event)
            self._loop.call_soon_threadsafe(self._go_on)
            return
        if not self._dropped:
            logger.warning("hooks are too slow: %d events wait, more are dropped", MOST_WAITING)
        self._dropped += 1

    async def call(self, name: Literal["worker_start", "worker_stop"]) -> None:
        """Call the functions for a beginning or an end, and wait for them."""
        for function in self._hooks.of(name):
            await self._call(name, function)

    async def close(self, *, patience_s: float) -> None:
        """Call what waits, then the functions for the end; all together for no longer than this.

        Who calls it again waits for the first call to end.
        """
        if self._closing is None:
            self._closing = self._loop.create_task(self._close(patience_s))
        await asyncio.shield(self._closing)

    async def _close(self, patience_s: float) -> None:
        # Half of it for each: slow events must not keep what the application has opened open.
        await self._finish(self._tell_rest(), patience_s / 2)
        await self._finish(self.call("worker_stop"), patience_s / 2)
        self._thread.end()

    async def _finish(self, calls: Awaitable[None], patience_s: float) -> None:
        try:
            async with asyncio.timeout(patience_s):
                await calls
        except TimeoutError:
            logger.warning("hooks took longer than %g s, and are left to themselves", patience_s)
            self._renew_thread()

    def _go_on(self) -> None:
        if self._closing is None and (self._teller is None or self._teller.done()):
            self._teller = self._loop.create_task(self._tell_all())

    async def _tell_rest(self) -> None:
        if self._teller is not None:
            await self._teller
        await self._tell_all()

    async def _tell_all(self) -> None:
        while self._waiting:
            event = self._waiting.popleft()
            for function in self._hooks.of(event.kind):
                await self._call(event.kind, function, event)

    async def _call(
        self, name: HookName, function: Callable[..., object], *arguments: RunEvent
    ) -> None:
        limit = asyncio.timeout(LONGEST_S)
        try:
            async with limit:
                if inspect.iscoroutinefunction(function):
                    await function(*arguments)
                else:
                    done = await self._thread.call(lambda: function(*arguments))
                    if inspect.isawaitable(done):
                        await done
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            logger.warning("hook %s cancelled itself", name)
        except GeneratorExit:
            raise  # the loop is gone
        except BaseException as error:  # the application's own: it breaks no worker
            if limit.expired():
                logger.warning("hook %s took longer than %g s, and is left alone", name, LONGEST_S)
                self._renew_thread()
                return
            line = one_line(told(error))
            logger.warning("hook %s failed: %s", name, line, exc_info=error)

    def _renew_thread(self) -> None:
        self._thread.end()
        self._thread = HookThread(self._loop)


def _settle(done: Done, result: object, error: BaseException | None) -> None:
    if done.done():  # nobody waits any more
        return
    if error is None:
        done.set_result(result)
    elif isinstance(error, StopIteration):
        done.set_exception(RuntimeError("StopIteration"))  # a future takes no such error
    else:
        done.set_exception(error)
