"""Why a job does not run, against the view that lets it start; and what asking costs."""

import tempfile
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotq import Queue
from slotq.store import jobs
from slotq.store.limits import Change, Span, Target, set_limit
from slotq.store.opening import connect, prepare
from slotq.store.reasons import why
from slotq.store.transaction import Tx
from slotq.testing import ManualClock
from support.starting import finish, start
from support.stores import TERMS

# What keeps a key from giving a start; the rest lies with workers, queues and the line.
OF_KEY = {"window", "slots", "own slots", "held up"}


@dataclass(frozen=True, slots=True)
class Scene:
    """What stands in the way of a job of one key, or does not."""

    running: int
    ended: int
    max_running: int | None
    own: int | None
    max_starts: int | None
    paused: bool
    queued: bool


SCENES = st.builds(
    Scene,
    running=st.integers(0, 3),
    ended=st.integers(0, 2),
    max_running=st.none() | st.integers(1, 4),
    own=st.none() | st.integers(1, 4),
    max_starts=st.none() | st.integers(1, 6),
    paused=st.booleans(),
    queued=st.booleans(),
)


def made(queue: Queue, scene: Scene) -> int:
    """Make the scene; return the job that waits in it."""
    queue.set_limit("k", max_running=99, max_starts=99, window=60, name="any")
    for _ in range(scene.running + scene.ended):
        queue.enqueue("t", key="k")
    running = start(queue, 9)
    finish(queue, *running[: scene.ended])
    if scene.max_running is not None:
        queue.set_limit("k", max_running=scene.max_running)
    if scene.max_starts is not None:
        queue.set_limit("k", max_starts=scene.max_starts, name="any")
    job = queue.enqueue("t", key="k", max_running=scene.own)
    with queue.database.write() as tx:
        if scene.queued:
            tx.run(
                "INSERT INTO slotq_holds (key_id, state, since, until, ttl_ms)"
                " SELECT id, 'waiting', ?1, ?1 + 9, 9 FROM slotq_keys WHERE key = 'k'",
                (tx.now,),
            )
        tx.run("UPDATE slotq_keys SET paused = ? WHERE key = 'k'", (int(scene.paused),))
    return job.id


@given(scene=SCENES)
def test_a_key_has_a_reason_just_where_the_view_says_shut(scene: Scene) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Queue(Path(folder) / "jobs.db", clock=ManualClock()) as queue,
    ):
        job_id = made(queue, scene)
        with queue.database.read() as reader:
            is_open = reader.value(
                "SELECT o.open FROM slotq_lane_open o JOIN slotq_jobs j ON j.lane_id = o.lane_id"
                " WHERE j.id = ?",
                (job_id,),
            )
        reasons = queue.why(job_id)
        kinds = {reason.kind for reason in reasons if reason.kind in OF_KEY or "key" in reason.data}
        assert bool(is_open) == (not kinds)
        starts = scene.running + scene.ended
        assert kinds == {
            kind
            for kind, applies in {
                "paused": scene.paused,
                "window": scene.max_starts is not None and starts >= scene.max_starts,
                "slots": scene.max_running is not None and scene.running >= scene.max_running,
                "own slots": scene.own is not None and scene.running >= scene.own,
                "held up": scene.queued,
            }.items()
            if applies
        }


def cost(path: Path, total: int, number: int) -> int:
    """Return what the question costs, in steps of SQLite, for one of so many jobs of a full key."""
    connection = connect(path, mode="rwc", durable=False)
    with closing(connection):
        prepare(connection, path, 0.0)
        connection.execute("BEGIN IMMEDIATE")
        tx = Tx(connection, ManualClock())
        fill(tx, total)
        steps = 0

        def step() -> None:
            nonlocal steps
            steps += 1

        connection.set_progress_handler(step, 1)
        reasons = why(tx, number, tx.now)
        connection.set_progress_handler(None, 0)
        tx.close()
        connection.execute("COMMIT")
    assert {"window", "slots", "own slots"} <= {reason.kind for reason in reasons}
    return steps


def fill(tx: Tx, total: int) -> None:
    """Store jobs of one key whose slots and window are full."""
    terms = jobs.Terms(task="t", cap=1)
    target = Target("key", "k", "")
    set_limit(tx, target, Change(max_running=1, max_starts=1, window=Span(3_600_000)), "test")
    jobs.add_many(tx, terms, [jobs.Call("[]", "{}", "k")] * total)
    jobs.add_many(tx, TERMS, [jobs.Call("[]", "{}", f"k{at % 50}") for at in range(total)])
    tx.run(
        "UPDATE slotq_jobs SET state = 'running', token = 1, attempt = 1, started_at = ?1,"
        " lease_until = ?1 + 9, lease_ms = 9, worker_id = 1 WHERE id = 1",
        (tx.now,),
    )


def test_asking_costs_the_same_behind_any_backlog(tmp_path: Path) -> None:
    files = (tmp_path / f"{number}.db" for number in count(1))
    assert cost(next(files), 20_000, 2) == pytest.approx(cost(next(files), 100, 2), rel=0.1)
    deep = cost(next(files), 2_000, 2_000)
    assert cost(next(files), 20_000, 20_000) == pytest.approx(deep, rel=0.1)
    assert deep < 20_000
