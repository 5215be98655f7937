"""A bit of everything, as one process of several does it to one file."""

import random
import time
from collections import Counter
from pathlib import Path

from slotq.clock import SystemClock
from slotq.keys import parse_subject
from slotq.store import jobs, limits, reads
from slotq.store.connection import Database
from support.stores import TERMS, run_one


def mixed(path: Path, seed: int, rounds: int) -> dict[str, int]:
    """Do things in a random order; return how often each, and the worst wait in milliseconds."""
    dice = random.Random(seed)
    database = Database(path, clock=SystemClock(), create=True, durable=False, lock_timeout_s=20.0)
    done: Counter[str] = Counter()
    worst_s = 0.0
    for _ in range(rounds):
        what = dice.choice(("enqueue", "run", "run", "limit", "prune", "list"))
        began = time.monotonic()
        if what == "list":
            with database.read() as reader:
                limits.list_limits(reader)
                reads.queues(reader)
        else:
            with database.write() as tx:
                if what == "enqueue":
                    calls = [jobs.Call("[]", "{}", f"k{dice.randrange(5)}") for _ in range(3)]
                    jobs.add_many(tx, TERMS, calls)
                    done["added"] += 3
                elif what == "run":
                    done["finished"] += run_one(tx) is not None
                elif what == "limit":
                    target = limits.Target.of(parse_subject(f"k{dice.randrange(5)}"), "")
                    change = limits.Change(max_running=dice.randint(1, 3))
                    limits.set_limit(tx, target, change, "test")
                else:
                    done["pruned"] += jobs.prune(tx, tx.now, 2)
        worst_s = max(worst_s, time.monotonic() - began)
        done[what] += 1
    database.close()
    return {**done, "worst_ms": int(worst_s * 1000)}
