"""Bodies of jobs that tell what they do, each in a way of its own."""

import asyncio
import ctypes
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import slotq
from support.history import Log
from support.procs import auntil, until

# How long a gate is waited for: longer than any test, so never the reason of a body's end.
GATE_S: Final = 120.0
# How long a body that asks for it is put off.
SNOOZE_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """Bodies; their first argument is a number that tells jobs apart.

    Attributes:
        folder: Where gates and pipes are.
        log: Where starts and ends are told.
    """

    folder: Path
    log: Log

    def bodies(self) -> Sequence[Callable[..., object]]:
        """Return all of them."""
        return (
            self.mark, self.work, self.awork, self.gate, self.agate, self.heed, self.pipe, self.fail,
            self.snooze, self.spin, self.block, self.seize, self.perish,
        )  # fmt: skip

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
        until(self._is_open, patience_s=GATE_S)
        self.log.write("end", job=number)
        return number

    async def agate(self, number: int, key: str = "") -> int:
        """Be awaited until somebody opens the gate, or cancels it."""
        self.log.write("start", job=number, key=key)
        try:
            await auntil(self._is_open, patience_s=GATE_S)
        finally:
            self.log.write("end", job=number)
        return number

    def heed(self, number: int, key: str = "") -> int:
        """Run until somebody opens the gate, or the job says to leave; return the process."""
        job = slotq.current_job()
        self.log.write("start", job=number, key=key)
        until(lambda: self._is_open() or job.lost or job.cancelled, patience_s=GATE_S)
        if job.lost:
            self.log.write("lost", job=number, key=key)
        self.log.write("end", job=number)
        return os.getpid()

    def pipe(self, number: int, key: str = "") -> None:
        """Say through one pipe that it runs, and leave when something comes through another."""
        self.log.write("start", job=number, key=key)
        with (self.folder / "began").open("wb", buffering=0) as began:
            began.write(b".")
        with (self.folder / "leave").open("rb", buffering=0) as leave:
            leave.read(1)
        self.log.write("end", job=number)

    def fail(self, number: int) -> None:
        """Fail."""
        self.mark(number)
        raise RuntimeError(f"job {number} fails")

    def snooze(self, number: int, key: str = "") -> None:
        """Ask to be put off, the first time."""
        self.mark(number, key)
        asked = self.folder / f"snoozed-{number}"
        if not asked.exists():
            asked.touch()
            raise slotq.Snooze(SNOOZE_S)

    def spin(self, number: int, key: str = "", seconds: float = 0.0) -> int:
        """Keep the processor busy, in Python."""
        self.log.write("start", job=number, key=key)
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            pass
        self.log.write("end", job=number)
        return number

    async def block(self, number: int, key: str = "", seconds: float = 0.0) -> int:
        """Keep the event loop from everybody else."""
        return self.work(number, key, seconds)

    def seize(self, number: int, key: str = "", seconds: float = 0.0) -> int:
        """Keep the interpreter's lock in one C call, the first time; return the process."""
        self.log.write("start", job=number, key=key)
        if slotq.current_job().attempt == 1:
            ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
        self.log.write("end", job=number)
        return os.getpid()

    def perish(self, number: int, key: str = "") -> None:
        """Kill the worker."""
        self.log.write("start", job=number, key=key)
        os.kill(os.getpid(), signal.SIGKILL)

    def _is_open(self) -> bool:
        gates = self.folder / "open", self.folder / f"open-{os.getpid()}"
        return any(gate.exists() for gate in gates)
