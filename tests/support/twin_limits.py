"""Limits, pauses, holds, and changes typed by hand, on a real file and on the model."""

from slotq.keys import literal, parse_subject
from slotq.store import limits
from slotq.store.limits import UNSET, Change, Span, Target, Unset
from slotq.store.transaction import Tx
from support.reference_limits import Parts, Subject, queue_subject, subject
from support.reference_order import Hold, Queue
from support.twin_core import TwinCore, refused

# How long a waiting hold counts without calling again.
WAITING_MS = 5_000


class TwinLimits(TwinCore):
    """Operations on limits, keys, queues and holds."""

    def set_limit(
        self,
        where: str,
        name: str = "",
        *,
        max_running: int | Unset | None = UNSET,
        max_starts: int | Unset | None = UNSET,
        window: Span | Unset | None = UNSET,
    ) -> bool:
        """Set a limit of a key or a pattern; return whether it was taken."""
        change = Change(max_running=max_running, max_starts=max_starts, window=window)
        return self._set(Target.of(parse_subject(where), name), subject(where), change)

    def set_queue_limit(self, queue: str, max_running: int, name: str = "") -> bool:
        """Set a limit of a queue."""
        change = Change(max_running=max_running)
        return self._set(Target("queue", queue, name), queue_subject(queue), change)

    def _set(self, target: Target, where: Subject, change: Change) -> bool:
        # Which marks may have gone depends on the windows until now.
        self.check()
        old = self.model.limits.all.get((where.kind, where.text, target.name))
        parts = _merge(old.parts if old else Parts(), change)
        with self.both() as tx:
            error = refused(lambda: limits.set_limit(tx, target, change, "the test"))
        assert error == (None if parts else "InvalidValue")
        if parts is None:
            return False
        self._note_edit(where, target.name, old.parts if old else None, parts)
        model = self.model
        model.blurred |= parts.unit is not None and model.now < model.latest
        model.limits.set(where, target.name, parts, now=model.now, seen_at=model.kept)
        return True

    def _note_edit(self, where: Subject, name: str, old: Parts | None, parts: Parts) -> None:
        book, running = self.model.limits, self.model.count().keys
        for key in book.keys:
            hidden = book.in_force(key).get(name)
            if not where.regex.fullmatch(key):
                continue
            if parts.max_running is not None and running[key] > parts.max_running:
                self.seen["lowered below what runs"] += 1
            if old is None and hidden and hidden.parts.max_starts and book.keys[key].last:
                self.seen["a limit over another"] += 1
            if old and old.max_starts and parts.max_starts and old != parts:
                self.seen["a window edited"] += book.keys[key].last > 0

    def clear_limit(self, where: str, name: str | None = None) -> int:
        """Clear a limit of a key or a pattern; all of them without a name."""
        return self._clear(Target.of(parse_subject(where), name or ""), subject(where), name)

    def clear_queue_limit(self, queue: str) -> int:
        """Clear all limits of a queue."""
        return self._clear(Target("queue", queue, ""), queue_subject(queue), None)

    def _clear(self, target: Target, where: Subject, name: str | None) -> int:
        self.check()
        with self.both() as tx:
            cleared = limits.clear_limit(tx, target, every_name=name is None)
        book = self.model.limits
        names = [n for kind, text, n in book.all if (kind, text) == (where.kind, where.text)]
        gone = [
            book.clear(where, each, seen_at=self.model.kept)
            for each in (names if name is None else [name])
        ]
        assert cleared == sum(gone)
        return cleared

    def pause_key(self, key: str, *, on: bool = True) -> None:
        """Pause a key, or let it go on."""
        with self.both() as tx:
            self._know_key(tx, key)
            tx.run("UPDATE slotq_keys SET paused = ? WHERE key = ?", (on, key))
        self.model.limits.key(key).paused = on

    def pause_queue(self, queue: str, *, on: bool = True) -> None:
        """Pause a queue, or let it go on."""
        with self.both() as tx:
            tx.run("INSERT INTO slotq_queues (queue) VALUES (?) ON CONFLICT DO NOTHING", (queue,))
            tx.run("UPDATE slotq_queues SET paused = ? WHERE queue = ?", (on, queue))
        self.model.queues.setdefault(queue, Queue()).paused = on

    def hold(
        self, key: str, slots: int = 1, *, ttl_ms: int = 2_000, wait: bool = False
    ) -> int | None:
        """Take slots, or wait for them; return the hold's id, or None if it was refused."""
        with self.both() as tx:
            self._know_key(tx, key)
            self.handle_due(tx)
            fits = self.model.hold_fits(key, slots) and self.model.first_waiting(key) is None
            if not fits and not wait:
                self.seen["hold refused"] += 1
                return None
            return self._add_hold(tx, key, slots, held=fits, ttl_ms=ttl_ms if fits else WAITING_MS)

    def hold_by_hand(self, key: str, slots: int, *, ttl_ms: int = 2_000) -> int:
        """Take slots without a look at any limit."""
        with self.both() as tx:
            self._know_key(tx, key)
            self.handle_due(tx)
            return self._add_hold(tx, key, slots, held=True, ttl_ms=ttl_ms)

    def _add_hold(self, tx: Tx, key: str, slots: int, *, held: bool, ttl_ms: int) -> int:
        hold_id: int = tx.value(
            "INSERT INTO slotq_holds (key_id, slots, state, since, until, ttl_ms)"
            " VALUES ((SELECT id FROM slotq_keys WHERE key = ?), ?, ?, ?, ?, ?) RETURNING id",
            (key, slots, "held" if held else "waiting", tx.now, tx.now + ttl_ms, ttl_ms),
        )
        self.model.holds[hold_id] = Hold(
            id=hold_id,
            key=key,
            slots=slots,
            held=held,
            since=tx.now,
            until=tx.now + ttl_ms,
            ttl_ms=ttl_ms,
        )
        if held:
            self.model.limits.take(key, slots, tx.now)
        return hold_id

    def poll_hold(self, hold_id: int, *, ttl_ms: int = 2_000) -> bool:
        """Let a waiting hold call again; return whether it has its slots now."""
        with self.both() as tx:
            self.handle_due(tx)
            hold = self.model.holds.get(hold_id)
            if hold is None or hold.held:
                return hold is not None
            hold.held = self.model.first_waiting(hold.key) is hold and self.model.hold_fits(
                hold.key, hold.slots
            )
            hold.ttl_ms = ttl_ms if hold.held else WAITING_MS
            hold.until = tx.now + hold.ttl_ms
            if hold.held:
                self.seen["hold served"] += 1
                hold.since = tx.now
            tx.run(
                "UPDATE slotq_holds SET state = ?, since = ?, until = ?, ttl_ms = ? WHERE id = ?",
                (
                    "held" if hold.held else "waiting",
                    hold.since,
                    hold.until,
                    hold.ttl_ms,
                    hold_id,
                ),
            )
            if hold.held:
                self.model.limits.take(hold.key, hold.slots, tx.now)
            return hold.held

    def extend_hold(self, hold_id: int, ms: int) -> None:
        """Move the end of a hold to so long from now."""
        with self.both() as tx:
            tx.run(
                "UPDATE slotq_holds SET until = ?, ttl_ms = ? WHERE id = ?",
                (tx.now + ms, ms, hold_id),
            )
        if hold_id in self.model.holds:
            hold = self.model.holds[hold_id]
            hold.until, hold.ttl_ms = self.model.now + ms, ms

    def release_hold(self, hold_id: int) -> None:
        """Give back what a hold has, or leave the line."""
        with self.both() as tx:
            tx.run("DELETE FROM slotq_holds WHERE id = ?", (hold_id,))
        self.model.holds.pop(hold_id, None)

    def _know_key(self, tx: Tx, key: str) -> None:
        tx.run("INSERT INTO slotq_keys (key) VALUES (?) ON CONFLICT DO NOTHING", (key,))
        self.model.limits.key(key)

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
                self.release_hold(hold.id)

    # What somebody types into a shell of the file.

    def delete_by_hand(self, job_id: int) -> None:
        """Delete a job, also one that runs."""
        self.hand.execute("DELETE FROM slotq_jobs WHERE id = ?", (job_id,))
        job = self.model.jobs.pop(job_id, None)
        self.seen["running job deleted by hand"] += job is not None and job.state == "running"

    def reorder_by_hand(self, job_id: int, *, priority: int, run_at: int) -> None:
        """Give a job another place in its line."""
        self.hand.execute(
            "UPDATE slotq_jobs SET rank = ?, run_at = ? WHERE id = ?", (-priority, run_at, job_id)
        )
        if job_id in self.model.jobs:
            job = self.model.jobs[job_id]
            job.priority, job.run_at = priority, run_at

    def move_by_hand(self, job_id: int) -> None:
        """Make a scheduled job wait, a waiting one scheduled, and a running one cancelled."""
        self.hand.execute(
            "UPDATE slotq_jobs SET state = CASE state WHEN 'scheduled' THEN 'waiting'"
            " WHEN 'waiting' THEN 'scheduled' ELSE 'cancelled' END, lease_until = NULL,"
            " finished_at = CASE WHEN state = 'running' THEN ?1 END"
            " WHERE id = ?2 AND finished_at IS NULL",
            (self.model.now, job_id),
        )
        job = self.model.jobs.get(job_id)
        if job is None or job.finished_at is not None:
            return
        if job.state == "running":
            job.state, job.finished_at, job.lease_until = "cancelled", self.model.now, None
        else:
            job.state = "waiting" if job.state == "scheduled" else "scheduled"


def _merge(old: Parts, change: Change) -> Parts | None:
    """Return the parts of a limit after a change; None if it must be refused."""
    max_running = old.max_running if isinstance(change.max_running, Unset) else change.max_running
    max_starts = old.max_starts if isinstance(change.max_starts, Unset) else change.max_starts
    span = Span(old.window_ms, old.unit, old.zone) if old.span_ms else None
    if not isinstance(change.window, Unset):
        span = change.window
    elif change.max_starts is None:
        span = None
    if (max_starts is None) != (span is None) or (max_running is None and max_starts is None):
        return None
    if span is None:
        return Parts(max_running)
    return Parts(max_running, max_starts, span.ms, span.unit, span.zone)
