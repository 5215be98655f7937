"""What people are shown of a file against the reference model."""

from datetime import UTC, datetime, timedelta

from slotq.keys import literal
from slotq.model import Window
from slotq.store import holds, reads
from slotq.store.transaction import Reader
from support.reference import Reference
from support.reference_limits import Subject


def look(reader: Reader, model: Reference, key: str) -> None:
    """Check what is shown of a key, of all holds and of all queues."""
    _key(reader, model, key)
    _holds(reader, model)
    shown = {
        info.name: (info.waiting, info.scheduled, info.running, info.max_running, info.paused)
        for info in reads.queues(reader)
    }
    running = model.count()
    assert shown == {
        name: (
            sum(job.state == "waiting" and job.queue == name for job in model.jobs.values()),
            sum(job.state == "scheduled" and job.queue == name for job in model.jobs.values()),
            running.queues[name],
            model.limits.queue_cap(name),
            queue.paused,
        )
        for name, queue in model.queues.items()
    }


def _holds(reader: Reader, model: Reference) -> None:
    shown = {
        info.id: (info.key, info.slots, info.state == "held", info.acquired_at, info.job)
        for info in holds.list_holds(reader, key=None, now=model.now, after=0, limit=10**6)
    }
    assert shown == {
        hold.id: (hold.key, hold.slots, hold.held, _instant(hold.since), hold.job)
        for hold in model.holds.values()
        if hold.until > model.now
    }


def _key(reader: Reader, model: Reference, name: str) -> None:
    shown = reads.key(reader, name, model.now)
    rules = model.limits.in_force(name)
    assert [(limit.key, limit.name) for limit in shown.limits] == [
        (written(rules[rule].subject), rule) for rule in sorted(rules)
    ]
    assert shown.max_running == model.limits.cap(name)
    jobs = [job for job in model.jobs.values() if job.key == name]
    waiting = [job.run_at for job in jobs if job.state == "waiting"]
    assert (shown.running, shown.scheduled, shown.waiting) == (
        sum(job.state == "running" for job in jobs),
        sum(job.state == "scheduled" for job in jobs),
        len(waiting),
    )
    assert shown.held == sum(h.slots for h in model.holds.values() if h.held and h.key == name)
    assert shown.oldest_waiting_at == _instant(min(waiting, default=None))
    known = model.limits.keys.get(name)
    assert shown.paused == (known is not None and known.paused)
    full_until = known.full_until if known else None
    if full_until is not None and full_until <= model.now:
        full_until = None
    assert shown.next_start_at == _instant(full_until)
    window = (shown.starts, shown.max_starts, shown.window)
    assert window == _least_room(model, name)


def _least_room(model: Reference, name: str) -> tuple[int, int | None, float | Window | None]:
    """Return starts, max_starts and window of the window with the least room."""
    found: list[tuple[int, str, tuple[int, int, float | Window]]] = []
    for rule, limit in model.limits.in_force(name).items():
        parts = limit.parts
        if parts.max_starts is not None:
            window = parts.unit or (parts.window_ms or 0) / 1_000
            starts = len(model.limits.live(name, rule, model.now))
            found.append((parts.max_starts - starts, rule, (starts, parts.max_starts, window)))
    return min(found)[2] if found else (0, None, None)


def written(subject: Subject) -> str:
    """Return a subject as people write it."""
    return literal(subject.text) if subject.kind == "key" else subject.text


def _instant(ms: int | None) -> datetime | None:
    return None if ms is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
