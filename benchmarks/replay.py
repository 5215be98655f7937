"""Replay a log of real jobs on a queue file: who waits how long, fair against fifo.

The log is in Standard Workload Format (plain or .gz): a line a job, of which the submit time, the run
time and the user are taken. Submit times are multiplied by 0.1, so that the machine is crowded. The
user is the job's key, of which four may run, on 16 worker slots. Time is a manual clock, so a log of
months takes seconds; all else is the engine itself on a real file: enqueue, limit, claim, end.

Without a log, one of the same shape is made up. Ends with 1 if a limit was passed, or if no user's
waits differ between the two orders.
"""

import argparse
import contextlib
import gzip
import heapq
import json
import random
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

import slotq
from floor import percentile
from slotq.store.claims import Claim, Claimer, claim
from slotq.store.due import handle_due
from slotq.store.leases import Success, end
from slotq.testing import ManualClock

Order = Literal["fair", "fifo"]
ORDERS: Final[tuple[Order, ...]] = ("fair", "fifo")

# Of each user in seconds, in order of length.
Waits = dict[Order, dict[int, list[float]]]

SLOTS: Final = 16
MAY_RUN: Final = 4
# Milliseconds for each second of the log's submit times.
SUBMIT_MS: Final = 100
SHOWN_USERS: Final = 15
MADE_JOBS: Final = 4_000
MADE_USERS: Final = 40
TASK: Final = "replayed"

# Fields of a line, and what stands for "unknown".
NUMBER, SUBMIT, RUN, USER = 0, 1, 3, 11
UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True)
class Entry:
    """One job of a log.

    Attributes:
        number: Its own in the log.
        submit_ms: When it is enqueued, from the beginning of the log.
        run_ms: How long its body takes.
        user: Whose it is.
    """

    number: int
    submit_ms: int
    run_ms: int
    user: int

    @property
    def key(self) -> str:
        """The key that it is limited by."""
        return f"user:{self.user}"


@dataclass(frozen=True, slots=True)
class Run:
    """What became of an entry.

    Attributes:
        entry: The entry.
        start_ms: Its start, from the beginning of the log.
    """

    entry: Entry
    start_ms: int

    @property
    def wait_s(self) -> float:
        """From submit to start."""
        return (self.start_ms - self.entry.submit_ms) / 1_000


@dataclass(frozen=True, slots=True)
class Replayed:
    """A log replayed in one order.

    Attributes:
        runs: Every job's, as they started.
        most_of_user: The most jobs of one user that ran at once.
        most: The most jobs that ran at once.
    """

    runs: Sequence[Run]
    most_of_user: int
    most: int

    @property
    def is_within(self) -> bool:
        """Whether no limit was passed."""
        return self.most_of_user <= MAY_RUN and self.most <= SLOTS


def parse(lines: Iterable[str]) -> tuple[list[Entry], int]:
    """Return the jobs of a log by submit time, and how many were left out: something is unknown.

    Raises:
        SystemExit: A line is none of a log.
    """
    entries: list[Entry] = []
    skipped = 0
    for place, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith(";"):
            continue
        fields = line.split()
        try:
            number, submit, run, user = (float(fields[at]) for at in (NUMBER, SUBMIT, RUN, USER))
        except (ValueError, IndexError):
            raise SystemExit(
                f"line {place} is not in Standard Workload Format: {line[:60]!r}"
            ) from None
        if min(submit, run, user) <= UNKNOWN:
            skipped += 1
        else:
            entries.append(
                Entry(int(number), round(submit * SUBMIT_MS), round(run * 1_000), int(user))
            )
    return sorted(entries, key=lambda entry: (entry.submit_ms, entry.number)), skipped


def read(path: Path) -> Sequence[str]:
    """Return the lines of a log."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("latin-1").splitlines()


def made_up(jobs: int, seed: int) -> list[str]:
    """Return a log of the usual shape: few users with most jobs, bursts, many short, few long runs."""
    dice = random.Random(seed)
    users = range(1, MADE_USERS + 1)
    shares = [1 / user for user in users]
    lines = ["; made up"]
    now = 0.0
    while len(lines) <= jobs:
        now += dice.expovariate(1 / 1_500)
        (user,) = dice.choices(users, shares)
        for _ in range(min(dice.choice((1, 1, 2, 5, 40)), jobs + 1 - len(lines))):
            run = int(dice.lognormvariate(4.2, 1.8))
            lines.append(
                f"{len(lines)} {int(now)} -1 {run} 1 -1 -1 -1 -1 -1 -1 {user} 1 -1 -1 -1 -1 -1"
            )
            now += dice.expovariate(1 / 5)
    return lines


class Replay:
    """One log on its way through one queue file.

    Args:
        path: Where the file is made.
        entries: The log's jobs, by submit time.
        order: That of the claims.
    """

    def __init__(self, path: Path, entries: Sequence[Entry], order: Order) -> None:
        self._clock = ManualClock()
        self._began_ms = self._clock.now_ms()
        self._queue = slotq.Queue(path, clock=self._clock)
        # There is no heartbeat here: a lease is as long as the longest run.
        lease_ms = max(entry.run_ms for entry in entries) + 1
        self._claimer = Claimer(1, order, None, {TASK}, lease_ms)
        self._coming = deque(entries)
        self._entries: dict[int, Entry] = {}
        # By their ends; ids break ties.
        self._running: list[tuple[int, int, Claim]] = []
        self._of_user: Counter[int] = Counter()

    def run(self) -> Replayed:
        """Replay all of it."""
        runs: list[Run] = []
        most_of_user = most = 0
        with self._queue as q:
            q.set_limit("user:*", max_running=MAY_RUN)
            while self._coming or self._running:
                now_ms = self._next_ms()
                self._clock.set(self._began_ms + now_ms)
                self._submit(now_ms)
                for entry in self._turn(now_ms):
                    runs.append(Run(entry, now_ms))
                    most_of_user = max(most_of_user, self._of_user[entry.user])
                most = max(most, len(self._running))
            assert q.stats().succeeded == len(runs) == len(self._entries)
        return Replayed(runs, most_of_user, most)

    def _next_ms(self) -> int:
        instants = [entry.submit_ms for entry in islice(self._coming, 1)]
        instants += [end_ms for end_ms, _, _ in self._running[:1]]
        return min(instants)

    def _submit(self, now_ms: int) -> None:
        while self._coming and self._coming[0].submit_ms <= now_ms:
            entry = self._coming.popleft()
            job = self._queue.enqueue(TASK, args=[entry.number], key=entry.key)
            self._entries[job.id] = entry

    def _turn(self, now_ms: int) -> list[Entry]:
        """Do what a worker does in one transaction; return what it started."""
        with self._queue.database.write() as tx:
            while self._running and self._running[0][0] <= now_ms:
                _, job_id, done = heapq.heappop(self._running)
                assert end(tx, done.lease, Success(None))
                self._of_user[self._entries[job_id].user] -= 1
            handle_due(tx)
            claims = claim(tx, self._claimer, SLOTS - len(self._running))
        started = [self._entries[each.id] for each in claims]
        for each, entry in zip(claims, started, strict=True):
            heapq.heappush(self._running, (now_ms + entry.run_ms, each.id, each))
            self._of_user[entry.user] += 1
        return started


def replay(entries: Sequence[Entry]) -> dict[Order, Replayed]:
    """Replay a log in each order."""
    with TemporaryDirectory(prefix="slotq-replay-") as folder:
        return {
            order: Replay(Path(folder) / f"{order}.db", entries, order).run() for order in ORDERS
        }


def waits_of(runs: Iterable[Run]) -> dict[int, list[float]]:
    """Return the waits of each user in seconds, in order."""
    waits: defaultdict[int, list[float]] = defaultdict(list)
    for run in runs:
        waits[run.entry.user].append(run.wait_s)
    return {user: sorted(of) for user, of in waits.items()}


def main() -> int:
    """Replay, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", nargs="?", type=Path, metavar="TRACE", help="a .swf or .swf.gz")
    parser.add_argument("--json", action="store_true", help="every start instead of a table")
    options = parser.parse_args()
    trace: Path | None = options.trace
    try:
        lines = made_up(MADE_JOBS, seed=1) if trace is None else read(trace)
    except (OSError, EOFError) as error:
        parser.error(f"{trace} cannot be read: {error}")
    entries, skipped = parse(lines)
    if not entries:
        parser.error(f"{trace} has no jobs")
    found = replay(entries)
    waits: Waits = {order: waits_of(replayed.runs) for order, replayed in found.items()}
    if options.json:
        print(_as_json(found, skipped))
    else:
        _print_table(waits)
        _print_rest(found, waits, skipped)
    is_within = all(replayed.is_within for replayed in found.values())
    return int(not (is_within and waits["fair"] != waits["fifo"]))


def _as_json(found: Mapping[Order, Replayed], skipped: int) -> str:
    starts = {
        order: [
            [run.entry.number, run.entry.user, run.entry.submit_ms, run.start_ms, run.entry.run_ms]
            for run in replayed.runs
        ]
        for order, replayed in found.items()
    }
    return json.dumps({"skipped": skipped, "slots": SLOTS, "may_run": MAY_RUN, "starts": starts})


def _print_table(waits: Waits) -> None:
    users = sorted(waits["fair"], key=lambda user: (-len(waits["fair"][user]), user))
    print(f"waits in seconds{'fair':>18}{'fifo':>30}")
    print(f"{'user':>6} {'jobs':>6} " + f" {'median':>9} {'p95':>9} {'most':>9}" * 2)
    for user in users[:SHOWN_USERS]:
        _print_line(str(user), *(waits[order][user] for order in ORDERS))
    _print_line("all", *(list(chain(*waits[order].values())) for order in ORDERS))


def _print_line(name: str, *waits: Sequence[float]) -> None:
    figures = (
        f" {percentile(of, 0.5):9,.1f} {percentile(of, 0.95):9,.1f} {max(of):9,.1f}" for of in waits
    )
    print(f"{name:>6} {len(waits[0]):6,} {''.join(figures)}")


def _print_rest(
    found: Mapping[Order, Replayed],
    waits: Waits,
    skipped: int,
) -> None:
    users = len(waits["fair"])
    jobs = len(found["fair"].runs)
    pairs = [(waits["fair"][user], waits["fifo"][user]) for user in waits["fair"]]
    differ = sum(fair != fifo for fair, fifo in pairs)
    better = sum(percentile(fair, 0.5) < percentile(fifo, 0.5) for fair, fifo in pairs)
    print(
        f"{jobs:,} jobs of {users} users; {skipped:,} left out, since something of them is unknown"
    )
    print(f"users whose waits differ: {differ} of {users}{'' if differ else ' missed'}")
    print(f"users whose median is shorter in fair: {better}")
    for order, replayed in found.items():
        print(
            f"{order}: at most {MAY_RUN} of a user at once: {replayed.most_of_user}; "
            f"at most {SLOTS} in all: {replayed.most}{'' if replayed.is_within else ' missed'}"
        )


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
