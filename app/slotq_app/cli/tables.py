"""Tables as text.

On a terminal a table fits its width and has colours; elsewhere nothing is shortened. Text that
comes from a queue file is made visible first: none of it can act on the terminal.
"""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final

# So many rows have columns of one width; the next block may have wider ones. With more, that many
# would have to be kept before the first is printed.
BLOCK: Final = 1_000
# What a column of free text keeps when a terminal is too narrow for all.
LEAST_WIDTH: Final = 6
GAP: Final = "  "

Cell = str | int | datetime | None

COLOURS: Final = {
    "waiting": "33",
    "running": "36",
    "succeeded": "32",
    "failed": "31",
    "cancelled": "2",
}
"""The colour of each state but ``scheduled``: the number in a terminal's escape sequence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table.

    Attributes:
        title: Its heading.
        is_text: Whether its cells may be shortened on a terminal.
        is_number: Whether its cells stand to the right.
        is_state: Whether its cells are states of jobs, which have colours.
    """

    title: str
    is_text: bool = False
    is_number: bool = False
    is_state: bool = False


def text(title: str) -> Column:
    """Return a column of free text."""
    return Column(title=title, is_text=True)


def number(title: str) -> Column:
    """Return a column of numbers."""
    return Column(title=title, is_number=True)


def word(title: str) -> Column:
    """Return a column of words or instants, which are never shortened."""
    return Column(title=title)


def state(title: str) -> Column:
    """Return a column of states of jobs."""
    return Column(title=title, is_state=True)


def table(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> Iterator[str]:
    """Yield the lines of a table: its heading, then a line for each row."""
    room = shutil.get_terminal_size().columns if is_terminal() else None
    heading = [column.title for column in columns]
    widths = [len(title) for title in heading]
    source = iter(rows)
    while True:
        block = [[shown(cell) for cell in row] for row in islice(source, BLOCK)]
        for row in block:
            widths = [max(width, width_of(cell)) for width, cell in zip(widths, row, strict=True)]
        fitted = widths if room is None else _fitted(columns, widths, room)
        if heading:
            yield _line(columns, fitted, heading).rstrip()
            heading = []
        for row in block:
            yield _line(columns, fitted, row).rstrip()
        if len(block) < BLOCK:
            return


def shown(cell: Cell, *, lines: bool = False) -> str:
    """Return a cell as text that is safe to print; a dash stands for nothing."""
    if isinstance(cell, datetime):
        return cell.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(cell, str) and cell:
        # Loads the engine; who has text of a queue file has loaded it already.
        from slotq import visible  # noqa: PLC0415

        return visible(cell, lines=lines)
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return "-" if cell is None or cell == "" else str(cell)


def window_of(window: float | str | None) -> str | None:
    """Return the window of a limit as it is typed: ``60s``, or ``day``."""
    if isinstance(window, str) or window is None:
        return window
    return f"{window:.3f}".rstrip("0").rstrip(".") + "s"


def width_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    # Knows every wide character, which takes its time to load.
    from rich.cells import cell_len  # noqa: PLC0415

    return cell_len(text)


def shortened(text: str, width: int) -> str:
    """Return a text that takes at most so many columns, with an ellipsis where it was cut."""
    if width_of(text) <= width:
        return text
    kept = text[:width]  # no text is narrower than it has characters, but for marks
    while width_of(kept) > width - 1:
        kept = kept[:-1]
    return f"{kept}…"


def coloured(state: str) -> str:
    """Return the name of a state in its colour, if there are colours."""
    code = COLOURS.get(state) if has_colours() else None
    return state if code is None else f"\x1b[{code}m{state}\x1b[0m"


def is_terminal() -> bool:
    """Tell whether people read what is printed."""
    return sys.stdout.isatty()


def has_colours() -> bool:
    """Tell whether what is printed may have colours."""
    return is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _fitted(columns: Sequence[Column], widths: Sequence[int], room: int) -> list[int]:
    """Return widths that fit a terminal: the last column of free text gives way first."""
    fitted = list(widths)
    too_much = sum(widths) + len(GAP) * (len(widths) - 1) - room
    for place in reversed(range(len(columns))):
        least = max(LEAST_WIDTH, len(columns[place].title))
        if columns[place].is_text and too_much > 0 and fitted[place] > least:
            given = min(too_much, fitted[place] - least)
            fitted[place] -= given
            too_much -= given
    return fitted


def _line(columns: Sequence[Column], widths: Sequence[int], row: Sequence[str]) -> str:
    cells: list[str] = []
    for column, width, cell in zip(columns, widths, row, strict=True):
        text = shortened(cell, width)
        space = " " * (width - width_of(text))
        if column.is_state:
            text = coloured(text)
        cells.append(space + text if column.is_number else text + space)
    return GAP.join(cells)
