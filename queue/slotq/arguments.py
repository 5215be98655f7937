"""Arguments of the queue's verbs, in the form that the store takes."""

import getpass
import os
import sys
from pathlib import Path
from typing import Final

from slotq import checks
from slotq.errors import InvalidValue
from slotq.keys import parse_subject
from slotq.periods import UNITS, period
from slotq.store.limits import UNSET, Change, Span, Target, Unset

MOST: Final = 1_000_000
LONGEST_WINDOW_MS: Final = 366 * 86_400_000
LARGEST_ID: Final = 2**63 - 1
EDITOR_CHARACTERS: Final = 200


def job_id(value: object) -> int:
    """Return a job's id."""
    return checks.integer("job_id", value, 0, LARGEST_ID)


def most(name: str, value: object) -> int | Unset | None:
    """Return ``max_running`` or ``max_starts``."""
    if value is None or isinstance(value, Unset):
        return value
    return checks.integer(name, value, 1, MOST)


def span(value: object) -> Span | Unset | None:
    """Return a sliding window, or a calendar one without its zone."""
    if value is None or isinstance(value, Unset):
        return value
    if not isinstance(value, str):
        return Span(ms=checks.seconds_ms("window", value, low_ms=1, high_ms=LONGEST_WINDOW_MS))
    for unit in UNITS:
        if value == unit:
            return Span(unit=unit)
    problem = f"must be a number of seconds, a timedelta, or one of {', '.join(UNITS)}"
    raise InvalidValue(name="window", problem=problem, value=value)


def zone(value: object) -> str | Unset | None:
    """Return the IANA name of a time zone that is known here."""
    if value is None or isinstance(value, Unset):
        return value
    name = checks.text("timezone", value)
    period("day", name, 0)  # refuses a zone that it does not know
    return name


def target(key: object, queue: object, name: object) -> Target:
    """Return which limit a key, a pattern or a queue and a name mean; the name may be ""."""
    if (key is None) == (queue is None):
        raise InvalidValue(name="key", problem="or queue must be given, and not both")
    named = "" if name == "" else checks.text("name", name)
    if queue is not None:
        return Target("queue", checks.text("queue", queue), named)
    subject = parse_subject(checks.text("key", key, high=2 * checks.KEY_CHARACTERS))
    return Target.of(subject, named)


def change(
    *,
    of_queue: bool,
    max_running: object,
    max_starts: object,
    window: object,
    timezone: object,
) -> Change:
    """Return what is to change of a limit."""
    changed = Change(
        max_running=most("max_running", max_running),
        max_starts=most("max_starts", max_starts),
        window=span(window),
        zone=zone(timezone),
    )
    starts = {"max_starts": max_starts, "window": window, "timezone": timezone}
    for name, value in starts.items():
        if of_queue and value is not None and value is not UNSET:
            problem = "is for keys: the limit of a queue has max_running only"
            raise InvalidValue(name=name, problem=problem)
    return changed


def version(value: object) -> int | None:
    """Return the version that an edit is meant for; None for any."""
    return None if value is None else checks.integer("if_version", value, 0, LARGEST_ID)


def editor(value: object) -> str:
    """Return who edits: free text, or None for user@process."""
    if value is not None:
        return checks.text("updated_by", value)
    try:
        user = getpass.getuser()
    except (ImportError, KeyError, OSError):  # a user id that has no name, as in containers
        user = str(os.getuid())
    # Both may hold bytes that are no text; SQLite would refuse them.
    name = f"{user}@{Path(sys.argv[0] or 'python').name}"
    return name.encode("utf-8", "backslashreplace").decode("utf-8")[:EDITOR_CHARACTERS]


def age_ms(name: str, value: object) -> int:
    """Return an age in milliseconds."""
    return checks.seconds_ms(name, value, low_ms=0, high_ms=checks.LONGEST_MS)
