"""``python -m support.mixed_load FILE SECONDS SEED``: all that people do to a queue, at random.

Prints the time that the slowest call took, in seconds.
"""

import asyncio
import contextlib
import random
import sys
import time
from collections.abc import Callable

import slotq


def verbs(queue: slotq.Queue, chance: random.Random) -> list[Callable[[], object]]:
    """Return calls of every kind, each with a key by chance."""
    task = queue.task(name="t", key="{key}")(nothing)

    def key() -> str:
        return f"k{chance.randrange(20)}"

    def act() -> object:
        jobs = queue.jobs(state="scheduled", limit=1)
        return queue.cancel(jobs[0].id) if jobs else None

    return [
        lambda: task.enqueue(key()),
        lambda: task.options(delay=chance.random()).enqueue(key()),
        lambda: task.enqueue_many([(key(),) for _ in range(50)]),
        lambda: queue.set_limit(key(), max_running=chance.randint(1, 5)),
        lambda: queue.clear_limit(key()),
        lambda: queue.set_limit("k*", max_starts=chance.randint(50, 500), window=1),
        lambda: queue.key(key()),
        lambda: queue.keys(limit=5),
        lambda: queue.jobs(limit=20),
        queue.stats,
        lambda: queue.prune(older_than=chance.random()),
        act,
    ]


def nothing(key: str) -> None:
    """Do nothing for a key."""


async def load(path: str, seconds: float, seed: int) -> float:
    """Work and call for some seconds; return how long the slowest call took."""
    queue, chance = slotq.Queue(path), random.Random(seed)
    calls = verbs(queue, chance)
    worker = slotq.Worker(queue, slots=2, lease=1)
    serving = asyncio.create_task(worker.serve())
    end_s, slowest_s = time.monotonic() + seconds, 0.0
    while (began_s := time.monotonic()) < end_s:
        # A job may have gone, or have started, since it was listed.
        with contextlib.suppress(slotq.JobNotFound, slotq.InvalidValue):
            await asyncio.to_thread(chance.choice(calls))
        slowest_s = max(slowest_s, time.monotonic() - began_s)
    worker.stop()
    await serving
    return slowest_s


if __name__ == "__main__":
    slowest = asyncio.run(load(sys.argv[1], float(sys.argv[2]), int(sys.argv[3])))
    sys.stdout.write(f"{slowest}\n")
