"""A second process that does what a test tells it, one step at a time.

Run as ``python -m support.partner`` it reads a JSON list a line, a verb and its values, and answers
each with ``["ok", value]`` or ``["error", class, text]``.
"""

import fcntl
import json
import os
import resource
import select
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from slotq.clock import SystemClock
from slotq.errors import SlotqError
from slotq.store import jobs, log, migrate
from slotq.store.connection import Database
from slotq.store.turnstile import Turnstile
from support.mixed import mixed
from support.procs import PATIENCE_S, until
from support.stores import TERMS, add

if TYPE_CHECKING:
    from slotq.store.blocks import Block
    from slotq.store.transaction import Reader, Tx

NOBODY = 65_534


class RefusedError(AssertionError):
    """The partner's step raised."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        super().__init__(f"{kind}: {text}")


class Partner:
    """The process, seen from the test."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.partner"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._heard = b""
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on()
        self.kill()

    def ask(self, verb: str, *values: object) -> object:
        """Have a step done; return what came of it."""
        self.tell(verb, *values)
        return self.hear()

    def tell(self, verb: str, *values: object) -> None:
        """Have a step done, without waiting for it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([verb, *values]).encode() + b"\n")
        self._process.stdin.flush()

    def hear(self, patience_s: float = PATIENCE_S) -> object:
        """Wait for the end of the oldest step not heard of."""
        kind, *told = json.loads(self._line(patience_s))
        if kind == "error":
            raise RefusedError(*told)
        return told[0]

    def hear_ids(self) -> list[int]:
        """The same, of a step that returns ids."""
        answer: list[int] = json.loads(json.dumps(self.hear()))
        return answer

    def hear_counts(self, patience_s: float) -> dict[str, int]:
        """The same, of a step that returns counts."""
        answer: dict[str, int] = json.loads(json.dumps(self.hear(patience_s)))
        return answer

    def _line(self, patience_s: float) -> bytes:
        assert self._process.stdout is not None
        deadline = time.monotonic() + patience_s
        while b"\n" not in self._heard:
            left_s = deadline - time.monotonic()
            assert select.select([self._process.stdout], [], [], max(0, left_s))[0], "no answer"
            more = os.read(self._process.stdout.fileno(), 65_536)
            assert more, f"the partner has ended: {self._process.wait()}"
            self._heard += more
        line, _, self._heard = self._heard.partition(b"\n")
        return line

    def stop(self) -> None:
        """Freeze it; frozen when this returns."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def go_on(self) -> None:
        """Let a frozen one go on."""
        if self._process.poll() is None:
            os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it at once; gone when this returns."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


class Doer:
    """The process, seen from inside: each method is a verb."""

    def __init__(self) -> None:
        self._database: Database | None = None
        self._write: Block[Tx] | None = None
        self._tx: Tx | None = None
        self._read: tuple[Block[Reader], Reader] | None = None
        self._foreign: sqlite3.Connection | None = None
        self._turnstile: Turnstile | None = None

    def use(self, path: str, lock_timeout_s: float, create: bool = True) -> None:
        """Make a database; nothing is opened yet."""
        self._database = Database(
            Path(path), clock=SystemClock(), create=create, durable=False,
            lock_timeout_s=lock_timeout_s,
        )  # fmt: skip

    def add(self, count: int) -> list[int]:
        """Store jobs."""
        return add(self._db(), count)

    def begin(self) -> None:
        """Begin a write transaction."""
        self._write = self._db().write()
        self._tx = self._write.__enter__()

    def fill(self, size: int) -> None:
        """Add a job of this size in it."""
        assert self._write is not None
        assert self._tx is not None
        jobs.add(self._tx, TERMS, jobs.Call(f'["{"x" * size}"]', "{}", ""))

    def limit_files(self, size: int) -> None:
        """Let no file of this process grow beyond a size; -1 for any."""
        (_, hard) = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))

    def commit(self) -> None:
        """End it."""
        assert self._write is not None
        self._write.__exit__(None, None, None)

    def read(self) -> int:
        """Begin a read transaction; return how many jobs there are."""
        block = self._db().read()
        self._read = (block, block.__enter__())
        return self.count()

    def count(self) -> int:
        """Return how many jobs there are in the read transaction."""
        assert self._read is not None
        return int(self._read[1].value("SELECT count(*) FROM slotq_jobs"))

    def read_end(self) -> None:
        """End it."""
        assert self._read is not None
        self._read[0].__exit__(None, None, None)

    def foreign(self, path: str, sql: str) -> None:
        """Run a statement like a program that knows nothing of slotq."""
        if self._foreign is None:
            self._foreign = sqlite3.connect(path, isolation_level=None)
        self._foreign.execute(sql).fetchall()

    def close(self) -> None:
        """Close the database."""
        self._db().close()

    def fold_at(self, size: int) -> None:
        """Have this process fold logs of this size."""
        setattr(log, "FOLD_AT_BYTES", size)  # noqa: B010  # a constant but for tests

    def log_size(self) -> int:
        """Return the size of the log."""
        return self._db().log.size()

    def enter(self, directory: str, wait_s: float) -> bool:
        """Enter a turnstile."""
        if self._turnstile is None:
            self._turnstile = Turnstile(Path(directory))
        return self._turnstile.enter(time.monotonic() + wait_s)

    def leave(self) -> None:
        """Leave it."""
        assert self._turnstile is not None
        self._turnstile.leave()

    def count_up(self, directory: str, me: int, least: int, most: int) -> int:
        """Count turns in a file that nothing but the turnstile guards; return those of this one.

        They count from when all have come, until all have had some or there were very many.
        """
        turnstile = Turnstile(Path(directory))
        counts = Path(directory, "counts")
        mine = 0
        while True:
            assert turnstile.enter(time.monotonic() + PATIENCE_S)
            try:
                now: list[int] = json.loads(counts.read_bytes())
                if min(now) > least or sum(now) > most:
                    return mine
                if min(now) > 0 or now[me] == 0:
                    now[me] += 1
                    mine += 1
                    counts.write_text(json.dumps(now), "ascii")
            finally:
                turnstile.leave()

    def barrier(self, path: str) -> None:
        """Wait until the test lets all go at once."""
        with Path(path).open("rb") as gate:
            fcntl.flock(gate, fcntl.LOCK_SH)

    def first(self, path: str, barrier: str) -> list[int]:
        """Meet the others at the barrier, then use a file and add one job."""
        self.use(path, 20.0)
        self.barrier(barrier)
        try:
            return self.add(1)
        finally:
            self.close()

    def mixed(self, path: str, seed: int, rounds: int) -> dict[str, int]:
        """Do a bit of everything."""
        return mixed(Path(path), seed, rounds)

    def nobody(self) -> None:
        """Become an ordinary user for good; what is read or imported late is so before."""
        migrate.newest()
        Path("/").as_uri()
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)

    def _db(self) -> Database:
        assert self._database is not None
        return self._database


def _serve() -> None:
    doer = Doer()
    for line in sys.stdin:
        verb, *values = json.loads(line)
        try:
            answer = ["ok", getattr(doer, verb)(*values)]
        except (SlotqError, sqlite3.Error) as error:
            answer = ["error", type(error).__name__, str(error)]
        print(json.dumps(answer), flush=True)  # noqa: T201


def wait_until_taken(lock: Path) -> None:
    """Wait until another process has a lock file."""
    with lock.open("rb") as file:

        def is_taken() -> bool:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            fcntl.flock(file, fcntl.LOCK_UN)
            return False

        until(is_taken)


if __name__ == "__main__":
    _serve()
