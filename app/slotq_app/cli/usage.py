"""Usage errors in one line, with what was probably meant."""

import difflib
import re
from collections.abc import Iterable
from typing import Final

import typer

MOST_CHARACTERS: Final = 1_000

_NOT_ONE_OF: Final = re.compile(r"'(?P<given>[^']*)' is not one of (?P<choices>'.*')", re.DOTALL)
_POSSIBLE: Final = re.compile(r"(?P<given>\S+) \(Possible options: (?P<options>[^)]*)\)$")


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return `` Did you mean 'day'?`` for the known word that is nearest; "" if none is near."""
    near = difflib.get_close_matches(given, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def message_of(error: typer.TyperException) -> str:
    """Return what was wrong with a command line, and what was probably meant."""
    # What was typed may be a megabyte of JSON, over which the searches below would take minutes.
    text = error.format_message()[:MOST_CHARACTERS]
    possible = _POSSIBLE.search(text)
    if possible is not None:
        given = possible["given"]
        hint = did_you_mean(given, possible["options"].split(", "))
        text = f"{text[: possible.start()]}{given}.{hint}"
    choice = _NOT_ONE_OF.search(text)
    if choice is not None:
        text += did_you_mean(choice["given"], re.findall(r"'([^']*)'", choice["choices"]))
    return text[:1].lower() + text[1:]
