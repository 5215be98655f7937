"""Running the body of a job, and how its run ended."""

import asyncio
import inspect
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Final

from slotq import payload
from slotq.errors import InvalidValue
from slotq.store.claims import Claim
from slotq.store.leases import End, Failure, HandBack, Outcome, Success
from slotq.tasks import Task

MOST_ERROR: Final = 2_000
MOST_TRACEBACK: Final = 50_000


class Body:
    """One run of one job."""

    def __init__(
        self, claim: Claim, tasks: Mapping[str, Task[..., object]], max_bytes: int
    ) -> None:
        self._claim = claim
        self._task = tasks[claim.task]
        self._max_bytes = max_bytes

    @property
    def is_async(self) -> bool:
        """Whether it runs on the event loop."""
        return self._task.is_async

    def outcome(self, end: End) -> Outcome:
        """Return what to write for this way to end."""
        claim = self._claim
        return Outcome(claim.id, claim.token, claim.attempt, claim.max_attempts, end)

    def run(self) -> End:
        """Run it in this thread.

        A thread cannot be ended from outside: a body over its time keeps its slot until it
        returns, and has failed then, whatever it returned.
        """
        began_s = time.monotonic()
        try:
            args, kwargs = self._arguments()
            result = self._task.function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001  # SystemExit ends the job, not the worker
            return self._late(error) if self._is_late(began_s) else failure(error)
        return self._late() if self._is_late(began_s) else self._success(result)

    async def arun(self, is_cancelled: Callable[[], bool]) -> End:
        """Run it on the event loop, until its time is over.

        Args:
            is_cancelled: Tells whether it is the whole worker that is being cancelled.
        """
        timeout_ms = self._claim.timeout_ms
        limit = asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000)
        began_s = time.monotonic()
        try:
            async with limit:
                args, kwargs = self._arguments()
                call = self._task.function(*args, **kwargs)
                result = await call if inspect.isawaitable(call) else call
        except GeneratorExit:
            raise  # the loop is gone, and nobody is there to be told
        except BaseException as error:  # noqa: BLE001  # as above
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                return HandBack()  # nobody's fault
            is_late = limit.expired() or self._is_late(began_s)
            return self._late(error) if is_late else failure(error)
        # A body may swallow its cancellation, or block the loop for so long that nobody could
        # cancel it.
        return self._late() if self._is_late(began_s) else self._success(result)

    def _arguments(self) -> tuple[list[object], dict[str, object]]:
        call = payload.decode_args(self._claim.args, self._claim.kwargs)
        self._task.parameters.check(*call)
        return self._task.parameters.convert(*call)

    def _success(self, result: object) -> End:
        if inspect.iscoroutine(result):
            result.close()
            problem = "the function returned a coroutine that nobody awaits: register an async def"
            return Failure(error=problem, traceback=None, final=True)
        if not self._claim.store_result:
            return Success(None)
        try:
            return Success(payload.encode_result(result, max_bytes=self._max_bytes))
        except InvalidValue as error:
            # The work is done, and doing it again would end the same way.
            line = _storable(f"the result cannot be stored: {error}", MOST_ERROR)
            return Failure(error=line, traceback=None, final=True)
        except Exception as error:  # noqa: BLE001  # its own code, called while it is written
            return failure(error)

    def _is_late(self, began_s: float) -> bool:
        timeout_ms = self._claim.timeout_ms
        return timeout_ms is not None and (time.monotonic() - began_s) * 1000 > timeout_ms

    def _late(self, error: BaseException | None = None) -> Failure:
        line = f"timeout after {(self._claim.timeout_ms or 0) / 1000:g} s"
        return Failure(error=line, traceback=None if error is None else failure(error).traceback)


def failure(error: BaseException) -> Failure:
    """Return how a run failed, in text that can always be stored, whatever the error does."""
    kind = type(error).__qualname__
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001  # its own __str__ may do anything
        text = "(its text cannot be read)"
    try:
        story = "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001
        story = kind
    line = " ".join(f"{kind}: {text[:MOST_ERROR]}".split()) if text else kind
    return Failure(error=_storable(line, MOST_ERROR), traceback=_storable(story, MOST_TRACEBACK))


def _storable(text: str, most: int) -> str:
    """Return text without what SQLite cannot keep, with its middle left out if it is long."""
    if len(text) > most:
        half = most // 2 - 3
        text = f"{text[:half]} ... {text[-half:]}"
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
