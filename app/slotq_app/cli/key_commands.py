"""``qworker keys`` and ``qworker queues``."""

from typing import TYPE_CHECKING, Final

import typer

from slotq_app.cli import files, output
from slotq_app.cli.limit_commands import LIMIT_COLUMNS, limit_row
from slotq_app.cli.options import Database, Json, Key, Most, Sort
from slotq_app.cli.tables import Cell, number, text, window_of, word
from slotq_app.cli.values import fields_of

if TYPE_CHECKING:
    import slotq

KEY_COLUMNS: Final = (
    text("KEY"), number("RUNNING"), number("HELD", is_minor=True), number("LIMIT"),
    number("WAITING"), number("SCHEDULED", is_minor=True), word("STARTS"),
    word("WINDOW", is_minor=True), word("NEXT START"), word("PAUSED"),
)  # fmt: skip
QUEUE_COLUMNS: Final = (
    text("QUEUE"), number("WAITING"), number("SCHEDULED"), number("RUNNING"), number("LIMIT"),
    number("WORKERS", is_minor=True), word("OLDEST WAITING"), word("PAUSED"),
)  # fmt: skip
MOST: Final = 1_000_000
"""What the engine lists at most."""


def list_keys(
    context: typer.Context,
    *,
    sort: Sort = "waiting",
    limit: Most = 100,
    as_json: Json = False,
    db: Database = None,
) -> None:
    """List keys: what they use, what they may use, and what waits."""
    with files.opened(context, db) as q:
        found = q.keys(sort=sort, limit=min(limit + 1, MOST) if limit else MOST)
    keys = found[:limit] if limit else found
    if as_json:
        output.write_json_list(keys)
    else:
        output.write_table(KEY_COLUMNS, map(_key_row, keys))
    if len(found) > len(keys):
        output.warn(f"{len(keys)} shown; --limit 0 shows all")


def show_key(
    context: typer.Context, key: Key, *, as_json: Json = False, db: Database = None
) -> None:
    """Show how a key stands, with the limits in force."""
    with files.opened(context, db) as q:
        found = q.key(key)
        is_known = _is_known(q, found)
    if not is_known:
        output.warn(f"no job and no limit has had key {key}")
    if as_json:
        output.write_json(found)
    else:
        output.write_fields(fields_of(found, but={"limits"}))
        if found.limits:
            output.write([""])
            output.write_table(LIMIT_COLUMNS, map(limit_row, found.limits))


def list_queues(context: typer.Context, *, as_json: Json = False, db: Database = None) -> None:
    """List every queue that was ever used."""
    with files.opened(context, db) as q:
        queues = q.queues()
    if as_json:
        output.write_json_list(queues)
    else:
        output.write_table(QUEUE_COLUMNS, map(_queue_row, queues))


def _is_known(queue: "slotq.Queue", key: "slotq.Key") -> bool:
    """Tell whether anything in the file has this very key; a pattern matches keys of no one too."""
    # Loads the engine, which has been loaded for the queue.
    import slotq  # noqa: PLC0415

    own = slotq.literal(key.key)
    is_used = any((key.running, key.held, key.waiting, key.scheduled, key.starts))
    return (
        is_used
        or any(limit.key == own for limit in key.limits)
        or bool(queue.jobs(key=key.key, limit=1))
    )


def _key_row(key: "slotq.Key") -> tuple[Cell, ...]:
    starts = None if key.max_starts is None else f"{key.starts}/{key.max_starts}"
    return (
        key.key, key.running, key.held, key.max_running, key.waiting, key.scheduled, starts,
        window_of(key.window), key.next_start_at, "paused" if key.paused else None,
    )  # fmt: skip


def _queue_row(queue: "slotq.QueueInfo") -> tuple[Cell, ...]:
    return (
        queue.name, queue.waiting, queue.scheduled, queue.running, queue.max_running,
        queue.workers, queue.oldest_waiting_at, "paused" if queue.paused else None,
    )  # fmt: skip
