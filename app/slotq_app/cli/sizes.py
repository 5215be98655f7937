"""Sizes of memory as people write them: ``300M``, ``1G``."""

import re
from typing import Final

import typer

_UNITS: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_SIZE: Final = re.compile(r"(?P<number>[0-9]+(\.[0-9]+)?) ?(?P<unit>[KMGT]?)(i?B)?", re.IGNORECASE)


def size(text: str, *, of: str) -> int:
    """Return the bytes of a size such as ``300M`` or ``1.5G``, units being powers of 1,024.

    Args:
        text: The size.
        of: The option that it is for.

    Raises:
        typer.BadParameter: It is none, or not above 0.
    """
    match = _SIZE.fullmatch(text.strip())
    number = 0 if match is None else float(match["number"]) * 1024 ** _UNITS[match["unit"].upper()]
    if number < 1:
        raise typer.BadParameter(f"{text!r} must be a size such as 300M or 1G", param_hint=of)
    return int(number)
