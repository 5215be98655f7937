"""``qworker limits``: list, set, clear."""

import warnings
from typing import TYPE_CHECKING, Annotated, Final, TypedDict

import typer

from slotq_app.cli import completion, files, output
from slotq_app.cli.durations import Period, seconds_or_period
from slotq_app.cli.options import Database, Json
from slotq_app.cli.tables import Cell, number, text, window_of, word

if TYPE_CHECKING:
    import slotq

LIMIT_COLUMNS: Final = (
    text("KEY"), text("QUEUE"), text("NAME", is_minor=True), number("MAX RUNNING"),
    number("MAX STARTS"), word("WINDOW"), word("TIMEZONE", is_minor=True),
    number("VERSION", is_minor=True), word("UPDATED AT", is_minor=True),
    text("UPDATED BY", is_minor=True),
)  # fmt: skip

Subject = Annotated[
    str | None,
    typer.Argument(
        metavar="KEY",
        help="A key, or a pattern in which * is any run of characters.",
        autocompletion=completion.limits,
        show_default=False,
    ),
]
OfQueue = Annotated[
    str | None,
    typer.Option(
        "--queue",
        metavar="NAME",
        help="The limit of a queue instead of a key's.",
        autocompletion=completion.queues,
    ),
]
Name = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Tells several limits of one key apart; all must have room.",
        autocompletion=completion.limit_names,
    ),
]


class Parts(TypedDict, total=False):
    """The parts of a limit that change; None removes one."""

    max_running: int | None
    max_starts: int | None
    window: "float | Period | None"
    timezone: str | None


def list_limits(context: typer.Context, *, as_json: Json = False, db: Database = None) -> None:
    """List every limit; what a more specific one hides is told on standard error."""
    with files.opened(context, db) as q:
        limits = q.limits()
        hidden = q.hidden_limits()
    if as_json:
        output.write_json_list(limits)
    else:
        output.write_table(LIMIT_COLUMNS, map(limit_row, limits))
    for line in hidden:
        output.warn(f"warning: {line}")


def set_limit(
    context: typer.Context,
    key: Subject = None,
    *,
    queue: OfQueue = None,
    max_running: Annotated[
        str | None, typer.Option(metavar="N|none", help="Most at once; none removes this part.")
    ] = None,
    max_starts: Annotated[
        str | None,
        typer.Option(metavar="N|none", help="Most starts in the window; none removes both."),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            metavar="TIME|PERIOD",
            help="60s, 5m, 2h or 7d; or minute, hour, day, week or month, by the calendar.",
        ),
    ] = None,
    timezone: Annotated[
        str | None,
        typer.Option(metavar="ZONE", help="Of a calendar window, such as Europe/Berlin."),
    ] = None,
    name: Name = None,
    as_json: Json = False,
    db: Database = None,
) -> None:
    """Set or change a limit of a key, a pattern or a queue.

    What is left out stays as it is. The next claim obeys.

    qworker limits set 'tenant:*' --max-running 3
    """
    parts = _parts(max_running, max_starts, window, timezone)
    with files.opened(context, db, create=True) as q, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        limit = q.set_limit(key, queue=queue, name=name or "", **parts)
    for warning in told:
        output.warn(f"warning: {warning.message}")
    if as_json:
        output.write_json(limit)
    else:
        output.write_table(LIMIT_COLUMNS, [limit_row(limit)])


def clear(
    context: typer.Context,
    key: Subject = None,
    *,
    queue: OfQueue = None,
    name: Name = None,
    db: Database = None,
) -> None:
    """Remove the limits of a key, a pattern or a queue.

    With --name it is that one only. What runs goes on; there need not be any.
    """
    with files.opened(context, db) as q:
        count = q.clear_limit(key, queue=queue, name=name)
    output.write([f"cleared {count} {'limit' if count == 1 else 'limits'}"])


def _parts(
    max_running: str | None, max_starts: str | None, window: str | None, timezone: str | None
) -> Parts:
    parts = Parts()
    if max_running is not None:
        parts["max_running"] = _number("--max-running", max_running)
    if max_starts is not None:
        parts["max_starts"] = _number("--max-starts", max_starts)
        if parts["max_starts"] is None:
            parts["window"] = None
    if window is not None:
        parts["window"] = _window(window)
    if timezone is not None:
        parts["timezone"] = timezone
    return parts


def _number(option: str, given: str) -> int | None:
    if given == "none":
        return None
    try:
        return int(given)
    except ValueError:
        problem = f"{given!r} must be a whole number, or none to remove this part"
        raise typer.BadParameter(problem, param_hint=option) from None


def _window(given: str) -> "float | Period | None":
    try:
        return None if given == "none" else seconds_or_period(given)
    except typer.BadParameter as error:
        raise typer.BadParameter(error.message, param_hint="--window") from None


def limit_row(limit: "slotq.Limit") -> tuple[Cell, ...]:
    """Return the cells of a limit."""
    return (
        limit.key, limit.queue, limit.name, limit.max_running, limit.max_starts,
        window_of(limit.window), limit.timezone, limit.version, limit.updated_at, limit.updated_by,
    )  # fmt: skip
