"""After exactly retry_after there is room, and not a millisecond before."""

import itertools
import math
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slotq import InvalidValue, LimitExceeded, Queue
from slotq.testing import ManualClock
from support.obstacles import Scene
from support.starting import LEASE_MS, registered, start
from support.twin_core import scratch
from support.wrongly import wrongly

SCENES = 150
HAPPENS = {
    "cap lowered below what is held",
    "granted at once",
    "held past its end, not swept",
    "max_running",
    "max_running, its own",
    "max_starts",
    "refused again 1 ms before",
    "several limits full",
    "several slots",
}


def ask(scene: Scene) -> None:
    """Ask for slots of a key; if there are none, come back when there are said to be some."""
    queue, clock, seen = scene.queue, scene.clock, scene.seen
    wanted = scene.wanted()
    with queue.database.read() as reader:
        seen["held past its end, not swept"] += reader.value(
            "SELECT count(*) FROM slotq_holds WHERE until <= ?", (clock.now_ms(),)
        )
    try:
        wanted.acquire()
    except InvalidValue:
        assert wanted.slots > 1
        return
    except LimitExceeded as error:
        first = error
    else:
        seen["granted at once"] += 1
        return
    assert 0 < first.retry_after < math.inf
    wait_ms = round(first.retry_after * 1_000)
    assert wait_ms / 1_000 == first.retry_after
    seen[first.reason if first.limit else f"{first.reason}, its own"] += 1
    seen["several slots"] += wanted.slots > 1
    key = queue.key(scene.key)
    is_full = key.max_running is not None and key.held >= key.max_running
    seen["several limits full"] += is_full and key.next_start_at is not None
    if first.limit is not None:
        assert first.limit in key.limits
    if wait_ms > 1:
        clock.advance(wait_ms - 1)
        with pytest.raises(LimitExceeded) as again:
            wanted.acquire()
        assert (again.value.reason, again.value.limit) == (first.reason, first.limit)
        assert again.value.retry_after == 0.001
        seen["refused again 1 ms before"] += 1
    clock.advance(min(wait_ms, 1))
    assert wanted.acquire().id is not None


def run(seeds: range, folder: Path) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in seeds:
        try:
            with Scene(folder / f"{seed}.db", seed) as scene:
                ask(scene)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        seen += scene.seen
    return seen


def test_what_is_told_is_exact() -> None:
    """Field case 24: any limits, windows and holds; the wait that is told is the wait there is."""
    with scratch() as folder:
        seen = run(range(SCENES), folder)
    assert {what for what in HAPPENS if seen[what] == 0} == set()


@pytest.mark.soak
def test_what_is_told_is_exact_in_many_more_scenes() -> None:
    first = random.randrange(10**9)
    with scratch() as folder:
        run(range(first, first + 3_000), folder)


def test_the_oldest_start_in_the_way_counts(queue: Queue, clock: ManualClock) -> None:
    """Field case 24: starts at 0 and 10, two a minute; at 20 the wait is 40 s."""
    queue.set_limit("k", max_starts=2, window=60)
    for _ in range(2):
        queue.hold("k").acquire().release()
        clock.advance(10_000)
    with pytest.raises(LimitExceeded) as caught:
        queue.hold("k").acquire()
    assert caught.value.retry_after == 40.0
    with pytest.raises(LimitExceeded) as caught:
        queue.hold("k", slots=2).acquire()
    assert caught.value.retry_after == 50.0


def test_so_many_holds_must_end_that_all_slots_fit(queue: Queue) -> None:
    """Field case 24: of 3 slots, 2 for 30 s and 1 for 5 s; the wait for two is 30 s."""
    queue.set_limit("k", max_running=3)
    queue.hold("k", slots=2, ttl=30).acquire()
    queue.hold("k", ttl=5).acquire()
    for slots, retry_after in ((1, 5.0), (2, 30.0), (3, 30.0)):
        with pytest.raises(LimitExceeded) as caught:
            queue.hold("k", slots=slots).acquire()
        assert caught.value.retry_after == retry_after


def test_no_more_holds_must_end_than_have_the_slots(queue: Queue) -> None:
    queue.set_limit("k", max_running=3)
    queue.hold("k", slots=2, ttl=5).acquire()
    queue.hold("k", ttl=30).acquire()
    for slots, retry_after in ((1, 5.0), (2, 5.0), (3, 30.0)):
        with pytest.raises(LimitExceeded) as caught:
            queue.hold("k", slots=slots).acquire()
        assert caught.value.retry_after == retry_after


@pytest.mark.parametrize("order", list(itertools.permutations((5, 60, 3_600))))
def test_of_several_full_limits_the_last_to_have_room_is_named(
    queue: Queue, order: tuple[int, ...]
) -> None:
    for at, window in enumerate(order):
        queue.set_limit("k", max_starts=1, window=window, name=f"{at}")
    queue.set_limit("k", max_running=1, name="slots")
    queue.hold("k", ttl=600).acquire()
    with pytest.raises(LimitExceeded) as caught:
        queue.hold("k").acquire()
    assert (caught.value.retry_after, caught.value.reason) == (3_600.0, "max_starts")
    assert caught.value.limit is not None
    assert caught.value.limit.window == 3_600.0


def test_where_a_job_runs_it_goes_by_its_lease(queue: Queue, clock: ManualClock) -> None:
    queue.set_limit("k", max_running=1)
    registered(queue, "t")
    queue.enqueue("t", key="k")
    start(queue)
    clock.advance(1_000)
    with pytest.raises(LimitExceeded) as caught:
        queue.hold("k").acquire()
    assert caught.value.retry_after == (LEASE_MS - 1_000) / 1_000


def test_it_is_exact_though_thousands_of_others_have_ended_too(
    queue: Queue, clock: ManualClock
) -> None:
    """More is due than one transaction handles; what is due of the key itself is."""
    queue.set_limit("k", max_running=1, max_starts=1, window=9)
    queue.hold("other").acquire()
    with queue.database.write() as tx:
        tx.run(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)"
            " INSERT INTO slotq_holds (key_id, state, since, until, ttl_ms)"
            " SELECT (SELECT id FROM slotq_keys WHERE key = 'other'), 'held', ?1, ?1 + 8999, 8999"
            " FROM n",
            (tx.now,),
        )
    queue.hold("k", ttl=9).acquire()
    with pytest.raises(LimitExceeded) as caught:
        queue.hold("k").acquire()
    assert caught.value.retry_after == 9.0
    clock.advance(9_000)
    assert queue.hold("k").acquire().expires_at == datetime(2026, 1, 1, 0, 10, 9, tzinfo=UTC)


def test_after_the_clock_was_set_back_no_wait_is_longer_than_the_window_or_the_ttl(
    queue: Queue, clock: ManualClock
) -> None:
    """Field case 25: an hour back, then an hour forward; somebody only looks."""
    queue.set_limit("k", max_starts=3, window=60)
    queue.hold("k", ttl=30).acquire()
    queue.hold("k", slots=2, ttl=30).acquire()
    job = queue.enqueue("t", delay=10)
    registered(queue, "t", lease_ms=3_600_000)
    clock.advance(5_000 - 3_600_000)
    now = datetime.fromtimestamp(clock.now_ms() / 1_000, UTC)
    assert queue.key("k").next_start_at == now + timedelta(seconds=60)
    assert queue.key("k").held == 3
    clock.advance(30_000)
    assert queue.keys()[0].held == 0
    clock.advance(29_999)
    with pytest.raises(LimitExceeded) as caught:
        queue.hold("k").acquire()
    assert caught.value.retry_after == 0.001
    clock.advance(1)
    queue.hold("k", ttl=30).acquire()
    clock.advance(3_600_000)
    assert [claim.id for claim in start(queue)] == [job.id]
    with queue.hold("k", slots=3):
        pass  # what was taken an hour ago is over


@pytest.mark.parametrize("limit", [{"max_starts": 1, "window": 60}, {"max_running": 1}])
def test_who_is_refused_after_the_clock_was_set_back_is_not_refused_for_ever(
    queue: Queue, clock: ManualClock, limit: dict[str, object]
) -> None:
    """Field case 25: nobody but those who are refused comes to the file."""
    wrongly(queue.set_limit)("k", **limit)
    queue.hold("k", ttl=60).acquire()
    clock.advance(-3_600_000)
    for waited_ms in (0, 59_000):
        clock.advance(waited_ms)
        with pytest.raises(LimitExceeded) as caught:
            queue.hold("k").acquire()
        assert caught.value.retry_after == 60 - waited_ms / 1_000
    clock.advance(1_000)
    queue.hold("k").acquire()
