"""Where the ``qworker`` command starts: nothing heavy is loaded before signals are set."""

import os
import signal
import sys
from types import FrameType

# Neither typing nor collections.abc: what is loaded here is time in which no signal is heeded.

INTERRUPTED = 130
"""The exit code after Ctrl-C, as of a shell: 128 and the signal's number."""


def main() -> None:
    """Run the command; Ctrl-C at any moment ends it without a word."""
    # Loading takes a tenth of a second, in which an interrupt would show the loader's traceback.
    is_worker = _is_worker(sys.argv[1:])
    heeds_interrupts = not is_worker and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    if is_worker:
        # Until it serves and has handlers of its own. The first process of a container would not
        # even notice: nothing ends that by default.
        signal.signal(signal.SIGTERM, _leave_unserved)
        signal.signal(signal.SIGINT, _leave_unserved)
    if heeds_interrupts:
        signal.signal(signal.SIGINT, _leave)
    from slotq_app import cli  # noqa: PLC0415

    try:
        if heeds_interrupts:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = cli.main()
    except KeyboardInterrupt:
        code = INTERRUPTED
    if heeds_interrupts:
        signal.signal(signal.SIGINT, _leave)
    raise SystemExit(code)


def _leave(number: int, frame: FrameType | None) -> None:
    """End at once: before the command began, or after it has ended."""
    del number, frame
    os._exit(INTERRUPTED)


def _is_worker(words: list[str]) -> bool:
    """Tell whether the command is ``run``: the first word that is no option of all commands."""
    left = iter(words)
    for word in left:
        if word == "--db":
            next(left, None)
        elif not word.startswith("-"):
            return word == "run"
    return False


def _leave_unserved(number: int, frame: FrameType | None) -> None:
    """End at once and in good order: nothing was claimed yet, so nothing is left behind.

    No exception: it would go through the code of an app that is being imported.
    """
    del number, frame
    os._exit(0)
