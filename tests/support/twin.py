"""Jobs, claims and ends of runs, on a real file and on the model beside it."""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal, assert_never, get_args

from slotq.backoff import delay_ms
from slotq.keys import literal
from slotq.model import Order
from slotq.store import claims, jobs, leases, workers
from slotq.store.claims import Claim, Claimer
from slotq.store.jobs import UNLIMITED, Call, Terms
from slotq.store.leases import Cancelled, Failure, HandBack, Success
from slotq.store.limits import Span
from slotq.store.transaction import Tx
from support.recount import Rows, check_starts
from support.reference import FINISHED
from support.reference_order import Job
from support.twin_core import refused
from support.twin_holds import TwinHolds

TASK = "work"
STRANGE = "work that only some know"
LEASE_MS = 2_000

SNOOZE_MS = 700

End = Literal["success", "failure", "final failure", "hand back", "snooze", "discard"]
ENDS: tuple[End, ...] = get_args(End)


class Undo(Exception):
    """Raised to roll a transaction back."""


class Twin(TwinHolds):
    """A file and a model, for everything that the queue can do."""

    def enqueue(
        self,
        *keys: str,
        queue: str = "a",
        cap: int | None = None,
        priority: int = 0,
        delay_ms: int = 0,
        run_at: int | None = None,
        expires_in_ms: int | None = None,
        max_attempts: int = 5,
        dedupe: str | None = None,
        task: str = TASK,
    ) -> list[int]:
        """Store a job for each key; "" stands for none."""
        terms = Terms(
            task=task,
            queue=queue,
            cap=UNLIMITED if cap is None else cap,
            priority=priority,
            delay_ms=delay_ms,
            run_at=run_at,
            expires_in_ms=expires_in_ms,
            max_attempts=max_attempts,
            dedupe=dedupe,
        )
        with self.both() as tx:
            if dedupe is None:
                ids = list(jobs.add_many(tx, terms, [Call("[]", "{}", key) for key in keys]))
            else:
                ids = [jobs.add(tx, terms, Call("[]", "{}", key))[0] for key in keys]
        now = self.model.now
        run_at = now + delay_ms if run_at is None else run_at
        stored = [
            Job(
                id=0,
                task=task,
                queue=queue,
                key=key,
                cap=cap,
                priority=priority,
                state="scheduled" if run_at > now else "waiting",
                run_at=run_at,
                expires_at=None if expires_in_ms is None else now + expires_in_ms,
                max_attempts=max_attempts,
                created_at=now,
                dedupe=dedupe,
            )
            for key in keys
        ]
        before = self.model.last_id
        assert ids == self.model.add(stored)
        self.seen["dedupe found"] += self.model.last_id < before + len(keys)
        return ids

    def claim(
        self,
        want: int = 1,
        order: Order = "fair",
        *,
        queues: Sequence[str] | None = None,
        tasks: Sequence[str] = (TASK,),
        lease_ms: int = LEASE_MS,
        ended: Sequence[tuple[Claim, End]] = (),
        batch: int = 1_000,
    ) -> list[Claim]:
        """Write outcomes, handle what is due, and start jobs: one turn of a worker."""
        claimer = Claimer(7, order, queues, tasks, lease_ms)
        with self.both() as tx:
            for claim, how in ended:
                self._end(tx, claim, how)
            self.handle_due(tx, batch)
            offered = self._offered(tx)
            put_back = self.seen["put back"]
            started = claims.claim(tx, claimer, want)
            expected = self.model.claim(
                want, order=order, queues=queues, tasks=tasks, lease_ms=lease_ms, worker=7
            )
        assert [(claim.id, claim.token, claim.attempt) for claim in started] == [
            (job.id, job.token, job.attempt) for job in expected
        ]
        rows = Rows(self.hand)
        check_starts(rows, [claim.id for claim in started], self.steady_now)
        if want == 1 and started and order != "fifo" and self.seen["put back"] == put_back:
            self._check_fair(rows, started[0], offered)
        return started

    def _offered(self, tx: Tx) -> list[tuple[int, int, int, int]]:
        """Return queue, rank, key and running of each lane with a startable job."""
        return tx.rows(
            "SELECT l.queue_id, l.head_rank, l.key_id, l.running FROM slotq_lanes l"
            " JOIN slotq_queues q ON q.id = l.queue_id WHERE l.open AND l.head_id IS NOT NULL"
            " AND NOT q.paused AND q.running < q.cap AND (l.key_id <> 0 OR q.dry < ?)",
            (self.model.floor,),
        )

    def _check_fair(
        self, rows: Rows, started: Claim, offered: list[tuple[int, int, int, int]]
    ) -> None:
        """Check on the rows alone that no group with fewer running was passed over."""
        (job,) = (job for job in rows.jobs if job.id == started.id)
        same = [offer for offer in offered if offer[:2] == (job.queue_id, job.rank)]
        mine = [running for *_, key_id, running in same if key_id == job.key_id]
        # Without a keyed job to start, an unkeyed one goes though the floor is reached.
        assert not mine or mine[0] == min(running for *_, running in same), (job, same)
        self.seen["fair pick checked"] += len(same) > 1

    def claim_rolled_back(self, want: int, order: Order) -> None:
        """Start jobs in a transaction that fails: nothing must stay of it."""
        claimer = Claimer(7, order, None, (TASK, STRANGE), LEASE_MS)
        with suppress(Undo), self.database.write() as tx:
            claims.claim(tx, claimer, want)
            _undo()

    def end(self, claim: Claim, how: End = "success") -> bool:
        """End a run; return whether the lease was still the claim's."""
        with self.both() as tx:
            return self._end(tx, claim, how)

    def _end(self, tx: Tx, claim: Claim, how: End) -> bool:
        mine = self.model.owns(claim.id, claim.token)
        ended = leases.end(tx, claim.lease, _end_of(claim, how))
        assert (ended is not None) == mine
        if not mine:
            self.seen["end of a lost lease"] += claim.id in self.model.jobs
            return False
        match how:
            case "success":
                self.model.succeed(claim.id)
            case "hand back":
                self.model.hand_back(claim.id)
            case "snooze":
                self.model.snooze(claim.id, SNOOZE_MS)
            case "discard":
                self.model.discard(claim.id, "no use")
            case "failure" | "final failure":
                final = how == "final failure"
                self.model.fail(
                    claim.id, "broken", lambda job_id: self.run_at(tx, job_id), final=final
                )
            case _:
                assert_never(how)
        assert ended == self.model.jobs[claim.id].state
        return True

    def renew(self, *renewed: Claim) -> list[leases.Lease]:
        """Renew leases; return those that are lost."""
        leases_ = [(claim.id, claim.token) for claim in renewed]
        with self.both() as tx:
            lost = leases.renew(tx, leases_)
        for job_id, token in leases_:
            if self.model.owns(job_id, token):
                self.model.renew(job_id)
        assert lost == [lease for lease in leases_ if not self.model.owns(*lease)]
        self.seen["renewal of a lost lease"] += len(lost)
        return lost

    def bury(self) -> None:
        """Find the worker dead that all jobs run in."""
        with self.both() as tx:
            workers.bury(tx, 7)
            self.model.bury(7)
            self.handle_due(tx)

    def sweep(self, batch: int = 1_000) -> None:
        """Handle what is due, and nothing else."""
        with self.both() as tx:
            self.handle_due(tx, batch)

    def lapse(self, order: Order = "fair") -> list[Claim]:
        """Let every lease run out, and start what has lost its worker again."""
        self.clock.advance(LEASE_MS)
        self.sweep()
        again = [job.run_at for job in self.model.jobs.values() if job.error == "worker lost"]
        self.clock.set(max([self.clock.now_ms(), *again]))
        return self.claim(6, order)

    def lapse_with_others(self, key: str) -> int | None:
        """Let many leases run out at one instant; take the slot of one of them just then."""
        self._free(key, max_running=1)
        self.enqueue("", "", "", priority=2)
        self.enqueue(key, priority=1)
        self.claim(4)
        self.clock.advance(LEASE_MS)
        return self.hold(key)

    def pass_over(self, busy: str, idle: str, order: Order) -> list[Claim]:
        """Let a job of a group that runs nothing go before an older one of a group that does."""
        for key in (busy, idle):
            self._free(key, max_running=3)
        self.enqueue(busy, busy, priority=3)
        first = self.claim(1, order)
        self.clock.advance(1)
        self.enqueue(idle, priority=3)
        return first + self.claim(1, order)

    def run_dry(self, *keys: str, order: Order = "fair") -> list[Claim]:
        """Start so many jobs without a key that one with a key must go next."""
        self.enqueue(*[""] * (self.model.floor + 2), priority=1)
        self.enqueue(*keys)
        return self.claim(self.model.floor + 2, order, queues=["a"])

    def turn_of_the_minute(self, key: str, max_starts: int) -> list[Claim]:
        """Start all that a calendar window allows at the very instant at which it begins."""
        self.set_limit(literal(key), max_starts=max_starts, window=Span(unit="minute", zone="UTC"))
        self.clock.advance(60_000 - self.clock.now_ms() % 60_000)
        self.enqueue(*[key] * (max_starts + 1))
        return self.claim(max_starts + 1)

    def meet_patterns(self, key: str, *patterns: str) -> None:
        """See a key for the first time after limits that it matches were set, in this order."""
        for where in (literal(key), *patterns):
            self.clear_limit(where, "")
        for max_running, pattern in enumerate(patterns, start=1):
            self.set_limit(pattern, max_running=max_running)
        self.finish_with(key)
        self.prune_keys(1_000)
        self.enqueue(key)

    def begin_to_count(self, key: str, *, anew: bool) -> None:
        """Give a key with starts a window: one added to a limit without, or one in its place."""
        self.clear_limit(literal(key), "")
        self.set_limit("*", "n", max_starts=9, window=Span(10_000))
        self.set_limit("*", max_running=3, max_starts=None)
        self.start_twice(key, 1, after_ms=1)
        self.set_limit(literal(key) if anew else "*", max_starts=2, window=Span(3_000))

    def retry_beside_its_double(self, key: str) -> None:
        """Try a job again while another with its dedupe value has not ended."""
        (first,) = self.enqueue(key, dedupe="double")
        self.cancel(first)
        self.enqueue(key, dedupe="double")
        self.retry(first)

    def expire(self, key: str, *, delay_ms: int) -> None:
        """Let a job reach the instant at which it may no longer start."""
        self.enqueue(key, delay_ms=delay_ms, expires_in_ms=1_000)
        self.clock.advance(1_000)
        self.sweep()

    def cancel(self, job_id: int) -> None:
        """Cancel a job."""
        with self.both() as tx:
            error = refused(lambda: jobs.cancel(tx, job_id))
        job = self.model.jobs.get(job_id)
        assert error == ("JobNotFound" if job is None else None)
        if job is not None:
            self.model.cancel(job_id)

    def retry(self, job_id: int) -> None:
        """Try a job again."""
        with self.both() as tx:
            error = refused(lambda: jobs.retry(tx, job_id))
        known = job_id in self.model.jobs
        assert error == (_if(not self.model.retry(job_id)) if known else "JobNotFound")

    def delete(self, job_id: int) -> None:
        """Delete a job."""
        with self.both() as tx:
            error = refused(lambda: jobs.delete(tx, job_id))
        job = self.model.jobs.get(job_id)
        assert error == ("JobNotFound" if job is None else _if(job.state == "running"))
        if error is None:
            del self.model.jobs[job_id]

    def prune(self, finished_before: int, batch: int) -> int:
        """Delete the jobs that ended first."""
        with self.both() as tx:
            count = jobs.prune(tx, finished_before, batch)
            left: set[int] = {job_id for (job_id,) in tx.rows("SELECT id FROM slotq_jobs")}
        gone = [job for job in self.model.jobs.values() if job.id not in left]
        due = [
            job
            for job in self.model.jobs.values()
            if job.state in FINISHED and (job.finished_at or 0) <= finished_before
        ]
        ends = sorted(job.finished_at or 0 for job in due)
        assert count == len(gone) == min(batch, len(due))
        assert sorted(job.finished_at or 0 for job in gone) == ends[:count]
        for job in gone:
            del self.model.jobs[job.id]
        self.seen["pruned"] += count
        return count

    def prune_keys(self, batch: int) -> list[str]:
        """Drop every key that nothing needs, looking at some at a time; return which."""
        after: int | None = 0
        with self.both() as tx:
            while after is not None:
                after = jobs.prune_keys(tx, after, batch)
            left: set[str] = {key for (key,) in tx.rows("SELECT key FROM slotq_keys")}
        gone = self.model.forgettable_keys()
        assert left - {""} == self.model.limits.keys.keys() - set(gone)
        for key in gone:
            self.model.forget_key(key)
        self.seen["keys pruned"] += len(gone)
        return gone

    def register_worker(self, tasks: Sequence[str]) -> None:
        """Let the file know the one worker there is, and what it knows."""
        with self.both() as tx:
            tx.run("DELETE FROM slotq_workers")
            tx.run(
                "INSERT INTO slotq_workers (pid, host, queues, slots, claim_order, lease_ms,"
                " started_at, seen_at, tasks) VALUES (1, 'here', 'null', 1, 'fair', ?, ?, ?, ?)",
                (LEASE_MS, tx.now, tx.now, json.dumps(tasks)),
            )
        self.model.known = [tasks]


def _undo() -> None:
    raise Undo


def _if(condition: bool) -> str | None:
    return "InvalidValue" if condition else None


def _end_of(claim: Claim, how: End) -> leases.End:
    match how:
        case "success":
            return Success("1")
        case "failure" if claim.attempt < claim.max_attempts:
            return Failure("broken", "here", again_ms=delay_ms(claim.attempt, jitter=0.5))
        case "failure" | "final failure":
            return Failure("broken", "here")
        case "hand back":
            return HandBack()
        case "snooze":
            return HandBack(SNOOZE_MS)
        case "discard":
            return Cancelled("no use")
