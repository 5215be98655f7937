"""A log of real jobs, replayed by ``benchmarks/replay.py``: limits hold, and fair is not fifo."""

import gzip
import json
import os
import random
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.history import Event, judge

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "replay.py"
TRACE = os.environ.get("SLOTQ_TRACE")
SLOTS = 16
MAY_RUN = 4
HEAVY_USERS = range(1, 7)
LIGHT_USERS = range(7, 20)


@dataclass(frozen=True, slots=True)
class Run:
    """A job of a replay; all times in milliseconds from the beginning of the log."""

    number: int
    user: int
    submit: int
    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length


def replay(trace: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(SCRIPT), str(trace), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def runs_of(trace: Path) -> dict[str, list[Run]]:
    """Return the runs of a replay that ended well, by order."""
    done = replay(trace, "--json")
    assert done.returncode == 0, done.stderr
    starts: dict[str, list[list[int]]] = json.loads(done.stdout)["starts"]
    return {order: [Run(*start) for start in of] for order, of in starts.items()}


def line(number: int, submit: int, run: int, user: int) -> str:
    return f"{number:5} {submit:8} -1 {run:6} 32 -1 -1 -1 -1 -1 -1 {user:3} 1 2 -1 -1 -1 -1\n"


def usual_trace(path: Path, jobs: int) -> Path:
    """Write a log as of a shared machine: most jobs are in bursts of few users.

    There are enough of these that together they may fill all slots.
    """
    chance = random.Random(1993)
    with gzip.open(path, "wt", encoding="ascii") as trace:
        trace.write("; Version: 2.2\n; MaxJobs: made up\n;\n")
        now = 0
        for number in range(1, jobs + 1):
            now += 1 if number % 50 else chance.randint(0, 4_000)
            user = chance.choice(HEAVY_USERS if number % 50 < 40 else LIGHT_USERS)
            trace.write(line(number, now, max(1, int(chance.lognormvariate(4, 1.5))), user))
    return path


def check_limits(runs: Sequence[Run]) -> None:
    """Judge by the runs alone that no limit was passed, and that each was reached."""
    # At one instant ends come first. A run without length ends before the next one of its instant.
    steps: list[tuple[int, int, str, Run]] = []
    for place, run in enumerate(runs):
        after = 2 * place + 1
        steps.append((run.start, after, "start", run))
        steps.append((run.end, after + 1 if run.length == 0 else 0, "end", run))
    events = [Event(kind="enqueued", at=0, job=run.number, key=str(run.user)) for run in runs]
    live = most = 0
    for at, _, kind, run in sorted(steps, key=lambda step: step[:2]):
        live += 1 if kind == "start" else -1
        most = max(most, live)
        event = Event(
            kind="start" if kind == "start" else "end", at=at, job=run.number, key=str(run.user)
        )
        events.append(event)
    verdict = judge(events, {str(run.user): MAY_RUN for run in runs})
    assert verdict.broken == []
    assert max(verdict.peaks.values()) == MAY_RUN
    assert most == SLOTS


def waits(runs: Sequence[Run]) -> dict[int, list[int]]:
    found: defaultdict[int, list[int]] = defaultdict(list)
    for run in runs:
        found[run.user].append(run.start - run.submit)
    return {user: sorted(of) for user, of in found.items()}


def check(trace: Path, jobs: int) -> dict[str, dict[int, list[int]]]:
    """Check what holds for any log; return the waits of each user by order."""
    runs = runs_of(trace)
    assert runs.keys() == {"fair", "fifo"}
    for of in runs.values():
        assert len({run.number for run in of}) == len(of) == jobs
        assert all(run.start >= run.submit for run in of)
        check_limits(of)
    found = {order: waits(of) for order, of in runs.items()}
    assert found["fair"] != found["fifo"]
    return found


@pytest.mark.slow
def test_fair_keeps_a_burst_from_standing_before_other_users(tmp_path: Path) -> None:
    found = check(usual_trace(tmp_path / "made-up.swf.gz", 1_500), 1_500)
    medians = {
        user: tuple(statistics.median(found[order][user]) for order in ("fair", "fifo"))
        for user in found["fair"]
    }
    shorter = {user for user, (fair, fifo) in medians.items() if fair < fifo}
    assert shorter == set(LIGHT_USERS)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(TRACE is None, reason="SLOTQ_TRACE names no log to replay")
def test_limits_hold_in_a_real_log() -> None:
    assert TRACE is not None
    opened = gzip.open if TRACE.endswith(".gz") else open
    with opened(TRACE, "rt", encoding="latin-1") as trace:
        fields = [entry.split() for entry in trace if not entry.startswith(";")]
    known = [of for of in fields if of and "-1" not in {of[1], of[3], of[11]}]
    check(Path(TRACE), len(known))


def test_a_log_without_a_crowd_is_told_by_the_exit_code(tmp_path: Path) -> None:
    trace = tmp_path / "quiet.swf"
    trace.write_text("".join(line(n, n * 1_000, 10, n) for n in range(1, 6)), "ascii")
    done = replay(trace)
    assert done.returncode == 1
    assert "users whose waits differ: 0 of 5 missed" in done.stdout


def test_entries_with_unknown_fields_are_left_out(tmp_path: Path) -> None:
    trace = tmp_path / "gaps.swf"
    known = [line(n, n, 10, 1) for n in range(1, 4)]
    trace.write_text("".join([*known, line(4, -1, 10, 1), line(5, 5, -1, 1), line(6, 6, 10, -1)]))
    told = json.loads(replay(trace, "--json").stdout)
    assert told["skipped"] == 3
    assert [start[0] for start in told["starts"]["fifo"]] == [1, 2, 3]


def test_what_is_no_log_is_refused_in_one_line(tmp_path: Path) -> None:
    trace = tmp_path / "notes.txt"
    trace.write_text("; a comment\nthis is no log\n")
    done = replay(trace)
    assert done.returncode == 1
    assert done.stderr == "line 2 is not in Standard Workload Format: 'this is no log'\n"
