"""The queue file that a command works on."""

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Generator

    import slotq


def place_of(context: typer.Context, db: Path | None) -> Path:
    """Return the file: ``--db`` after the command, then before it, then ``$SLOTQ_DB``.

    Raises:
        typer.BadParameter: None of them is given.
    """
    before: Path | None = context.obj
    place = db or before or os.environ.get("SLOTQ_DB")
    if not place:
        raise typer.BadParameter(
            "is missing: give a queue file, or set SLOTQ_DB", param_hint="--db"
        )
    return Path(place)


@contextmanager
def opened(
    context: typer.Context, db: Path | None, *, create: bool = False
) -> "Generator[slotq.Queue]":
    """Open the queue file for a block; without ``create`` nothing is made where there is none."""
    place = place_of(context, db)
    # Loads the engine, which --help and usage errors do without.
    import slotq  # noqa: PLC0415

    with slotq.Queue(place, create=create) as queue:
        yield queue
