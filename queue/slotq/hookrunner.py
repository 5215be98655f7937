"""The hooks of an application as a worker calls them.

They run beside the worker, one after another: nothing waits for them but the beginning and the end
of its shift, and whatever they do is logged and forgotten.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Literal

from slotq.errors import one_line
from slotq.hooks import HookName, Hooks, RunEvent

logger = logging.getLogger("slotq.worker")

# A function that takes longer is left to itself, and the next one called.
LONGEST_S: Final = 30.0
# Events that wait to be told; more are dropped, or a slow function would fill the memory.
MOST_WAITING: Final = 10_000


class HookRunner:
    """Calls the hooks of one worker, in its event loop and on a thread of their own.

    Args:
        hooks: Those of the queue.
    """

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Queue[RunEvent | None] = asyncio.Queue()
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="slotq-hook")
        self._teller = self._loop.create_task(self._tell_all())
        self._dropped = 0
        self._is_closed = False

    def wants(self, name: HookName) -> bool:
        """Tell whether anybody listens."""
        return bool(self._hooks.of(name))

    def tell(self, event: RunEvent) -> None:
        """Have the functions called for an event, soon; from any thread."""
        self._loop.call_soon_threadsafe(self._take, event)

    async def call(self, name: Literal["worker_start", "worker_stop"]) -> None:
        """Call the functions for a beginning or an end, and wait for them."""
        for function in self._hooks.of(name):
            await self._call(name, function)

    async def close(self, *, patience_s: float) -> None:
        """Call what waits, then the functions for the end; each for no longer than this. Once."""
        if self._is_closed:
            return
        self._is_closed = True
        self._waiting.put_nowait(None)
        try:
            await self._finish(self._teller, patience_s)
            await self._finish(self.call("worker_stop"), patience_s)
        finally:
            self._teller.cancel()
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _finish(self, calls: Awaitable[None], patience_s: float) -> None:
        try:
            async with asyncio.timeout(patience_s):
                await calls
        except TimeoutError:
            logger.warning("hooks took longer than %g s, and are left to themselves", patience_s)
            self._renew_thread()

    def _take(self, event: RunEvent) -> None:
        if self._waiting.qsize() < MOST_WAITING:
            self._waiting.put_nowait(event)
            return
        if not self._dropped:
            logger.warning("hooks are too slow: %d events wait, more are dropped", MOST_WAITING)
        self._dropped += 1

    async def _tell_all(self) -> None:
        while (event := await self._waiting.get()) is not None:
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
                    done = await self._loop.run_in_executor(self._threads, function, *arguments)
                    if inspect.isawaitable(done):
                        await _wait_for(done)
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
            line = one_line(f"{type(error).__qualname__}: {error}")
            logger.warning("hook %s failed: %s", name, line, exc_info=error)

    def _renew_thread(self) -> None:
        self._threads.shutdown(wait=False)
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="slotq-hook")


async def _wait_for(done: Awaitable[object]) -> None:
    await done
