"""Exit codes: which error ends a command with which."""

from typing import Final

import slotq

FAILED: Final = 1
"""A run-time error; it is told in one line."""
USAGE: Final = 2
"""The command was given something that it cannot take."""

MOST_CHARACTERS: Final = 500


class CommandFailed(Exception):
    """The command cannot go on; its text is the line that says why."""


def code_of(error: Exception) -> int | None:
    """Return the exit code for an error; None for one that is a fault of the program."""
    match error:
        case slotq.InvalidValue():
            return USAGE
        case slotq.SlotqError() | CommandFailed() | OSError():
            return FAILED
        case _:
            return None


def line_of(error: BaseException) -> str:
    """Return an error's text as one printable line, whatever is in it."""
    return one_line(str(error)) or type(error).__name__


def one_line(text: str) -> str:
    """Return text on one line, without what a terminal could take for a command."""
    line = " ".join(text[: 2 * MOST_CHARACTERS].split())
    if not line.isprintable():
        line = "".join(char if char.isprintable() else repr(char)[1:-1] for char in line)
    if len(line) > MOST_CHARACTERS:
        line = f"{line[: MOST_CHARACTERS - 3]}..."
    return line
