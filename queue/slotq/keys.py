"""Keys built from parts, and the subjects of limits: a key, or a pattern of keys."""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from slotq import checks
from slotq.errors import InvalidValue

# A subject may escape every character of the longest key.
_SUBJECT_CHARACTERS: Final = 2 * checks.KEY_CHARACTERS
# An id of more digits does not fit into a key, and Python refuses to print very long ones.
_ID_BITS: Final = 3_000
# What could end a part or be read as a pattern, and the sign that escapes it.
_ESCAPES: Final = str.maketrans({char: f"%{ord(char):02X}" for char in "%:/*\\"})
_LITERALS: Final = str.maketrans({"*": r"\*", "\\": r"\\"})
# A run of stars (one says the same), an escaped character, or any other character.
_SYMBOL: Final = re.compile(r"\*+|\\[*\\]|.", re.DOTALL)


class AnyId(Enum):
    """The type of ANY."""

    ANY = "*"


ANY: Final = AnyId.ANY
"""Stands for every id in ``key("workspace", ANY, action="export")``."""


def key(kind: str, id: str | int | AnyId, action: str | None = None) -> str:  # noqa: A002 - reads best
    r"""Join a kind, an id and an action into one key, such as ``workspace:42/export``.

    The signs ``% : / * \`` inside a part are percent-encoded, so different parts never
    give the same key and no part can act as a pattern: a tenant named ``*`` is itself
    only, in a job and as the subject of a limit. The ids 42 and "42" are the same.

    Args:
        kind: What is limited, such as "workspace".
        id: Which one; ANY gives the pattern that matches each id.
        action: What is done with it; None for everything that has no action in its key.

    Raises:
        InvalidValue: If a part is empty or of a wrong type, or the key has more than
            1,024 characters.
    """
    joined = f"{_part('kind', kind)}:{_id_part(id)}"
    if action is not None:
        joined += f"/{_part('action', action)}"
    return checks.key("key", joined)


def _part(name: str, value: object) -> str:
    return checks.text(name, value, high=checks.KEY_CHARACTERS).translate(_ESCAPES)


def _id_part(value: object) -> str:
    if value is ANY:
        return ANY.value
    if isinstance(value, int) and not isinstance(value, bool):
        if value.bit_length() > _ID_BITS:
            raise InvalidValue(name="id", problem="must be shorter", value=value)
        return str(int(value))
    if type(value) is not str:
        raise InvalidValue(name="id", problem="must be a str, an int or ANY", value=value)
    return _part("id", value)


def literal(text: str) -> str:
    r"""Escape ``*`` and ``\`` so that a limit with this subject means exactly this key.

    Raises:
        InvalidValue: If the text is no key.
    """
    return _some_key("text", text).translate(_LITERALS)


def _some_key(name: str, value: object) -> str:
    found = checks.key(name, value)
    if not found:
        raise InvalidValue(name=name, problem="must be a key, not none", value=value)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a limit is for.

    Attributes:
        kind: One "key", or a "pattern" that matches many.
        subject: The plain key, or the pattern as given.
        glob: The pattern for SQLite's GLOB; empty for a key.
        literals: How many characters a match has for certain: the more, the more specific.
    """

    kind: Literal["key", "pattern"]
    subject: str
    glob: str
    literals: int


def parse_subject(subject: str) -> Subject:
    r"""Read a limit's subject: ``*`` is any run of characters, ``\*`` a star, ``\\`` a backslash.

    Any other backslash is itself. Without a ``*`` it is one key.

    Raises:
        InvalidValue: If it is empty, or longer than any key.
    """
    checks.text("key", subject, high=_SUBJECT_CHARACTERS)
    symbols: list[str] = _SYMBOL.findall(subject)
    plain = [symbol[-1] for symbol in symbols if not symbol.startswith("*")]
    _some_key_or_pattern(plain)
    if len(plain) == len(symbols):
        return Subject(kind="key", subject="".join(plain), glob="", literals=len(plain))
    glob = "".join(_glob(symbol) for symbol in symbols)
    return Subject(kind="pattern", subject=subject, glob=glob, literals=len(plain))


def _some_key_or_pattern(plain: list[str]) -> None:
    # A pattern with more literal characters than a key can have would match nothing.
    if len(plain) > checks.KEY_CHARACTERS:
        problem = f"must have at most {checks.KEY_CHARACTERS:,} characters besides its stars"
        raise InvalidValue(name="key", problem=f"{problem}, this one has {len(plain):,}")


def _glob(symbol: str) -> str:
    if symbol.startswith("*"):
        return "*"
    char = symbol[-1]
    return f"[{char}]" if char in "*?[" else char
