"""One queue file as the verbs reach it: read, written, and off the event loop."""

import functools
import os
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, Self, TypeVar

from typing_extensions import override

from slotq import checks
from slotq.clock import Clock, SystemClock
from slotq.errors import InvalidValue
from slotq.store import callers, holds
from slotq.store.connection import Database
from slotq.store.transaction import Reader, Tx
from slotq.wake import Ringer

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A", bound="Access")

PATH_CHARACTERS: Final = 4_096

Steps = Generator[Callable[[Tx], int], int, int]
"""Work of several transactions: each is yielded, and its result sent back."""


class Access:
    """The file behind a ``Queue``; opened at first use, shared by threads and over fork."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        *,
        durable: bool,
        create: bool,
        clock: Clock | None,
        lock_timeout: float | timedelta,
    ) -> None:
        lock_ms = checks.seconds_ms("lock_timeout", lock_timeout, low_ms=1, high_ms=86_400_000)
        self.database = Database(
            file_of(path),
            clock=SystemClock() if clock is None else clock_of(clock),
            create=checks.boolean("create", create),
            durable=checks.boolean("durable", durable),
            lock_timeout_s=lock_ms / 1000,
        )
        self.ringer = Ringer(self.database.directory)
        self._thread: tuple[int, ThreadPoolExecutor] | None = None

    @property
    def path(self) -> Path:
        """The file, absolute."""
        return self.database.path

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        thread = self._take_thread()
        if thread is not None:
            thread.shutdown()
        self._release()

    async def aclose(self) -> None:
        """Do what ``close`` does, without blocking the event loop."""
        await self.hop(self._release)
        thread = self._take_thread()
        if thread is not None:
            thread.shutdown(wait=False)

    def now_ms(self) -> int:
        """Return the time of the queue's clock, in milliseconds since 1970 UTC."""
        return self.database.clock.now_ms()

    def _release(self) -> None:
        self.ringer.close()
        self.database.close()

    def _take_thread(self) -> ThreadPoolExecutor | None:
        taken, self._thread = self._thread, None
        return taken[1] if taken is not None and taken[0] == os.getpid() else None

    def _read(self, look: Callable[[Reader], R]) -> R:
        with self.database.read() as reader:
            return look(reader)

    def _write(
        self, work: Callable[[Tx], R], connection: object = None, *, makes_room: bool = True
    ) -> R:
        """Do the work in one transaction, and wake idle workers: it may have made room or jobs.

        Those who wait for room are woken only if it may have made some.

        In a caller's transaction nobody is woken, since nothing is there before the caller
        commits; workers notice that commit at their next look.
        """
        if connection is not None:
            return callers.run(self.database, connection, work)
        with self.database.write() as tx:
            done = work(tx)
            bells = holds.bells(tx) if makes_room else ()
        self.ringer.ring()
        self.ringer.ring_waiting(bells)
        return done

    def _write_steps(self, steps: Steps) -> int:
        """Do work of several transactions, with a turn for others between them."""
        try:
            work = next(steps)
            while True:
                work = steps.send(self._write(work))
        except StopIteration as end:
            return int(end.value)

    async def _awrite_steps(self, steps: Steps) -> int:
        try:
            work = next(steps)
            while True:
                work = steps.send(await self.hop(functools.partial(self._write, work)))
        except StopIteration as end:
            return int(end.value)

    async def hop(self, call: Callable[[], R], connection: object = None) -> R:
        """Call on the queue's own thread: the loop's pool may be full of slow functions.

        With a connection of the caller's, call on the thread that it belongs to.
        """
        if callers.is_async(connection):
            return await callers.hop(connection, call)
        if connection is not None:
            return call()
        # Loaded where there is a loop; see callers.is_async.
        import asyncio  # noqa: PLC0415

        return await asyncio.get_running_loop().run_in_executor(self._own_thread(), call)

    async def hop_to_end(self, call: Callable[[], R], connection: object = None) -> R:
        """Call like ``hop``; a cancellation meanwhile is raised only when the call has ended."""
        import asyncio  # noqa: PLC0415

        running: asyncio.Future[R]
        if connection is None:
            # Not a task: a loop that ends would cancel it before the call has begun.
            running = asyncio.wrap_future(self._own_thread().submit(call))
        else:
            running = asyncio.ensure_future(self.hop(call, connection))
        cancelled: asyncio.CancelledError | None = None
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None and not running.cancelled():
            running.exception()  # is looked at, or asyncio would complain
            raise cancelled
        return running.result()

    def _own_thread(self) -> ThreadPoolExecutor:
        pid = os.getpid()
        if self._thread is None or self._thread[0] != pid:  # a forked child has no such thread
            self._thread = (pid, ThreadPoolExecutor(1, thread_name_prefix="slotq-call"))
        return self._thread[1]


def twin(
    function: Callable[Concatenate[A, P], R],
) -> Callable[Concatenate[A, P], Coroutine[object, object, R]]:
    """Return the async twin of a verb."""

    @functools.wraps(function)
    async def call(self: A, /, *args: P.args, **kwargs: P.kwargs) -> R:
        work = functools.partial(function, self, *args, **kwargs)
        return await self.hop(work, kwargs.get("connection"))

    call.__name__ = f"a{function.__name__}"
    call.__doc__ = f"Do what ``{function.__name__}`` does, without blocking the event loop."
    return call


def file_of(path: str | os.PathLike[str] | None) -> Path:
    """Return the queue file that is meant: None stands for ``$SLOTQ_DB``."""
    given = os.environ.get("SLOTQ_DB") if path is None else path
    if given is None or given == "":
        raise InvalidValue(name="path", problem="is missing: give one, or set SLOTQ_DB")
    try:
        text = checks.text("path", os.fspath(given), high=PATH_CHARACTERS)
    except TypeError as error:
        problem = "must be the path of a file"
        raise InvalidValue(name="path", problem=problem, value=given) from error
    if text == ":memory:":
        problem = "must be a file: nobody else could see a queue in memory"
        raise InvalidValue(name="path", problem=problem, value=given)
    return Path(text)


def clock_of(clock: object) -> Clock:
    """Return a clock that somebody gave."""
    if not isinstance(clock, Clock):
        raise InvalidValue(name="clock", problem="must have a now_ms()", value=clock)
    return clock
