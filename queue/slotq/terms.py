"""What code or a file says of a limit, and where that differs from what is in force."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypedDict

from slotq.model import Limit, Window

DifferenceKind = Literal["missing", "changed", "edited", "unmarked", "gone"]


class LimitParts(TypedDict, total=False):
    """What ``declare_limits`` takes for a key, a pattern or a queue.

    The names and ranges are those of ``Queue.set_limit``; a part left out, or None, is not there.
    """

    name: str
    max_running: int | None
    max_starts: int | None
    window: float | timedelta | Window | None
    timezone: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitTerms:
    """A limit as code or a file says it, whole; the fields are those of ``Limit``.

    Attributes:
        key: The key or the pattern; None for a queue's limit.
        queue: The queue; None for a key's or a pattern's limit.
        name: Tells several limits of one key apart.
        max_running: Most slots in use at once; None for no such limit.
        max_starts: Most starts within the window; None for no such limit.
        window: Seconds, or the name of a calendar period; None without ``max_starts``.
        timezone: IANA zone of a calendar window; None for a sliding one.
    """

    key: str | None = None
    queue: str | None = None
    name: str = ""
    max_running: int | None = None
    max_starts: int | None = None
    window: float | Window | None = None
    timezone: str | None = None

    @classmethod
    def of(cls, limit: Limit) -> "LimitTerms":
        """Return what a limit of the file says."""
        return cls(
            key=limit.key,
            queue=limit.queue,
            name=limit.name,
            max_running=limit.max_running,
            max_starts=limit.max_starts,
            window=limit.window,
            timezone=limit.timezone,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitDifference:
    """Where the file differs from what was declared or is to be set.

    Attributes:
        kind: ``missing``: the file has no such limit. ``changed``: it has what code declared before.
            ``edited``: somebody has set it to something else. ``unmarked``: it says the same, but
            was set by somebody, so that it does not follow the code. ``gone``: code declared it
            before and does no longer.
        declared: What is declared; None if it is gone.
        limit: What the file has; None if it is missing.
    """

    kind: DifferenceKind
    declared: LimitTerms | None
    limit: Limit | None
