"""``qworker hold`` and ``qworker holds``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from slotq_app.cli import completion, exits, files, output
from slotq_app.cli.durations import seconds_or_inf, seconds_within
from slotq_app.cli.options import Database, Json, Key, Most
from slotq_app.cli.tables import Cell, number, text, word

if TYPE_CHECKING:
    import slotq

COLUMNS: Final = (
    number("ID"), text("KEY"), number("SLOTS"), word("STATE"), word("ACQUIRED AT", is_minor=True),
    word("EXPIRES AT"), text("HOLDER"), text("LABEL"), number("JOB", is_minor=True),
)  # fmt: skip
TTL_S: Final = 600.0
MOST: Final = 1_000_000
"""What the engine lists at most."""
LABEL_CHARACTERS: Final = 200


def hold(
    context: typer.Context,
    key: Key,
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND...", help="What to run, with its arguments.")
    ],
    *,
    ttl: Annotated[
        float | None,
        typer.Option(
            metavar="TIME",
            parser=seconds_within("0.001s", "1d"),
            help="How long the slot stays taken if qworker is killed and the command lives.",
            show_default="10m",
        ),
    ] = None,
    wait: Annotated[
        float | None,
        typer.Option(
            metavar="TIME|inf",
            parser=seconds_or_inf,
            help="Wait this long for room, or for ever, in order of arrival.",
            show_default="refused at once",
        ),
    ] = None,
    slots: Annotated[
        int, typer.Option(metavar="N", min=1, max=MOST, help="Take so many slots, or none.")
    ] = 1,
    max_running: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=MOST, help="A limit of its own, beside those of the key."
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="What it is for.", show_default="the name of the command"
        ),
    ] = None,
    keep_going: Annotated[
        bool,
        typer.Option(
            "--keep-going", help="If the slot is lost, still return the command's exit code."
        ),
    ] = False,
    db: Database = None,
) -> None:
    """Run a command while holding a slot of a key, like flock(1).

    The exit code is the command's, 128 and the number for a signal; 75 if there is no room, 76 if
    the slot was lost before the command ended, 126 and 127 if it cannot be run. Signals are passed
    on to it.

    qworker hold backup --max-running 1 -- tar cf /backup/all.tar /srv
    """
    if not command[0]:
        raise typer.BadParameter("must not be empty", param_hint="COMMAND")
    ttl_s = TTL_S if ttl is None else ttl
    with files.opened(context, db, create=True) as q:
        # Loads what runs and keeps, which --help and completion do without.
        from slotq_app.cli import held_command  # noqa: PLC0415

        wanted = q.hold(
            key,
            ttl=ttl_s,
            wait=0 if wait is None else wait,
            slots=slots,
            max_running=max_running,
            label=_name_of(command[0]) if label is None else label,
        )
        if max_running is None and not q.key(key).limits:
            output.warn(
                f"warning: key {key} has no limit, and without --max-running nothing is refused"
            )
        code = held_command.run(q, wanted, command, ttl_s=ttl_s, keep_going=keep_going)
    raise typer.Exit(code)


def list_holds(
    context: typer.Context,
    *,
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Only holds of this key.", autocompletion=completion.keys),
    ] = None,
    limit: Most = 100,
    after: Annotated[
        int, typer.Option(metavar="ID", min=0, help="Only holds with a greater number.")
    ] = 0,
    as_json: Json = False,
    db: Database = None,
) -> None:
    """List holds, and those that wait for room, by number."""
    if key is not None and "*" in key:
        output.warn("warning: --key takes one key as it is, and * is not a pattern here")
    with files.opened(context, db) as q:
        found = q.holds(key=key, limit=min(limit + 1, MOST) if limit else MOST, after=after)
    holds = found[:limit] if limit else found
    if as_json:
        output.write_json_list(holds)
    else:
        output.write_table(COLUMNS, map(_row, holds))
    if len(found) > len(holds):
        output.warn(f"{limit} shown; --after {holds[-1].id} goes on, --limit 0 shows all")


def release(
    context: typer.Context,
    hold_id: Annotated[
        int,
        typer.Argument(
            metavar="ID", min=0, help="Number of the hold.", autocompletion=completion.hold_ids
        ),
    ],
    *,
    db: Database = None,
) -> None:
    """End anybody's hold; the slots are free at once, and who had them is not asked."""
    with files.opened(context, db) as q:
        # Loads the engine, which has been loaded for the queue.
        import slotq  # noqa: PLC0415

        try:
            q.release_hold(hold_id)
        except slotq.HoldExpired as error:
            raise exits.CommandFailed(
                f"there is no hold {hold_id}, or it has ended already"
            ) from error
    output.write([f"released hold {hold_id}"])


def _name_of(word: str) -> str:
    """Return the name of a command as a label; the file may have a name that is no text."""
    name = Path(word).name.encode("utf-8", "backslashreplace").decode()
    return name[:LABEL_CHARACTERS]


def _row(hold: "slotq.HoldInfo") -> tuple[Cell, ...]:
    return (
        hold.id, hold.key, hold.slots, hold.state, hold.acquired_at, hold.expires_at, hold.holder,
        hold.label, hold.job,
    )  # fmt: skip
