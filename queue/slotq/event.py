"""What people and workers did to a file that somebody may ask about later."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

EventKind = Literal[
    "limit_set", "limit_cleared", "paused", "resumed", "lease_lost", "worker_started",
    "worker_stopped", "worker_dead", "hold_released", "clock_set_back",
]  # fmt: skip
EVENT_KINDS: tuple[EventKind, ...] = get_args(EventKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to the file; the newest 10,000 are kept.

    Attributes:
        id: Its number in this file, never given again; later ones have greater numbers.
        at: When; after the clock was set back it may lie before that of an earlier event.
        kind: ``limit_set``, ``limit_cleared``, ``paused``, ``resumed``, ``lease_lost`` (a job was
            taken back from a worker that was not heard of), ``worker_started``, ``worker_stopped``
            (it left), ``worker_dead`` (it was killed or not seen for long), ``hold_released`` (by
            somebody else than its holder) or ``clock_set_back``.
        key: The key, or the pattern of a limit; None where no key has part in it.
        queue: The queue; None where no queue has part in it.
        job: The job; None where no job has part in it.
        text: What exactly, in one line.
        by: Who did it, free text; "" for nobody in particular.
    """

    id: int
    at: datetime
    kind: EventKind
    key: str | None
    queue: str | None
    job: int | None
    text: str
    by: str
