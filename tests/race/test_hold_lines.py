"""Many threads of several processes take and drop holds of one key."""

import heapq
from collections.abc import Sequence
from pathlib import Path

import pytest

from slotq import Queue
from support import history, ledger
from support.history import Event
from support.hold_load import command, released

PROCESSES = 4
THREADS = 4
MOST = 3
# Long beside what passing a slot on costs, so that the line is what is measured.
HELD_S = 0.05
SECONDS = [3.0, pytest.param(10.0, marks=pytest.mark.soak)]


def bodies_of(path: Path) -> list[Event]:
    """Return what the blocks told, each after its arrival."""
    events = history.read(path.parent / "log")
    jobs = {event.job for event in events}
    return [*(Event(kind="enqueued", at=0, job=job, key="k") for job in jobs), *events]


@pytest.mark.slow
@pytest.mark.parametrize("seconds", SECONDS)
def test_blocks_of_many_threads_never_pass_the_limit(tmp_path: Path, seconds: float) -> None:
    """Refused at once, they look again at once: as many takes and drops as there can be."""
    with Queue(tmp_path / "jobs.db", lock_timeout=30) as queue:
        queue.set_limit("k", max_running=MOST)
        ledger.keep(queue.path)
        words = ("--threads", str(THREADS), "--seconds", str(seconds), "--held", "0.002")
        with released(queue.path, [command(queue.path, "grab", *words)] * PROCESSES) as programs:
            for program in programs:
                program.finish(seconds + 60)
        seen = ledger.read(queue.path)
        for verdict in (
            history.judge(seen, {"k": MOST}),
            history.judge(bodies_of(queue.path), {"k": MOST}),
        ):
            assert verdict.broken == []
            assert verdict.peaks == {"k": MOST}
            assert len(verdict.starts) > 50 * seconds, "they hardly got to it"
        assert len({event.pid for event in bodies_of(queue.path) if event.pid}) == PROCESSES
        assert (queue.holds(), queue.key("k").held) == ([], 0)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", SECONDS)
def test_who_waits_is_served_in_order_and_soon(tmp_path: Path, seconds: float) -> None:
    """By the numbers of their rows; nobody waits 1.5 times as long as those before him take."""
    with Queue(tmp_path / "jobs.db", lock_timeout=30) as queue:
        queue.set_limit("k", max_running=MOST)
        ledger.keep(queue.path)
        words = ("--threads", str(THREADS), "--seconds", str(seconds), "--held", str(HELD_S))
        with released(queue.path, [command(queue.path, "wait", *words)] * PROCESSES) as programs:
            for program in programs:
                program.finish(seconds + 60)
        seen = ledger.read(queue.path)
        verdict = history.judge(seen, {"k": MOST})
        assert verdict.broken == []
        assert verdict.peaks == {"k": MOST}
        assert history.judge(bodies_of(queue.path), {"k": MOST}).broken == []
        served = [-event.job for event in seen if event.kind == "start"]
        assert served == sorted(served)
        assert len(served) > seconds * MOST / HELD_S / 2
        waits = waits_of(seen)
        # All wait but those who find it empty at first.
        assert sum(implied > 0 for implied, _ in waits) >= len(served) - PROCESSES * MOST
        assert max(waited / implied for implied, waited in waits if implied > HELD_S * 500) <= 1.5
        assert (queue.holds(), queue.key("k").held) == ([], 0)


def waits_of(events: Sequence[Event]) -> list[tuple[float, int]]:
    """Return of each hold how long the line at its arrival had it wait, and how long it waited."""
    starts = {event.job: event.at for event in events if event.kind == "start"}
    ends = {event.job: event.at for event in events if event.kind == "end"}
    line: list[int] = []
    running: set[int] = set()
    waits: list[tuple[float, int]] = []
    for event in events:
        match event.kind:
            case "enqueued":
                line.append(event.job)
                free_at = sorted(float(ends[job]) for job in running)
                free_at += [float(event.at)] * (MOST - len(free_at))
                heapq.heapify(free_at)
                for job in line[:-1]:
                    began = max(heapq.heappop(free_at), event.at)
                    heapq.heappush(free_at, began + ends[job] - starts[job])
                implied = max(free_at[0] - event.at, 0.0)
                waits.append((implied, starts[event.job] - event.at))
            case "start":
                line.remove(event.job)
                running.add(event.job)
            case _:
                running.discard(event.job)
    return waits
