"""Workers that serve for the length of a block, and what to wait for meanwhile."""

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from slotq import Queue, QueueBusy, Worker
from support.procs import PATIENCE_S, Process, until


def has_succeeded(queue: Queue, count: int) -> Callable[[], bool]:
    """Return a look at whether so many jobs have succeeded, or more."""
    return lambda: queue.stats().succeeded >= count


def has_running(queue: Queue, count: int) -> Callable[[], bool]:
    """Return a look at whether so many jobs are running."""
    return lambda: queue.stats().running == count


def has_passed(seconds: float) -> Callable[[], bool]:
    """Return a look at whether so much time has passed from now on."""
    end_s = time.monotonic() + seconds
    return lambda: time.monotonic() > end_s


def count_commits(path: Path, seconds: float) -> int:
    """Return how often a file was written to in so many seconds, as far as looks can tell apart."""
    over, seen = has_passed(seconds), 0
    with contextlib.closing(sqlite3.connect(path)) as connection:

        def version() -> int:
            # It moves by one between two looks, however much was committed.
            return int(connection.execute("PRAGMA data_version").fetchone()[0])

        last = version()

        def is_over() -> bool:
            nonlocal last, seen
            now = version()
            seen += now != last
            last = now
            return over()

        until(is_over, patience_s=seconds + PATIENCE_S)
    return seen


@asynccontextmanager
async def serving(*workers: Worker) -> AsyncGenerator[None]:
    """Serve in this event loop; at the end of the block wait for the bodies that run."""
    tasks = [asyncio.create_task(worker.serve()) for worker in workers]
    try:
        yield
    finally:
        for worker in workers:
            worker.stop()
        await asyncio.gather(*tasks)


@contextmanager
def serving_in_thread(worker: Worker) -> Generator[threading.Thread]:
    """Serve in an event loop of its own, which bodies may block; wait for them at the end."""
    errors: list[BaseException] = []

    def serve() -> None:
        try:
            asyncio.run(worker.serve())
        except BaseException as error:  # noqa: BLE001  # raised below, in the test's own thread
            errors.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield thread
    finally:
        worker.stop()
        until(lambda: not thread.is_alive(), what="the worker's end")
    if errors:
        raise errors[0]


def stop_between_writes(process: Process, path: Path) -> None:
    """Freeze a worker at a moment at which it keeps nobody from writing to the file."""
    with Queue(path, create=False, lock_timeout=0.5) as queue:

        def is_frozen() -> bool:
            process.stop()
            try:
                queue.clear_limit("a key without a limit")
            except QueueBusy:
                process.go_on()
                return False
            return True

        until(is_frozen, what="a stop between writes")
