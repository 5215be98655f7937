"""Which jobs a command means, and how they are read: a page at a time."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from slotq_app.cli import output

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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


def chosen(*, state: State | None, key: str | None, queue: str | None, task: str | None) -> Filters:
    """Return the filters of a command line; warn of a key that looks like a pattern."""
    if key is not None and "*" in key:
        output.warn("warning: --key takes one key as it is, and * is not a pattern here")
    return Filters(state=state, key=key, queue=queue, task=task)


class First:
    """The first jobs of some pages.

    Attributes:
        last: The number of the last one that was given; 0 before.
        has_more: Whether there were more; known once all are taken.

    Args:
        found: The jobs.
        limit: How many; 0 for all.
    """

    def __init__(self, found: "Iterable[list[slotq.Job]]", limit: int) -> None:
        self._found = found
        self._limit = limit
        self.last = 0
        self.has_more = False

    def __iter__(self) -> "Iterator[slotq.Job]":
        jobs = (job for page in self._found for job in page)
        for count, job in enumerate(jobs):
            if self._limit and count == self._limit:
                self.has_more = True
                return
            self.last = job.id
            yield job


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
