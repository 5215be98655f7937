"""Death at every statement: ``python -m support.crashing FOLDER ACTION...`` prints what it found.

It has one thread and no file open when it forks. Each child opens a copy of one file, does one
thing, and kills itself at its n-th statement, those of triggers counted; n grows until one lives.
"""

import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from slotq.keys import parse_subject
from slotq.store import claims, due, jobs, leases, limits, statements
from slotq.store.connection import Database
from slotq.store.transaction import Tx
from slotq.testing import ManualClock
from support.recount import Rows, recount
from support.stores import TERMS, add_bulk, integrity, looking

START_MS: Final = 1_767_225_600_000
LATER_MS: Final = START_MS + 100_000
CLAIMER: Final = claims.Claimer(1, "fair", None, {"t"}, 30_000)
LEASE_MS: Final = 30_000

Action = Callable[[Tx], object]


def database_at(path: Path, now_ms: int) -> Database:
    return Database(path, clock=ManualClock(now_ms), create=True, durable=False, lock_timeout_s=10)


def target(subject: str, name: str = "") -> limits.Target:
    return limits.Target.of(parse_subject(subject), name)


def prepare(tx: Tx) -> None:
    """Make a bit of everything: ids 1-3 run, 4 failed, 5 is cancelled, 6 done, the rest wait."""
    window = limits.Change(max_running=3, max_starts=5, window=limits.Span(ms=60_000))
    limits.set_limit(tx, target("k*"), window, "test")
    limits.set_limit(tx, target("k1"), limits.Change(max_running=2), "test")
    daily = limits.Change(max_starts=50, window=limits.Span(unit="day", zone="UTC"))
    limits.set_limit(tx, target("k1", "daily"), daily, "test")
    for key in ("k1", "k1", "k2", "", "", ""):
        add_bulk(tx, 1, key)
    started = claims.claim(tx, CLAIMER, 6)
    assert len(started) == 6
    for one in started:
        if one.id in {4, 6}:
            how = leases.Failure("no", None) if one.id == 4 else leases.Success("1")
            assert leases.end(tx, one.lease, how)
        elif one.id == 5:
            assert leases.end(tx, (5, 1), leases.HandBack())
    assert jobs.cancel(tx, 5)
    add_bulk(tx, 3, "k1")
    add_bulk(tx, 3, "k2")
    jobs.add(tx, jobs.Terms(task="t", delay_ms=1_000), jobs.Call("[]", "{}", "k1"))
    jobs.add(tx, jobs.Terms(task="t", expires_in_ms=1_000), jobs.Call("[]", "{}", "k2"))


def turn(tx: Tx) -> None:
    """A turn of a worker: ends, what is due (leases too), claims."""
    leases.end(tx, (1, 1), leases.Success("1"))
    due.handle_due(tx)
    claims.claim(tx, CLAIMER, 3)


def enqueue_many(tx: Tx) -> None:
    """More than one statement stores at once."""
    add_bulk(tx, statements.JOBS_AT_ONCE + 1, "k1")
    add_bulk(tx, 2)


def prune(tx: Tx) -> None:
    assert jobs.prune(tx, LATER_MS, 10)
    jobs.prune_keys(tx, 0, 10)


ACTIONS: Final[dict[str, Action]] = {
    "enqueue": lambda tx: jobs.add(tx, TERMS, jobs.Call("[]", "{}", "k1")),
    "enqueue on a new key": lambda tx: jobs.add(tx, TERMS, jobs.Call("[]", "{}", "k9")),
    "enqueue many": enqueue_many,
    "claim": lambda tx: claims.claim(tx, CLAIMER, 2),
    "finish": lambda tx: leases.end(tx, (1, 1), leases.Success("1")),
    "fail": lambda tx: leases.end(tx, (2, 1), leases.Failure("no", "trace", 1_000)),
    "hand back": lambda tx: leases.end(tx, (3, 1), leases.HandBack()),
    "renew": lambda tx: leases.renew(tx, [(1, 1), (2, 1), (3, 1)]),
    "turn": turn,
    "set a limit": lambda tx: limits.set_limit(
        tx, target("k2"), limits.Change(max_running=1), "test"
    ),
    "set a pattern": lambda tx: limits.set_limit(
        tx, target("*"), limits.Change(max_starts=9, window=limits.Span(ms=1_000)), "test"
    ),
    "edit a limit": lambda tx: limits.set_limit(
        tx, target("k*"), limits.Change(max_running=1), "test"
    ),
    "clear a limit": lambda tx: limits.clear_limit(tx, target("k*"), every_name=True),
    "cancel": lambda tx: jobs.cancel(tx, 7),
    "ask for the end of a job": lambda tx: jobs.cancel(tx, 1),
    "retry": lambda tx: jobs.retry(tx, 4),
    "delete": lambda tx: jobs.delete(tx, 8),
    "prune": prune,
}


def left_in(path: Path) -> list[object]:
    """Return all that a whole file holds."""
    with looking(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        names = sorted(name for (name,) in tables.fetchall())
        return [connection.execute(f"SELECT * FROM {name}").fetchall() for name in names]


def check(path: Path) -> None:
    """Check what is left of a file."""
    assert integrity(path) == "ok"
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        recount(Rows(connection), None)
    finally:
        connection.close()


class Traced(sqlite3.Connection):
    """A connection that counts statements, and kills the process at one."""

    left = 0

    def __init__(
        self, database: str, *, uri: bool, timeout: float, isolation_level: None,
        check_same_thread: bool, cached_statements: int, factory: object,
    ) -> None:  # fmt: skip
        super().__init__(
            database,
            uri=uri,
            timeout=timeout,
            isolation_level=isolation_level,
            check_same_thread=check_same_thread,
            cached_statements=cached_statements,
        )
        self.set_trace_callback(self._count)

    @staticmethod
    def _count(_: str) -> None:
        Traced.left -= 1
        if Traced.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def in_child(path: Path, action: Action | None, die_at: int) -> bool:
    """Do it in a child that dies at a statement; return whether it did."""
    pid = os.fork()
    if pid == 0:
        try:
            # Types of a function that is replaced are beside the point here.
            setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Traced))  # noqa: B010
            random.seed(1)
            database = database_at(path, LATER_MS if action else START_MS)
            if action:
                with database.write():  # opened, and the clock set, before statements count
                    pass
            Traced.left = die_at
            with database.write() as tx:
                (action or prepare)(tx)
            os._exit(0)
        except BaseException:  # noqa: BLE001  # told, and then it ends
            traceback.print_exc()
        finally:
            os._exit(1)
    status = os.waitpid(pid, 0)[1]
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0, "the action failed"
    return os.WIFSIGNALED(status)


def fresh(folder: Path, template: Path | None) -> Path:
    """Return the path of a copy of a file, or of none."""
    shutil.rmtree(folder / "copy", ignore_errors=True)
    (folder / "copy").mkdir()
    path = folder / "copy" / "jobs.db"
    if template is not None:
        shutil.copyfile(template, path)
    return path


def die_everywhere(folder: Path, template: Path, action: Action) -> int:
    """Let children die until one lives; return how many died."""
    before = left_in(template)
    path = fresh(folder, template)
    assert not in_child(path, action, 0)
    check(path)
    after = left_in(path)
    assert before != after, "nothing was done"
    place = 1
    while True:
        path = fresh(folder, template)
        died = in_child(path, action, place)
        assert left_in(path) in (before, after), f"half done after death at statement {place}"
        if not died:
            return place - 1
        place += 1


def die_while_it_is_made(folder: Path, step: int) -> int:
    """The same where the file itself is made; what is left is made a queue by the next."""
    place = 1
    while True:
        path = fresh(folder, None)
        died = in_child(path, None, place)
        if died:
            assert not in_child(path, None, 0)
        check(path)
        if not died:
            return place // step
        place += step


def main(folder: Path, names: list[str]) -> None:
    """Do these, or make the file if there are none."""
    if not names:
        print(json.dumps({"make": die_while_it_is_made(folder, 29)}))  # noqa: T201
        return
    template = folder / "template.db"
    assert not in_child(template, None, 0)
    assert not in_child(template, lambda _: None, 0)
    check(template)
    deaths = {name: die_everywhere(folder, template, ACTIONS[name]) for name in names}
    print(json.dumps(deaths))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
