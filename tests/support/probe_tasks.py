"""Tasks that tell what they do, and a worker of them as a program.

``python -m support.probe_tasks FILE FOLDER [--slots N] [--order O] ...`` runs such a worker. Bodies
write their starts and ends to ``FOLDER/log``; a gate waits for ``FOLDER/open`` or ``open-PID``.
"""

import argparse
import os
from pathlib import Path

import slotq
from support.history import Log
from support.probes import Probes
from support.procs import until


def register(queue: slotq.Queue, folder: Path) -> None:
    """Make tasks of the probes, each named for its function."""
    for body in Probes(folder=folder, log=Log(folder / "log")).bodies():
        queue.task(name=body.__name__)(body)


def command(path: Path, *options: str) -> list[str]:
    """Return what starts a worker on a file, with the file's folder for its log and gate."""
    return ["-m", "support.probe_tasks", str(path), str(path.parent), *options]


def say_lost(event: slotq.RunEvent) -> None:
    """Tell that the hook of a lost lease was called."""
    print(f"hook: lost job {event.job}", flush=True)  # noqa: T201  # what the test reads


def main() -> None:
    """Run a worker."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--order", choices=("fair", "round-robin", "fifo"), default="fair")
    parser.add_argument("--lease", type=float, default=30.0)
    parser.add_argument("--lock-timeout", type=float, default=30.0)
    parser.add_argument("--burst", action="store_true")
    parser.add_argument("--barrier", action="store_true", help="begin when FOLDER/barrier is there")
    given = parser.parse_args()
    queue = slotq.Queue(given.file, lock_timeout=given.lock_timeout)
    register(queue, given.folder)
    queue.on("lost", say_lost)
    if given.barrier:
        (given.folder / f"ready-{os.getpid()}").touch()
        until((given.folder / "barrier").exists)
    slotq.Worker(
        queue, slots=given.slots, order=given.order, lease=given.lease, burst=given.burst
    ).run()


if __name__ == "__main__":
    main()
