"""Tables as text.

On a terminal a table fits its width and has colours; elsewhere nothing is shortened. Text that
comes from a queue file is made visible first: none of it can act on the terminal.
"""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final

# So many rows have columns of one width; the next block may have wider ones. With more, that many
# would have to be kept before the first is printed.
BLOCK: Final = 1_000
# What columns of free text keep when a terminal is too narrow for all: at first a readable width,
# which the first of them is never denied, as it tells the rows apart; then hardly anything.
READABLE_WIDTH: Final = 20
LEAST_WIDTH: Final = 6
GAP: Final = "  "
NOTHING: Final = "-"

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
        is_minor: Whether it is left out on a terminal that is too narrow for all.
    """

    title: str
    is_text: bool = False
    is_number: bool = False
    is_state: bool = False
    is_minor: bool = False


def text(title: str, *, is_minor: bool = False) -> Column:
    """Return a column of free text."""
    return Column(title=title, is_text=True, is_minor=is_minor)


def number(title: str, *, is_minor: bool = False) -> Column:
    """Return a column of numbers."""
    return Column(title=title, is_number=True, is_minor=is_minor)


def word(title: str, *, is_minor: bool = False) -> Column:
    """Return a column of words, which are never cut, or of instants."""
    return Column(title=title, is_minor=is_minor)


def state(title: str) -> Column:
    """Return a column of states of jobs."""
    return Column(title=title, is_state=True)


def table(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> Iterator[str]:
    """Yield the lines of a table: its heading, then a line for each row.

    On a terminal some columns may be left out. If they are others for a later block, that has a
    heading of its own.
    """
    room = shutil.get_terminal_size().columns if is_terminal() else None
    headed: set[int] | None = None
    widths: dict[int, int] = {}
    source = iter(rows)
    while True:
        block = list(islice(source, BLOCK))
        layout = _Layout(columns, block, widths)
        if room is not None:
            layout.fit(room)
        widths = layout.widths
        if set(widths) != headed:
            headed = set(widths)
            yield layout.line([column.title for column in columns])
        for row in layout.rows:
            yield layout.line(row)
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
    return NOTHING if cell is None or cell == "" else str(cell)


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


class _Layout:
    """How the rows of a block are printed.

    Attributes:
        rows: The cells, as they are shown.
        widths: How wide each column is, by its place; those left out are not there.

    Args:
        columns: The columns.
        block: The rows.
        least: The widths of the block before, which are kept for the columns to stay aligned.
    """

    def __init__(
        self, columns: Sequence[Column], block: Sequence[Sequence[Cell]], least: Mapping[int, int]
    ) -> None:
        self._columns = columns
        self._block = block
        self._least = least
        self.rows = [[shown(cell) for cell in row] for row in block]
        self.widths = {place: self._width(place) for place in range(len(columns))}

    def fit(self, room: int) -> None:
        """Make the lines fit a terminal: what is told last of all gives way first."""
        self._drop([place for place in self.widths if self._is_empty(place)], room)
        self._drop([place for place in self.widths if self._columns[place].is_minor], room)
        if self._too_much(room) > 0:
            self._shorten_instants()
        self._narrow(room)
        first = self._first_text()
        self._drop([place for place in self.widths if place != first], room)
        if self._too_much(room) > 0:
            self.widths[first] = room

    def line(self, row: Sequence[str]) -> str:
        """Return the line of a row, or of the heading."""
        cells: list[str] = []
        for place, width in self.widths.items():
            column, text = self._columns[place], shortened(row[place], width)
            space = " " * (width - width_of(text))
            if column.is_state:
                text = coloured(text)
            cells.append(space + text if column.is_number else text + space)
        return GAP.join(cells).rstrip()

    def _width(self, place: int) -> int:
        own = [width_of(row[place]) for row in self.rows]
        return max(self._least.get(place, 0), len(self._columns[place].title), *own, 0)

    def _is_empty(self, place: int) -> bool:
        return bool(self.rows) and all(row[place] == NOTHING for row in self.rows)

    def _too_much(self, room: int) -> int:
        return sum(self.widths.values()) + len(GAP) * (len(self.widths) - 1) - room

    def _drop(self, places: Sequence[int], room: int) -> None:
        """Leave out some of these columns, the last first, until the lines fit."""
        for place in reversed(places):
            if self._too_much(room) > 0 and len(self.widths) > 1:
                del self.widths[place]

    def _shorten_instants(self) -> None:
        """Leave out the date where it is today's, as it is in most lists that people look at."""
        today = datetime.now(UTC).date()
        changed: set[int] = set()
        for cells, row in zip(self._block, self.rows, strict=True):
            for place in self.widths:
                cell = cells[place]
                if isinstance(cell, datetime) and cell.astimezone(UTC).date() == today:
                    _, _, row[place] = row[place].partition("T")
                    changed.add(place)
        for place in changed:
            self.widths[place] = self._width(place)

    def _narrow(self, room: int) -> None:
        texts = [place for place in self.widths if self._columns[place].is_text]
        for least, places in ((READABLE_WIDTH, texts), (LEAST_WIDTH, texts[1:])):
            for place in reversed(places):
                spare = self.widths[place] - max(least, len(self._columns[place].title))
                self.widths[place] -= max(0, min(self._too_much(room), spare))

    def _first_text(self) -> int:
        texts = (place for place in self.widths if self._columns[place].is_text)
        return next(texts, min(self.widths))
