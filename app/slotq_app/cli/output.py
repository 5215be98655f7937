"""What commands print, as text or as JSON."""

import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager

import typer

from slotq_app.cli.tables import Cell, Column, coloured, shown, table
from slotq_app.cli.values import json_list, json_of


class OutputClosed(Exception):
    """Nobody reads what is printed any more, as after ``| head``."""


def write(lines: Iterable[str]) -> None:
    """Print lines.

    Raises:
        OutputClosed: Nobody reads them.
    """
    try:
        for line in lines:
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise OutputClosed from None


def write_json(value: object) -> None:
    """Print one value as JSON."""
    write([json_of(value, indent=2)])


def write_json_list(values: Iterable[object]) -> None:
    """Print values as a JSON array, an item a line."""
    write(json_list(values))


def write_table(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
    """Print a heading and rows."""
    write(table(columns, rows))


def write_fields(fields: Iterable[tuple[str, Cell]]) -> None:
    """Print names and values, a pair a line; a text of several lines stands below its name."""
    pairs = [(name, shown(value, lines=True)) for name, value in fields]
    longest = max(len(name) for name, _ in pairs)
    for name, text in pairs:
        if "\n" in text:
            write([name, *(f"    {line}" for line in text.rstrip("\n").split("\n"))])
        else:
            write([f"{name:{longest}}  {coloured(text) if name == 'state' else text}"])


def warn(line: str) -> None:
    """Say on standard error what the user should know, in one line that is safe to print."""
    typer.echo(f"qworker: {shown(line)}", err=True)


@contextmanager
def progress(total: int, label: str) -> Generator[Callable[[int], None]]:
    """Show a bar for the length of a block, on a terminal only; call what it gives to move it."""
    if total > 0 and sys.stderr.isatty():
        with typer.progressbar(length=total, label=label, file=sys.stderr) as bar:
            yield bar.update
    else:
        yield lambda _: None
