"""``qworker events``."""

from typing import TYPE_CHECKING, Annotated, Final, Literal, get_args

import typer

from slotq_app.cli import files, output
from slotq_app.cli.options import Database, Json, Most
from slotq_app.cli.tables import Cell, number, text, word

if TYPE_CHECKING:
    import slotq

EventKind = Literal[
    "limit_set", "limit_cleared", "paused", "resumed", "lease_lost", "worker_started",
    "worker_stopped", "worker_dead", "hold_released", "clock_set_back",
]  # fmt: skip
KINDS: Final[tuple[EventKind, ...]] = get_args(EventKind)
COLUMNS: Final = (
    number("ID", is_minor=True), word("AT"), word("KIND"), text("KEY"), text("QUEUE"),
    number("JOB"), text("TEXT"), text("BY", is_minor=True),
)  # fmt: skip
MOST: Final = 1_000_000
"""What the engine lists at most."""


def list_events(
    context: typer.Context,
    *,
    limit: Most = 100,
    after: Annotated[
        int | None,
        typer.Option(
            "--after",
            metavar="ID",
            min=0,
            help="Only later events than this one; 0 for the oldest.",
        ),
    ] = None,
    kind: Annotated[
        EventKind | None,
        typer.Option(metavar="KIND", help=f"Only events of one kind: {', '.join(KINDS)}."),
    ] = None,
    as_json: Json = False,
    db: Database = None,
) -> None:
    """List edits, pauses, lost leases and the like, the newest last.

    Without --after it is the newest ones. The file keeps 10,000.
    """
    with files.opened(context, db) as q:
        events = q.events(limit=limit or MOST, after=after, kind=kind)
    if as_json:
        output.write_json_list(events)
    else:
        output.write_table(COLUMNS, map(_row, events))


def _row(event: "slotq.Event") -> tuple[Cell, ...]:
    return (
        event.id, event.at, event.kind, event.key, event.queue, event.job, event.text, event.by,
    )  # fmt: skip
