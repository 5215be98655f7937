"""Live values for the shell's completion.

What is offered is a help and nothing else: it creates no file, says nothing of what is wrong,
and takes no more than a bounded number of values.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import typer

from slotq_app.cli.filters import State

if TYPE_CHECKING:
    import slotq

MOST: Final = 200
"""How many values of a kind are looked at: shells ask before they show more than a screenful."""
LOOK_S: Final = 0.3
"""How long a look waits for its turn, in seconds."""


class _Context(Protocol):
    """What a command line has told so far, for a command or for a group that it is in."""

    @property
    def params(self) -> Mapping[str, object]: ...

    @property
    def parent(self) -> "_Context | None": ...


def keys(context: typer.Context, incomplete: str) -> list[str]:
    """Return keys, the busiest first."""
    return _offered(context, incomplete, lambda q: (key.key for key in q.keys(limit=MOST)))


def queues(context: typer.Context, incomplete: str) -> list[str]:
    """Return names of queues."""
    return _offered(context, incomplete, lambda q: (queue.name for queue in q.queues()))


def tasks(context: typer.Context, incomplete: str) -> list[str]:
    """Return names of tasks: those that workers know, and those of jobs."""
    return _offered(context, incomplete, _tasks)


def limits(context: typer.Context, incomplete: str) -> list[str]:
    """Return keys and patterns that have limits."""
    return _offered(context, incomplete, lambda q: (limit.key for limit in q.limits() if limit.key))


def limit_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of limits."""
    return _offered(context, incomplete, lambda q: (limit.name for limit in q.limits()))


def job_ids(context: typer.Context, incomplete: str) -> list[str]:
    """Return numbers of jobs that have not succeeded."""
    return _offered(context, incomplete, _ids("failed", "running", "waiting", "scheduled"))


def hold_ids(context: typer.Context, incomplete: str) -> list[str]:
    """Return numbers of holds."""
    return _offered(context, incomplete, lambda q: (str(h.id) for h in q.holds(limit=MOST)))


def retried_ids(context: typer.Context, incomplete: str) -> list[str]:
    """Return numbers of jobs that can be tried again."""
    return _offered(context, incomplete, _ids("failed", "cancelled"))


def cancelled_ids(context: typer.Context, incomplete: str) -> list[str]:
    """Return numbers of jobs that can be cancelled."""
    return _offered(context, incomplete, _ids("waiting", "scheduled", "running"))


def deleted_ids(context: typer.Context, incomplete: str) -> list[str]:
    """Return numbers of jobs that can be deleted, those that have ended first."""
    ended_first = _ids("failed", "cancelled", "succeeded", "waiting", "scheduled")
    return _offered(context, incomplete, ended_first)


def _offered(
    context: typer.Context, incomplete: str, look: "Callable[[slotq.Queue], Iterable[str]]"
) -> list[str]:
    try:
        place = _place(context)
        # A queue file is opened for its values, a missing one is not made for them.
        if not place or not Path(place).is_file():
            return []
        # Loads the engine, which completion of names alone does without.
        import slotq  # noqa: PLC0415

        with slotq.Queue(place, create=False, lock_timeout=LOOK_S) as queue:
            values = [value for value in look(queue) if value.startswith(incomplete)]
    except Exception:  # noqa: BLE001  # whatever it is, it must not appear amid what is typed
        return []
    # A value with control characters cannot be typed, nor shown in a list.
    return [value for value in dict.fromkeys(values) if value.isprintable()]


def _place(context: _Context) -> str | None:
    """Return the file that the command would take; no command is run here to say so itself."""
    given = context.params.get("db")
    if given:
        return str(given)
    return _place(context.parent) if context.parent else os.environ.get("SLOTQ_DB")


def _tasks(queue: "slotq.Queue") -> Iterator[str]:
    for worker in queue.workers():
        yield from worker.tasks
    for job in queue.jobs(limit=MOST):
        yield job.task


def _ids(*states: State) -> "Callable[[slotq.Queue], Iterable[str]]":
    return lambda queue: (
        str(job.id) for state in states for job in queue.jobs(state=state, limit=MOST)
    )
