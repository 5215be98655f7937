"""``qworker workers``, ``stats`` and ``prune``: what concerns the file as a whole."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from slotq_app.cli import files, output
from slotq_app.cli.durations import seconds
from slotq_app.cli.options import Database, Json
from slotq_app.cli.tables import Cell, number, text, word
from slotq_app.cli.values import fields_of

if TYPE_CHECKING:
    import slotq

COLUMNS: Final = (
    number("ID"), number("PID"), text("HOST", is_minor=True), number("RUNNING"), number("SLOTS"),
    word("ORDER", is_minor=True), word("STARTED AT"), word("SEEN AT", is_minor=True),
    text("QUEUES"), text("TASKS"),
)  # fmt: skip
WEEK_S: Final = 7 * 86_400
"""How long workers keep jobs that have ended, if the application does not say otherwise."""


def list_workers(context: typer.Context, *, as_json: Json = False, db: Database = None) -> None:
    """List the workers that have the file open."""
    with files.opened(context, db) as q:
        workers = q.workers()
    if as_json:
        output.write_json_list(workers)
    else:
        output.write_table(COLUMNS, map(_row, workers))


def stats(context: typer.Context, *, as_json: Json = False, db: Database = None) -> None:
    """Show the whole file in numbers."""
    with files.opened(context, db) as q:
        numbers = q.stats()
    if as_json:
        output.write_json(numbers)
    else:
        output.write_fields(fields_of(numbers))


def prune(
    context: typer.Context,
    *,
    older_than: Annotated[
        float | None,
        typer.Option(
            metavar="TIME",
            parser=seconds,
            help="Only jobs that ended at least this long ago, such as 12h; 0 for all.",
            show_default="7d",
        ),
    ] = None,
    db: Database = None,
) -> None:
    """Delete jobs that ended long ago.

    Keys with nothing to remember are forgotten too.
    """
    with files.opened(context, db) as q:
        count = q.prune(older_than=WEEK_S if older_than is None else older_than)
    output.write([f"deleted {count} {'job' if count == 1 else 'jobs'}"])


def _row(worker: "slotq.WorkerInfo") -> tuple[Cell, ...]:
    queues = "every queue" if worker.queues is None else ", ".join(worker.queues)
    return (
        worker.id, worker.pid, worker.host, worker.running, worker.slots, worker.order,
        worker.started_at, worker.seen_at, queues, ", ".join(worker.tasks),
    )  # fmt: skip
