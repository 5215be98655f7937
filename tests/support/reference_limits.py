"""Limits as plain data: which one counts for a key, and when the windows of a key have room."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from slotq.model import Window
from slotq.periods import SPAN_MS, period

NEVER = 10**18
"""The instant at which a window has room for more slots than it ever allows."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a limit is for; a key is matched by exactly one text, a pattern by many."""

    kind: Literal["key", "pattern", "queue"]
    text: str
    regex: re.Pattern[str]
    literals: int


def subject(text: str) -> Subject:
    r"""Read a subject: ``*`` is any run of characters, ``\*`` a star, ``\\`` a backslash."""
    plain, regex, is_pattern, at = "", "", False, 0
    while at < len(text):
        if text[at] == "*":
            is_pattern = True
            regex += ".*"
        else:
            at += text[at] == "\\" and text[at + 1 : at + 2] in {"*", "\\"}
            plain += text[at]
            regex += re.escape(text[at])
        at += 1
    kind: Literal["key", "pattern"] = "pattern" if is_pattern else "key"
    return Subject(kind, text if is_pattern else plain, re.compile(regex, re.DOTALL), len(plain))


def queue_subject(name: str) -> Subject:
    """Return the subject of a limit of a queue."""
    return Subject("queue", name, re.compile("(?!)"), 0)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a limit allows; window_ms is for a sliding window, unit and zone for a calendar one."""

    max_running: int | None = None
    max_starts: int | None = None
    window_ms: int | None = None
    unit: Window | None = None
    zone: str | None = None

    @property
    def span_ms(self) -> int:
        """The longest that its window can be; 0 without one."""
        return self.window_ms or (SPAN_MS[self.unit] if self.unit else 0)


@dataclass(slots=True, eq=False)
class Limit:
    """A limit; period is the calendar period that now lies in."""

    subject: Subject
    name: str
    parts: Parts
    period: tuple[int, int] | None
    version: int

    def turn(self, now: int) -> None:
        """Go to the period of now."""
        unit = self.parts.unit
        self.period = period(unit, self.parts.zone, now) if unit else None


@dataclass(slots=True)
class Key:
    """What is remembered of a key.

    Attributes:
        paused: Whether claims skip it.
        last: Number of its last counted start.
        starts: The instant of each start that is still kept, by number.
        since: For each name of a limit, the last start before it began to count.
        full_until: When its windows have room again, as seen at its last start or edit.
    """

    paused: bool = False
    last: int = 0
    starts: dict[int, int] = field(default_factory=dict[int, int])
    since: dict[str, int] = field(default_factory=dict[str, int])
    full_until: int | None = None


class Limits:
    """All limits, and what each key has used of them."""

    def __init__(self) -> None:
        self.all: dict[tuple[str, str, str], Limit] = {}
        self.keys: dict[str, Key] = {}
        self._in_force: dict[str, dict[str, Limit]] = {}

    def key(self, name: str) -> Key:
        """Return a key, seen for the first time if need be."""
        if name not in self.keys:
            self.keys[name] = Key(since=dict.fromkeys(self.in_force(name), 0))
        return self.keys[name]

    def in_force(self, key: str) -> dict[str, Limit]:
        """Return the one limit of each name that counts for a key.

        It is the exact one, else the pattern with the most literal characters, else the first.
        """
        if key not in self._in_force:
            best: dict[str, Limit] = {}
            for limit in sorted(self.all.values(), key=_narrowest_first):
                if limit.subject.regex.fullmatch(key):
                    best.setdefault(limit.name, limit)
            self._in_force[key] = best
        return self._in_force[key]

    def cap(self, key: str) -> int | None:
        """Return how many may run at once, by all limits of a key together."""
        caps = [limit.parts.max_running for limit in self.in_force(key).values()]
        return min((cap for cap in caps if cap is not None), default=None)

    def queue_cap(self, queue: str) -> int | None:
        """Return how many may run at once in a queue."""
        of_queue = [limit for limit in self.all.values() if limit.subject.kind == "queue"]
        caps = [limit.parts.max_running for limit in of_queue if limit.subject.text == queue]
        return min((cap for cap in caps if cap is not None), default=None)

    def span(self, key: str) -> int:
        """Return the longest window of a key in milliseconds; 0 without one."""
        return max((limit.parts.span_ms for limit in self.in_force(key).values()), default=0)

    def opens(self, key: str, at: int, slots: int = 1) -> int | None:
        """Return when all windows of a key have room for that many starts; None: they have it."""
        found: int | None = None
        for name, limit in self.in_force(key).items():
            if limit.parts.max_starts is None:
                continue
            live = self.live(key, name, at)
            too_many = len(live) + slots - limit.parts.max_starts
            if too_many <= 0:
                continue
            if too_many > len(live):
                opens = NEVER
            elif limit.period is not None:
                opens = limit.period[1]
            else:
                assert limit.parts.window_ms is not None
                opens = live[too_many - 1] + limit.parts.window_ms
            if opens > at:
                found = max(opens, found or 0)
        return found

    def live(self, key: str, name: str, at: int) -> list[int]:
        """Return the instants of the starts that count in a window, the oldest first."""
        limit = self.in_force(key)[name]
        known = self.keys.get(key, Key(since={name: 0}))
        counted = sorted(at for number, at in known.starts.items() if number > known.since[name])
        if limit.period is not None:
            return [start for start in counted if start >= limit.period[0]]
        assert limit.parts.window_ms is not None
        return [start for start in counted if start > at - limit.parts.window_ms]

    def take(self, name: str, slots: int, now: int) -> None:
        """Count starts. No start of a key lies before an earlier one, whatever the clock says."""
        key = self.keys[name]
        if self.span(name) == 0:
            return
        at = max(now, key.starts[max(key.starts)] if key.starts else 0)
        for number in range(key.last + 1, key.last + slots + 1):
            key.starts[number] = at
        key.last += slots
        key.full_until = self.opens(name, now)

    def set(self, where: Subject, name: str, parts: Parts, *, now: int, seen_at: int) -> None:
        """Insert or update a limit."""
        place = (where.kind, where.text, name)
        limit = self.all.get(place)
        before = {key: self.in_force(key).get(name) for key in self.keys}
        counted = {key: old is not None and old.parts.span_ms > 0 for key, old in before.items()}
        changed = limit is None or limit.parts != parts
        if limit is None:
            limit = self.all[place] = Limit(where, name, parts, None, 0)
            self._in_force.clear()
        limit.parts = parts
        limit.version += 1
        limit.turn(now)
        if not changed:
            return
        for key in self._ruled_by(limit):
            # It takes over the count of the limit whose place it takes, also of itself.
            if not counted[key]:
                self.keys[key].since[name] = self.keys[key].last
            self.keys[key].full_until = self.opens(key, seen_at)

    def clear(self, where: Subject, name: str, *, seen_at: int) -> bool:
        """Remove a limit; the next most specific one of its name starts from zero."""
        limit = self.all.get((where.kind, where.text, name))
        if limit is None:
            return False
        ruled = list(self._ruled_by(limit))
        del self.all[where.kind, where.text, name]
        self._in_force.clear()
        for key in ruled:
            if name in self.in_force(key):
                self.keys[key].since[name] = self.keys[key].last
            else:
                del self.keys[key].since[name]
            self.keys[key].full_until = self.opens(key, seen_at)
        return True

    def turn_periods(self, now: int) -> None:
        """Go on to the period of now where one is over."""
        for limit in self.all.values():
            if limit.period is not None and limit.period[1] <= now:
                limit.turn(now)

    def step_back(self, now: int) -> None:
        """Bring all instants that lie after now to now."""
        for limit in self.all.values():
            limit.turn(now)
        for name, key in self.keys.items():
            key.starts = {number: min(at, now) for number, at in key.starts.items()}
            if self.span(name):
                key.full_until = self.opens(name, now)

    def _ruled_by(self, limit: Limit) -> Iterator[str]:
        return (key for key in self.keys if self.in_force(key).get(limit.name) is limit)


def _narrowest_first(limit: Limit) -> tuple[bool, int, str]:
    return limit.subject.kind != "key", -limit.subject.literals, limit.subject.text
