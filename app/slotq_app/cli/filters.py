"""Which jobs a command means, and how they are read: a page at a time."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    import slotq
State = Literal["scheduled", "waiting", "running", "succeeded", "failed", "cancelled"]

PAGE: Final = 1_000
"""Jobs of one read, so that the memory for a list does not grow with the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Only these jobs; None for any, and the key "" for those without one."""

    state: State | None = None
    key: str | None = None
    queue: str | None = None
    task: str | None = None


def pages(
    queue: "slotq.Queue", filters: Filters, *, limit: int = 0, after: int = 0
) -> "Iterator[list[slotq.Job]]":
    """Yield jobs by id, as ``Queue.jobs`` has them.

    Args:
        queue: The queue.
        filters: Which of its jobs.
        limit: How many at most; 0 for all.
        after: Only jobs with a greater id.
    """
    left = limit
    while True:
        most = min(left, PAGE) if limit else PAGE
        page = queue.jobs(
            state=filters.state,
            key=filters.key,
            queue=filters.queue,
            task=filters.task,
            limit=most,
            after=after,
        )
        yield page
        left -= len(page)
        if len(page) < most or (limit and not left):
            return
        after = page[-1].id
