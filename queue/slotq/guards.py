"""What keeps bodies on an event loop from harming the worker, and from leaving work behind."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import ParamSpec, TypeVar

from typing_extensions import override

from slotq.current import Run, run_here

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class BodyExit(BaseException):
    """SystemExit or KeyboardInterrupt of a task that a body made; its cause is that error.

    Those two would leave the event loop at once, and take every job in it along.
    """


class _Guarded(Coroutine[object, object, T_co]):
    """A coroutine that cannot end the event loop."""

    def __init__(self, coroutine: Coroutine[object, object, T_co]) -> None:
        self._coroutine = coroutine

    @override
    def send(self, value: object, /) -> object:
        try:
            return self._coroutine.send(value)
        except (SystemExit, KeyboardInterrupt) as error:
            raise BodyExit from error

    @override
    def throw(
        self,
        kind: type[BaseException] | BaseException,
        value: object = None,
        story: TracebackType | None = None,
        /,
    ) -> object:
        try:
            if isinstance(kind, BaseException):
                return self._coroutine.throw(kind)
            return self._coroutine.throw(kind, value, story)
        except (SystemExit, KeyboardInterrupt) as error:
            raise BodyExit from error

    @override
    def close(self) -> None:
        self._coroutine.close()

    @override
    def __await__(self) -> Generator[object, object, T_co]:
        return self._coroutine.__await__()


def guarded_task(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[object, object, T] | Generator[object, None, T],
    **options: object,
) -> "asyncio.Task[T]":
    """Make a task, one that cannot end the loop if a body makes it; a task factory of asyncio."""
    if run_here() is not None and isinstance(coroutine, Coroutine):
        coroutine = _Guarded(coroutine)
    return asyncio.Task(coroutine, loop=loop, **options)  # type: ignore[arg-type]  # as they came


class BodyThreads(ThreadPoolExecutor):
    """Threads of the event loop, as ``asyncio.to_thread`` takes them, that know whose they are.

    A body that is cancelled leaves such a call behind, and its slot must not be given on before
    that has ended.
    """

    @override
    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        future = super().submit(fn, *args, **kwargs)
        run = run_here()
        if run is not None:
            run.calls.add(future)  # type: ignore[arg-type]  # what it returns is not looked at
            future.add_done_callback(run.calls.discard)
        return future


async def outlast_calls(run: Run) -> None:
    """Wait for calls in threads that a body has left behind, whatever is cancelled meanwhile."""
    while calls := [call for call in tuple(run.calls) if not call.cancel()]:
        ended = [asyncio.wrap_future(call) for call in calls]
        try:
            await asyncio.wait(ended)
        except asyncio.CancelledError:
            continue


def end_fork(pid: int, error: BaseException | None) -> None:
    """End this process, if it is a child that a body forked: it has run past the body's end.

    Args:
        pid: The process that the body began in.
        error: What ended the body; None if it returned.
    """
    if os.getpid() == pid:
        return
    code = error.code if isinstance(error, SystemExit) else int(error is not None)
    os._exit(code if isinstance(code, int) else int(code is not None))
