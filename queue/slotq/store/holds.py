"""Holds: slots that programs take for themselves, and the lines of those that wait for them."""

from dataclasses import dataclass
from typing import Final, Literal

from slotq.errors import InvalidValue, LimitExceeded, shown
from slotq.model import HoldInfo, Limit
from slotq.store import due, events
from slotq.store import hold_statements as statements
from slotq.store.rows import hold_of, limit_of
from slotq.store.transaction import Reader, Row, Tx

# A hold that waits counts for so long after its last call.
WAITING_MS: Final = 5_000
# When to try a paused key again: nothing says how long the pause lasts.
PAUSED_MS: Final = 60_000
LAST_ID: Final = 2**63 - 1
# The least that is told to whoever finds others waiting, though there is room: they go first.
QUEUED_MS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What somebody wants to hold.

    Attributes:
        key: The key.
        slots: How many of its slots.
        cap: His own max_running; ``UNLIMITED`` for none.
        ttl_ms: For how long.
        job_id: The job in whose body he asks; None outside one.
        holder: Who he is, in words.
        label: What for, in words.
        process: The lock file of his process.
        ticket: Which hold of his process; never given twice in one process.
        bell: The pipe that wakes him while he waits; None if he does not wait.
    """

    key: str
    slots: int
    cap: int
    ttl_ms: int
    job_id: int | None
    holder: str
    label: str
    process: str
    ticket: int
    bell: str | None


@dataclass(frozen=True, slots=True)
class Place:
    """A hold in the file.

    Attributes:
        id: Its number.
        key_id: Its key.
        is_held: Whether it has its slots; else it waits.
        until: The instant of its end; while it waits, when it may have room, or None if nothing
            but what others do makes room.
    """

    id: int
    key_id: int
    is_held: bool
    until: int | None


@dataclass(frozen=True, slots=True)
class _Key:
    id: int
    running: int
    cap: int
    span: int
    seq: int
    opens_at: int | None
    queued: int
    paused: int


@dataclass(frozen=True, slots=True)
class _Obstacle:
    """What stands in the way of a hold, and when it is over."""

    reason: Literal["paused", "max_running", "max_starts", "queued"]
    until: int
    limit: Limit | None = None


def take(tx: Tx, request: Request) -> Place:
    """Take the slots, or wait in line for them.

    Raises:
        LimitExceeded: There is no room, and whoever asks does not wait, or has himself what he
            would wait for.
        InvalidValue: More slots than a limit ever allows.
    """
    found = _key(tx, request.key)
    obstacle = _obstacle(tx, found, request, ahead=found.queued > 0, before=None)
    if obstacle is None:
        return Place(
            _add(tx, found, request, "held"), found.id, is_held=True, until=tx.now + request.ttl_ms
        )
    is_own = _is_own(tx, found, request)
    if request.bell is None or is_own:
        raise _refused(tx, request, obstacle, is_own=is_own)
    ahead = tx.row(statements.FIRST_WAITING, (found.id,))
    until = _look_at(obstacle, ahead)
    return Place(_add(tx, found, request, "waiting"), found.id, is_held=False, until=until)


def call_again(tx: Tx, place: Place, request: Request) -> Place:
    """Take the slots that a hold waits for, or go on waiting.

    A hold that did not call for too long has lost its place, and joins the line anew.

    Raises:
        LimitExceeded: There is no room, and it waits no longer.
        InvalidValue: A limit was set meanwhile that never allows so many.
    """
    found = _key(tx, request.key)
    if tx.row(statements.GET_HOLD, {"id": place.id, "now": tx.now}) is None:
        return take(tx, request)
    first = tx.row(statements.FIRST_WAITING, (found.id,))
    ahead = None if first is not None and first[0] == place.id else first
    obstacle = _obstacle(tx, found, request, ahead=ahead is not None, before=place.id)
    times = {"id": place.id, "now": tx.now}
    if obstacle is None:
        tx.run(statements.SERVE_HOLD, {**times, "ttl": request.ttl_ms})
        return Place(place.id, found.id, is_held=True, until=tx.now + request.ttl_ms)
    if request.bell is None:
        raise _refused(tx, request, obstacle, is_own=False)
    tx.run(statements.KEEP_WAITING, {**times, "ttl": WAITING_MS})
    return Place(place.id, found.id, is_held=False, until=_look_at(obstacle, ahead))


def extend(tx: Tx, place: Place, request: Request, ttl_ms: int) -> int | None:
    """Move the end of a hold to so long from now; return it, or None if the hold has ended."""
    own = (place.id, request.process, request.ticket, tx.now)
    done = tx.run(statements.EXTEND_HOLD, (*own, ttl_ms))
    return tx.now + ttl_ms if done else None


def release(tx: Tx, place: Place, request: Request) -> bool:
    """Give back what a hold has, or leave the line; return False if it has ended before."""
    own = (place.id, request.process, request.ticket, tx.now)
    return tx.run(statements.RELEASE_HOLD, own) > 0


def take_back(tx: Tx, hold_id: int, by: str) -> int | None:
    """End anybody's hold; return its key's id, or None if there is none with this number."""
    found = tx.row(statements.GET_HOLD, {"id": hold_id, "now": tx.now})
    if found is None:
        return None
    state, key, key_id = found
    tx.run(statements.TAKE_BACK_HOLD, (hold_id,))
    was = "had its slots" if state == "held" else "was waiting"
    events.note(tx, "hold_released", key=key, text=f"hold {hold_id} {was}", by=by)
    return int(key_id)


def bury(tx: Tx, process: str) -> None:
    """End the holds of a process that is known to be dead, when what is due is handled."""
    tx.run(statements.LAPSE_HOLDS, (process, tx.now))


def bells(tx: Tx, key_id: int | None = None) -> list[str]:
    """Return the pipes of those who wait first in line and may have room now.

    Args:
        tx: The transaction that may have made room.
        key_id: A key whose first in line is to look in any case; None for none.
    """
    return [name for (name,) in tx.rows(statements.BELLS, (key_id,)) if name]


def next_bells(tx: Tx, key_id: int) -> list[str]:
    """Return the pipe of whoever waits first for a key, now that another was served."""
    return [name for (name,) in tx.rows(statements.FIRST_BELL, (key_id,)) if name]


def list_holds(
    reader: Reader, *, key: str | None, now: int, after: int, limit: int
) -> list[HoldInfo]:
    """Return holds that have not ended, by id."""
    wanted = {"key": key, "now": now, "after": after, "limit": limit}
    return [hold_of(row) for row in reader.rows(statements.LIST_HOLDS, wanted)]


def _key(tx: Tx, name: str) -> _Key:
    """Return a key once all that is due of it is handled."""
    more = due.handle_due(tx)
    row = tx.row(statements.HOLD_KEY, (name,))
    if row is None:
        tx.run(statements.ADD_HOLD_KEY, (name,))
        row = tx.row(statements.HOLD_KEY, (name,))
    assert row is not None
    if more:
        due.handle_key(tx, row[0])
        row = tx.row(statements.HOLD_KEY, (name,))
        assert row is not None
    return _Key(*row)


def _obstacle(
    tx: Tx, key: _Key, request: Request, *, ahead: bool, before: int | None
) -> _Obstacle | None:
    """Return what keeps a hold from its slots for longest; None if nothing does.

    Args:
        tx: The transaction.
        key: The key, after what is due.
        request: What is wanted.
        ahead: Whether others wait who go first.
        before: Only those with a lower id go first; None for all that wait.
    """
    _check_ever(tx, key, request)
    if key.paused:
        return _Obstacle("paused", tx.now + PAUSED_MS)
    found: list[_Obstacle] = []
    cap = min(key.cap, request.cap)
    first = 0
    if ahead:
        first = tx.value(statements.WAITING_SLOTS, (key.id, before or LAST_ID))
        found.append(_Obstacle("queued", tx.now + QUEUED_MS))
    if key.running + first + request.slots > cap:
        until = _slots_at(tx, key, key.running + first + request.slots - cap)
        if key.running + request.slots > cap:
            limit = None if request.cap < key.cap else _tightest(tx, key)
            found.append(_Obstacle("max_running", until, limit))
        else:
            found.append(_Obstacle("queued", until))
    if key.span:
        wanted = {"key": key.id, "slots": request.slots}
        for opens_at, *of in tx.rows(statements.HOLD_OPENS, wanted):
            if opens_at is not None and opens_at > tx.now:
                found.append(_Obstacle("max_starts", opens_at, limit_of(tuple(of))))
    return max(found, key=lambda each: (each.until, each.limit is not None), default=None)


def _check_ever(tx: Tx, key: _Key, request: Request) -> None:
    most = min(key.cap, request.cap)
    if request.slots > 1 and key.span:
        most = min(most, tx.value(statements.LEAST_STARTS, (key.id,)))
    if request.slots > most:
        problem = f"can be {most:,} at most: key {shown(request.key)} never allows more at once"
        raise InvalidValue(name="slots", problem=problem, value=request.slots)


def _slots_at(tx: Tx, key: _Key, wanted: int) -> int:
    """Return when so many slots have come free; the last end of all where there are fewer."""
    until = tx.now + QUEUED_MS
    for ends_at, slots in tx.rows(statements.SLOT_ENDS, {"key": key.id, "most": wanted}):
        until = ends_at
        wanted -= slots
        if wanted <= 0:
            break
    return max(until, tx.now + 1)


def _is_own(tx: Tx, key: _Key, request: Request) -> bool:
    """Tell whether the job that asks has too many of the slots itself for this to end."""
    if request.job_id is None:
        return False
    own: int = tx.value(statements.OWN_SLOTS, {"job": request.job_id, "key": key.id})
    return own + request.slots > min(key.cap, request.cap)


def _add(tx: Tx, key: _Key, request: Request, state: Literal["held", "waiting"]) -> int:
    added: int = tx.value(
        statements.ADD_HOLD,
        {
            "key": key.id,
            "slots": request.slots,
            "state": state,
            "now": tx.now,
            "ttl": request.ttl_ms if state == "held" else WAITING_MS,
            "cap": request.cap,
            "job": request.job_id,
            "holder": request.holder,
            "label": request.label,
            "process": request.process,
            "ticket": request.ticket,
            "bell": (request.bell or "") if state == "waiting" else "",
        },
    )
    return added


def _refused(tx: Tx, request: Request, obstacle: _Obstacle, *, is_own: bool) -> LimitExceeded:
    return LimitExceeded(
        key=request.key,
        reason=obstacle.reason,
        limit=obstacle.limit,
        retry_after=(obstacle.until - tx.now) / 1000,
        is_own=is_own,
    )


def _tightest(tx: Tx, key: _Key) -> Limit | None:
    row = tx.row(statements.TIGHTEST_LIMIT, (key.id, key.cap))
    return None if row is None else limit_of(row)


def _look_at(obstacle: _Obstacle, ahead: Row | None) -> int | None:
    """Return when a hold looks again though nobody rang: the one ahead may have died in line."""
    until = None if obstacle.reason in {"paused", "queued"} else obstacle.until
    if ahead is None:
        return until
    counts_until: int = ahead[1]
    return counts_until if until is None else min(until, counts_until)
