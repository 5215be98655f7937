"""What a claim, an enqueue and an idle turn cost, in statements and in steps of SQLite."""

from collections.abc import Callable, Generator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from slotq.keys import parse_subject
from slotq.store import due, jobs, limits
from slotq.store.claims import Claim, Claimer, claim
from slotq.store.leases import Success, end
from slotq.store.opening import connect, prepare
from slotq.store.statements import JOBS_AT_ONCE
from slotq.store.transaction import Tx
from slotq.testing import ManualClock
from support.stores import ONE_CALL, TERMS, add_bulk

CLAIMER = Claimer(1, "fair", ["default"], {"t"}, 30_000)

Work = Callable[[Tx], object]


class File:
    """A queue file whose statements and steps are counted."""

    def __init__(self, path: Path) -> None:
        self.clock = ManualClock()
        self._connection = connect(path, mode="rwc", durable=False)
        prepare(self._connection, path, 0.0)

    def close(self) -> None:
        """Close it."""
        self._connection.close()

    def do(self, work: Work) -> None:
        """Do it in a transaction."""
        self._connection.execute("BEGIN IMMEDIATE")
        tx = Tx(self._connection, self.clock)
        work(tx)
        tx.close()
        self._connection.execute("COMMIT")

    def statements(self, work: Work) -> int:
        """Return how many statements it takes, with the transaction itself."""
        seen: list[str] = []
        self._connection.set_trace_callback(seen.append)
        self.do(work)
        self._connection.set_trace_callback(None)
        # Whatever a trigger of a statement runs is seen as the statement again.
        return sum(sql != before for before, sql in pairwise(["", *seen]))

    def steps(self, work: Work) -> int:
        """Return how often SQLite came to a place where it looks up: each turn of each loop."""
        count = 0

        def step() -> None:
            nonlocal count
            count += 1

        self._connection.set_progress_handler(step, 1)
        self.do(work)
        self._connection.set_progress_handler(None, 0)
        return count


@pytest.fixture
def file(tmp_path: Path) -> Generator[File]:
    opened = File(tmp_path / "jobs.db")
    yield opened
    opened.close()


@pytest.fixture
def files(tmp_path: Path) -> Generator[Callable[[], File]]:
    made: list[File] = []

    def make() -> File:
        made.append(File(tmp_path / f"{len(made)}.db"))
        return made[-1]

    yield make
    for each in made:
        each.close()


class Turns:
    """A worker with one slot: each turn finishes its job and claims the next."""

    def __init__(self) -> None:
        self.running: Sequence[Claim] = ()

    def __call__(self, tx: Tx) -> None:
        for one in self.running:
            assert end(tx, one.lease, Success("1"))
        assert not due.handle_due(tx)
        self.running = claim(tx, CLAIMER, 1)


def fill(file: File, count: int, keys: Sequence[str] = ("",)) -> None:
    """Store jobs of each key."""
    for key in keys:
        file.do(lambda tx: add_bulk(tx, count, key))  # noqa: B023  # called at once


def limit(file: File, key: str, change: limits.Change) -> None:
    target = limits.Target.of(parse_subject(key), "")
    file.do(lambda tx: limits.set_limit(tx, target, change, "test"))


ONE_AT_A_TIME = limits.Change(max_running=1)
MANY_A_MINUTE = limits.Change(max_running=5, max_starts=1_000, window=limits.Span(ms=60_000))


def warm_turns(file: File) -> Turns:
    """Return a worker in full swing."""
    turns = Turns()
    for _ in range(3):
        file.do(turns)
        assert turns.running
    return turns


def test_a_turn_takes_seven_statements(file: File) -> None:
    """BEGIN, the clock, finish, what is due, the offer, the start, COMMIT."""
    fill(file, 10)
    assert file.statements(warm_turns(file)) == 7


def test_a_keyed_turn_takes_no_more(file: File) -> None:
    limit(file, "k*", MANY_A_MINUTE)
    fill(file, 10, ["k1", "k2"])
    assert file.statements(warm_turns(file)) == 7


def test_an_idle_turn_takes_seven_statements(file: File) -> None:
    """BEGIN, the clock, what is due, the offer within and without the floor, its index, COMMIT."""
    fill(file, 3)
    turns = warm_turns(file)
    file.do(turns)
    assert not turns.running
    assert file.statements(turns) == 7


def test_an_enqueue_takes_six_statements(file: File) -> None:
    """BEGIN, the clock, the last id, the place, the job, COMMIT."""
    file.do(lambda tx: jobs.add(tx, TERMS, ONE_CALL))
    assert file.statements(lambda tx: jobs.add(tx, TERMS, ONE_CALL)) == 6


def test_a_bulk_enqueue_takes_a_statement_for_many_jobs(file: File) -> None:
    file.do(lambda tx: jobs.add(tx, TERMS, ONE_CALL))
    assert file.statements(lambda tx: add_bulk(tx, 1_000)) <= 5 + 1_000 / JOBS_AT_ONCE


def test_a_file_without_keys_pays_for_no_limit(files: Callable[[], File]) -> None:
    plain, ruled = files(), files()
    for number in range(1_000):
        limit(ruled, f"{number}:*", MANY_A_MINUTE)
    steps: list[tuple[int, int]] = []
    for each in (plain, ruled):
        fill(each, 20)
        turns = warm_turns(each)
        enqueue = each.steps(lambda tx: jobs.add(tx, TERMS, ONE_CALL))
        steps.append((each.steps(turns), enqueue))
    assert steps[0] == steps[1]


def turn_steps(file: File) -> int:
    turns = warm_turns(file)
    steps = [file.steps(turns) for _ in range(3)]
    assert turns.running
    return min(steps)


@pytest.mark.parametrize("key", ["", "k"])
def test_a_claim_costs_the_same_at_any_depth(files: Callable[[], File], key: str) -> None:
    few, many = files(), files()
    for each in (few, many):
        limit(each, "k", MANY_A_MINUTE)
    fill(few, 100, [key])
    fill(many, 10_000, [key])
    assert turn_steps(few) == turn_steps(many)


def test_a_full_key_at_the_head_costs_nothing(files: Callable[[], File]) -> None:
    without, behind = files(), files()
    for each in (without, behind):
        limit(each, "full", ONE_AT_A_TIME)
        fill(each, 1, ["full"])
        each.do(lambda tx: claim(tx, CLAIMER, 1))
    fill(behind, 10_000, ["full"])
    for each in (without, behind):
        fill(each, 100, ["other"])
    assert turn_steps(without) == turn_steps(behind)


def test_a_claim_costs_nearly_the_same_among_many_keys(files: Callable[[], File]) -> None:
    steps: list[int] = []
    for count in (10, 1_000):
        each = files()
        limit(each, "k*", MANY_A_MINUTE)
        fill(each, 3, [f"k{number}" for number in range(count)])
        steps.append(turn_steps(each))
    assert steps[1] <= steps[0] * 1.1


def test_the_count_of_steps_sees_a_scan(file: File) -> None:
    """Or all of the above would prove nothing."""
    fill(file, 1_000)
    assert file.steps(lambda tx: tx.value("SELECT sum(attempt) FROM slotq_jobs")) > 900
    assert file.steps(lambda tx: tx.value("SELECT id FROM slotq_jobs WHERE id = 500")) < 50
