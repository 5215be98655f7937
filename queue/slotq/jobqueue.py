"""The queue: what a program does with jobs, limits and keys.

Every verb that touches the file has an async twin with an ``a`` before its name. A twin runs the
same function on a thread of the queue's own.
"""

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final, ParamSpec, TypeVar, Unpack, overload

from typing_extensions import override

from slotq import arguments, checks, payload
from slotq.access import Steps, twin
from slotq.batches import Batches
from slotq.bulk import Bulks
from slotq.clock import Clock
from slotq.declaring import Declaring
from slotq.errors import InvalidValue
from slotq.holds import Holds
from slotq.hooks import Hook, HookName, Hooks
from slotq.model import Job
from slotq.options import Options, Settings, settle
from slotq.overview import Overview
from slotq.parameters import Parameters
from slotq.pauses import Pauses
from slotq.policies import Policies
from slotq.store import due, jobs, reads
from slotq.store.jobs import Call, Terms
from slotq.store.transaction import Tx
from slotq.tasks import Task, is_interactive, name_of

P = ParamSpec("P")
R = TypeVar("R")
H = TypeVar("H", bound=Hook)

LARGEST_PAYLOAD: Final = 1_048_576
# What a prune deletes in one transaction, so that others get their turn in between.
PRUNE_BATCH: Final = 500
KEY_BATCH: Final = 1_000


class Queue(Overview, Policies, Pauses, Declaring, Holds, Batches, Bulks):
    """A job queue kept in one SQLite file.

    It is opened at first use, and shared by threads, by asyncio tasks and over fork.

    Args:
        path: The file; None takes ``$SLOTQ_DB``. Made absolute at once.
        durable: Whether what was acknowledged survives a power cut (slower); a killed process
            loses nothing either way.
        create: Whether to make the file when it is not there.
        clock: Where the time is read; for tests.
        max_payload: Most bytes of a job's arguments together, or of its result.
        lock_timeout: Seconds that a write waits for its turn before ``QueueBusy``.
        keep_finished: Seconds or a timedelta after which workers delete finished jobs; None keeps
            them all.

    Raises:
        InvalidValue: There is no path, or an argument is out of its range.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        durable: bool = False,
        create: bool = True,
        clock: Clock | None = None,
        max_payload: int = LARGEST_PAYLOAD,
        lock_timeout: float | timedelta = 5.0,
        keep_finished: float | timedelta | None = 7 * 86_400,
    ) -> None:
        super().__init__(
            path, durable=durable, create=create, clock=clock, lock_timeout=lock_timeout
        )
        self.max_payload = checks.integer("max_payload", max_payload, 2, 2**29)
        self.keep_finished_ms = (
            None if keep_finished is None else arguments.age_ms("keep_finished", keep_finished)
        )
        self.tasks: dict[str, Task[..., object]] = {}
        self.hooks = Hooks()
        self.declarations = {}

    # Tasks

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self, /, *, name: str | None = None, **options: Unpack[Options]
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(
        self,
        function: Callable[P, R] | None = None,
        /,
        *,
        name: str | None = None,
        **options: Unpack[Options],
    ) -> Task[P, R] | Callable[[Callable[P, R]], Task[P, R]]:
        """Register a function as a task: ``@q.task``, or ``@q.task(...)`` with options.

        Args:
            function: The function, sync or async.
            name: Its name in the file, 1 to 200 characters; None for ``module.function``.
            **options: See ``Options``.

        Raises:
            InvalidValue: The name is taken, or an option is not valid.
        """

        def register(function: Callable[P, R]) -> Task[P, R]:
            named = name_of(function, name)
            if named in self.tasks and not is_interactive(function):
                problem = "is registered already: give one of them another name="
                raise InvalidValue(name=f"task {named}", problem=problem)
            parameters = Parameters(function, named)
            settings = settle(Settings(terms=Terms(task=named)), options, parameters)
            task = Task(function, settings, self, parameters)
            self.tasks[named] = task
            return task

        return register if function is None else register(function)

    @overload
    def on(self, hook: HookName, function: H) -> H: ...

    @overload
    def on(self, hook: HookName) -> Callable[[H], H]: ...

    def on(self, hook: HookName, function: H | None = None) -> H | Callable[[H], H]:
        """Have a function called by the workers of this queue: ``@q.on("started")``, or with it.

        ``worker_start`` and ``worker_stop`` are called without arguments, before a worker claims
        and after its last job: the place to open and close what bodies share. ``started``,
        ``finished``, ``failed`` and ``lost`` are called with a ``RunEvent``, beside the work.
        ``async def`` functions run on the worker's event loop, others on one thread, all one after
        another, each for 30 s at most. What they raise is logged and breaks nothing.

        Args:
            hook: One of these names.
            function: The function; it is returned.

        Raises:
            InvalidValue: There is no such hook, or it is no function.
        """

        def register(function: H) -> H:
            self.hooks.add(hook, function)
            return function

        if function is None:
            self.hooks.check(hook)
            return register
        return register(function)

    # Enqueue

    def enqueue(
        self,
        task: str,
        *,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        **options: Unpack[Options],
    ) -> Job:
        """Store a job for a task by its name alone; its function need not be known here.

        So the options of its decorator do not count here, and its arguments are checked by the
        worker: use ``Task.enqueue`` where the function can be imported.

        Args:
            task: Name of the task.
            args: Its positional arguments.
            kwargs: Its named arguments.
            **options: See ``Options``.

        Returns:
            The job; ``is_new`` is False if ``dedupe`` found one that has not ended.

        Raises:
            InvalidValue: The name, an option or an argument is not valid.
            QueueBusy: Others kept the file locked for too long.
            StoreError: The file cannot be used.
        """
        return self.submit(*self._named(task, args, kwargs, options))

    async def aenqueue(
        self,
        task: str,
        *,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        **options: Unpack[Options],
    ) -> Job:
        """Do what ``enqueue`` does, without blocking the event loop."""
        return await self.asubmit(*self._named(task, args, kwargs, options))

    def submit(self, settings: Settings, call: Call) -> Job:
        """Store one checked call; tasks use this."""
        if settings.terms.dedupe is not None and settings.connection is None:
            # A job that has expired has ended, and must not be found.
            self._handle_due()
        return self._write(self._adding(settings, call), settings.connection, makes_room=False)

    async def asubmit(self, settings: Settings, call: Call) -> Job:
        """Store one checked call without blocking the event loop; tasks use this."""
        return await self.hop(lambda: self.submit(settings, call), settings.connection)

    def submit_many(self, settings: Settings, calls: Sequence[Call]) -> list[int]:
        """Store checked calls, all or none; tasks use this."""
        return self._write(_adding_many(settings, calls), settings.connection, makes_room=False)

    async def asubmit_many(self, settings: Settings, calls: Sequence[Call]) -> list[int]:
        """Store checked calls, all or none, without blocking the loop; tasks use this."""
        return await self.hop(lambda: self.submit_many(settings, calls), settings.connection)

    # Acting on jobs

    def cancel(self, job_id: int) -> bool:
        """Cancel a job at once, or ask for its end if it runs.

        An async body is cancelled; one in a thread sees it in ``current_job().cancelled``. The job
        is ``cancelled`` when its body has ended, whatever that returned.

        Returns:
            Whether it is cancelled or will be; False if the job had ended before.

        Raises:
            JobNotFound: There is none with this id.
            InvalidValue: The id is not valid.
        """
        return self._act(jobs.cancel, job_id)

    def retry(self, job_id: int) -> None:
        """Put a failed or cancelled job in line again, under its id and with all its attempts.

        Raises:
            JobNotFound: There is none with this id.
            InvalidValue: It is in another state, its ``dedupe`` value is in use, or the id is not
                valid.
        """
        self._act(jobs.retry, job_id)

    def delete(self, job_id: int) -> None:
        """Delete a job and all that is known of it; starts that it made still count.

        Raises:
            JobNotFound: There is none with this id.
            InvalidValue: It is running, or the id is not valid.
        """
        self._act(jobs.delete, job_id)

    def prune(self, *, older_than: float | timedelta = 0) -> int:
        """Delete finished jobs, and forget keys with nothing to remember.

        Args:
            older_than: Only jobs that ended at least this many seconds, or this timedelta, ago.

        Returns:
            How many jobs were deleted.

        Raises:
            InvalidValue: The age is out of its range.
        """
        return self._write_steps(_prune_steps(older_than))

    async def aprune(self, *, older_than: float | timedelta = 0) -> int:
        """Do what ``prune`` does, without blocking the event loop or other calls of this queue."""
        return await self._awrite_steps(_prune_steps(older_than))

    acancel = twin(cancel)
    aretry = twin(retry)
    adelete = twin(delete)

    @override
    def _decoded(self, job: Job) -> object:
        task = self.tasks.get(job.task)
        return job.result if task is None else task.parameters.convert_result(job.result)

    def _named(
        self,
        task: str,
        args: Sequence[object],
        kwargs: Mapping[str, object] | None,
        options: Options,
    ) -> tuple[Settings, Call]:
        terms = Terms(task=checks.text("task", task))
        settings = settle(Settings(terms=terms), options)
        named: Mapping[str, object] = {} if kwargs is None else kwargs
        texts = payload.encode_args(args, named, max_bytes=self.max_payload)
        return settings, Call(*texts, settings.key_for(dict))

    def _act(self, verb: Callable[[Tx, int], R], job_id: object) -> R:
        """Do something to a job, as it stands when what has fallen due is handled.

        The job of a dead worker, say, no longer runs once its lease has lapsed, though no other
        worker is there to notice.
        """
        wanted = arguments.job_id(job_id)
        self._handle_due()

        def act(tx: Tx) -> R:
            due.handle_due(tx)
            return verb(tx, wanted)

        return self._write(act)

    def _adding(self, settings: Settings, call: Call) -> Callable[[Tx], Job]:
        def add(tx: Tx) -> Job:
            if settings.terms.dedupe is not None:
                due.handle_due(tx)
            job_id, is_new = jobs.add(tx, settings.terms, call)
            return reads.job(tx, job_id, self, is_new=is_new)

        return add


def _adding_many(settings: Settings, calls: Sequence[Call]) -> Callable[[Tx], list[int]]:
    if settings.terms.dedupe is not None:
        problem = "is for one job: enqueue_many cannot take it"
        raise InvalidValue(name="dedupe", problem=problem)
    return lambda tx: list(jobs.add_many(tx, settings.terms, calls))


def _prune_steps(older_than: object) -> Steps:
    age_ms = arguments.age_ms("older_than", older_than)

    def steps() -> Steps:
        # One bound for the whole call: jobs go on ending while it works.
        before = (yield lambda tx: tx.now) - age_ms
        deleted = 0
        batch = PRUNE_BATCH
        while batch == PRUNE_BATCH:
            batch = yield lambda tx: jobs.prune(tx, before, PRUNE_BATCH)
            deleted += batch
        place = yield functools.partial(_prune_keys, after=0)
        while place:
            place = yield functools.partial(_prune_keys, after=place)
        return deleted

    return steps()


def _prune_keys(tx: Tx, after: int) -> int:
    return jobs.prune_keys(tx, after, KEY_BATCH) or 0
