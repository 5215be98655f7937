"""A program that has a hold of the key "k": ``python -m support.hold_keeper FILE WAY [--ttl S]``.

It says ``held`` when it has its slot, and ``dropped`` when it has none any more. ``keep`` keeps it
until it is killed; ``wait`` waits for it, and drops it at once; ``fork`` keeps it in a child too;
``children`` has children that leave the block in several ways, then leaves it when ``leave`` lies
beside the file.
"""

import argparse
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from slotq import Hold, Queue
from support.procs import until


def say(*words: object) -> None:
    """Tell the test."""
    print(*words, flush=True)  # noqa: T201  # what the test reads


def keep(hold: Hold, _: Path) -> None:
    """Keep it until the process is killed."""
    with hold:
        say("held")
        signal.pause()


def wait(hold: Hold, _: Path) -> None:
    """Drop it as soon as it is there."""
    with hold:
        say("held")
    say("dropped")
    signal.pause()


def fork(hold: Hold, _: Path) -> None:
    """Have a child that goes on with what the slot is for."""
    with hold:
        child = os.fork()
        if child:
            say("child", child)
            say("held")
        signal.pause()


def children(hold: Hold, folder: Path) -> None:
    """Have children that leave the block."""
    with hold:
        say("held")
        leave_by(lambda: sys.exit(3), lambda: os._exit(4), lambda: None)
        say("all have left")
        until((folder / "leave").exists)
    say("dropped")
    signal.pause()


def leave_by(*ways: Callable[[], object]) -> None:
    """Leave the block of the caller in a child for each way, and wait for them."""
    for way in ways:
        pid = os.fork()
        if pid == 0:
            way()
            sys.exit(0)
        os.waitpid(pid, 0)


def main() -> None:
    """Hold."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("way", choices=("keep", "wait", "fork", "children"))
    parser.add_argument("--ttl", type=float, default=600.0)
    given = parser.parse_args()
    queue = Queue(given.file, lock_timeout=30)
    hold = queue.hold("k", ttl=given.ttl, wait=60 if given.way == "wait" else 0)
    {"keep": keep, "wait": wait, "fork": fork, "children": children}[given.way](
        hold, given.file.parent
    )


if __name__ == "__main__":
    main()
