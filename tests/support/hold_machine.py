"""The holds of the queue, step by step, on a file and on the model."""

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, MultipleResults, RuleBasedStateMachine, multiple, rule

from slotq.store.claims import Claim
from support.twin import Twin
from support.twin_holds import PROCESSES

# A plain key, one that is a pattern to the careless eye, and one of another kind.
KEYS = st.sampled_from(["t:1", "t:*", "u:1"])


class HoldMachine(RuleBasedStateMachine):
    """The rules of holds; the twin is made by who has the rest."""

    twin: Twin

    claims: Bundle[Claim] = Bundle("claims")
    holds: Bundle[int] = Bundle("holds")

    @rule(
        target=holds,
        key=KEYS,
        slots=st.sampled_from([1, 1, 2]),
        wait=st.booleans(),
        cap=st.sampled_from([None, None, 1, 2]),
        process=st.sampled_from(PROCESSES),
    )
    def hold(
        self, key: str, slots: int, wait: bool, cap: int | None, process: str
    ) -> MultipleResults[int]:
        return _some(self.twin.hold(key, slots, wait=wait, cap=cap, process=process))

    @rule(target=holds, claim=claims, key=KEYS, wait=st.booleans())
    def hold_in_a_body(self, claim: Claim, key: str, wait: bool) -> MultipleResults[int]:
        return _some(self.twin.hold(key, wait=wait, job=claim.id))

    @rule(target=holds, key=KEYS, slots=st.sampled_from([1, 16]))
    def hold_by_hand(self, key: str, slots: int) -> int:
        return self.twin.hold_by_hand(key, slots)

    @rule(target=holds, key=KEYS)
    def wait_and_be_served(self, key: str) -> MultipleResults[int]:
        return _some(self.twin.wait_and_be_served(key))

    @rule(
        target=holds,
        key=KEYS,
        slots=st.sampled_from([(1, 2), (2, 1, 1)]),
        last_call=st.booleans(),
    )
    def stand_in_line(
        self, key: str, slots: tuple[int, ...], last_call: bool
    ) -> MultipleResults[int]:
        return multiple(*self.twin.stand_in_line(key, *slots, last_call=last_call))

    @rule(target=holds, key=KEYS)
    def shrink_below_who_waits(self, key: str) -> MultipleResults[int]:
        return _some(self.twin.shrink_below_who_waits(key))

    @rule(target=holds, key=KEYS, slots=st.sampled_from([1, 2]), free=st.sampled_from([1, 2]))
    def ask_twice(self, key: str, slots: int, free: int) -> MultipleResults[int]:
        asked = self.twin.ask_twice(key, slots, free=free)
        return multiple(*(hold for hold in asked if hold is not None))

    @rule(target=holds, key=KEYS, release=st.booleans(), early_ms=st.sampled_from([0, 1]))
    def come_at_its_end(self, key: str, release: bool, early_ms: int) -> MultipleResults[int]:
        return _some(self.twin.come_at_its_end(key, release=release, early_ms=early_ms))

    @rule(
        target=holds,
        key=KEYS,
        slots=st.sampled_from([1, 16]),
        after_ms=st.sampled_from([-300, 700]),
    )
    def start_twice(self, key: str, slots: int, after_ms: int) -> MultipleResults[int]:
        return multiple(*self.twin.start_twice(key, slots, after_ms=after_ms))

    @rule(target=holds, hold=holds, wait=st.booleans())
    def poll_hold(self, hold: int, wait: bool) -> MultipleResults[int]:
        return _some(self.twin.poll_hold(hold, wait=wait))

    @rule(hold=holds, ms=st.sampled_from([1, 5_000]), stranger=st.booleans())
    def extend_hold(self, hold: int, ms: int, stranger: bool) -> None:
        self.twin.extend_hold(hold, ms, stranger=stranger)

    @rule(hold=holds, stranger=st.booleans())
    def release_hold(self, hold: int, stranger: bool) -> None:
        self.twin.release_hold(hold, stranger=stranger)

    @rule(hold=holds)
    def take_hold_back(self, hold: int) -> None:
        self.twin.take_hold_back(hold)

    @rule(process=st.sampled_from(PROCESSES))
    def bury_holder(self, process: str) -> None:
        self.twin.bury_holder(process)


def _some(hold: int | None) -> MultipleResults[int]:
    return multiple(*[] if hold is None else [hold])
