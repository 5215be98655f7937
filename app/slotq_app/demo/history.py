"""What a run recorded, and whether it broke a promise.

Each body leaves two marks in a log, one as it begins and one as it ends, timed by the one clock
that all processes of a host share. The queue file tells when each job was claimed. Nothing here
asks a limit whether it held.
"""

import contextlib
import os
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec

# Problems that are told one by one; more are counted.
SHOWN_PROBLEMS: Final = 5

Step = Literal["begin", "end"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One body began or ended.

    Attributes:
        at_ns: When, on the host's monotonic clock.
        step: Which of both.
        job: The number of the job in the plan.
        tenant: Whose it is.
    """

    at_ns: int
    step: Step
    job: int
    tenant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A job as the queue file has it after the run.

    Attributes:
        job: Its number in the plan.
        tenant: Whose it is.
        state: How it ended, or where it still is.
        attempt: How often it was started.
        waited_ms: From its enqueueing to its start; None if it never started.
        started_ms: When it was claimed; None if it never was.
        error: Why it failed; None if it did not.
    """

    job: int
    tenant: str
    state: str
    attempt: int
    waited_ms: int | None
    started_ms: int | None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What a tenant was promised: at most so many at once, and starts within a window."""

    max_running: int
    max_starts: int | None = None
    window_ms: int = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a tenant really had.

    Attributes:
        peak: Most bodies at once.
        most_starts: Most starts within a window's length; 0 without a window.
        waits_ms: How long each of its jobs waited, sorted.
    """

    peak: int
    most_starts: int
    waits_ms: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a run went.

    Attributes:
        findings: By tenant.
        problems: What went wrong, a line each; none if every promise was kept.
        at_limit: Tenants that had as many jobs at once as they may.
    """

    findings: Mapping[str, Finding]
    problems: Sequence[str]
    at_limit: int


class Log:
    """A file of marks that many threads and processes append to."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)

    @contextlib.contextmanager
    def run(self, job: int, tenant: str) -> Generator[None]:
        """Mark the beginning and the end of the block."""
        self._append("begin", job, tenant)
        try:
            yield
        finally:
            self._append("end", job, tenant)

    def _append(self, step: Step, job: int, tenant: str) -> None:
        mark = Mark(at_ns=time.monotonic_ns(), step=step, job=job, tenant=tenant)
        # One write of one line: appended as a whole, whoever else writes.
        os.write(self._fd, msgspec.json.encode(mark) + b"\n")


def log_path(database: Path) -> Path:
    """Return where the marks of a queue file are kept."""
    return database.with_name(f"{database.name}.marks")


def read(path: Path) -> list[Mark]:
    """Return the marks of a log."""
    with path.open("rb") as lines:
        return [msgspec.json.decode(line, type=Mark) for line in lines]


def judge(promises: Mapping[str, Promise], marks: Iterable[Mark], jobs: Sequence[Ended]) -> Verdict:
    """Compare what happened with what was promised.

    Args:
        promises: By tenant; every tenant has one.
        marks: What the bodies left.
        jobs: All jobs of the run.
    """
    marks = list(marks)
    peaks = _peaks(marks)
    starts: dict[str, list[int]] = defaultdict(list)
    waits: dict[str, list[int]] = defaultdict(list)
    for job in jobs:
        if job.started_ms is not None and job.waited_ms is not None:
            starts[job.tenant].append(job.started_ms)
            waits[job.tenant].append(job.waited_ms)
    findings = {
        tenant: Finding(
            peak=peaks[tenant],
            most_starts=most_within(starts[tenant], promise.window_ms) if promise.max_starts else 0,
            waits_ms=sorted(waits[tenant]),
        )
        for tenant, promise in promises.items()
    }
    at_limit = sum(findings[tenant].peak >= promises[tenant].max_running for tenant in promises)
    problems = [*_broken_limits(promises, findings), *_broken_runs(marks, jobs)]
    if not at_limit:
        problems.append("no tenant reached its limit, so the run proves nothing")
    return Verdict(findings=findings, problems=problems, at_limit=at_limit)


def most_within(instants: Iterable[int], length: int) -> int:
    """Return the most instants within any span; one exactly a length later is outside."""
    ordered = sorted(instants)
    most = first = 0
    for place, instant in enumerate(ordered):
        while instant - ordered[first] >= length:
            first += 1
        most = max(most, place - first + 1)
    return most


def percentile(ordered: Sequence[int], percent: int) -> int:
    """Return the value that so many percent of the sorted values do not exceed; 0 for none."""
    if not ordered:
        return 0
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def _peaks(marks: Iterable[Mark]) -> Counter[str]:
    running: Counter[str] = Counter()
    peaks: Counter[str] = Counter()
    # An end goes before a beginning at the same instant: they did not overlap.
    for mark in sorted(marks, key=lambda mark: (mark.at_ns, mark.step == "begin")):
        running[mark.tenant] += 1 if mark.step == "begin" else -1
        peaks[mark.tenant] = max(peaks[mark.tenant], running[mark.tenant])
    return peaks


def _broken_limits(
    promises: Mapping[str, Promise], findings: Mapping[str, Finding]
) -> Generator[str]:
    for tenant, promise in promises.items():
        found = findings[tenant]
        if found.peak > promise.max_running:
            yield f"{tenant}: {found.peak} ran at once, allowed are {promise.max_running}"
        if promise.max_starts is not None and found.most_starts > promise.max_starts:
            yield (
                f"{tenant}: {found.most_starts} starts within {promise.window_ms / 1000:g} s,"
                f" allowed are {promise.max_starts}"
            )


def _broken_runs(marks: Iterable[Mark], jobs: Sequence[Ended]) -> list[str]:
    """Find jobs that failed, were lost, ran more than once, or came from nowhere."""
    steps = Counter((mark.job, mark.step) for mark in marks)
    known = {job.job for job in jobs}
    problems: list[str] = []
    for job in jobs:
        name = f"job {job.job} of {job.tenant}"
        begun, ended = steps[job.job, "begin"], steps[job.job, "end"]
        if job.error is not None:
            problems.append(f"{name} {job.state}: {job.error}")
        elif job.state != "succeeded":
            problems.append(f"{name} is {job.state}")
        elif (begun, ended, job.attempt) != (1, 1, 1):
            problems.append(
                f"{name} began {begun} times and ended {ended} times in {job.attempt} attempts"
            )
    strangers = sorted({job for job, _ in steps} - known)
    problems += [f"job {job} ran and is not known" for job in strangers]
    if len(problems) > SHOWN_PROBLEMS:
        more = len(problems) - SHOWN_PROBLEMS
        problems = [*problems[:SHOWN_PROBLEMS], f"and {more} more jobs with a problem"]
    return problems
