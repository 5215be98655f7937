"""Tasks: registered functions, and calls of them as they are stored."""

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Generic, ParamSpec, Protocol, TypeGuard, TypeVar, Unpack

from typing_extensions import override

from slotq import checks, payload
from slotq.errors import InvalidValue
from slotq.model import Job
from slotq.options import Options, Settings, settle
from slotq.parameters import Parameters
from slotq.store.jobs import Call

if TYPE_CHECKING:
    from types import ModuleType

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class Enqueuer(Protocol):
    """What a task needs of its queue."""

    max_payload: int

    def submit(self, settings: Settings, call: Call) -> Job:
        """Store one job."""
        ...

    async def asubmit(self, settings: Settings, call: Call) -> Job:
        """Store one job without blocking the event loop."""
        ...

    def submit_many(self, settings: Settings, calls: Sequence[Call]) -> list[int]:
        """Store jobs, all or none."""
        ...

    async def asubmit_many(self, settings: Settings, calls: Sequence[Call]) -> list[int]:
        """Store jobs, all or none, without blocking the event loop."""
        ...


class Task(Generic[P, R_co]):
    """A registered function; calling it runs it here and now, ``enqueue`` makes a job of it.

    Attributes:
        name: The name that its jobs carry.
        function: The function itself.
        is_async: Whether it is an ``async def``.
    """

    def __init__(
        self,
        function: Callable[P, R_co],
        settings: Settings,
        queue: Enqueuer,
        parameters: Parameters,
    ) -> None:
        # For help() and inspect.signature(); with what was set on the function left on it.
        functools.update_wrapper(self, function, updated=())
        self._within: str = getattr(function, "__qualname__", settings.terms.task)
        self.name = settings.terms.task
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function)
        self.parameters = parameters
        self.retry_on = settings.retry_on
        self.backoff = settings.backoff
        self._settings = settings
        self._queue = queue

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the function here and now; no job, no limit."""
        return self.function(*args, **kwargs)

    @override
    def __reduce__(self) -> str:
        # By reference, like any function: the module's name for it is this task.
        return self._within

    @override
    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def options(self, **options: Unpack[Options]) -> "Task[P, R_co]":
        """Return the task with other options; see ``Options``.

        Raises:
            InvalidValue: An option is unknown, of a wrong type or out of range.
        """
        settings = settle(self._settings, options)
        return Task(self.function, settings, self._queue, self.parameters)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Store a call of the function as a job.

        Returns:
            The job; ``is_new`` is False if ``dedupe`` found one that has not ended.

        Raises:
            InvalidValue: The arguments do not fit the function, or cannot be stored.
            QueueBusy: Others kept the file locked for too long.
            StoreError: The file cannot be used.
        """
        return self._queue.submit(self._settings, self._call(args, kwargs))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Store a call like ``enqueue``, without blocking the event loop."""
        return await self._queue.asubmit(self._settings, self._call(args, kwargs))

    def enqueue_many(self, calls: Iterable[Sequence[object] | Mapping[str, object]]) -> list[int]:
        """Store many calls in one transaction: all of them, or with one bad item none.

        Args:
            calls: For each job a tuple or list of positional arguments, or a dict of named ones.

        Returns:
            The ids of the jobs, in the order given.

        Raises:
            InvalidValue: As ``enqueue``, naming the item; or ``dedupe`` is set.
        """
        return self._queue.submit_many(self._settings, self._calls(calls))

    async def aenqueue_many(
        self, calls: Iterable[Sequence[object] | Mapping[str, object]]
    ) -> list[int]:
        """Store many calls like ``enqueue_many``, without blocking the event loop."""
        return await self._queue.asubmit_many(self._settings, self._calls(calls))

    def _calls(self, calls: object) -> list[Call]:
        if not _is_iterable(calls):
            raise InvalidValue(name="calls", problem="must be calls, one for each job", value=calls)
        made: list[Call] = []
        for place, item in enumerate(calls):
            try:
                made.append(self._call(*_arguments(item)))
            except InvalidValue as error:
                raise InvalidValue(name=f"item {place}:", problem=str(error)) from error
        return made

    def _call(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Call:
        parameters = self.parameters
        try:
            parameters.check(args, kwargs)
        except InvalidValue as error:
            options = sorted(kwargs.keys() & Options.__annotations__.keys() - parameters.names)
            if not options:
                raise
            given = ", ".join(f"{name}=..." for name in options)
            problem = f"{error.problem}; options go before: .options({given}).enqueue(...)"
            raise InvalidValue(name=error.name, problem=problem) from None
        texts = payload.encode_args(args, kwargs, max_bytes=self._queue.max_payload)
        if not parameters.fits(args, kwargs):
            # What the body will get. A key is made of that, so that a value has one key, however
            # it was given.
            args, kwargs = parameters.convert(*payload.decode_args(*texts))
        key = self._settings.key_for(lambda: parameters.values(args, kwargs))
        return Call(*texts, key)


def _arguments(item: object) -> tuple[Sequence[object], Mapping[str, object]]:
    """Return the arguments of one item of ``enqueue_many``."""
    if _is_mapping(item):
        return (), dict(item)
    if _is_sequence(item):
        return item, {}
    problem = "must be a tuple or list of arguments, or a dict of named ones"
    raise InvalidValue(name="it", problem=problem, value=item)


def _is_iterable(value: object) -> TypeGuard[Iterable[object]]:
    return isinstance(value, Iterable)


def _is_mapping(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, Mapping)  # that its names are texts is checked with the call


def _is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, (tuple, list))


def name_of(function: object, name: object = None) -> str:
    """Return the name of a task: ``module.function``, unless it is given one.

    A script's own functions carry the name of its file, so that a job enqueued by
    ``python app.py`` is known to ``qworker run app:q``.

    Raises:
        InvalidValue: It can be no task, or the name is not valid.
    """
    if not callable(function):
        raise InvalidValue(name="task", problem="must be a function", value=function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        problem = "must not yield: what a task returns is one value"
        raise InvalidValue(name="task", problem=problem, value=function)
    if name is not None:
        return checks.text("name", name)
    module: str | None = getattr(function, "__module__", None)
    within: str | None = getattr(function, "__qualname__", None)
    if module is None or within is None:
        raise InvalidValue(name="task", problem="has no name: pass name=", value=function)
    if module == "__main__":
        module = _name_of_main()
    # The same whether a package is run or its __main__ imported.
    module = module.removesuffix(".__main__")
    return checks.text("name", f"{module}.{within}".replace("<locals>.", ""))


def is_interactive(function: object) -> bool:
    """Tell whether a function was typed at a prompt, where it may be typed again."""
    main = sys.modules["__main__"]
    typed: str | None = getattr(function, "__module__", None)
    return typed == "__main__" and main.__spec__ is None and not hasattr(main, "__file__")


def _name_of_main() -> str:
    main: ModuleType = sys.modules["__main__"]
    if main.__spec__ is not None:
        return main.__spec__.name
    file: str | None = getattr(main, "__file__", None)
    return "__main__" if file is None else Path(file).stem
