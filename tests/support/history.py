"""What happened, as one list of events, and a pure checker that says which promises it breaks.

Events come from two places. Bodies append theirs to a file, one JSON line each, with the host's
monotonic clock. The queue file keeps a ledger of its own (see ``ledger.py``), in the order of its
commits. Both are judged by the same rules.
"""

import json
import os
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, Self

Kind = Literal["enqueued", "start", "end", "limit", "killed", "stopped", "lost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened.

    Attributes:
        kind: A job was stored, a run began or ended, a limit was set or cleared, a process died, a
            process was stopped for longer than its leases, a run was told that its lease is lost.
        at: When, in the unit of its source.
        job: The job; 0 of limits and of what happens to processes.
        key: Of a job or a limit; "" for none.
        token: Of a run; 0 where the source does not tell.
        pid: The process that ran a body, died or was stopped.
        is_final: Whether an end is that of the job, and not of one attempt.
        max_running: Of a limit; None for none.
        max_starts: Of a limit; None for none.
        window: Of a limit, in the unit of ``at``.
    """

    kind: Kind
    at: int
    job: int = 0
    key: str = ""
    token: int = 0
    pid: int = 0
    is_final: bool = True
    max_running: int | None = None
    max_starts: int | None = None
    window: int = 0


class Log:
    """A file of events that many processes append to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def write(self, kind: Kind, *, job: int = 0, key: str = "", pid: int | None = None) -> None:
        """Append an event of now; one write, so that lines of processes never mix."""
        me = os.getpid() if pid is None else pid
        event = Event(kind=kind, at=time.monotonic_ns(), job=job, key=key, pid=me)
        os.write(self._fd, json.dumps(asdict(event)).encode() + b"\n")


def read(path: Path) -> list[Event]:
    """Return the events of a log file, by time."""
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines()
    return sorted((Event(**json.loads(line)) for line in lines), key=lambda event: event.at)


@dataclass(slots=True)
class Verdict:
    """What a history shows.

    Attributes:
        broken: The promises it breaks, one line each.
        peaks: The most runs at once of each key.
        reached: Keys whose running reached a limit in force.
        filled: Keys whose starts filled a window in force.
        starts: How often each job was started.
    """

    broken: list[str] = field(default_factory=list[str])
    peaks: Counter[str] = field(default_factory=Counter[str])
    reached: set[str] = field(default_factory=set[str])
    filled: set[str] = field(default_factory=set[str])
    starts: Counter[int] = field(default_factory=Counter[int])


class _Judge:
    def __init__(self) -> None:
        self.verdict = Verdict()
        self._keys: dict[int, str] = {}
        self._running: dict[int, Event] = {}
        self._zombies: set[tuple[int, int]] = set()
        self._live: Counter[str] = Counter()
        self._tokens: dict[int, int] = {}
        self._ended: Counter[int] = Counter()
        self._limits: dict[str, Event] = {}
        self._starts: defaultdict[str, deque[int]] = defaultdict(deque)

    def look(self, event: Event) -> None:
        match event.kind:
            case "enqueued":
                self._keys[event.job] = event.key
            case "start":
                self._start(event)
            case "end":
                self._end(event)
            case "limit":
                self._limit(event)
            case "killed" | "stopped":
                for run in [run for run in self._running.values() if run.pid == event.pid]:
                    self._leave(run)
                    if event.kind == "stopped":
                        self._zombies.add((run.job, run.pid))
            case "lost":
                pass  # says what a run knew, not what it did

    def conclude(self) -> Verdict:
        self._say(self._keys.keys() - self._ended.keys(), "lost: never ended")
        self._say({job for job, times in self._ended.items() if times > 1}, "doubled: ended twice")
        return self.verdict

    def _say(self, jobs: Iterable[int], problem: str) -> None:
        self.verdict.broken.extend(f"job {job} {problem}" for job in sorted(jobs))

    def _start(self, event: Event) -> None:
        broken = self.verdict.broken
        if event.job not in self._keys:
            broken.append(f"job {event.job} unexpected: it was never enqueued")
        if event.job in self._running:
            broken.append(f"job {event.job} doubled: it ran twice at once")
        if self._ended[event.job]:
            broken.append(f"job {event.job} doubled: it ran after its end")
        if 0 < event.token <= self._tokens.get(event.job, 0):
            broken.append(f"job {event.job} token {event.token} did not grow")
        self._tokens[event.job] = event.token
        self.verdict.starts[event.job] += 1
        self._running[event.job] = event
        if event.key:
            self._live[event.key] += 1
            self._starts[event.key].append(event.at)
            self._judge_key(event)

    def _judge_key(self, event: Event) -> None:
        key, verdict = event.key, self.verdict
        live = self._live[key]
        verdict.peaks[key] = max(verdict.peaks[key], live)
        limit = self._limits.get(key)
        if limit is None:
            return
        if limit.max_running is not None:
            if live > limit.max_running:
                verdict.broken.append(f"limit of {key}: {live} ran, {limit.max_running} may")
            elif live == limit.max_running:
                verdict.reached.add(key)
        if limit.max_starts is not None:
            recent = self._starts[key]
            while recent and recent[0] <= event.at - limit.window:
                recent.popleft()
            if len(recent) > limit.max_starts:
                verdict.broken.append(
                    f"window of {key}: {len(recent)} starts up to {event.at}, "
                    f"{limit.max_starts} may be"
                )
            elif len(recent) == limit.max_starts:
                verdict.filled.add(key)

    def _limit(self, event: Event) -> None:
        was = self._limits.pop(event.key, None)
        if event.max_starts is None or was is None or was.max_starts is None:
            # A window that begins to count begins at zero.
            self._starts[event.key].clear()
        if event.max_running is not None or event.max_starts is not None:
            self._limits[event.key] = event

    def _end(self, event: Event) -> None:
        if (event.job, event.pid) in self._zombies:
            self._zombies.remove((event.job, event.pid))
            return  # it no longer was its run to end
        run = self._running.get(event.job)
        if run is not None:
            self._leave(run)
        if event.is_final:
            self._ended[event.job] += 1

    def _leave(self, run: Event) -> None:
        del self._running[run.job]
        if run.key:
            self._live[run.key] -= 1


def judge(events: Sequence[Event], limits: Mapping[str, int] | None = None) -> Verdict:
    """Return what a history, in its order, breaks and shows.

    Args:
        events: The history. Bodies that were killed end where the driver saw the kill; of those of
            a process that was stopped past its leases nothing counts from there on.
        limits: ``max_running`` of keys from the beginning, for sources that do not tell of limits.
    """
    judging = _Judge()
    for key, most in (limits or {}).items():
        judging.look(Event(kind="limit", at=0, key=key, max_running=most))
    for event in events:
        judging.look(event)
    return judging.conclude()
