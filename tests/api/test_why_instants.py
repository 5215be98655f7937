"""At the instant that why names a job starts, and not a millisecond before."""

import random
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from slotq import Queue
from slotq.store import leases
from slotq.testing import ManualClock
from support.obstacles import Scene
from support.starting import held, registered, start, started
from support.twin_core import scratch
from support.windows import MS, at

SCENES = 150
ONLY_TIME = {"retry", "scheduled", "window", "slots", "own slots"}
HAPPENS = ONLY_TIME | {"several reasons", "starts at once"}


def enqueue(scene: Scene) -> int:
    """Store a job that comes at once, later, or again after it has failed."""
    dice, queue = scene.dice, scene.queue
    kind = dice.randrange(4)
    job = queue.enqueue(
        "t",
        key=scene.key,
        max_running=dice.choice((None, None, 1, 2)),
        delay=dice.choice((0.001, 3, 3_000)) if kind == 0 else 0,
    )
    if kind == 1:
        for claim in start(queue):
            failure = leases.Failure("no", None, again_ms=dice.choice((1, 5_000, 200_000)))
            with queue.database.write() as tx:
                assert leases.end(tx, claim.lease, failure) == "scheduled"
    return job.id


def check(scene: Scene, job_id: int) -> None:
    """Come when the last reason is over; look at the key, too."""
    queue, clock, seen = scene.queue, scene.clock, scene.seen
    reasons = {reason.kind: reason for reason in queue.why(job_id)}
    key = queue.key(scene.key)
    assert key in queue.keys(sort="key")
    window = reasons.get("window")
    assert key.next_start_at == (window.until if window else None)
    is_full = key.max_running is not None and key.running + key.held >= key.max_running
    assert is_full == ("slots" in reasons)
    if reasons.keys() == {"behind"}:
        assert reasons["behind"].data == {"ahead": 0}
        assert started(queue) == [job_id]
        assert queue.why(job_id) == []
        seen["starts at once"] += 1
        return
    assert reasons.keys() <= ONLY_TIME
    seen.update(reasons.keys())
    seen["several reasons"] += len(reasons) > 1
    untils = [reason.until for reason in reasons.values() if reason.until is not None]
    assert len(untils) == len(reasons)
    until = max(untils)
    last = {kind for kind, reason in reasons.items() if reason.until == until}
    if (until - MS).timestamp() * 1_000 >= clock.now_ms():
        at(clock, until - MS)
        if scene.dice.random() < 0.5:
            assert {reason.kind for reason in queue.why(job_id)} == last
        assert started(queue) == []
        assert [reason.until for reason in queue.why(job_id)] == [until] * len(last)
    at(clock, until)
    if scene.dice.random() < 0.5:
        assert [reason.kind for reason in queue.why(job_id)] == ["behind"]
    assert started(queue) == [job_id]
    assert queue.why(job_id) == []


def run(seeds: range, folder: Path) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in seeds:
        try:
            with Scene(folder / f"{seed}.db", seed) as scene:
                check(scene, enqueue(scene))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        seen += scene.seen
    return seen


def test_it_starts_when_the_last_reason_is_over() -> None:
    with scratch() as folder:
        seen = run(range(SCENES), folder)
    assert {what for what in HAPPENS if seen[what] == 0} == set()


@pytest.mark.soak
def test_it_starts_when_the_last_reason_is_over_in_many_more_scenes() -> None:
    first = random.randrange(10**9)
    with scratch() as folder:
        run(range(first, first + 3_000), folder)


def test_all_slots_of_a_lowered_limit_must_come_free(queue: Queue, clock: ManualClock) -> None:
    registered(queue, "t", lease_ms=3_600_000)
    job = queue.enqueue("t", key="k")
    now = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
    for slots, seconds in ((2, 5), (1, 9), (3, 20), (1, 40)):
        held(queue, "k", slots, now + timedelta(seconds=seconds))
    for max_running, seconds in ((1, 40), (2, 20), (4, 20), (5, 9), (7, 5)):
        queue.set_limit("k", max_running=max_running)
        (reason,) = queue.why(job.id)
        assert (reason.kind, reason.until) == ("slots", now + timedelta(seconds=seconds))
    queue.set_limit("k", max_running=2)
    at(clock, now + timedelta(seconds=20) - MS)
    assert started(queue) == []
    clock.advance(1)
    assert started(queue) == [job.id]


def test_what_has_no_end_names_no_instant(queue: Queue) -> None:
    registered(queue, "t")
    job = queue.enqueue("t", key="k", delay=5)
    queue.pause(key="k")
    held(queue, "k", 1, datetime.fromisoformat("2026-01-01T00:00:05+00:00"), state="waiting")
    assert [(reason.kind, reason.until) for reason in queue.why(job.id)] == [
        ("paused", None),
        ("held up", None),
        ("scheduled", job.run_at),
    ]
