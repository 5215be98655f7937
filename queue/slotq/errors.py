"""Every error the queue raises.

SlotqError
├── EditConflict
├── HoldExpired
├── InvalidValue (also a ValueError)
├── JobCancelled
├── JobFailed
├── JobNotFound
├── LimitExceeded
├── QueueBusy
└── StoreError
    ├── FileReplaced
    ├── NotAQueue
    └── SchemaTooNew

Each is built from keyword arguments, keeps them as attributes and says one line.
"""

import os
import reprlib
from typing import TYPE_CHECKING, Final, Literal

from slotq.escapes import visible

if TYPE_CHECKING:
    from slotq.model import Limit

SHOWN_CHARACTERS: Final = 80
"""How much of a refused value an error repeats."""

# Messages end up in logs and on terminals: a failure's text of 5 MB must not.
_LINE_CHARACTERS: Final = 500
# Python refuses to print integers of more than 4,300 digits; nobody reads one of 300.
_SHOWN_BITS: Final = 256
_ABSENT: Final = object()

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 2 * SHOWN_CHARACTERS


def shown(value: object) -> str:
    """Return the value as one line of at most 80 visible characters.

    Costs little for huge values, and never raises: a broken ``__repr__`` must not take
    the place of the error that was to be told.
    """
    try:
        if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
            return f"an integer of {value.bit_length():,} bits"
        if isinstance(value, str | bytes | bytearray):
            text = repr(value[: 2 * SHOWN_CHARACTERS])
        else:
            text = _short.repr(value)
    except Exception:  # noqa: BLE001 - whatever the value's own code raises
        text = f"<{type(value).__name__}>"
    return one_line(text, high=SHOWN_CHARACTERS)


def one_line(text: str, *, high: int = _LINE_CHARACTERS) -> str:
    """Return text as one line of at most ``high`` visible characters."""
    # One character more than fits tells whether anything was cut.
    line = text[: high + 1]
    if not line.isprintable():
        line = visible(" ".join(line.split()))
    if len(text) > high or len(line) > high:
        return line[: high - 3] + "..."
    return line


def told(error: BaseException, *, high: int = _LINE_CHARACTERS) -> str:
    """Return the kind and the text of any error, whatever its own code does; not cleaned."""
    kind = type(error).__qualname__
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001  # its own __str__ may do anything
        text = "(its text cannot be read)"
    return " ".join(f"{kind}: {text[:high]}".split()) if text else kind


def _reduce(self: "SlotqError") -> tuple[object, ...]:
    return _revive, (type(self), self.args), vars(self)


def _revive(kind: "type[SlotqError]", args: tuple[object, ...]) -> "SlotqError":
    return kind.__new__(kind, *args)


class SlotqError(Exception):
    """Base of every error that slotq raises."""

    # The constructors take names only, which Exception's own way of copying and pickling
    # cannot repeat. An error that is sent to another process must arrive.
    __reduce__ = _reduce


class InvalidValue(SlotqError, ValueError):
    """An argument of the wrong type or out of its range; nothing was stored.

    Attributes:
        name: The argument.
        problem: What is wrong with it, or what is allowed.
        shown: The value as text of at most 80 characters; None if it is not repeated.
    """

    def __init__(self, *, name: str, problem: str, value: object = _ABSENT) -> None:
        self.name = name
        self.problem = problem
        # The text, not the value: that may be huge, or not picklable.
        self.shown = None if value is _ABSENT else shown(value)
        tail = "" if self.shown is None else f", not {self.shown}"
        super().__init__(f"{one_line(name)} {one_line(problem)}{tail}")


class JobNotFound(SlotqError):
    """No job has this id: it never existed, or was pruned or deleted.

    Attributes:
        job_id: The id asked for.
    """

    def __init__(self, *, job_id: int) -> None:
        self.job_id = job_id
        super().__init__(f"job {job_id} does not exist")


class JobFailed(SlotqError):
    """The job whose result was awaited has failed for good.

    Attributes:
        job_id: The job.
        error: What its last attempt raised, as text, in full.
        traceback: Where it was raised, as text; None if nothing was recorded.
    """

    def __init__(self, *, job_id: int, error: str, traceback: str | None = None) -> None:
        self.job_id = job_id
        self.error = error
        self.traceback = traceback
        super().__init__(f"job {job_id} failed: {one_line(error)}")


class JobCancelled(SlotqError):
    """The job whose result was awaited has been cancelled.

    Attributes:
        job_id: The job.
        reason: Why, as text; empty if nobody said.
    """

    def __init__(self, *, job_id: int, reason: str = "") -> None:
        self.job_id = job_id
        self.reason = reason
        tail = f": {one_line(reason)}" if reason else ""
        super().__init__(f"job {job_id} was cancelled{tail}")


class QueueBusy(SlotqError):
    """Others kept the file locked for too long; nothing was changed, trying again is safe.

    Attributes:
        path: The queue file.
        waited_s: How long the call waited, in seconds.
        hint: Why waiting was of no use and what to do; empty if others were just busy.
    """

    def __init__(self, *, path: str | os.PathLike[str], waited_s: float, hint: str = "") -> None:
        self.path = os.fspath(path)
        self.waited_s = waited_s
        self.hint = hint
        problem = one_line(hint) or f"still locked by others after {waited_s:.1f} s"
        super().__init__(f"{one_line(self.path)}: {problem}")


class LimitExceeded(SlotqError):
    """A key has no room for a hold; nothing was taken.

    Out of the body of a task it puts the job back until then, and no attempt is used.

    Attributes:
        key: The key.
        reason: ``max_running``, ``max_starts``, ``paused``, or ``queued``: other holds wait for it.
        limit: The limit that is full for longest; None for a pause, a line, and for the hold's own
            ``max_running``.
        retry_after: Seconds until there is room, above 0. Exact to the millisecond where windows
            and holds that nobody extends or releases stand in the way; where jobs run it goes by
            their leases, which are renewed; 60 for a pause.
        is_own: Whether the job in whose body it was asked for has the slots itself, so that waiting
            is of no use: such an attempt fails.
    """

    def __init__(
        self,
        *,
        key: str,
        reason: Literal["max_running", "max_starts", "paused", "queued"],
        limit: "Limit | None",
        retry_after: float,
        is_own: bool = False,
    ) -> None:
        self.key = key
        self.reason: Literal["max_running", "max_starts", "paused", "queued"] = reason
        self.limit = limit
        self.retry_after = retry_after
        self.is_own = is_own
        told = {
            "max_running": "has all its slots in use",
            "max_starts": "has no start left in its window",
            "paused": "is paused",
            "queued": "has holds that wait before this one",
        }[reason]
        tail = f"try again in {retry_after:g} s"
        if is_own:
            tail = "the job that asks has them itself"
        super().__init__(f"key {shown(key)} {told}: {tail}")


class HoldExpired(SlotqError):
    """A hold has ended, by its TTL, by its release, or because somebody took it back.

    Attributes:
        key: Its key; None where only the number is known.
        hold_id: Its number; None if it never had its slots.
    """

    def __init__(self, *, key: str | None, hold_id: int | None) -> None:
        self.key = key
        self.hold_id = hold_id
        if hold_id is None:
            text = f"the hold of key {shown(key)} has no slots: acquire() takes them"
        elif key is None:
            text = f"there is no hold {hold_id}, or it has ended already"
        else:
            text = f"hold {hold_id} of key {shown(key)} has ended: its slots may be others' by now"
        super().__init__(text)


class EditConflict(SlotqError):
    """A limit is not as it was when the caller looked; nothing was changed.

    Attributes:
        limit: The limit as it is now; None if there is none.
        if_version: The version that the edit was meant for; 0 for "there is none".
    """

    def __init__(self, *, limit: "Limit | None", if_version: int) -> None:
        self.limit = limit
        self.if_version = if_version
        meant = f"version {if_version}" if if_version else "no limit"
        now = "there is none now"
        if limit is not None:
            now = f"it has version {limit.version} now, by {one_line(limit.updated_by)}"
        super().__init__(f"the edit was meant for {meant}, but {now}: look again")


class StoreError(SlotqError):
    """The queue file cannot be used.

    Attributes:
        path: The queue file.
        reason: Why not.
    """

    def __init__(self, *, path: str | os.PathLike[str], reason: str) -> None:
        self.path = os.fspath(path)
        self.reason = reason
        super().__init__(f"{one_line(self.path)}: {one_line(reason)}")


class NotAQueue(StoreError):
    """The file is there, but is not a queue."""


class SchemaTooNew(StoreError):
    """The file was written by a newer slotq than this one.

    Attributes:
        found: The file's schema version.
        known: The newest schema version that this slotq knows.
    """

    def __init__(self, *, path: str | os.PathLike[str], found: int, known: int) -> None:
        self.found = found
        self.known = known
        super().__init__(
            path=path,
            reason=f"its schema version is {found}, this slotq knows up to {known}: upgrade slotq",
        )


class FileReplaced(StoreError):
    """The file was deleted or replaced while it was open."""

    def __init__(
        self,
        *,
        path: str | os.PathLike[str],
        reason: str = "it was deleted or replaced while it was open",
    ) -> None:
        super().__init__(path=path, reason=reason)
