"""``qworker jobs retry``, ``cancel`` and ``delete``: by number, or all that filters match."""

import sys
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Final

import typer

from slotq_app.cli import completion, files, output
from slotq_app.cli.filters import Filters, State, chosen, pages
from slotq_app.cli.options import Database, JobKey, JobQueue, JobState, JobTask

if TYPE_CHECKING:
    import slotq

BATCH: Final = 500
"""Jobs of one call, after which a progress bar moves."""

All = Annotated[bool, typer.Option("--all", help="All jobs that the filters match.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask before acting on --all.")]


@dataclass(frozen=True, slots=True)
class Verb:
    """What is done to jobs.

    Attributes:
        name: As it is typed.
        past: As it is told.
        states: The states of the jobs that ``--all`` means without ``--state``.
        act: Does it to many jobs.
    """

    name: str
    past: str
    states: tuple[State, ...]
    act: "Callable[[slotq.Queue, Sequence[int]], slotq.Bulk]"


RETRY: Final = Verb("retry", "retried", ("failed",), lambda q, ids: q.retry_many(ids))
CANCEL: Final = Verb(
    "cancel", "cancelled", ("scheduled", "waiting", "running"), lambda q, ids: q.cancel_many(ids)
)
DELETE: Final = Verb(
    "delete", "deleted", ("succeeded", "failed", "cancelled"), lambda q, ids: q.delete_many(ids)
)


class Tally:
    """What has become of the jobs that were acted on.

    Attributes:
        done: How many it was done to.
        asked: How many of these ran, and were only asked to end.
        refused: Why it was not done to the others, by their numbers.
    """

    def __init__(self) -> None:
        self.done = 0
        self.asked = 0
        self.refused: dict[int, str] = {}

    def add(self, queue: "slotq.Queue", verb: Verb, ids: Sequence[int]) -> None:
        """Act on jobs, and count them."""
        running = set(_found(queue, Filters(state="running"))) if verb is CANCEL else set[int]()
        bulk = verb.act(queue, ids)
        self.done += len(bulk.done)
        self.asked += len(running.intersection(bulk.done))
        self.refused.update(bulk.refused)

    def line(self, verb: Verb) -> str:
        """Tell what was done."""
        asked = f"asked {self.asked} running {'job' if self.asked == 1 else 'jobs'} to end"
        done = f"{verb.past} {_jobs(self.done - self.asked)}"
        if not self.asked:
            return done
        return asked if self.asked == self.done else f"{done}, {asked}"


def _ids(complete: Callable[[typer.Context, str], list[str]]) -> object:
    return typer.Argument(
        metavar="ID...",
        min=0,
        help="Numbers of jobs.",
        autocompletion=complete,
        show_default=False,
    )


def retry(
    context: typer.Context,
    ids: Annotated[list[int] | None, _ids(completion.retried_ids)] = None,
    *,
    every: All = False,
    state: JobState = None,
    key: JobKey = None,
    queue: JobQueue = None,
    task: JobTask = None,
    yes: Yes = False,
    db: Database = None,
) -> None:
    """Put failed or cancelled jobs in line again.

    They keep their numbers. --all means the failed ones; with --state cancelled, the cancelled
    ones.
    """
    filters = chosen(state=state, key=key, queue=queue, task=task)
    with files.opened(context, db) as q:
        _act(q, RETRY, ids, filters, every=every, yes=yes)


def cancel(
    context: typer.Context,
    ids: Annotated[list[int] | None, _ids(completion.cancelled_ids)] = None,
    *,
    every: All = False,
    state: JobState = None,
    key: JobKey = None,
    queue: JobQueue = None,
    task: JobTask = None,
    yes: Yes = False,
    db: Database = None,
) -> None:
    """Cancel jobs that have not ended.

    One that runs is asked to end, and is cancelled when it does. --all means those that have
    not ended.
    """
    filters = chosen(state=state, key=key, queue=queue, task=task)
    with files.opened(context, db) as q:
        _act(q, CANCEL, ids, filters, every=every, yes=yes)


def delete(
    context: typer.Context,
    ids: Annotated[list[int] | None, _ids(completion.deleted_ids)] = None,
    *,
    every: All = False,
    state: JobState = None,
    key: JobKey = None,
    queue: JobQueue = None,
    task: JobTask = None,
    yes: Yes = False,
    db: Database = None,
) -> None:
    """Delete jobs and all that is known of them.

    One that runs cannot be deleted. --all means those that have ended; with --state waiting,
    the waiting ones.
    """
    filters = chosen(state=state, key=key, queue=queue, task=task)
    with files.opened(context, db) as q:
        _act(q, DELETE, ids, filters, every=every, yes=yes)


def _act(
    queue: "slotq.Queue",
    verb: Verb,
    ids: Sequence[int] | None,
    filters: Filters,
    *,
    every: bool,
    yes: bool,
) -> None:
    """Act on jobs, say what was done, and end with 1 if any was refused.

    Raises:
        typer.BadParameter: It is not said which jobs, or said twice.
        typer.Exit: Some jobs were refused; each is told.
    """
    if every == bool(ids):
        raise typer.BadParameter("give numbers of jobs, or --all", param_hint="ID")
    if not every and filters != Filters():
        raise typer.BadParameter("filters go with --all only", param_hint="ID")
    if ids:
        tally = Tally()
        tally.add(queue, verb, ids)
    else:
        tally = _act_on_all(queue, verb, filters, yes=yes)
    for line in tally.refused.values():
        output.warn(line)
    output.write([tally.line(verb)])
    if tally.refused:
        raise typer.Exit(1)


def _act_on_all(queue: "slotq.Queue", verb: Verb, filters: Filters, *, yes: bool) -> Tally:
    """Act on all jobs that match now; one that no longer does is somebody else's doing."""
    states = (filters.state,) if filters.state else verb.states
    found = [_found(queue, replace(filters, state=state)) for state in states]
    # One that changed its state between two looks is in both.
    ids = array("q", (job_id for job_id, _ in groupby(merge(*found))))
    if ids and not yes:
        _confirm(verb, len(ids))
    tally = Tally()
    with output.progress(len(ids), verb.name) as move:
        for at in range(0, len(ids), BATCH):
            tally.add(queue, verb, ids[at : at + BATCH])
            move(BATCH)
    tally.refused = {
        job_id: line for job_id, line in tally.refused.items() if _is_in(queue, job_id, states)
    }
    return tally


def _found(queue: "slotq.Queue", filters: Filters) -> "array[int]":
    """Return the numbers of the jobs that match, at eight bytes each: they may be millions."""
    return array("q", (job.id for page in pages(queue, filters) for job in page))


def _confirm(verb: Verb, count: int) -> None:
    """Ask whether to go on.

    Raises:
        typer.BadParameter: There is nobody to ask.
        typer.Exit: The answer is no.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        problem = f"is needed to {verb.name} {_jobs(count)} where nobody can be asked"
        raise typer.BadParameter(problem, param_hint="--yes")
    if not typer.confirm(f"{verb.name} {_jobs(count)}?", err=True):
        raise typer.Exit(1)


def _is_in(queue: "slotq.Queue", job_id: int, states: Sequence[State]) -> bool:
    found = queue.jobs(after=job_id - 1, limit=1) if job_id else []
    return any(job.id == job_id and job.state in states for job in found)


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"
