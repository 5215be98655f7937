"""What the shell's completion script asks, and the answer to it."""

import contextlib
import io
import os
import shlex
import sys
from typing import Final

import typer

ASKED: Final = "_QWORKER_COMPLETE"
# Bash takes these for the ends of words, though they stand inside keys and options.
BREAKS: Final = frozenset(":=")


def is_asking() -> bool:
    """Tell whether a shell asks what may stand where somebody types."""
    return os.environ.get(ASKED, "").startswith("complete_")


def answer(app: typer.Typer) -> int:
    """Print what may stand there; nothing else is ever printed, whatever goes wrong.

    Returns:
        The exit code, which some shells read.
    """
    said = io.StringIO()
    typed: str | None = None
    code = 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
        try:
            if os.environ[ASKED] == "complete_bash":
                typed = _join_words()
            app(prog_name="qworker")
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        except Exception:  # noqa: BLE001  # a traceback must not appear amid what is typed
            return 1
    for line in filter(None, said.getvalue().splitlines()):
        sys.stdout.write(f"{line if typed is None else _for_bash(line, typed)}\n")
    return code


def _join_words() -> str:
    """Put words together that bash took apart, as in ``tenant:acme`` and ``--key=acme``.

    Returns:
        The last word as it is typed so far.
    """
    last = int(os.environ["COMP_CWORD"])
    joined: list[str] = []
    is_open = False
    for word in os.environ["COMP_WORDS"].split("\n")[: last + 1]:
        is_break = bool(word) and set(word) <= BREAKS
        if joined and (is_break or is_open):
            joined[-1] += word
        else:
            joined.append(word)
        is_open = is_break
    os.environ["COMP_WORDS"] = "\n".join(joined)
    os.environ["COMP_CWORD"] = str(len(joined) - 1)
    return joined[-1]


def _for_bash(value: str, typed: str) -> str:
    """Return a value as bash must get it: without what it does not replace, and quoted."""
    text = typed.partition("=")[2] if typed.startswith("-") else typed
    rest = value.removeprefix(text[: text.rfind(":") + 1])
    return rest if text[:1] in {"'", '"'} else shlex.quote(rest)
