"""What limits, windows and orders promise, one example each, through the store's own functions.

After each test the file is compared with the reference model, and its counts are counted anew.
"""

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotq.keys import ANY, key
from slotq.model import ORDERS, Order
from slotq.store.claims import Claim
from slotq.store.limits import Span
from support.twin import STRANGE, Twin
from support.twin_core import scratch

MINUTE = Span(60_000)


@pytest.fixture
def twin() -> Generator[Twin]:
    with scratch() as folder, closing(Twin(folder / "jobs.db")) as opened:
        yield opened
        opened.check()


def keys_of(twin: Twin, claims: Sequence[Claim]) -> list[str]:
    return [twin.model.jobs[claim.id].key for claim in claims]


def end_all(twin: Twin, claims: Sequence[Claim]) -> None:
    for claim in claims:
        assert twin.end(claim)


# Limits.


def test_cap_and_a_window_set_later_hold_both_at_once(twin: Twin) -> None:
    twin.set_limit("k", max_running=2)
    twin.set_limit("k", max_starts=3, window=MINUTE)
    twin.enqueue(*["k"] * 9)
    first = twin.claim(9)
    assert len(first) == 2
    end_all(twin, first)
    assert len(twin.claim(9)) == 1


def test_set_after_a_clear_lets_a_hundred_start_at_once(twin: Twin) -> None:
    twin.set_limit("k", max_starts=100, window=MINUTE)
    twin.enqueue(*["k"] * 300)
    assert len(twin.claim(300)) == 100
    twin.clear_limit("k")
    twin.set_limit("k", max_starts=100, window=MINUTE)
    assert len(twin.claim(300)) == 100


def test_what_runs_counts_though_the_limit_was_cleared_between(twin: Twin) -> None:
    twin.set_limit("k", max_running=3)
    twin.enqueue(*["k"] * 9)
    running = twin.claim(9)
    twin.clear_limit("k")
    twin.set_limit("k", max_running=3)
    assert twin.claim(9) == []
    twin.end(running[0])
    assert len(twin.claim(9)) == 1


@pytest.mark.parametrize("name", ["", "nobody's limit"])
def test_without_a_limit_all_start(twin: Twin, name: str) -> None:
    twin.set_limit("k", max_running=1)
    twin.enqueue(*[name] * 50)
    assert len(twin.claim(60)) == 50


def test_key_counts_together_over_two_queues(twin: Twin) -> None:
    twin.set_limit("k", max_running=3)
    twin.enqueue(*["k"] * 2, queue="a")
    twin.enqueue(*["k"] * 5, queue="b")
    assert len(twin.claim(9, queues=["a"])) == 2
    assert len(twin.claim(9, queues=["b"])) == 1


def test_tenant_named_star_limits_only_itself(twin: Twin) -> None:
    star, other = key("tenant", "*"), key("tenant", "acme")
    twin.set_limit(star, max_running=1)
    twin.enqueue(*[star, other] * 4)
    assert Counter(keys_of(twin, twin.claim(9))) == {star: 1, other: 4}


def test_key_that_is_a_star_is_limited_by_an_escaped_star_only(twin: Twin) -> None:
    twin.set_limit(r"tenant:\*", max_running=1)
    twin.enqueue(*["tenant:*", "tenant:acme"] * 4)
    assert Counter(keys_of(twin, twin.claim(9))) == {"tenant:*": 1, "tenant:acme": 4}


def test_pattern_counts_each_key_on_its_own(twin: Twin) -> None:
    twin.set_limit(key("tenant", ANY, action="export"), max_running=2)
    exports = [key("tenant", tenant, action="export") for tenant in (1, 2, "*")]
    twin.enqueue(*exports * 4, *[key("tenant", 1, action="import")] * 4)
    assert Counter(keys_of(twin, twin.claim(99))) == {
        **dict.fromkeys(exports, 2),
        key("tenant", 1, action="import"): 4,
    }


def test_exact_limit_hides_a_pattern_as_a_whole(twin: Twin) -> None:
    twin.set_limit("t:*", max_running=1, max_starts=1, window=MINUTE)
    twin.set_limit("t:1", max_running=3)
    twin.enqueue(*["t:1", "t:2"] * 5)
    claims = twin.claim(9)
    assert Counter(keys_of(twin, claims)) == {"t:1": 3, "t:2": 1}
    end_all(twin, claims)
    assert keys_of(twin, twin.claim(9)) == ["t:1", "t:1"]


def test_limits_of_two_names_hold_both(twin: Twin) -> None:
    twin.set_limit("t:*", max_running=2)
    twin.set_limit("*", "daily", max_starts=3, window=Span(unit="day", zone="UTC"))
    twin.enqueue(*["t:1"] * 9)
    claims = twin.claim(9)
    assert len(claims) == 2
    end_all(twin, claims)
    assert len(twin.claim(9)) == 1


def test_lowering_stops_nothing_and_raising_acts_at_once(twin: Twin) -> None:
    twin.set_limit("k", max_running=3)
    twin.enqueue(*["k"] * 9)
    running = twin.claim(9)
    twin.set_limit("k", max_running=1)
    assert twin.renew(*running) == []
    for claim in running:
        assert twin.claim(9) == []
        assert twin.end(claim)
    assert len(twin.claim(9)) == 1
    twin.set_limit("k", max_running=4)
    assert len(twin.claim(9)) == 3


def test_own_cap_of_a_job_stops_neither_itself_for_long_nor_a_larger_one(twin: Twin) -> None:
    twin.enqueue(*["k"] * 3)
    running = twin.claim(3)
    (two,) = twin.enqueue("k", cap=2)
    (five,) = twin.enqueue("k", cap=5)
    assert [claim.id for claim in twin.claim(9)] == [five]
    end_all(twin, running)
    assert [claim.id for claim in twin.claim(9)] == [two]


# Windows.


def test_one_a_minute_is_refused_at_59_999_and_allowed_at_60(twin: Twin) -> None:
    twin.set_limit("k", max_starts=1, window=MINUTE)
    twin.enqueue("k", "k")
    assert len(twin.claim(9)) == 1
    twin.clock.advance(59_999)
    assert twin.claim(9) == []
    twin.clock.advance(1)
    assert len(twin.claim(9)) == 1


def test_hundred_used_late_in_a_minute_are_not_given_again_at_its_end(twin: Twin) -> None:
    """Field case 23: no double burst across the edge of a window."""
    twin.set_limit("k", max_starts=100, window=MINUTE)
    twin.enqueue(*["k"] * 300)
    twin.clock.advance(59_000)
    assert len(twin.claim(300)) == 100
    for second in range(60, 119):
        twin.clock.advance(1_000)
        assert twin.claim(300) == [], second
    twin.clock.advance(999)
    assert twin.claim(300) == []
    twin.clock.advance(1)
    assert len(twin.claim(300)) == 100


def test_day_of_23_hours_is_over_after_23_hours(twin: Twin) -> None:
    """Field case 26: a day ends at its own midnight, also where the clocks go forward."""
    midnight_ms = 1_772_946_000_000  # 2026-03-08 in New York
    twin.clock.set(midnight_ms)
    twin.set_limit("k", max_starts=1, window=Span(unit="day", zone="America/New_York"))
    twin.enqueue("k", "k")
    assert len(twin.claim(9)) == 1
    twin.clock.set(midnight_ms + 23 * 3_600_000 - 1)
    assert twin.claim(9) == []
    twin.clock.advance(1)
    assert len(twin.claim(9)) == 1


def test_changing_the_number_of_a_window_keeps_the_count(twin: Twin) -> None:
    twin.set_limit("k", max_starts=5, window=MINUTE)
    twin.enqueue(*["k"] * 20)
    assert len(twin.claim(20)) == 5
    twin.set_limit("k", max_starts=8)
    assert len(twin.claim(20)) == 3
    twin.set_limit("k", max_starts=4)
    assert twin.claim(20) == []
    twin.clear_limit("k")
    twin.set_limit("k", max_starts=4, window=MINUTE)
    assert len(twin.claim(20)) == 4


def test_exact_limit_in_the_place_of_a_pattern_keeps_the_count(twin: Twin) -> None:
    twin.set_limit("t:*", max_starts=5, window=MINUTE)
    twin.enqueue(*["t:1"] * 20)
    assert len(twin.claim(20)) == 5
    twin.set_limit("t:1", max_starts=7, window=MINUTE)
    assert len(twin.claim(20)) == 2


def test_longer_window_counts_only_the_starts_that_are_still_kept(twin: Twin) -> None:
    twin.set_limit("k", max_starts=20, window=Span(1_000))
    twin.enqueue(*["k"] * 99)
    assert len(twin.claim(99)) == 20
    twin.clock.advance(1_000)
    assert len(twin.claim(99)) == 20
    # The marks of the first twenty were dropped on the way: no window reached them.
    twin.check()
    assert min(twin.model.limits.keys["k"].starts) == 21
    twin.set_limit("k", max_starts=30, window=MINUTE)
    assert len(twin.claim(99)) == 10


def test_retries_and_reruns_count_as_starts(twin: Twin) -> None:
    twin.set_limit("k", max_starts=3, window=MINUTE)
    twin.enqueue("k", "k", "k")
    (failed,) = twin.claim(1)
    twin.end(failed, "failure")
    assert len(twin.lapse()) == 2
    twin.clock.advance(10_000)
    assert twin.claim(9) == []


def test_claim_that_finds_nothing_or_is_rolled_back_counts_no_start(twin: Twin) -> None:
    twin.set_limit("k", max_starts=1, window=MINUTE)
    assert twin.claim(9) == []
    twin.enqueue("k", "k")
    twin.claim_rolled_back(1, "fair")
    assert len(twin.claim(9)) == 1


def test_clock_set_back_by_a_day_locks_a_key_no_longer_than_its_window(twin: Twin) -> None:
    """Field case 25: a clock that steps back does not lock a key out."""
    twin.set_limit("k", max_starts=1, window=MINUTE)
    twin.enqueue("k", "k")
    assert len(twin.claim(9)) == 1
    twin.clock.advance(-86_400_000)
    assert twin.claim(9) == []
    twin.clock.advance(60_000)
    assert len(twin.claim(9)) == 1


# Who is next.


def test_ten_thousand_jobs_of_a_full_key_delay_nobody_behind_them(twin: Twin) -> None:
    """Field case 29: a key at its limit does not block the head of the queue."""
    twin.set_limit("full", max_running=1)
    twin.enqueue(*["full"] * 10_000)
    twin.enqueue("free", "")
    assert keys_of(twin, twin.claim(3)) == ["full", "free", ""]


@pytest.mark.parametrize("order", ORDERS)
def test_backing_off_job_does_not_block_its_key(twin: Twin, order: Order) -> None:
    twin.set_limit("k", max_running=1)
    failing, other = twin.enqueue("k", "k")
    (claim,) = twin.claim(1, order)
    assert claim.id == failing
    twin.end(claim, "failure")
    assert [claim.id for claim in twin.claim(9, order)] == [other]


def test_turn_puts_back_a_hundred_jobs_of_unknown_tasks_and_starts_what_is_behind(
    twin: Twin,
) -> None:
    """Field case 52: an unknown task eats no job, and blocks nobody."""
    twin.enqueue(*["k"] * 150, task=STRANGE)
    twin.enqueue("k")
    assert twin.claim(9) == []
    assert twin.model.seen["put back"] == 100
    assert len(twin.claim(9)) == 1
    assert {job.attempt for job in twin.model.jobs.values() if job.task == STRANGE} == {0}


@pytest.mark.parametrize("order", ORDERS)
def test_any_sixteen_starts_in_a_row_hold_a_keyed_one(twin: Twin, order: Order) -> None:
    twin.enqueue(*[""] * 1_000, priority=10)
    twin.enqueue(*[f"k:{n % 3}" for n in range(10)])
    started: list[str] = []
    while sum(map(bool, started)) < 10:
        claims = twin.claim(1, order)
        started += keys_of(twin, claims)
        end_all(twin, claims)
    for at in range(len(started) - 15):
        assert any(started[at : at + 16]), at


@pytest.mark.parametrize("order", ORDERS)
def test_floor_reserves_nothing_for_a_key_without_room(twin: Twin, order: Order) -> None:
    twin.set_limit("k", max_running=1)
    twin.enqueue("k", "k")
    twin.enqueue(*[""] * 50)
    assert keys_of(twin, twin.claim(52, order)).count("") == 50


def test_fair_lets_two_newer_jobs_in_before_a_thousand_old_ones(twin: Twin) -> None:
    """Field case 28: a flood on one key starves nobody."""
    twin.enqueue(*["A"] * 1_000)
    twin.clock.advance(1)
    twin.enqueue("B", "B")
    assert Counter(keys_of(twin, twin.claim(4, "fair"))) == {"A": 2, "B": 2}


def test_round_robin_with_one_slot_alternates(twin: Twin) -> None:
    twin.enqueue(*["A"] * 5)
    twin.clock.advance(1)
    twin.enqueue(*["B"] * 5)
    started: list[str] = []
    for _ in range(10):
        claims = twin.claim(1, "round-robin")
        started += keys_of(twin, claims)
        end_all(twin, claims)
    assert started == ["A", "B"] * 5


@pytest.mark.parametrize("order", ORDERS)
def test_batch_of_claims_is_that_many_single_claims(order: Order) -> None:
    def started(*batches: int) -> list[int]:
        with scratch() as folder, closing(Twin(folder / "jobs.db")) as twin:
            twin.set_limit("b", max_running=2)
            twin.enqueue("a", "b", "", "b", "a", "b", "c", "", queue="x")
            twin.enqueue("c", "b", "a", "", "c", queue="y")
            return [claim.id for batch in batches for claim in twin.claim(batch, order)]

    assert started(13) == started(*[1] * 13)


KEYS = st.sampled_from("abc")


@given(
    waiting=st.lists(KEYS, min_size=2, max_size=12),
    caps=st.dictionaries(KEYS, st.integers(1, 2)),
    ends=st.lists(st.none() | st.integers(0, 5), min_size=5, max_size=15),
)
def test_no_fair_pick_passes_over_a_startable_group_with_fewer_running(
    waiting: list[str], caps: dict[str, int], ends: list[int | None]
) -> None:
    """Each number ends a run, each None starts one."""
    with scratch() as folder, closing(Twin(folder / "jobs.db")) as twin:
        for name, cap in caps.items():
            twin.set_limit(name, max_running=cap)
        twin.enqueue(*waiting)
        left, running, live = Counter(waiting), Counter[str](), list[Claim]()
        for end in ends:
            if end is not None and live:
                claim = live.pop(end % len(live))
                running.subtract(keys_of(twin, [claim]))
                twin.end(claim)
                continue
            startable = [n for n in left if left[n] and running[n] < caps.get(n, len(waiting))]
            claims = twin.claim(1, "fair")
            (picked,) = keys_of(twin, claims) or (None,)
            assert (picked is None) == (not startable)
            if picked is not None:
                assert picked in startable
                assert running[picked] == min(running[name] for name in startable)
                left[picked] -= 1
                running[picked] += 1
                live += claims
