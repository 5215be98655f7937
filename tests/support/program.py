"""A random program over a file and its model: what many users do, in any order."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

from slotq.keys import literal
from slotq.model import ORDERS, State, Window
from slotq.store.claims import Claim
from slotq.store.limits import UNSET, Span
from support.reference import KEYED_FLOOR
from support.reference_limits import subject
from support.twin import ENDS, LEASE_MS, STRANGE, TASK, End, Twin
from support.twin_holds import PROCESSES

KEYS = ("t:1", "t:*", "u:1", "t:[1]")
SUBJECTS = ("t:1", r"t:\*", "t:*", "*:1", "*", "u:1", "t:[1]", "T:*")
NAMES = ("", "", "n")
QUEUES = ("a", "b")
SLIDING_MS = (1_000, 3_000, 10_000)
UNITS: tuple[Window, ...] = ("minute", "hour", "day")
ZONES = ("UTC", "America/New_York", "Asia/Kolkata")
# At a turn of the year, and an hour before the clocks of New York go forward and back.
BEGINNINGS_MS = (1_767_225_600_000, 1_772_949_600_000, 1_793_509_200_000)

EDGES_MS = (1, 500, 998, 999, 1_000, 1_001, LEASE_MS - 1, LEASE_MS, 3_000)
STEPS_BACK_MS = (-1, -300, -500, -700, -999, -1_000, -1_001, -5_000, -100_000)

Theme = Literal["limits", "order", "leases", "holds"]
THEMES: tuple[Theme, ...] = get_args(Theme)
# How often each thing is done under each theme.
VERBS = {
    "enqueue": (22, 30, 26, 10),
    "claim": (22, 30, 24, 10),
    "end": (12, 20, 22, 6),
    "renew": (1, 2, 8, 1),
    "set_limit": (18, 4, 3, 10),
    "clear_limit": (8, 3, 2, 4),
    "pause": (3, 4, 2, 3),
    "hold": (8, 2, 4, 30),
    "poll": (10, 3, 5, 20),
    "release": (4, 2, 2, 5),
    "extend": (2, 1, 3, 5),
    "bury": (0, 1, 2, 2),
    "cancel": (2, 3, 6, 1),
    "retry": (1, 3, 6, 1),
    "delete": (2, 2, 4, 1),
    "prune": (5, 1, 3, 2),
    "type_by_hand": (3, 3, 3, 2),
    "look": (3, 1, 1, 4),
    "keep_house": (1, 2, 3, 1),
    "tell_a_story": (10, 3, 10, 12),
}


class Program:
    """A program that the seed decides; the theme says what there is much of."""

    def __init__(self, path: Path, seed: int, theme: Theme, *, floor: int = KEYED_FLOOR) -> None:
        self.dice = random.Random(seed)
        # The store rolls dice of its own for backoffs.
        random.seed(seed)
        self.twin = Twin(path, start_ms=self.dice.choice(BEGINNINGS_MS), floor=floor)
        self.steps = 0
        self.claims: list[Claim] = []
        # Few keys meet often. What a program does much of differs from seed to seed.
        self.keys = self.dice.sample(KEYS, self.dice.choice((2, 2, 3)))
        self.subjects = [
            text
            for text in SUBJECTS
            if any(subject(text).regex.fullmatch(key) for key in self.keys)
        ]
        if self.dice.random() < 0.5:
            self.twin.register_worker((TASK, STRANGE))
        column = THEMES.index(theme)
        self.weights = [of[column] * self.dice.choice((0.5, 1, 1.5)) for of in VERBS.values()]

    def run(self, steps: int) -> None:
        """Take so many steps; the file is looked at after each."""
        for _ in range(steps):
            self.let_time_pass()
            self._verb()()
            self.twin.check()
            self.steps += 1

    def close(self) -> None:
        """Let go of the file."""
        self.twin.close()

    def _verb(self) -> Callable[[], None]:
        verb: Callable[[], None] = getattr(self, self.dice.choices(list(VERBS), self.weights)[0])
        return verb

    def let_time_pass(self) -> None:
        """Move the clock: mostly a little, often to an edge, at times back."""
        kind, dice = self.dice.random(), self.dice
        ms, now = 0, self.twin.clock.now_ms()
        if kind < 0.15:
            ms = dice.randint(1, 50)
        elif kind < 0.33:
            ms = dice.choice(EDGES_MS)
        elif kind < 0.36:
            ms = dice.choice(STEPS_BACK_MS)
        elif kind < 0.365:
            ms = dice.randint(10**6, 10**8)
        elif kind < 0.38:
            ms = 60_000 - now % 60_000
        elif kind < 0.45 and (due := self.twin.model.next_due()) is not None:
            ms = max(0, due - now - dice.choice((0, 1)))
        self.twin.clock.advance(ms)

    def _job_id(self, *states: State) -> int:
        """Return a job, mostly one in these states; at times one that is not there."""
        jobs = self.twin.model.jobs
        ids = [job.id for job in jobs.values() if job.state in states]
        if not ids or self.dice.random() < 0.3:
            ids = [*jobs, 10**6]
        return self.dice.choice(ids)

    def _hold_id(self) -> int:
        ids = list(self.twin.model.holds)
        return self.dice.choice(ids) if ids else 10**6

    def enqueue(self) -> None:
        """Store a few jobs."""
        dice = self.dice
        keyed = dice.random() < 0.7
        count = dice.choice((1, 1, 2, 3, 6))
        dedupe = dice.choice((None, None, None, "x", "y"))
        self.twin.enqueue(
            *(dice.choice(self.keys) if keyed else "" for _ in range(1 if dedupe else count)),
            queue=dice.choice(QUEUES),
            cap=dice.choice((None, None, None, 1, 2)) if keyed else None,
            priority=dice.choice((0, 0, 0, 0, 1, -1)),
            delay_ms=dice.choice((0, 0, 0, 0, 500, 3_000)),
            run_at=dice.choice((*[None] * 9, self.twin.clock.now_ms() - 1_000)),
            expires_in_ms=dice.choice((*[None] * 10, 1_000, 5_000)),
            max_attempts=dice.choice((1, 2, 5)),
            dedupe=dedupe,
            task=dice.choice((*[TASK] * 6, STRANGE)),
        )

    def claim(self) -> None:
        """Take a turn of a worker."""
        dice = self.dice
        ended: list[tuple[Claim, End]] = [
            (claim, self._how()) for claim in self._some_claims(dice.choice((0, 1, 2)))
        ]
        self.claims += self.twin.claim(
            dice.choice((1, 1, 2, 3, 6)),
            dice.choice(ORDERS),
            queues=dice.choice((None, ["a"], ["b"], ["b", "a"], ["a", "nobody's"])),
            tasks=dice.choice(((TASK,), (TASK, STRANGE))),
            lease_ms=dice.choice((LEASE_MS, LEASE_MS, 30_000)),
            ended=ended,
            batch=dice.choice((1, 2, 1_000)),
        )
        # Lost leases stay among them: somebody may come back with one.
        del self.claims[:-12]

    def end(self) -> None:
        """End a run or two."""
        for claim in self._some_claims(self.dice.choice((1, 2))):
            self.twin.end(claim, self._how())

    def renew(self) -> None:
        """Renew some leases."""
        self.twin.renew(*self._some_claims(3))

    def bury(self) -> None:
        """Find the worker dead."""
        self.twin.bury()

    def _how(self) -> End:
        return self.dice.choice((*ENDS, *ENDS[:2], *ENDS[:1]))

    def _some_claims(self, most: int) -> list[Claim]:
        """Return claims: mostly live ones, at times of a job that somebody else runs by now."""
        kind, model, claims = self.dice.random(), self.twin.model, self.claims
        if kind < 0.6:
            claims = [claim for claim in claims if model.owns(claim.id, claim.token)]
        elif kind < 0.8:
            running = {job.id: job.token for job in model.running()}
            claims = [claim for claim in claims if running.get(claim.id, 0) > claim.token]
        return self.dice.sample(claims, min(len(claims), most))

    def tell_a_story(self) -> None:
        """Do several things that seldom come together."""
        twin, dice, key = self.twin, self.dice, self.dice.choice(self.keys)
        kind = dice.randrange(13)
        if kind >= 10:
            self._wait_in_line(key)
        elif kind == 0:
            lost = list(self.claims)
            self.claims += twin.lapse(dice.choice(ORDERS))
            twin.renew(*lost)
            self.end()
        elif kind == 1:
            self.claims += twin.run_dry(key, order=dice.choice(ORDERS))
        elif kind == 2:
            self.claims += twin.turn_of_the_minute(key, dice.choice((1, 2)))
        elif kind == 3:
            twin.wait_and_be_served(key)
        elif kind == 4:
            twin.start_twice(key, 1, after_ms=-300)
        elif kind == 5:
            twin.start_twice(key, 16, after_ms=dice.choice((700, 2_000)))
        elif kind == 6:
            twin.meet_patterns(key, *dice.sample(("*", "t:*", "*:1"), 2))
        elif kind == 7:
            twin.begin_to_count(key, anew=dice.random() < 0.5)
        elif kind == 8:
            twin.retry_beside_its_double(key)
        else:
            twin.expire(key, delay_ms=dice.choice((0, 5_000)))

    def _wait_in_line(self, key: str) -> None:
        twin, dice = self.twin, self.dice
        kind = dice.randrange(8)
        if kind == 0:
            twin.shrink_below_who_waits(key)
        elif kind == 1:
            twin.ask_twice(key, dice.choice((1, 2)), free=dice.choice((1, 2)))
        elif kind == 2:
            twin.come_at_its_end(key, release=dice.random() < 0.5, early_ms=dice.choice((0, 1)))
        elif kind == 3:
            twin.end_with_others(key, [dice.choice(self.keys) for _ in range(3)])
        elif kind == 4:
            twin.lapse_with_others(key)
        else:
            slots = [dice.choice((1, 1, 2, 3)) for _ in range(dice.choice((2, 3)))]
            twin.stand_in_line(key, *slots, last_call=dice.random() < 0.5)

    def set_limit(self) -> None:
        """Set a limit of a key, a pattern or a queue."""
        dice = self.dice
        if dice.random() < 0.2:
            self.twin.set_queue_limit(
                dice.choice(QUEUES), dice.choice((1, 2, 3, 5)), dice.choice(NAMES)
            )
            return
        where, name = dice.choice(self.subjects), dice.choice(NAMES)
        if dice.random() < 0.4:
            self.twin.set_limit(
                where,
                name,
                max_running=dice.choice((1, 2, 3, None)),
                max_starts=dice.choice((UNSET, UNSET, None, 2)),
            )
            return
        sliding = Span(dice.choice(SLIDING_MS))
        calendar = Span(unit=dice.choice(UNITS), zone=dice.choice(ZONES))
        self.twin.set_limit(
            where,
            name,
            max_running=dice.choice((UNSET, UNSET, None, 2)),
            max_starts=dice.choice((1, 2, 3, 5, 9)),
            window=dice.choice((sliding, sliding, calendar)),
        )

    def clear_limit(self) -> None:
        """Clear limits."""
        kind = self.dice.random()
        if kind < 0.3:
            self.twin.clear_queue_limit(self.dice.choice(QUEUES))
        elif kind < 0.8:
            self.twin.clear_limit(self.dice.choice(self.subjects), self.dice.choice((None, *NAMES)))
        else:
            for limit in list(self.twin.model.limits.all.values()):
                if limit.subject.kind == "pattern":
                    self.twin.clear_limit(limit.subject.text)

    def pause(self) -> None:
        """Let what is paused go on, or pause a key or a queue."""
        model, dice = self.twin.model, self.dice
        keys = [name for name, key in model.limits.keys.items() if key.paused]
        queues = [name for name, queue in model.queues.items() if queue.paused]
        for name in keys:
            self.twin.pause_key(name, on=False)
        for name in queues:
            self.twin.pause_queue(name, on=False)
        if not keys + queues or dice.random() < 0.2:
            if dice.random() < 0.5:
                self.twin.pause_key(dice.choice(self.keys))
            else:
                self.twin.pause_queue(dice.choice(QUEUES))

    def hold(self) -> None:
        """Take slots of a key, or wait for them; more often of a key that is in use."""
        dice = self.dice
        running = [job for job in self.twin.model.running() if job.key]
        busy = [job.key for job in running]
        self.twin.hold(
            dice.choice(busy if busy and dice.random() < 0.6 else self.keys),
            dice.choice((1, 1, 1, 2, 3)),
            ttl_ms=dice.choice((1_000, 4_000)),
            wait=dice.random() < 0.5,
            cap=dice.choice((None, None, None, 1, 2, 3)),
            job=dice.choice(running).id if running and dice.random() < 0.3 else None,
            process=dice.choice(PROCESSES),
        )

    def poll(self) -> None:
        """Let the holds that wait call again, often after making room for the first."""
        dice = self.dice
        waiting = [hold for hold in self.twin.model.holds.values() if not hold.held]
        if waiting and dice.random() < 0.5:
            self.twin.make_room(waiting[0].key)
        for hold in dice.sample(waiting, min(len(waiting), 3)):
            self.twin.poll_hold(
                hold.id, ttl_ms=dice.choice((1_000, 4_000)), wait=dice.random() < 0.7
            )

    def release(self) -> None:
        """Give a hold back, take somebody's, or try to give a stranger's."""
        kind = self.dice.random()
        if kind < 0.2:
            self.twin.take_hold_back(self._hold_id())
        elif kind < 0.3:
            self.twin.bury_holder(self.dice.choice(PROCESSES))
        else:
            self.twin.release_hold(self._hold_id(), stranger=kind < 0.5)

    def extend(self) -> None:
        """Move the end of a hold, or try to with a stranger's."""
        self.twin.extend_hold(
            self._hold_id(), self.dice.choice((1, 1_000, 6_000)), stranger=self.dice.random() < 0.3
        )

    def cancel(self) -> None:
        """Cancel a job."""
        running = self.dice.random() < 0.5
        self.twin.cancel(
            self._job_id("running") if running else self._job_id("waiting", "scheduled")
        )

    def retry(self) -> None:
        """Try a job again."""
        self.twin.retry(self._job_id("failed", "cancelled"))

    def delete(self) -> None:
        """Delete a job."""
        self.twin.delete(self._job_id("waiting", "running"))

    def prune(self) -> None:
        """Drop old jobs, and keys that nothing needs."""
        age = self.dice.choice((0, 0, 1_000, 60_000))
        if self.dice.random() < 0.7:
            key = self.dice.choice(self.keys)
            self.twin.finish_with(key)
            if self.dice.random() < 0.7:
                self.twin.clear_limit(literal(key))
            self.twin.pause_key(key, on=self.dice.random() < 0.2)
        self.twin.prune(self.twin.clock.now_ms() - age, self.dice.choice((1, 3, 500)))
        self.twin.prune_keys(self.dice.choice((1, 2, 1_000)))

    def type_by_hand(self) -> None:
        """Change the file behind the queue's back."""
        kind = self.dice.random()
        if kind < 0.3:
            self.twin.delete_by_hand(self._job_id("running"))
        elif kind < 0.6:
            self.twin.move_by_hand(self._job_id("waiting", "scheduled", "running"))
        elif kind < 0.9:
            now = self.twin.clock.now_ms()
            self.twin.reorder_by_hand(
                self._job_id("waiting"),
                priority=self.dice.choice((0, 1)),
                run_at=now + self.dice.choice((-1_000, 0, 1)),
            )
        else:
            self.twin.hold_by_hand(self.dice.choice(self.keys), self.dice.choice((1, 5, 16)))

    def look(self) -> None:
        """Look at a key, and at the queues."""
        self.twin.look(self.dice.choice((*self.keys, "t:never seen")))

    def keep_house(self) -> None:
        """Restart, fail in mid-transaction, sweep, or meet another worker."""
        kind = self.dice.random()
        if kind < 0.2:
            self.twin.reopen()
        elif kind < 0.5:
            self.twin.claim_rolled_back(3, self.dice.choice(ORDERS))
        elif kind < 0.8:
            self.twin.sweep(self.dice.choice((1, 1_000)))
        else:
            self.twin.register_worker(self.dice.choice(((TASK,), (TASK, STRANGE))))
