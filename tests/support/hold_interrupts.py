"""Scenes in which blocks of holds are interrupted: ``python -m support.hold_interrupts SCENE FILE N``.

Each prints one JSON object when it is over: how many blocks were interrupted, how many of those
before they had their slot, and what was left. Then it stays, idle, until it is killed.
"""

import asyncio
import ctypes
import json
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from slotq import Hold, Queue

KEY = "k"
MOST = 3
TASKS = 20
# Longer than any test: what is free at the end was given back.
TTL_S = 600.0
HELD_S = 0.001
# A block of a round is hit within this time, most of them while they wait.
ROUND_S = 0.06


class InterruptError(BaseException):
    """What other threads raise in one."""


@dataclass(slots=True)
class Told:
    """What became of the blocks of a scene.

    Attributes:
        blocks: How many began.
        whole: How many ended by themselves.
        early: How many were interrupted before they had their slot.
        within: How many were afterwards: inside, or while they gave it back.
        left: Holds that were there after a round, though all its blocks had ended.
    """

    blocks: int = 0
    whole: int = 0
    early: int = 0
    within: int = 0
    left: int = 0

    def note(self, *, is_whole: bool, was_held: bool) -> None:
        """Count one block that has ended."""
        self.blocks += 1
        self.whole += is_whole
        self.early += not is_whole and not was_held
        self.within += not is_whole and was_held


def new(queue: Queue) -> Hold:
    """Return a hold that waits for as long as it takes."""
    return queue.hold(KEY, wait=60, ttl=TTL_S)


async def atask(queue: Queue, told: Told) -> None:
    """One block, that somebody may cancel."""
    was_held = is_whole = False
    try:
        async with new(queue):
            was_held = True
            await asyncio.sleep(HELD_S)
        is_whole = True
    except asyncio.CancelledError:
        pass
    finally:
        told.note(is_whole=is_whole, was_held=was_held)


def tasks(queue: Queue, rounds: int, chance: random.Random) -> Told:
    """Tasks of one loop, each cancelled at a random moment."""
    told = Told()

    async def play() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(rounds):
            blocks = [asyncio.create_task(atask(queue, told)) for _ in range(TASKS)]
            for block in blocks:
                loop.call_later(chance.uniform(0, ROUND_S), block.cancel)
            await asyncio.gather(*blocks, return_exceptions=True)
            told.left += len(await queue.aholds())

    asyncio.run(play())
    return told


def loops(queue: Queue, rounds: int, chance: random.Random) -> Told:
    """Loops that end at a random moment, with all their tasks."""
    told = Told()

    async def play() -> None:
        blocks = [asyncio.create_task(atask(queue, told)) for _ in range(TASKS)]
        await asyncio.sleep(chance.uniform(0, ROUND_S))
        assert blocks

    for _ in range(rounds):
        asyncio.run(play())
        told.left += len(queue.holds())
    return told


def block(queue: Queue, told: Told, lock: threading.Lock) -> None:
    """One block, in whose thread somebody may raise."""
    was_held = is_whole = False
    try:
        with new(queue):
            was_held = True
            time.sleep(HELD_S)
        is_whole = True
    except (InterruptError, KeyboardInterrupt):
        pass
    with lock:
        told.note(is_whole=is_whole, was_held=was_held)


def left_in(queue: Queue) -> int:
    """Return how many holds are left: what was hit as it left goes with the queue's next hold."""
    with queue.hold("another"):
        return len(queue.holds(key=KEY))


def threads(queue: Queue, rounds: int, chance: random.Random) -> Told:
    """Threads, in each of which an exception is raised at a random moment."""
    told, lock = Told(), threading.Lock()
    threading.excepthook = lambda _: None  # it comes as the block has ended already
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    for _ in range(rounds):
        blocks = [threading.Thread(target=block, args=(queue, told, lock)) for _ in range(TASKS)]
        began_s = time.monotonic()
        hits = sorted((began_s + chance.uniform(0, ROUND_S), place) for place in range(TASKS))
        for each in blocks:
            each.start()
        for at_s, place in hits:
            time.sleep(max(0.0, at_s - time.monotonic()))
            raise_in(ctypes.c_ulong(blocks[place].ident or 0), ctypes.py_object(InterruptError))
        for each in blocks:
            each.join()
        told.left += left_in(queue)
    return told


def sigint(queue: Queue, rounds: int, chance: random.Random) -> Told:
    """SIGINT in the main thread, which waits behind other threads, at a random moment."""
    told, lock = Told(), threading.Lock()
    for _ in range(rounds):
        others = [threading.Thread(target=block, args=(queue, Told(), lock)) for _ in range(MOST)]
        me = threading.main_thread().ident
        assert me is not None
        timer = threading.Timer(
            chance.uniform(0, ROUND_S / 3), signal.pthread_kill, (me, signal.SIGINT)
        )
        try:
            for other in others:
                other.start()
            timer.start()
            while timer.is_alive():
                block(queue, told, lock)
            timer.join()
        except KeyboardInterrupt:
            pass
        for each in (*others, timer):
            with suppress(RuntimeError):  # never started
                each.join()
        told.left += left_in(queue)
    return told


SCENES: dict[str, Callable[[Queue, int, random.Random], Told]] = {
    scene.__name__: scene for scene in (tasks, loops, threads, sigint)
}


def main() -> None:
    """Play one scene."""
    name, path, rounds, seed = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    if name == threads.__name__:
        # While an exception is pending for a thread that sleeps, Python 3.11 never gets past the
        # first line of a function that is traced, for coverage say, in any other. That of the log
        # is made with the queue.
        sys.settrace(None)
        threading.settrace(None)
    queue = Queue(Path(path), lock_timeout=30)
    queue.set_limit(KEY, max_running=MOST)
    told = SCENES[name](queue, int(rounds), random.Random(int(seed)))
    print(json.dumps(asdict(told)), flush=True)  # noqa: T201  # what the test reads
    signal.pause()


if __name__ == "__main__":
    main()
