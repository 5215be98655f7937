"""What a hold is told, said the obvious way: room is looked for at each instant at which some comes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from support.reference_order import Hold, Line

WAITING_MS = 5_000
PAUSED_MS = 60_000
QUEUED_MS = 50

Why = Literal["paused", "max_running", "max_starts", "queued"]


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What keeps a hold from its slots, until when, and the name of the limit if one does."""

    why: Why
    until: int
    limit: str | None = None


def ever_fits(line: Line, hold: Hold) -> bool:
    """Return whether the limits of a key allow so many slots at all."""
    parts = [limit.parts for limit in line.limits.in_force(hold.key).values()]
    most = [hold.cap, *(of.max_running for of in parts), *(of.max_starts for of in parts)]
    return all(each is None or hold.slots <= each for each in most)


def ahead(line: Line, hold: Hold) -> list[Hold]:
    """Return the holds that wait before this one; one that is not in line yet comes last."""
    return [
        other
        for other in line.holds.values()
        if other.key == hold.key and not other.held and (hold.id == 0 or other.id < hold.id)
    ]


def obstacles(line: Line, hold: Hold) -> list[Obstacle]:
    """Return what stands in the way of a hold that waits, or asks; those that last longest."""
    if line.limits.key(hold.key).paused:
        return [Obstacle("paused", line.now + PAUSED_MS)]
    found = [*_slots(line, hold), *_windows(line, hold)]
    if ahead(line, hold):
        found.append(Obstacle("queued", line.now + QUEUED_MS))
    longest = max(((each.until, each.limit is not None) for each in found), default=None)
    return [each for each in found if (each.until, each.limit is not None) == longest]


def has_them_itself(line: Line, hold: Hold) -> bool:
    """Return whether the job that asks has so many of the slots that waiting would not end."""
    if hold.job is None:
        return False
    own = sum(
        other.slots
        for other in line.holds.values()
        if other.held and other.key == hold.key and other.job == hold.job
    )
    own += any(job.id == hold.job and job.key == hold.key for job in line.running())
    caps = (hold.cap, line.limits.cap(hold.key))
    return any(cap is not None and own + hold.slots > cap for cap in caps)


def _slots(line: Line, hold: Hold) -> Iterator[Obstacle]:
    ends = [
        *((job.lease_until or 0, 1) for job in line.running() if job.key == hold.key),
        *((h.until, h.slots) for h in line.holds.values() if h.held and h.key == hold.key),
    ]
    running = sum(slots for _, slots in ends)
    wanted = hold.slots + sum(other.slots for other in ahead(line, hold))
    rules = sorted(line.limits.in_force(hold.key).items())
    caps = [(limit.parts.max_running, name) for name, limit in rules]
    least = min((cap for cap, _ in caps if cap is not None), default=None)
    limit = next((name for cap, name in caps if cap is not None and cap == least), None)
    if hold.cap is not None and (least is None or hold.cap < least):
        least, limit = hold.cap, None
    if least is None or running + wanted <= least:
        return
    until = line.now + QUEUED_MS
    for end in sorted({end for end, _ in ends}):
        until = end
        if sum(slots for at, slots in ends if at > end) + wanted <= least:
            break
    if running + hold.slots > least:
        yield Obstacle("max_running", until, limit)
    else:
        yield Obstacle("queued", until)


def _windows(line: Line, hold: Hold) -> Iterator[Obstacle]:
    for name, limit in line.limits.in_force(hold.key).items():
        parts = limit.parts
        if parts.max_starts is None:
            continue
        live = line.limits.live(hold.key, name, line.now)
        if len(live) + hold.slots <= parts.max_starts:
            continue
        if limit.period is not None:
            yield Obstacle("max_starts", limit.period[1], name)
            continue
        assert parts.window_ms is not None
        for start in sorted(set(live)):
            left = len([other for other in live if other > start])
            if left + hold.slots <= parts.max_starts:
                yield Obstacle("max_starts", start + parts.window_ms, name)
                break
