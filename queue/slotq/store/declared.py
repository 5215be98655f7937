"""Limits that code declares or a file brings: held against those in force, and set."""

from collections.abc import Iterable
from dataclasses import dataclass

from slotq.errors import InvalidValue
from slotq.keys import parse_subject
from slotq.model import Limit
from slotq.store import limits
from slotq.store.limits import MOST_PATTERNS, Change, Target
from slotq.store.transaction import Reader, Tx
from slotq.terms import DifferenceKind, LimitDifference, LimitTerms

Place = tuple[str | None, str | None, str]
"""Key or pattern, queue, and name of a limit."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A limit that is to be: as people see it, and as the store takes it."""

    terms: LimitTerms
    target: Target
    change: Change

    @property
    def place(self) -> Place:
        """Which limit it is."""
        return self.terms.key, self.terms.queue, self.terms.name


def wanting(reader: Reader, entries: Iterable[Entry]) -> list[tuple[Entry, LimitDifference]]:
    """Return what code may set: what has no row, and what it has set itself and now says otherwise."""
    found: list[tuple[Entry, LimitDifference]] = []
    for entry in entries:
        difference = _difference(entry, limits.get_limit(reader, entry.target))
        if difference is not None and difference.kind in {"missing", "changed"}:
            found.append((entry, difference))
    return found


def differences(
    reader: Reader, entries: Iterable[Entry], *, with_gone: bool
) -> list[tuple[Entry | None, LimitDifference]]:
    """Return every difference, in the order given; then, ``with_gone``, what code says no longer."""
    in_force = {_place(limit): limit for limit in limits.list_limits(reader)}
    found: list[tuple[Entry | None, LimitDifference]] = []
    for entry in entries:
        difference = _difference(entry, in_force.pop(entry.place, None))
        if difference is not None:
            found.append((entry, difference))
    if with_gone:
        found += [
            (None, LimitDifference(kind="gone", declared=None, limit=limit))
            for limit in in_force.values()
            if limit.declared
        ]
    return found


def check_count(reader: Reader, found: Iterable[tuple[Entry | None, LimitDifference]]) -> None:
    """Check that there would not be too many patterns.

    Raises:
        InvalidValue: There would.
    """
    count = limits.count_patterns(reader)
    for entry, difference in found:
        if entry is None:
            assert difference.limit is not None, "what is gone from code is in the file"
            count -= target_of(difference.limit).kind == "pattern"
        elif difference.kind == "missing":
            count += entry.target.kind == "pattern"
    if count > MOST_PATTERNS:
        problem = f"would be {count:,} patterns: there can be {MOST_PATTERNS:,}"
        raise InvalidValue(name="limits", problem=problem)


def carry_out(
    tx: Tx,
    found: Iterable[tuple[Entry | None, LimitDifference]],
    by: str,
    *,
    declared: bool,
) -> list[str]:
    """Make the file say what the entries say; remove what code says no longer.

    Returns:
        Warnings, as of ``set_limit``; at most a hundred.
    """
    warnings: dict[str, None] = {}
    # First what goes: there can be so many patterns only.
    for entry, difference in sorted(found, key=lambda pair: pair[0] is not None):
        if entry is None:
            assert difference.limit is not None, "what is gone from code is in the file"
            limits.clear_limit(tx, target_of(difference.limit), every_name=False, by=by)
        else:
            _, hidden = limits.set_limit(tx, entry.target, entry.change, by, declared=declared)
            warnings.update(dict.fromkeys(hidden))
    return list(warnings)[:100]


def target_of(limit: Limit) -> Target:
    """Return which row a limit is."""
    if limit.key is None:
        return Target("queue", limit.queue or "", limit.name)
    return Target.of(parse_subject(limit.key), limit.name)


def _place(limit: Limit) -> Place:
    return limit.key, limit.queue, limit.name


def _difference(entry: Entry, limit: Limit | None) -> LimitDifference | None:
    if limit is None:
        return LimitDifference(kind="missing", declared=entry.terms, limit=None)
    kind: DifferenceKind
    if LimitTerms.of(limit) != entry.terms:
        kind = "changed" if limit.declared else "edited"
    elif not limit.declared:
        kind = "unmarked"
    else:
        return None
    return LimitDifference(kind=kind, declared=entry.terms, limit=limit)
