"""Limits: set, cleared, listed. What they mean for each key is worked out by the schema."""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Literal

from slotq.errors import EditConflict, InvalidValue
from slotq.keys import Subject
from slotq.model import Limit, Window
from slotq.periods import SPAN_MS, period
from slotq.store import events, queries, statements
from slotq.store.rows import as_given, limit_of, window_of
from slotq.store.transaction import Reader, Row, Tx

MOST_PATTERNS: Final = 1_000


class Unset(Enum):
    """The type of UNSET."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET
"""Stands for "leave this part as it is", where None removes it."""


@dataclass(frozen=True, slots=True)
class Span:
    """The span in which starts are counted: sliding, or a calendar period in a zone."""

    ms: int | None = None
    unit: Window | None = None
    zone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a call of ``set_limit`` changes; UNSET leaves a part, None removes it.

    A zone, that of a calendar window, goes before the one in its span; None is UTC.
    """

    max_running: int | Unset | None = UNSET
    max_starts: int | Unset | None = UNSET
    window: Span | Unset | None = UNSET
    zone: str | Unset | None = UNSET


Parts = tuple[int | None, int | None, Span | None]
"""``max_running``, ``max_starts`` and its window."""

NO_PARTS: Final[Parts] = (None, None, None)


@dataclass(frozen=True, slots=True)
class Target:
    """Which row: the kind and the subject of a limit, and its name."""

    kind: Literal["key", "pattern", "queue"]
    subject: str
    name: str
    glob: str | None = None
    specificity: int = 2_147_483_647

    @classmethod
    def of(cls, subject: Subject, name: str) -> "Target":
        """Return the row of a key or a pattern."""
        if subject.kind == "key":
            return cls("key", subject.subject, name)
        return cls("pattern", subject.subject, name, subject.glob, subject.literals)


def set_limit(
    tx: Tx,
    target: Target,
    change: Change,
    by: str,
    *,
    if_version: int | None = None,
    declared: bool = False,
) -> tuple[Limit, list[str]]:
    """Insert or update a limit.

    Args:
        tx: In which.
        target: Which one.
        change: What changes.
        by: Who sets it.
        if_version: Only if it has this version; 0 only if there is none; None in any case.
        declared: Whether code declares it.

    Returns:
        The limit as it is now, and a warning for each part that another limit of its name has and
        that is lost where the more specific of the two hides the other.

    Raises:
        EditConflict: It has another version.
        InvalidValue: It would have no part, or ``max_starts`` without ``window`` or the other way
            round, or a zone without a calendar window, or there are too many patterns.
    """
    found = tx.row(statements.FIND_LIMIT, (target.kind, target.subject, target.name))
    _check_version(tx, target, 0 if found is None else found[6], if_version)
    was = NO_PARTS if found is None else _parts(*found[1:6])
    now = max_running, max_starts, window = merge(was, change)
    unit = window.unit if window else None
    start, end = period(unit, window.zone, tx.now) if unit and window else (None, None)
    span = None if window is None else window.ms or SPAN_MS[unit or "day"]
    parts = (
        max_running, max_starts, window.ms if window else None, unit,
        window.zone if window else None, span, start, end, tx.now, by, declared,
    )  # fmt: skip
    if found is not None:
        tx.run(statements.EDIT_LIMIT, (*parts, found[0]))
    else:
        _check_count(tx, target)
        place = (target.kind, target.subject, target.name, target.glob, target.specificity)
        tx.run(statements.ADD_LIMIT, (*place, *parts))
    found = tx.row(statements.GET_LIMIT, (target.kind, target.subject, target.name))
    assert found is not None
    limit = limit_of(found)
    text = _named(target.name, _difference(was, now) + ", declared" * declared)
    events.note(tx, "limit_set", key=limit.key, queue=limit.queue, text=text, by=by)
    return limit, _hidden(tx, target)


def clear_limit(
    tx: Tx, target: Target, *, every_name: bool, by: str = "", if_version: int | None = None
) -> int:
    """Remove one limit, or all of a subject; return how many there were.

    Raises:
        EditConflict: The one has another version than ``if_version``.
    """
    if if_version is not None:
        found = tx.row(statements.FIND_LIMIT, (target.kind, target.subject, target.name))
        _check_version(tx, target, 0 if found is None else found[6], if_version)
    name = None if every_name else target.name
    wanted = {"kind": target.kind, "subject": target.subject, "name": name}
    cleared = tx.rows(statements.CLEAR_LIMITS, wanted)
    of_queue = target.kind == "queue"
    key = None if of_queue else as_given(target.kind, target.subject)
    for cleared_name, *parts in cleared:
        text = _named(cleared_name, f"was {_difference(NO_PARTS, _parts(*parts))}")
        queue = target.subject if of_queue else None
        events.note(tx, "limit_cleared", key=key, queue=queue, text=text, by=by)
    return len(cleared)


def list_limits(reader: Reader) -> list[Limit]:
    """Return every limit, ordered by kind, subject and name."""
    return [limit_of(row) for row in reader.rows(statements.LIST_LIMITS)]


def _window(ms: int | None, unit: Window | None, zone: str | None) -> Span | None:
    return None if ms is None and unit is None else Span(ms, unit, zone)


def get_limit(reader: Reader, target: Target) -> Limit | None:
    """Return one limit, or None."""
    found = reader.row(statements.GET_LIMIT, (target.kind, target.subject, target.name))
    return None if found is None else limit_of(found)


def _check_version(tx: Tx, target: Target, version: int, if_version: int | None) -> None:
    if if_version is not None and version != if_version:
        raise EditConflict(limit=get_limit(tx, target), if_version=if_version)


def _parts(
    max_running: int | None,
    max_starts: int | None,
    ms: int | None,
    unit: Window | None,
    zone: str | None,
) -> Parts:
    return max_running, max_starts, _window(ms, unit, zone)


def _named(name: str, text: str) -> str:
    return f"{name}: {text}" if name else text


def _difference(was: Parts, now: Parts) -> str:
    """Say in one line what changes of a limit."""
    told: list[str] = []
    for name, before, after in zip(
        ("max_running", "max_starts"), _worded(was), _worded(now), strict=True
    ):
        if before == after:
            continue
        told.append(f"{name} {after}" if was == NO_PARTS else f"{name} {before} -> {after}")
    return ", ".join(told) or "as it was"


def _worded(parts: Parts) -> tuple[str, str]:
    max_running, max_starts, window = parts
    span = ""
    if window is not None:
        length = window_of(window.ms, window.unit)
        span = f" in {length} s" if window.unit is None else f" in a {length} of {window.zone}"
    return str(max_running or "none"), f"{max_starts}{span}" if max_starts else "none"


def merge(was: Parts, change: Change) -> Parts:
    """Return the parts of a limit after a change.

    Raises:
        InvalidValue: It would have none, or half of one.
    """
    max_running = was[0] if change.max_running is UNSET else change.max_running
    max_starts = was[1] if change.max_starts is UNSET else change.max_starts
    window = was[2] if change.window is UNSET else change.window
    if max_starts is None and change.max_starts is None and change.window is UNSET:
        window = None
    if (max_starts is None) != (window is None):
        missing = "max_starts" if max_starts is None else "window"
        raise InvalidValue(
            name=missing, problem="is missing: max_starts and window come together the first time"
        )
    if max_running is None and max_starts is None:
        raise InvalidValue(
            name="limit",
            problem="needs max_running, or max_starts with window; to remove it, clear it",
        )
    return max_running, max_starts, _in_zone(window, was[2], change.zone)


def _in_zone(window: Span | None, was: Span | None, zone: str | Unset | None) -> Span | None:
    if window is None or window.unit is None:
        if isinstance(zone, str):
            problem = "is for a calendar window, such as day: a sliding one has none"
            raise InvalidValue(name="timezone", problem=problem)
        return window
    if isinstance(zone, Unset):
        zone = window.zone or (was.zone if was else None)
    return replace(window, zone=zone or "UTC")


def count_patterns(reader: Reader) -> int:
    """Return how many patterns have limits, each counted for each of its names."""
    count: int = reader.value(statements.COUNT_PATTERNS)
    return count


def _check_count(tx: Tx, target: Target) -> None:
    if target.kind == "pattern" and count_patterns(tx) >= MOST_PATTERNS:
        raise InvalidValue(
            name="key", problem=f"is one pattern too many: there can be {MOST_PATTERNS:,}"
        )


def _hidden(tx: Tx, target: Target) -> list[str]:
    """Say where a limit lacks a part that a less specific one of its name has."""
    if target.kind == "queue":
        return []
    wanted = {"kind": target.kind, "subject": target.subject, "name": target.name}
    return _told(tx.rows(statements.HIDDEN_PARTS, wanted))


def list_hidden(reader: Reader) -> list[str]:
    """Say the same of all limits; of the first hundred pairs."""
    return _told(reader.rows(queries.HIDDEN_LIMITS))


def _told(pairs: list[Row]) -> list[str]:
    warnings: list[str] = []
    for narrow, wide, runs, starts in pairs:
        lost = " and ".join(["max_running"] * runs + ["max_starts"] * starts)
        warnings.append(f"the limit of {narrow!r} hides that of {wide!r}, but has no {lost}")
    return warnings
