"""Running the body of a job, and how its run ended."""

import asyncio
import inspect
import logging
import os
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Final

from slotq import backoff, payload
from slotq.checks import LONGEST_MS, fitted
from slotq.current import Run
from slotq.endings import Discard, Retry, Snooze
from slotq.errors import InvalidValue, LimitExceeded, one_line, told
from slotq.guards import BodyExit, end_fork, outlast_calls
from slotq.store.leases import Cancelled, End, Failure, HandBack, Success
from slotq.tasks import Task

logger = logging.getLogger("slotq.worker")

MOST_ERROR: Final = 2_000
MOST_TRACEBACK: Final = 50_000


class Body:
    """The function of one run, and how it ends.

    Attributes:
        run: The run.
    """

    def __init__(self, run: Run, tasks: Mapping[str, Task[..., object]], max_bytes: int) -> None:
        self.run = run
        self._task = tasks[run.claim.task]
        self._max_bytes = max_bytes
        self._taken = threading.Lock()

    def take(self) -> bool:
        """Tell whether it is the caller who sees to it; True once."""
        return self._taken.acquire(blocking=False)

    @property
    def is_async(self) -> bool:
        """Whether it runs on the event loop."""
        return self._task.is_async

    def call(self) -> End:
        """Run it in this thread.

        A thread cannot be ended from outside: a body over its time keeps its slot until it
        returns, and has failed then, whatever it returned.
        """
        if self.run.cancelled:
            return Cancelled()  # asked for before its first step
        pid = os.getpid()
        self.run.begin()
        try:
            args, kwargs = self._arguments()
            result = self._task.function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001  # SystemExit ends the job, not the worker
            end_fork(pid, error)
            return self._ended_by(error, is_late=self.run.is_overdue)
        end_fork(pid, None)
        return self._returned(result)

    async def acall(self, is_leaving: Callable[[], bool]) -> End:
        """Run it on the event loop, until its time is over.

        Args:
            is_leaving: Tells whether it is the whole worker that is being cancelled.
        """
        if self.run.cancelled:
            return Cancelled()
        pid = os.getpid()
        self.run.begin()
        timeout_ms = self.run.claim.timeout_ms
        limit = asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000)
        try:
            async with limit:
                args, kwargs = self._arguments()
                call = self._task.function(*args, **kwargs)
                result = await call if inspect.isawaitable(call) else call
        except GeneratorExit:
            raise  # the loop is gone, and nobody is there to be told
        except BaseException as error:  # noqa: BLE001  # as above
            end_fork(pid, error)
            if is_leaving() and self._is_handed_back(error):
                end: End = HandBack()  # nobody's fault
            else:
                is_late = limit.expired() or self.run.is_overdue
                end = self._ended_by(error, is_late=is_late)
            if self.run.calls:
                await outlast_calls(self.run)
            return end
        end_fork(pid, None)
        if self.run.calls:
            await outlast_calls(self.run)
        # A body may swallow its cancellation, or block the loop for so long that nobody could
        # cancel it.
        return self._returned(result)

    def _is_handed_back(self, error: BaseException) -> bool:
        """Tell whether a coroutine ends because its task was cancelled, whatever it made of that."""
        task = asyncio.current_task()
        is_cancel = isinstance(error, asyncio.CancelledError)
        return not self.run.cancelled and (
            is_cancel or (task is not None and task.cancelling() > 0)
        )

    def _arguments(self) -> tuple[list[object], dict[str, object]]:
        claim = self.run.claim
        call = payload.decode_args(claim.args, claim.kwargs)
        self._task.parameters.check(*call)
        return self._task.parameters.convert(*call)

    def _returned(self, result: object) -> End:
        if inspect.iscoroutine(result):
            result.close()
            problem = "the function returned a coroutine that nobody awaits: register an async def"
            return Failure(error=problem, traceback=None)
        if self.run.cancelled:
            return Cancelled()
        return self._late(None) if self.run.is_overdue else self._kept(result)

    def _kept(self, result: object) -> End:
        if not self.run.claim.store_result:
            return Success(None)
        try:
            return Success(payload.encode_result(result, max_bytes=self._max_bytes))
        except InvalidValue as error:
            # The work is done, and doing it again would end the same way.
            line = fitted(f"the result cannot be stored: {error}", MOST_ERROR)
            return Failure(error=line, traceback=None)
        except BaseException as error:  # noqa: BLE001  # its own code, called while it is written
            return self._failed(error, type(error))

    def _ended_by(self, error: BaseException, *, is_late: bool) -> End:
        if self.run.cancelled:
            return Cancelled()
        if isinstance(error, BodyExit) and error.__cause__ is not None:
            error = error.__cause__
        if is_late:
            return self._late(error)
        if isinstance(error, LimitExceeded) and not error.is_own:
            error = Snooze(error.retry_after)
        match error:
            case Discard():
                return Cancelled(fitted(told(error).partition(": ")[2] or "discarded", MOST_ERROR))
            case Snooze(delay_ms=delay_ms) if _is_delay(delay_ms):
                return HandBack(delay_ms)
            case Retry(delay_ms=delay_ms) if delay_ms is None or _is_delay(delay_ms):
                again_ms = None if self.run.is_last else self._backoff_ms(delay_ms)
                return failure(error.__cause__ or error, again_ms)
            case _:
                return self._failed(error, type(error))

    def _failed(self, error: BaseException, kind: type[BaseException]) -> Failure:
        return failure(error, self._again_ms(kind))

    def _late(self, error: BaseException | None) -> Failure:
        line = f"timeout after {(self.run.claim.timeout_ms or 0) / 1000:g} s"
        story = None if error is None else failure(error, None).traceback
        return Failure(line, story, self._again_ms(TimeoutError))

    def _again_ms(self, kind: type[BaseException]) -> int | None:
        retry_on = self._task.retry_on
        if self.run.is_last or (retry_on is not None and not issubclass(kind, retry_on)):
            return None
        return self._backoff_ms(None)

    def _backoff_ms(self, asked_ms: int | None) -> int:
        attempt = self.run.claim.attempt
        if asked_ms is not None:
            return asked_ms
        if self._task.backoff is not None:
            try:
                return self._task.backoff(attempt)
            except BaseException as error:  # noqa: BLE001  # the task's own function
                logger.warning(
                    "job %d: the backoff of %s is of no use (%s): the usual one is taken",
                    self.run.claim.id, one_line(self.run.claim.task), one_line(told(error)),
                    extra=self.run.log_extra,
                )  # fmt: skip
        return backoff.usual(attempt)


def _is_delay(value: object) -> bool:
    """Tell whether a delay can be stored: a subclass of the program's may hold anything."""
    return type(value) is int and 0 <= value <= LONGEST_MS


def failure(error: BaseException, again_ms: int | None) -> Failure:
    """Return how a run failed, in text that can always be stored, whatever the error does."""
    try:
        story = "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001
        story = type(error).__qualname__
    line = told(error, high=MOST_ERROR)
    return Failure(fitted(line, MOST_ERROR), fitted(story, MOST_TRACEBACK), again_ms)
