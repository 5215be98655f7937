"""Tasks that tell what they do, and a worker of them as a program.

``python -m support.probe_tasks FILE FOLDER [--slots N] [--order O] ...`` runs such a worker. Bodies
write their starts and ends to ``FOLDER/log``; a gate waits for ``FOLDER/open`` or ``open-PID``.
"""

import argparse
import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import slotq
from support.history import Log
from support.procs import until

# How long a gate is waited for: longer than any test, so never the reason of a body's end.
GATE_S: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """Bodies; their first argument is a number that tells jobs apart."""

    folder: Path
    log: Log

    def mark(self, number: int, key: str = "") -> None:
        """Tell that it ran."""
        self.log.write("start", job=number, key=key)
        self.log.write("end", job=number)

    def work(self, number: int, key: str = "", seconds: float = 0.0) -> int:
        """Keep a thread busy."""
        self.log.write("start", job=number, key=key)
        time.sleep(seconds)
        self.log.write("end", job=number)
        return number

    async def awork(self, number: int, key: str = "", seconds: float = 0.0) -> int:
        """Be awaited."""
        self.log.write("start", job=number, key=key)
        await asyncio.sleep(seconds)
        self.log.write("end", job=number)
        return number

    def gate(self, number: int, key: str = "") -> int:
        """Run until somebody opens the gate, for all or for this process."""
        self.log.write("start", job=number, key=key)
        gates = self.folder / "open", self.folder / f"open-{os.getpid()}"
        until(lambda: any(gate.exists() for gate in gates), patience_s=GATE_S)
        self.log.write("end", job=number)
        return number

    def fail(self, number: int) -> None:
        """Fail."""
        self.mark(number)
        raise RuntimeError(f"job {number} fails")


def register(queue: slotq.Queue, folder: Path) -> None:
    """Make tasks of the bodies above, each named for its function."""
    probes = Probes(folder=folder, log=Log(folder / "log"))
    for body in (probes.mark, probes.work, probes.awork, probes.gate, probes.fail):
        queue.task(name=body.__name__)(body)


def command(path: Path, *options: str) -> list[str]:
    """Return what starts a worker on a file, with the file's folder for its log and gate."""
    return ["-m", "support.probe_tasks", str(path), str(path.parent), *options]


def main() -> None:
    """Run a worker."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--order", choices=("fair", "round-robin", "fifo"), default="fair")
    parser.add_argument("--lease", type=float, default=30.0)
    parser.add_argument("--burst", action="store_true")
    given = parser.parse_args()
    queue = slotq.Queue(given.file, lock_timeout=30)
    register(queue, given.folder)
    slotq.Worker(
        queue, slots=given.slots, order=given.order, lease=given.lease, burst=given.burst
    ).run()


if __name__ == "__main__":
    main()
