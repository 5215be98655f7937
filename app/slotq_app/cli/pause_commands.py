"""``qworker keys`` and ``queues``: pause and resume."""

from typing import Annotated

import typer

from slotq_app.cli import completion, files, output
from slotq_app.cli.options import Database, Key
from slotq_app.cli.tables import shown

QueueName = Annotated[
    str,
    typer.Argument(metavar="QUEUE", help="The name of a queue.", autocompletion=completion.queues),
]


def pause_key(context: typer.Context, key: Key, *, db: Database = None) -> None:
    """Let no job of a key start until it is resumed; what runs goes on."""
    with files.opened(context, db, create=True) as q:
        is_changed = q.pause(key=key)
    if "*" in key:
        output.warn("warning: a pause takes one key as it is, and * is not a pattern here")
    output.write([_line(f"key {key}", "paused" if is_changed else "was paused already")])


def resume_key(context: typer.Context, key: Key, *, db: Database = None) -> None:
    """Let the jobs of a paused key start again."""
    with files.opened(context, db) as q:
        is_changed = q.resume(key=key)
    output.write([_line(f"key {key}", "resumed" if is_changed else "was not paused")])


def pause_queue(context: typer.Context, queue: QueueName, *, db: Database = None) -> None:
    """Let no job of a queue start until it is resumed; what runs goes on."""
    with files.opened(context, db, create=True) as q:
        is_changed = q.pause(queue=queue)
    output.write([_line(f"queue {queue}", "paused" if is_changed else "was paused already")])


def resume_queue(context: typer.Context, queue: QueueName, *, db: Database = None) -> None:
    """Let the jobs of a paused queue start again."""
    with files.opened(context, db) as q:
        is_changed = q.resume(queue=queue)
    output.write([_line(f"queue {queue}", "resumed" if is_changed else "was not paused")])


def _line(subject: str, told: str) -> str:
    return shown(f"{subject} {told}")
