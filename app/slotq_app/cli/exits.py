"""Exit codes, and the one line that is said with them."""

from typing import Final

import typer

from slotq_app.cli.usage import message_of

FAILED: Final = 1
"""A run-time error; it is told in one line."""
USAGE: Final = 2
"""The command was given something that it cannot take."""
NOT_NOW: Final = 75
"""Refused for now: trying again later may succeed, and nothing was changed."""
SLOT_LOST: Final = 76
"""The slots that a command was to have were others' before it ended."""

MOST_CHARACTERS: Final = 500


class CommandFailed(Exception):
    """The command cannot go on; its text is the line that says why."""


def code_of(error: Exception) -> int | None:
    """Return the exit code for an error; None for one that is a fault of the program."""
    # Loads the engine, which a usage error does without; what else fails has loaded it already.
    import slotq  # noqa: PLC0415

    match error:
        case typer.TyperException():
            return error.exit_code
        case slotq.InvalidValue():
            return USAGE
        case slotq.QueueBusy() | slotq.LimitExceeded() | slotq.HoldExpired() | TimeoutError():
            return NOT_NOW
        case slotq.SlotqError() | CommandFailed() | OSError():
            return FAILED
        case _:
            return None


def line_of(error: BaseException) -> str:
    """Return an error's text as one printable line, whatever is in it."""
    text = message_of(error) if isinstance(error, typer.TyperException) else str(error)
    return one_line(text) or type(error).__name__


def one_line(text: str) -> str:
    """Return text on one line, without what a terminal could take for a command."""
    line = " ".join(text[: 2 * MOST_CHARACTERS].split())
    if not line.isprintable():
        # Loads the engine, which most usage errors do without.
        from slotq import visible  # noqa: PLC0415

        line = visible(line)
    if len(line) > MOST_CHARACTERS:
        line = f"{line[: MOST_CHARACTERS - 3]}..."
    return line
