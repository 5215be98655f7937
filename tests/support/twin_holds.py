"""Holds, and those that wait for them, on a real file and on the model."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count

from slotq.errors import InvalidValue, LimitExceeded
from slotq.keys import literal
from slotq.store import holds
from slotq.store.holds import Place, Request
from slotq.store.rows import UNLIMITED
from slotq.store.transaction import Tx
from support.looks import written
from support.reference_holds import (
    WAITING_MS,
    Obstacle,
    ahead,
    ever_fits,
    has_them_itself,
    obstacles,
)
from support.reference_order import Hold
from support.twin_limits import TwinLimits

PROCESSES = ("hold-one", "hold-two")
BELL = "room-bell"

_tickets = count(1)


class TwinHolds(TwinLimits):
    """Operations on holds."""

    def hold(
        self,
        key: str,
        slots: int = 1,
        *,
        ttl_ms: int = 2_000,
        wait: bool = False,
        cap: int | None = None,
        job: int | None = None,
        process: str = PROCESSES[0],
    ) -> int | None:
        """Take slots, or wait for them; return the hold's id, or None if it was refused."""
        wanted = Hold(
            key=key, slots=slots, ttl_ms=ttl_ms, cap=cap, job=job, process=process,
            ticket=next(_tickets),
        )  # fmt: skip
        request = _request(wanted, wait=wait)
        with self.both() as tx:
            answer = _answer(lambda: holds.take(tx, request))
            self.settle(tx)
            return self._joined(tx, wanted, request, answer)

    def _joined(
        self, tx: Tx, hold: Hold, request: Request, answer: Place | LimitExceeded | InvalidValue
    ) -> int | None:
        """Check the answer to somebody who asks for the first time, and do what it says."""
        model, key = self.model, hold.key
        model.limits.key(key)
        if not ever_fits(model, hold):
            assert isinstance(answer, InvalidValue)
            self.seen["hold of more than ever"] += 1
            return None
        found = obstacles(model, hold)
        if found and (request.bell is None or has_them_itself(model, hold)):
            self._refused(hold, found, answer, is_own=has_them_itself(model, hold))
            return None
        assert isinstance(answer, Place)
        hold.id, hold.since, hold.held = answer.id, tx.now, not found
        hold.bell = BELL if found else ""
        hold.ttl_ms = WAITING_MS if found else request.ttl_ms
        hold.until = tx.now + hold.ttl_ms
        self._placed(tx, hold, found, answer)
        model.holds[hold.id] = hold
        if hold.held:
            model.limits.take(key, hold.slots, tx.now)
        self._check_bells(tx)
        return hold.id

    def _refused(
        self,
        hold: Hold,
        found: list[Obstacle],
        answer: Place | LimitExceeded | InvalidValue,
        *,
        is_own: bool,
    ) -> None:
        assert isinstance(answer, LimitExceeded)
        assert (answer.key, answer.is_own) == (hold.key, is_own)
        limit = None if answer.limit is None else answer.limit.name
        assert (answer.reason, limit) in {(each.why, each.limit) for each in found}
        assert answer.retry_after == (found[0].until - self.model.now) / 1000 > 0
        self.seen["hold refused"] += 1
        self.seen[f"hold refused: {answer.reason}"] += 1
        self.seen["hold refused: own cap"] += answer.reason == "max_running" and limit is None
        self.seen["hold refused: the job has them itself"] += is_own
        if answer.limit is not None:
            rule = self.model.limits.in_force(hold.key)[answer.limit.name]
            assert answer.limit.key == written(rule.subject)

    def _placed(self, tx: Tx, hold: Hold, found: list[Obstacle], place: Place) -> None:
        key_id = tx.value("SELECT id FROM slotq_keys WHERE key = ?", (hold.key,))
        if hold.held:
            assert place == Place(hold.id, key_id, is_held=True, until=hold.until)
            return
        # Whoever is first in line may die in it, and rings nobody then.
        before = min(ahead(self.model, hold), key=lambda other: other.id, default=None)
        lasts = [] if before is None else [before.until]
        looks = {
            min([*lasts, *([] if each.why in {"paused", "queued"} else [each.until])], default=None)
            for each in found
        }
        assert (place.id, place.key_id, place.is_held) == (hold.id, key_id, False)
        assert place.until in looks

    def hold_by_hand(self, key: str, slots: int, *, ttl_ms: int = 2_000) -> int:
        """Take slots without a look at any limit."""
        with self.both() as tx:
            self._know_key(tx, key)
            self.handle_due(tx)
            hold_id: int = tx.value(
                "INSERT INTO slotq_holds (key_id, slots, state, since, until, ttl_ms)"
                " VALUES ((SELECT id FROM slotq_keys WHERE key = ?), ?, 'held', ?, ?, ?)"
                " RETURNING id",
                (key, slots, tx.now, tx.now + ttl_ms, ttl_ms),
            )
            self.model.holds[hold_id] = Hold(
                id=hold_id, key=key, slots=slots, held=True, since=tx.now, until=tx.now + ttl_ms,
                ttl_ms=ttl_ms,
            )  # fmt: skip
            self.model.limits.take(key, slots, tx.now)
            return hold_id

    def poll_hold(self, hold_id: int, *, ttl_ms: int = 2_000, wait: bool = True) -> int | None:
        """Let a waiting hold call again, for the last time or not; return its id by now.

        One that has lost its place joins the line anew; None if it was refused.
        """
        hold = self.model.holds.get(hold_id)
        if hold is None or hold.held:
            return None
        request = replace(_request(hold, wait=wait), ttl_ms=ttl_ms)
        with self.both() as tx:
            key_id = tx.value("SELECT id FROM slotq_keys WHERE key = ?", (hold.key,))
            place = Place(hold_id, key_id, is_held=False, until=None)
            answer = _answer(lambda: holds.call_again(tx, place, request))
            self.settle(tx)
            if hold_id not in self.model.holds:
                self.seen["place in line lost"] += 1
                return self._joined(tx, replace(hold, id=0), request, answer)
            return self._called(tx, hold, request, answer)

    def _called(
        self, tx: Tx, hold: Hold, request: Request, answer: Place | LimitExceeded | InvalidValue
    ) -> int | None:
        model = self.model
        if not ever_fits(model, hold):
            assert isinstance(answer, InvalidValue)
            self.seen["told that the limit has shrunk"] += 1
            return None
        found = obstacles(model, hold)
        if found and request.bell is None:
            self._refused(hold, found, answer, is_own=False)
            self.seen["wait was in vain"] += 1
            return None
        assert isinstance(answer, Place)
        hold.held = not found
        hold.ttl_ms = WAITING_MS if found else request.ttl_ms
        hold.until = tx.now + hold.ttl_ms
        if hold.held:
            hold.since, hold.bell = tx.now, ""
            self.seen["hold served"] += 1
            model.limits.take(hold.key, hold.slots, tx.now)
        else:
            self.seen["waits behind another"] += bool(ahead(model, hold))
        self._placed(tx, hold, found, answer)
        self._check_bells(tx)
        return hold.id

    def extend_hold(self, hold_id: int, ms: int, *, stranger: bool = False) -> None:
        """Move the end of a hold to so long from now; a stranger tries to."""
        hold = self.model.holds.get(hold_id)
        with self.both() as tx:
            until = holds.extend(tx, *self._claimed(hold_id, hold, stranger=stranger), ms)
        now = self.model.now
        if hold is None or not hold.held or hold.until <= now or stranger:
            assert until is None
            self.seen["extended late"] += hold is not None and hold.held and not stranger
        else:
            hold.until, hold.ttl_ms = now + ms, ms
            assert until == hold.until

    def release_hold(self, hold_id: int, *, stranger: bool = False) -> None:
        """Give back what a hold has, or leave the line; a stranger tries to."""
        hold = self.model.holds.get(hold_id)
        with self.both() as tx:
            done = holds.release(tx, *self._claimed(hold_id, hold, stranger=stranger))
        assert done == (hold is not None and hold.until > self.model.now and not stranger)
        self.seen["released late"] += hold is not None and not done and not stranger
        if done:
            del self.model.holds[hold_id]

    def _claimed(self, hold_id: int, hold: Hold | None, *, stranger: bool) -> tuple[Place, Request]:
        """Return a hold as its holder knows it, or as a stranger pretends to."""
        request = _request(hold or Hold(key="gone", slots=1, ttl_ms=1), wait=False)
        if stranger and hold_id % 2:
            request = replace(request, ticket=request.ticket + 1)
        elif stranger:
            request = replace(request, process=request.process + "?")
        return Place(hold_id, 0, is_held=True, until=None), request

    def take_hold_back(self, hold_id: int) -> None:
        """Let somebody else end a hold."""
        hold = self.model.holds.get(hold_id)
        with self.both() as tx:
            key_id = holds.take_back(tx, hold_id, "the test")
            if hold is None or hold.until <= tx.now:
                assert key_id is None
                return
            assert key_id == tx.value("SELECT id FROM slotq_keys WHERE key = ?", (hold.key,))
        del self.model.holds[hold_id]
        self.seen["hold taken back"] += 1

    def bury_holder(self, process: str) -> None:
        """Find the process dead that has holds, and handle what that makes due."""
        with self.both() as tx:
            holds.bury(tx, process)
            for hold in self.model.holds.values():
                if hold.process == process and hold.until > tx.now:
                    hold.until = tx.now
                    self.seen["holder buried"] += 1
            self.handle_due(tx)

    def _check_bells(self, tx: Tx) -> None:
        """Check who is rung: the first of each line that may have room, or never can have."""
        model, running = self.model, self.model.count()
        firsts: dict[str, Hold] = {}
        for hold in sorted(model.holds.values(), key=lambda hold: hold.id):
            if not hold.held:
                firsts.setdefault(hold.key, hold)
        rung: list[str] = []
        for name, hold in firsts.items():
            key, cap = model.limits.keys[name], model.limits.cap(name)
            after = running.keys[name] + hold.slots
            fits = (cap is None or after <= cap) and (hold.cap is None or after <= hold.cap)
            never = cap is not None and hold.slots > cap
            if never or (not key.paused and key.full_until is None and fits):
                rung.append(hold.bell)
        assert holds.bells(tx) == rung
        self.seen["bell rung"] += len(rung)

    # Stories of several steps.

    def make_room(self, key: str) -> None:
        """End what runs and what is held of a key; let its windows open if that is soon."""
        for job in self.model.running():
            if job.key == key:
                self.move_by_hand(job.id)
        for hold in list(self.model.holds.values()):
            if hold.held and hold.key == key:
                self.release_hold(hold.id)
        full_until = self.model.limits.key(key).full_until
        if full_until is not None and full_until - self.clock.now_ms() in range(WAITING_MS):
            self.clock.set(full_until)

    def wait_and_be_served(self, key: str) -> int | None:
        """Stand in line while others have the slots, until they are back; return the hold."""
        self.set_limit(literal(key), "n", max_running=1)
        self.hold_by_hand(key, 1)
        waiting = self.hold(key, wait=True)
        self.make_room(key)
        if waiting is not None:
            self.poll_hold(waiting)
        return waiting

    def stand_in_line(self, key: str, *slots: int, last_call: bool) -> list[int]:
        """Let several wait for what others have; call them the last first; return who is left."""
        self._free(key, max_running=3)
        others = [self.hold_by_hand(key, 1, ttl_ms=ttl_ms) for ttl_ms in (2_000, 3_000, 4_000)]
        line = [self.hold(key, each, wait=True) for each in slots]
        self.hold(key)
        for hold in reversed([hold for hold in line if hold is not None]):
            self.poll_hold(hold, wait=not last_call)
        for other in others:
            self.release_hold(other)
        for hold in reversed([hold for hold in line if hold is not None]):
            self.poll_hold(hold)
        return [hold for hold in line if hold in self.model.holds]

    def shrink_below_who_waits(self, key: str) -> int | None:
        """Lower a limit so that somebody waits for more than there ever is; return the hold."""
        self.set_limit(literal(key), "n", max_running=2)
        self.hold_by_hand(key, 2)
        waiting = self.hold(key, 2, wait=True)
        self.set_limit(literal(key), "n", max_running=1)
        if waiting is not None:
            self.poll_hold(waiting)
        return waiting

    def ask_twice(self, key: str, slots: int, *, free: int) -> list[int | None]:
        """Let a body that has slots, or waits for some, ask for as many more."""
        self._free(key, max_running=3)
        running = [job.id for job in self.model.running() if job.key != key]
        job = running[0] if running else 1
        self.hold_by_hand(key, 3 - free)
        return [self.hold(key, slots, wait=True, job=job) for _ in range(2)]

    def _free(self, key: str, *, max_running: int) -> None:
        """Leave nothing of a key but its marks and a limit."""
        self.finish_with(key)
        self.pause_key(key, on=False)
        self.clear_limit(literal(key))
        self.set_limit(literal(key), "n", max_running=max_running)

    def end_with_others(self, key: str, others: list[str]) -> int | None:
        """Let holds of many keys end at one instant; take a slot of one of them just then."""
        self._free(key, max_running=1)
        for each in (*others, key):
            self.hold_by_hand(each, 1, ttl_ms=1_000)
        self.clock.advance(1_000)
        return self.hold(key)

    def come_at_its_end(self, key: str, *, release: bool, early_ms: int) -> int | None:
        """Release or extend a hold at the very instant of its end, or just before."""
        hold = self.hold(key, ttl_ms=1_000)
        if hold is not None:
            self.clock.set(self.model.holds[hold].until - early_ms)
            if release:
                self.release_hold(hold)
            else:
                self.extend_hold(hold, 1_000)
        return hold

    def start_twice(self, key: str, slots: int, *, after_ms: int) -> list[int]:
        """Count many starts of a key at one instant and at another, which may lie before it."""
        first = self.hold_by_hand(key, slots)
        self.clock.advance(after_ms)
        return [first, self.hold_by_hand(key, slots)]

    def finish_with(self, key: str) -> None:
        """Leave nothing of a key but its limits and its marks."""
        for job in list(self.model.jobs.values()):
            if job.key == key:
                self.delete_by_hand(job.id)
        for hold in list(self.model.holds.values()):
            if hold.key == key:
                self.hand.execute("DELETE FROM slotq_holds WHERE id = ?", (hold.id,))
                del self.model.holds[hold.id]


def _request(hold: Hold, *, wait: bool) -> Request:
    return Request(
        key=hold.key,
        slots=hold.slots,
        cap=UNLIMITED if hold.cap is None else hold.cap,
        ttl_ms=hold.ttl_ms,
        job_id=hold.job,
        holder="the test",
        label="",
        process=hold.process,
        ticket=hold.ticket,
        bell=BELL if wait else None,
    )


def _answer(ask: Callable[[], Place]) -> Place | LimitExceeded | InvalidValue:
    try:
        return ask()
    except (LimitExceeded, InvalidValue) as error:
        return error
