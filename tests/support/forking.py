"""Scenes with forks, each run in a process of its own: ``python -m support.forking SCENE PATH``.

A scene prints one JSON object. What children have to tell, they write to files beside the queue.
"""

import ctypes
import json
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from slotq.clock import SystemClock
from slotq.errors import SlotqError
from slotq.store.connection import Database
from support.stores import add, add_bulk, run_one

Lists = dict[str, list[int]]

CHILDREN = 8
JOBS_EACH = 40


def open_at(path: Path, lock_timeout_s: float = 20.0) -> Database:
    return Database(
        path, clock=SystemClock(), create=True, durable=False, lock_timeout_s=lock_timeout_s
    )


def note(path: Path, *values: object) -> None:
    """Add a line to what this process tells."""
    with path.with_name(f"told-{os.getpid()}").open("a", encoding="utf-8") as file:
        file.write(json.dumps(values) + "\n")


def told(path: Path) -> list[list[object]]:
    """Return what all children told."""
    return [
        json.loads(line)
        for file in sorted(path.parent.glob("told-*"))
        for line in file.read_text("utf-8").splitlines()
    ]


def child_of(action: Callable[[], object]) -> int:
    """Fork a child that does something and leaves by the shortest way; return its id."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return pid


def ended(*pids: int) -> list[int]:
    """Wait for children; return how they ended."""
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def work(database: Database) -> None:
    for _ in range(JOBS_EACH):
        (job_id,) = add(database)
        with database.write() as tx:
            done = run_one(tx)
        note(database.path, job_id, done)


def at_work(path: Path) -> Lists:
    """Fork children while another thread writes; they work, and leave in different ways."""
    database = open_at(path)
    add(database)
    with database.read():
        pass
    mine: list[int] = []
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            mine.extend(add(database))

    writer = threading.Thread(target=write)
    writer.start()

    def leave_by_exit() -> None:
        work(database)
        sys.exit(0)

    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=work, args=(database,)) for _ in range(CHILDREN // 2)]
    pids: list[int] = []
    for number, process in enumerate(processes):
        process.start()
        if number % 2:
            pids.append(child_of(lambda: work(database)))
        else:
            pid = os.fork()
            if pid == 0:
                leave_by_exit()
            pids.append(pid)
    codes = ended(*pids)
    for process in processes:
        process.join()
        codes.append(process.exitcode or 0)
    stop.set()
    writer.join()
    database.close()
    return {"codes": codes, "mine": [1, *mine]}


def outlived(path: Path) -> Lists:
    """A child goes on after its parent has closed the file."""
    database = open_at(path)
    add(database)
    with database.read():
        pass
    closed, close = os.pipe()

    def go_on() -> None:
        add(database, 5)
        note(path, "wrote")
        os.read(closed, 1)
        add(database, 5)

    pid = child_of(go_on)
    while not told(path):
        os.sched_yield()
    database.close()
    os.write(close, b"!")
    return {"codes": ended(pid)}


def exits(path: Path) -> Lists:
    """Children end in different ways; the log, which the parent has open, stays as it is."""
    database = open_at(path)
    log = path.with_name(f"{path.name}-wal")
    codes: list[int] = []
    for leave in (lambda: os._exit(3), lambda: sys.exit(4), database.close):
        for is_used in (True, False):
            waits, go = os.pipe()
            pid = os.fork()
            if pid == 0:
                if is_used:
                    add(database)
                note(path, "ready")
                os.read(waits, 1)
                leave()
                sys.exit(5)
            while len(told(path)) <= len(codes):
                os.sched_yield()
            add(database)
            before = log.stat()
            os.write(go, b"!")
            codes += ended(pid)
            after = log.stat()
            assert (before.st_ino, before.st_size) == (after.st_ino, after.st_size)
            add(database)
    return {"codes": codes}


def amid(path: Path) -> Lists:
    """A child is forked inside a transaction of its own thread."""
    database = open_at(path, 0.2)
    other = open_at(path, 0.2)
    add(database)

    def child() -> None:
        for each in (database, other, open_at(path)):
            try:
                add(each)
            except SlotqError as error:
                note(path, type(error).__name__, str(error))

    block = database.write()
    tx = block.__enter__()
    pid = os.fork()
    if pid == 0:
        try:
            block.__exit__(None, None, None)
        except SlotqError as error:
            note(path, type(error).__name__, str(error))
        child()
        sys.exit(7)
    codes = ended(pid)
    tx.run("UPDATE slotq_jobs SET rank = 5")
    block.__exit__(None, None, None)
    add(database)
    add(other)
    return {"codes": codes}


def long_write(path: Path) -> Lists:
    """A fork waits for a transaction of another thread."""
    database = open_at(path)
    add(database)
    begun = threading.Event()

    def write() -> None:
        with database.write() as tx:
            begun.set()
            add_bulk(tx, 5_000)

    writer = threading.Thread(target=write)
    writer.start()
    begun.wait()
    pid = child_of(lambda: note(path, *add(database)))
    codes = ended(pid)
    writer.join()
    return {"codes": codes}


def not_by_python(path: Path) -> Lists:
    """A server written in C forks on its own, and Python hears of it only in the child."""
    database = open_at(path)
    add(database)
    pid = ctypes.PyDLL(None).fork()
    if pid == 0:
        database.forget()
        try:
            add(database)
        except SlotqError as error:
            note(path, type(error).__name__, str(error))
        os._exit(0)
    codes = ended(pid)
    return {"codes": codes, "mine": add(database)}


def in_two_threads(path: Path) -> Lists:
    """Two threads fork at the same time, with two files open."""
    one, two = open_at(path), open_at(path.with_name("two.db"))
    add(one)
    add(two)
    codes: list[int] = []

    def fork() -> None:
        for _ in range(10):
            codes.extend(ended(child_of(lambda: (add(one), add(two)))))

    threads = [threading.Thread(target=fork) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"codes": codes}


SCENES = (at_work, outlived, exits, amid, long_write, not_by_python, in_two_threads)

if __name__ == "__main__":
    scene = next(scene for scene in SCENES if scene.__name__ == sys.argv[1])
    print(json.dumps(scene(Path(sys.argv[2]))))  # noqa: T201
