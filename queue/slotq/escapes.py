"""Text from elsewhere, made safe to show: no character of it acts on a terminal or hides."""

import re
import unicodedata
from typing import Final

# Controls (C0, DEL, C1), line and paragraph separators, all that turns the direction of text,
# lone surrogates, and what has no shape: soft hyphen, zero width spaces, fillers, tags. Spelled
# out, since each version of Python knows another Unicode, and newer emoji must not be taken for
# one of these. Variation selectors are not among them. The first part is a flag made of tags.
_HIDDEN: Final = re.compile(
    r"\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f"
    r"|[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff"
    r"\ufeff\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
)
_FLAG: Final = "\U0001f3f4"
_JOINERS: Final = frozenset("\u200c\u200d")
# What joiners follow where they mean something: emoji, their skin tones and variation selectors,
# marks, and letters of scripts without upper case.
_JOINED: Final = frozenset({"So", "Sk", "Mn", "Mc", "Lo"})


def visible(text: str, *, lines: bool = False) -> str:
    r"""Return text in which each character that acts or hides stands as an escape.

    Controls become ``\n``, ``\x1b`` or ``\x9b``; what turns the direction of text, line and
    paragraph separators, lone surrogates and invisible characters become ``\u202e`` or
    ``\U000e0041``. A backslash stays as it is, so the text cannot be read back. Letters of any
    script, spaces of any width and emoji stay, also those that are joined from several.

    Args:
        text: Any text, such as what a job said or raised.
        lines: Whether a line feed stays one.
    """
    if text.isprintable():
        return text
    if lines:
        return "\n".join(map(visible, text.split("\n")))
    return _HIDDEN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    found = match[0]
    if found[0] == _FLAG or (found in _JOINERS and _joins(match)):
        return found
    return found.encode("unicode_escape").decode("ascii")


def _joins(match: re.Match[str]) -> bool:
    text, at = match.string, match.start()
    if at == 0 or at + 1 == len(text) or text[at + 1].isascii() or _HIDDEN.match(text[at + 1]):
        return False
    return unicodedata.category(text[at - 1]) in _JOINED
