"""Functions of the application that a worker calls as it works."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, get_args

from slotq import checks
from slotq.errors import InvalidValue
from slotq.model import State

HookName = Literal["worker_start", "worker_stop", "started", "finished", "failed", "lost"]
HOOK_NAMES: Final[tuple[HookName, ...]] = get_args(HookName)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """What a worker tells of one run of a job.

    Attributes:
        kind: ``started``, ``finished`` (it did not fail: it succeeded, or was cancelled, discarded,
            snoozed or handed back), ``failed`` (this attempt) or ``lost`` (its lease is, so that what
            the body returns will be dropped).
        at: When.
        job: The job's id.
        task: Name of its task.
        queue: Name of its queue.
        key: Its key; None for none.
        attempt: Which attempt it is, from 1.
        max_attempts: Attempts before the job has failed.
        state: The state that the job is in now: after ``failed`` it is ``scheduled`` if it is tried
            again, else ``failed``.
        error: What went wrong, in one line; None if nothing did.
        seconds: How long the body has taken so far; None if it has not begun.
    """

    kind: Literal["started", "finished", "failed", "lost"]
    at: datetime
    job: int
    task: str
    queue: str
    key: str | None
    attempt: int
    max_attempts: int
    state: State
    error: str | None
    seconds: float | None


Hook = Callable[[], object] | Callable[[RunEvent], object]


class Hooks:
    """The functions that an application has registered."""

    def __init__(self) -> None:
        self._registered: defaultdict[str, list[Callable[..., object]]] = defaultdict(list)

    def check(self, name: object) -> str:
        """Return the name of a hook.

        Raises:
            InvalidValue: There is none of this name.
        """
        return checks.choice("hook", name, HOOK_NAMES)

    def add(self, name: object, function: object) -> None:
        """Register a function.

        Raises:
            InvalidValue: There is no such hook, or it is no function.
        """
        known = self.check(name)
        if not callable(function):
            raise InvalidValue(name=f"hook {known}", problem="must be a function", value=function)
        self._registered[known].append(function)

    def of(self, name: HookName) -> list[Callable[..., object]]:
        """Return those of one name, in the order of their registration."""
        return self._registered.get(name, [])
