"""Any sequence of operations on a real file does what the reference model does.

After each step every row is compared with the model and every column that triggers keep is
counted anew. Claims stay in a bundle after their lease is lost: zombies act too.
"""

from collections import Counter
from contextlib import ExitStack, closing
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from typing_extensions import override

from slotq.keys import literal
from slotq.model import ORDERS, Order
from slotq.store import claims
from slotq.store.claims import Claim
from slotq.store.limits import UNSET, Span, Unset
from support.hold_machine import KEYS, HoldMachine
from support.reference import KEYED_FLOOR
from support.twin import ENDS, LEASE_MS, STRANGE, TASK, End, Twin
from support.twin_core import scratch

SUBJECTS = st.sampled_from(["t:1", r"t:\*", "t:*", "*:1", "*"])
NAMES = st.sampled_from(["", "", "n"])
QUEUES = st.sampled_from(["a", "b"])
SERVED = st.sampled_from([None, None, ["a"], ["b", "a"]])
WINDOW_MS = 3_000
WINDOWS = st.sampled_from(
    [
        Span(WINDOW_MS),
        Span(1_000),
        Span(unit="minute", zone="UTC"),
        Span(unit="day", zone="America/New_York"),
    ]
)
EDGES_MS = (1, 999, 1_000, 1_001, LEASE_MS - 1, LEASE_MS, WINDOW_MS - 1, WINDOW_MS)
STEPS_BACK_MS = (-1, -500, -999)
BEGINNING_MS = 1_772_949_600_000  # an hour before clocks go forward in New York

EXAMPLES = 140
# What happens in so many examples at least once, whatever the dice say.
HAPPENS = {
    "end of a lost lease",
    "renewal of a lost lease",
    "reaped",
    "renewed after the lapse",
    "window opened",
    "hold served",
    "hold refused",
    "hold ended",
    "hold of more than ever",
    "hold refused: max_running",
    "hold taken back",
    "holder buried",
    "told that the limit has shrunk",
    "wait was in vain",
    "waits behind another",
    "stepped back",
    "time stood still",
    "expired",
    "keyed floor",
    "keys pruned",
    "a limit over another",
    "a window edited",
    "offers of several queues",
    "fair: fewer running decided",
    "running job deleted by hand",
}


class QueueMachine(HoldMachine):
    """The queue, step by step."""

    floor: ClassVar[int] = KEYED_FLOOR
    seen: ClassVar[Counter[str]] = Counter()

    jobs: Bundle[int] = Bundle("jobs")
    claims = HoldMachine.claims

    def __init__(self) -> None:
        super().__init__()
        self.rest = ExitStack()
        path = self.rest.enter_context(scratch()) / "q.db"
        self.twin = self.rest.enter_context(
            closing(Twin(path, start_ms=BEGINNING_MS, floor=self.floor))
        )

    @override
    def teardown(self) -> None:
        self.seen.update(self.twin.seen)
        self.rest.close()

    @invariant()
    def file_and_model_agree(self) -> None:
        self.twin.check()

    @initialize(
        target=jobs,
        max_running=st.sampled_from([1, 2, 3]),
        keys=st.lists(KEYS, min_size=1, max_size=4),
    )
    def begin(self, max_running: int, keys: list[str]) -> MultipleResults[int]:
        self.twin.set_limit("t:*", max_running=max_running)
        return multiple(*self.twin.enqueue(*keys))

    # Jobs.

    @rule(
        target=jobs,
        keys=st.lists(KEYS | st.just(""), min_size=1, max_size=3),
        queue=QUEUES,
        priority=st.sampled_from([0, 0, 1]),
        delay_ms=st.sampled_from([0, 0, 0, 1_000]),
        max_attempts=st.sampled_from([1, 2, 5]),
        task=st.sampled_from([TASK, TASK, TASK, STRANGE]),
    )
    def enqueue(
        self,
        *,
        keys: list[str],
        queue: str,
        priority: int,
        delay_ms: int,
        max_attempts: int,
        task: str,
    ) -> MultipleResults[int]:
        return multiple(
            *self.twin.enqueue(
                *keys,
                queue=queue,
                priority=priority,
                delay_ms=delay_ms,
                max_attempts=max_attempts,
                task=task,
            )
        )

    @rule(target=jobs, key=KEYS, cap=st.sampled_from([1, 2]), queue=QUEUES)
    def enqueue_with_its_own_cap(self, key: str, cap: int, queue: str) -> int:
        return self.twin.enqueue(key, cap=cap, queue=queue)[0]

    @rule(
        target=jobs,
        key=KEYS,
        dedupe=st.sampled_from([None, "x"]),
        expires_in_ms=st.sampled_from([None, 1, 1_000]),
    )
    def enqueue_once(self, key: str, dedupe: str | None, expires_in_ms: int | None) -> int:
        return self.twin.enqueue(key, dedupe=dedupe, expires_in_ms=expires_in_ms)[0]

    @rule(job=jobs)
    def cancel(self, job: int) -> None:
        self.twin.cancel(job)

    @rule(job=jobs)
    def retry(self, job: int) -> None:
        self.twin.retry(job)

    @rule(job=jobs)
    def delete(self, job: int) -> None:
        self.twin.delete(job)

    @rule(age_ms=st.sampled_from([0, 1_000]), batch=st.sampled_from([1, 500]))
    def prune(self, age_ms: int, batch: int) -> None:
        self.twin.prune(self.twin.clock.now_ms() - age_ms, batch)

    @rule(key=KEYS, batch=st.sampled_from([1, 1_000]), limited=st.booleans())
    def prune_keys(self, key: str, batch: int, limited: bool) -> None:
        self.twin.finish_with(key)
        if not limited:
            self.twin.clear_limit(literal(key))
        self.twin.prune_keys(batch)

    # Claims and ends.

    @rule(
        target=claims,
        want=st.sampled_from([1, 1, 2, 5]),
        order=st.sampled_from(ORDERS),
        queues=SERVED,
        knows_all=st.booleans(),
        batch=st.sampled_from([1, 1_000]),
    )
    def claim(
        self, want: int, order: Order, queues: list[str] | None, knows_all: bool, batch: int
    ) -> MultipleResults[Claim]:
        tasks = (TASK, STRANGE) if knows_all else (TASK,)
        return multiple(*self.twin.claim(want, order, queues=queues, tasks=tasks, batch=batch))

    @rule(target=claims, claim=claims, how=st.sampled_from(ENDS), order=st.sampled_from(ORDERS))
    def end_and_claim(self, claim: Claim, how: End, order: Order) -> MultipleResults[Claim]:
        return multiple(*self.twin.claim(1, order, ended=[(claim, how)]))

    @rule(claim=claims, how=st.sampled_from(ENDS))
    def end(self, claim: Claim, how: End) -> None:
        self.twin.end(claim, how)

    @rule(claim=claims)
    def renew(self, claim: Claim) -> None:
        self.twin.renew(claim)

    @rule(order=st.sampled_from(ORDERS))
    def claim_in_a_transaction_that_fails(self, order: Order) -> None:
        self.twin.claim_rolled_back(2, order)

    @rule(target=claims, order=st.sampled_from(ORDERS))
    def drain(self, order: Order) -> MultipleResults[Claim]:
        """Run all that can run now, one job after the other."""
        drained: list[Claim] = []
        while claimed := self.twin.claim(1, order, tasks=(TASK, STRANGE)):
            self.twin.end(claimed[0])
            drained += claimed
        return multiple(*drained)

    @rule(target=claims, key=KEYS, queue=QUEUES, lapse=st.booleans())
    def fill(self, key: str, queue: str, lapse: bool) -> MultipleResults[Claim]:
        """Start all that a key has room for; let the leases lapse, or not."""
        self.twin.enqueue(key, key, key, key, queue=queue)
        claimed = self.twin.claim(9)
        return multiple(*claimed, *(self.twin.lapse() if lapse else ()))

    @rule(target=claims, order=st.sampled_from(ORDERS), keys=st.lists(KEYS, min_size=1, max_size=3))
    def run_dry(self, order: Order, keys: list[str]) -> MultipleResults[Claim]:
        return multiple(*self.twin.run_dry(*keys, order=order))

    @rule(target=claims, order=st.sampled_from(ORDERS))
    def pass_over(self, order: Order) -> MultipleResults[Claim]:
        return multiple(*self.twin.pass_over("t:1", "u:1", order))

    @rule(target=claims, order=st.sampled_from(ORDERS))
    def lapse(self, order: Order) -> MultipleResults[Claim]:
        return multiple(*self.twin.lapse(order))

    @rule(target=claims, key=KEYS, max_starts=st.sampled_from([1, 2]))
    def turn_of_the_minute(self, key: str, max_starts: int) -> MultipleResults[Claim]:
        return multiple(*self.twin.turn_of_the_minute(key, max_starts))

    # Time.

    @rule(ms=st.sampled_from(EDGES_MS + STEPS_BACK_MS))
    def tick(self, ms: int) -> None:
        self.twin.clock.advance(ms)

    @rule(short_ms=st.sampled_from([0, 0, 1]))
    def tick_to_what_is_due(self, short_ms: int) -> None:
        due = self.twin.model.next_due()
        if due is not None and due - short_ms > self.twin.clock.now_ms():
            self.twin.clock.set(due - short_ms)

    @rule(ms=st.sampled_from([-1_000, -1_001, -60_000]))
    def set_the_clock_back(self, ms: int) -> None:
        self.twin.clock.advance(ms)
        self.twin.sweep()

    @rule(claim=claims)
    def oversleep(self, claim: Claim) -> None:
        """Renew a lease after its end, before anybody has noticed."""
        self.twin.clock.advance(LEASE_MS)
        self.twin.renew(claim)

    @rule()
    def reopen(self) -> None:
        self.twin.reopen()

    # Limits and pauses.

    @rule(where=SUBJECTS, name=NAMES, max_running=st.sampled_from([1, 2, 3, None]))
    def set_max_running(self, where: str, name: str, max_running: int | None) -> None:
        self.twin.set_limit(where, name, max_running=max_running)

    @rule(where=SUBJECTS, name=NAMES, max_starts=st.sampled_from([1, 2, 3]), window=WINDOWS)
    def set_window(self, where: str, name: str, max_starts: int, window: Span) -> None:
        self.twin.set_limit(where, name, max_starts=max_starts, window=window)

    @rule(
        where=SUBJECTS,
        name=NAMES,
        max_starts=st.sampled_from([1, 2, None, UNSET]),
        window=WINDOWS | st.sampled_from([None, UNSET, UNSET]),
    )
    def edit_window(
        self, where: str, name: str, max_starts: int | Unset | None, window: Span | Unset | None
    ) -> None:
        self.twin.set_limit(where, name, max_starts=max_starts, window=window)

    @rule(where=SUBJECTS, name=st.none() | NAMES)
    def clear_limit(self, where: str, name: str | None) -> None:
        self.twin.clear_limit(where, name)

    @rule(queue=QUEUES, max_running=st.sampled_from([1, 2, None]), name=NAMES)
    def limit_queue(self, queue: str, max_running: int | None, name: str) -> None:
        if max_running is None:
            self.twin.clear_queue_limit(queue)
        else:
            self.twin.set_queue_limit(queue, max_running, name)

    @rule(key=KEYS, on=st.booleans())
    def pause_key(self, key: str, on: bool) -> None:
        self.twin.pause_key(key, on=on)

    @rule(queue=QUEUES, on=st.booleans())
    def pause_queue(self, queue: str, on: bool) -> None:
        self.twin.pause_queue(queue, on=on)

    # What else may come.

    @rule(key=KEYS | st.just("t:never seen"))
    def look(self, key: str) -> None:
        self.twin.look(key)

    @rule(job=jobs)
    def delete_by_hand(self, job: int) -> None:
        self.twin.delete_by_hand(job)

    @rule(job=jobs)
    def move_by_hand(self, job: int) -> None:
        self.twin.move_by_hand(job)

    @rule(job=jobs, priority=st.sampled_from([0, 1]), ms=st.sampled_from([-1, 1]))
    def reorder_by_hand(self, job: int, priority: int, ms: int) -> None:
        now = self.twin.clock.now_ms()
        self.twin.reorder_by_hand(job, priority=priority, run_at=now + ms)

    @rule(tasks=st.sampled_from([(TASK,), (TASK, STRANGE)]))
    def meet_another_worker(self, tasks: tuple[str, ...]) -> None:
        self.twin.register_worker(tasks)


class LowFloorMachine(QueueMachine):
    """The same, with a keyed floor that is soon reached."""

    floor = 3
    seen: ClassVar[Counter[str]] = Counter()


# Time enough for hypothesis to find the shortest story of a failure.
@pytest.mark.timeout(400)
@pytest.mark.parametrize("machine", [QueueMachine, LowFloorMachine])
def test_file_does_what_the_model_does(
    machine: type[QueueMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(machine, monkeypatch, settings(max_examples=EXAMPLES, derandomize=True, database=None))
    assert {what for what in HAPPENS if machine.seen[what] == 0} == set()


@pytest.mark.soak
@pytest.mark.parametrize("machine", [QueueMachine, LowFloorMachine])
def test_file_does_what_the_model_does_for_long(
    machine: type[QueueMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(machine, monkeypatch, settings())


def run(machine: type[QueueMachine], monkeypatch: pytest.MonkeyPatch, how_long: settings) -> None:
    monkeypatch.setattr(claims, "KEYED_FLOOR", machine.floor)
    machine.seen.clear()
    run_state_machine_as_test(machine, settings=how_long)
