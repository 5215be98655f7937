"""Programs that take and drop holds of the key "k", as a process of its own.

``python -m support.hold_load FILE WAY ...`` begins when ``barrier`` lies beside the file, and writes
to ``log`` there from when to when each of its blocks lasted. ``watch`` takes none: it looks at the
key until ``done`` lies there, and prints what it saw.
"""

import argparse
import json
import os
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from slotq import LimitExceeded, Queue
from slotq.holding import Hold
from support.history import Log
from support.procs import Process, processes, until

KEY = "k"


def command(path: Path, way: str, *options: str) -> list[str]:
    """Return what starts such a program on a file."""
    return ["-m", "support.hold_load", str(path), way, *options]


@contextmanager
def released(path: Path, commands: Sequence[Sequence[str]]) -> Generator[list[Process]]:
    """Start programs, and let them begin together once all are there."""
    with processes(commands, path.parent) as started:
        until(lambda: len(list(path.parent.glob("ready-*"))) == len(commands))
        (path.parent / "barrier").touch()
        yield started


class Load:
    """Threads of this process that take holds."""

    def __init__(self, path: Path, log: Log, held_s: float) -> None:
        self.queue = Queue(path, lock_timeout=30)
        self._log = log
        self._held_s = held_s

    def keep(self, hold: Hold) -> None:
        """Stay in the block of a hold for a while."""
        assert hold.id is not None
        self._log.write("start", job=-hold.id, key=KEY)
        if self._held_s:
            time.sleep(self._held_s)
        self._log.write("end", job=-hold.id)

    def wait(self) -> None:
        """Take one hold, waiting for it."""
        with self.queue.hold(KEY, wait=60) as hold:
            self.keep(hold)

    def ask(self) -> None:
        """Take one hold, or be refused and stay away for as long as the refusal says."""
        try:
            with self.queue.hold(KEY) as hold:
                self.keep(hold)
        except LimitExceeded as error:
            time.sleep(error.retry_after)

    def grab(self) -> None:
        """Take one hold, or be refused and look again at once."""
        try:
            with self.queue.hold(KEY) as hold:
                self.keep(hold)
        except LimitExceeded:
            os.sched_yield()


def repeat(act: Callable[[], None], seconds: float, times: int) -> None:
    """Do a thing again and again, for a time or so many times."""
    end_s = time.monotonic() + seconds
    while times or time.monotonic() < end_s:
        act()
        times -= bool(times)


def watch(path: Path) -> None:
    """Look at the key, and print how often and all that was seen of its counts."""
    looks, seen = 0, set[tuple[int, int, int]]()
    with Queue(path, lock_timeout=30) as queue:
        while not (path.parent / "done").exists():
            key = queue.key(KEY)
            seen.add((key.running, key.held, key.starts))
            looks += 1
            (path.parent / "looking").touch()
    print(json.dumps({"looks": looks, "seen": sorted(seen)}))  # noqa: T201  # what the test reads


def main() -> None:
    """Take holds until the time is over."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("way", choices=("wait", "ask", "grab", "watch"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--times", type=int, default=0)
    parser.add_argument("--held", type=float, default=0.0)
    given = parser.parse_args()
    folder = given.file.parent
    (folder / f"ready-{os.getpid()}").touch()
    until((folder / "barrier").exists)
    if given.way == "watch":
        watch(given.file)
        return
    load = Load(given.file, Log(folder / "log"), given.held)
    act = {"wait": load.wait, "ask": load.ask, "grab": load.grab}[given.way]
    errors: list[BaseException] = []

    def work() -> None:
        try:
            repeat(act, given.seconds, given.times)
        except BaseException as error:  # noqa: BLE001  # raised below
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(given.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    load.queue.close()
    if errors:
        raise errors[0]


if __name__ == "__main__":
    main()
