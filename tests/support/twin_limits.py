"""Limits, pauses, and changes typed by hand, on a real file and on the model."""

from slotq.keys import parse_subject
from slotq.store import limits, pauses
from slotq.store.limits import UNSET, Change, Span, Target, Unset
from slotq.store.transaction import Tx
from support.reference_limits import Parts, Subject, queue_subject, subject
from support.reference_order import Queue
from support.twin_core import TwinCore, refused


class TwinLimits(TwinCore):
    """Operations on limits, keys and queues."""

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
            # A key that was only resumed need not be known; one in the model is.
            self._know_key(tx, key)
            was = self.model.limits.key(key).paused
            act = pauses.pause_key if on else pauses.resume_key
            assert act(tx, key, "the test") == (was != on)
        self.model.limits.key(key).paused = on

    def pause_queue(self, queue: str, *, on: bool = True) -> None:
        """Pause a queue, or let it go on."""
        was = queue in self.model.queues and self.model.queues[queue].paused
        with self.both() as tx:
            act = pauses.pause_queue if on else pauses.resume_queue
            assert act(tx, queue, "the test") == (was != on)
        if on or queue in self.model.queues:
            self.model.queues.setdefault(queue, Queue()).paused = on

    def _know_key(self, tx: Tx, key: str) -> None:
        tx.run("INSERT INTO slotq_keys (key) VALUES (?) ON CONFLICT DO NOTHING", (key,))
        self.model.limits.key(key)

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
            " cancelling = 0,"
            " finished_at = CASE WHEN state = 'running' THEN ?1 END"
            " WHERE id = ?2 AND finished_at IS NULL",
            (self.model.now, job_id),
        )
        job = self.model.jobs.get(job_id)
        if job is None or job.finished_at is not None:
            return
        if job.state == "running":
            job.state, job.finished_at, job.lease_until = "cancelled", self.model.now, None
            job.cancelling = False
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
