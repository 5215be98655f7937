"""Limits as code or a file gives them, in the form that the store takes."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeGuard

from slotq import arguments
from slotq.errors import InvalidValue, shown
from slotq.store.declared import Entry
from slotq.store.limits import NO_PARTS, Span, Target, merge
from slotq.store.rows import as_given, window_of
from slotq.terms import LimitTerms

PARTS: Final = ("name", "max_running", "max_starts", "window", "timezone")
FIELDS: Final = ("key", "queue", *PARTS)


def by_subject(limits: object, queues: object) -> list[Entry]:
    """Return the limits of two mappings: by key or pattern, and by queue.

    Raises:
        InvalidValue: One is not valid, or there twice; it is named.
    """
    return _checked((*_spread("key", "limits", limits), *_spread("queue", "queues", queues)))


def in_a_row(entries: object) -> list[Entry]:
    """Return limits that each tell their key or queue themselves.

    Raises:
        InvalidValue: One is not valid, or there twice; it is named with its number, from 1.
    """
    if _is_mapping(entries) or isinstance(entries, str) or not _is_iterable(entries):
        raise InvalidValue(name="entries", problem="must be a list of mappings", value=entries)
    return _checked(_numbered(entries))


def _numbered(entries: Iterable[object]) -> Iterator[tuple[str, Mapping[object, object]]]:
    for number, entry in enumerate(entries, 1):
        label = f"limit {number}"
        if not _is_mapping(entry):
            raise InvalidValue(name=label, problem="must be a mapping", value=entry)
        for what in ("key", "queue"):
            if entry.get(what) is not None:
                label += f", of {what} {shown(entry[what])}"
        yield label, entry


def _spread(
    what: str, argument: str, given: object
) -> Iterator[tuple[str, Mapping[object, object]]]:
    if given is None:
        return
    if not _is_mapping(given):
        raise InvalidValue(name=argument, problem=f"must be a mapping by {what}", value=given)
    for subject, value in given.items():
        label = f"limit of {what} {shown(subject)}"
        for parts in value if _is_list(value) else (value,):
            if not _is_mapping(parts):
                problem = "must be a mapping of its parts, or a list of such"
                raise InvalidValue(name=label, problem=problem, value=parts)
            for field in ("key", "queue"):
                if field in parts:
                    raise InvalidValue(name=f"{label}: {field}", problem="is given by the mapping")
            yield label, {**parts, what: subject}


def _checked(given: Iterable[tuple[str, Mapping[object, object]]]) -> list[Entry]:
    found: dict[object, Entry] = {}
    for label, fields in given:
        for field in fields:
            if field not in FIELDS:
                problem = f"is no part; there are {', '.join(PARTS)}"
                raise InvalidValue(name=f"{label}: {shown(field)}", problem=problem)
        try:
            entry = _entry(fields)
        except InvalidValue as error:
            told = "" if error.shown is None else f", not {error.shown}"
            name = "it" if error.name == "limit" else error.name
            raise InvalidValue(name=f"{label}: {name}", problem=error.problem + told) from error
        if entry.place in found:
            named = f" with name {shown(entry.terms.name)}" if entry.terms.name else ""
            raise InvalidValue(name=label, problem=f"is there twice{named}")
        found[entry.place] = entry
    return list(found.values())


def _entry(fields: Mapping[object, object]) -> Entry:
    name = fields.get("name")
    target = arguments.target(fields.get("key"), fields.get("queue"), "" if name is None else name)
    change = arguments.change(
        of_queue=target.kind == "queue",
        max_running=fields.get("max_running"),
        max_starts=fields.get("max_starts"),
        window=fields.get("window"),
        timezone=fields.get("timezone"),
    )
    return Entry(_terms(target, *merge(NO_PARTS, change)), target, change)


def _terms(
    target: Target, max_running: int | None, max_starts: int | None, window: Span | None
) -> LimitTerms:
    of_queue = target.kind == "queue"
    return LimitTerms(
        key=None if of_queue else as_given(target.kind, target.subject),
        queue=target.subject if of_queue else None,
        name=target.name,
        max_running=max_running,
        max_starts=max_starts,
        window=None if window is None else window_of(window.ms, window.unit),
        timezone=None if window is None else window.zone,
    )


def _is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    return isinstance(value, Mapping)


def _is_list(value: object) -> TypeGuard[list[object] | tuple[object, ...]]:
    return isinstance(value, list | tuple)


def _is_iterable(value: object) -> TypeGuard[Iterable[object]]:
    return isinstance(value, Iterable)
