"""``qworker jobs``: what there is to see of jobs."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from slotq_app.cli import files, output, tailing
from slotq_app.cli.durations import seconds
from slotq_app.cli.filters import First, chosen, pages
from slotq_app.cli.options import (
    After,
    Database,
    JobEnd,
    JobId,
    JobKey,
    JobQueue,
    JobState,
    JobTask,
    Json,
    Most,
)
from slotq_app.cli.tables import Cell, number, state, text, word
from slotq_app.cli.values import fields_of, json_of

if TYPE_CHECKING:
    import slotq

COLUMNS: Final = (
    number("ID"), state("STATE"), text("TASK"), text("QUEUE", is_minor=True), text("KEY"),
    word("ATTEMPT"), word("RUN AT"), text("ERROR"),
)  # fmt: skip
REASON_COLUMNS: Final = (word("REASON"), word("UNTIL"), text("TEXT"))
# Reasons whose instant is the end of somebody's lease, which is renewed while the job runs.
OF_LEASES: Final = frozenset({"slots", "own slots", "queue slots"})
# What a job without a reason is, by its state; the others speak for themselves.
STANDING: Final = {
    "succeeded": "has succeeded",
    "failed": "has failed",
    "cancelled": "was cancelled",
    "running": "is running",
}


def list_jobs(
    context: typer.Context,
    *,
    state: JobState = None,
    key: JobKey = None,
    queue: JobQueue = None,
    task: JobTask = None,
    limit: Most = 100,
    after: After = 0,
    as_json: Json = False,
    db: Database = None,
) -> None:
    """List jobs, by number.

    Their arguments, tracebacks and results are left out: jobs show has them.
    """
    filters = chosen(state=state, key=key, queue=queue, task=task)
    with files.opened(context, db) as q:
        jobs = First(pages(q, filters, limit=limit and limit + 1, after=after), limit)
        if as_json:
            output.write_json_list(jobs)
        else:
            output.write_table(COLUMNS, map(_row, jobs))
    if jobs.has_more:
        output.warn(f"{limit} shown; --after {jobs.last} goes on, --limit 0 shows all")


def show(
    context: typer.Context, job_id: JobId, *, as_json: Json = False, db: Database = None
) -> None:
    """Show all that is known of a job."""
    with files.opened(context, db) as q:
        job = q.job(job_id)
    if as_json:
        output.write_json(job)
    else:
        output.write_fields(fields_of(job, but={"is_new"}))


def why(
    context: typer.Context, job_id: JobId, *, as_json: Json = False, db: Database = None
) -> None:
    """Tell every reason that a job is not running."""
    with files.opened(context, db) as q:
        reasons = q.why(job_id)
        state = q.job(job_id).state
    if as_json:
        output.write_json_list(reasons)
    elif reasons:
        output.write_table(REASON_COLUMNS, map(_reason_row, reasons))
    else:
        output.warn(f"job {job_id} {STANDING.get(state, 'can start now')}")


def wait(
    context: typer.Context,
    job_id: JobId,
    *,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="TIME",
            parser=seconds,
            help="Give up after this long, such as 30s, with exit code 75.",
            show_default="for as long as it takes",
        ),
    ] = None,
    db: Database = None,
) -> None:
    """Wait until a job has ended, and print its result as JSON.

    If it failed or was cancelled, that is told and the exit code is 1.
    """
    with files.opened(context, db) as q:
        result = q.job(job_id).wait(timeout=timeout)
    output.write([json_of(result)])


def tail(
    context: typer.Context,
    *,
    state: JobEnd = None,
    key: JobKey = None,
    queue: JobQueue = None,
    task: JobTask = None,
    as_json: Json = False,
    db: Database = None,
) -> None:
    """Print a line for each job as it ends, until Ctrl-C.

    With --json it is a JSON object a line.
    """
    filters = chosen(state=state, key=key, queue=queue, task=task)
    with files.opened(context, db) as q:
        tailing.tail(q, filters, as_json=as_json)


def _reason_row(reason: "slotq.Reason") -> tuple[Cell, ...]:
    until = None if reason.kind in OF_LEASES else reason.until
    return (reason.kind, until, reason.text)


def _row(job: "slotq.Job") -> tuple[Cell, ...]:
    attempts = f"{job.attempt}/{job.max_attempts}"
    error = "asked to end" if job.cancelling else job.error
    return (
        job.id, job.state, job.task, job.queue, job.key, attempts, job.run_at, error,
    )  # fmt: skip
