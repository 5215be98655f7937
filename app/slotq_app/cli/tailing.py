"""``qworker jobs tail``: a line for each job as it ends."""

import select
import signal
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from slotq_app.cli import output
from slotq_app.cli.tables import coloured, shown
from slotq_app.cli.values import json_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import slotq
    from slotq_app.cli.filters import Filters

LOOK_S: Final = 0.2
PAGE: Final = 1_000


def tail(queue: "slotq.Queue", filters: "Filters", *, as_json: bool) -> None:
    """Print jobs as they end, until SIGINT, SIGTERM or a closed pipe: each is a clean end.

    Raises:
        slotq.SlotqError: The file cannot be used any more.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    look = json_of if as_json else _line
    ends = _Ends(queue, filters)
    closed = select.poll()
    # No events asked for: what is told is that the other side of a pipe is gone.
    closed.register(sys.stdout.fileno(), 0)
    try:
        while not closed.poll(LOOK_S * 1000):
            output.write(look(job) for job in ends.new())
    except KeyboardInterrupt:
        return


class _Ends:
    """The jobs that have ended since the last look."""

    def __init__(self, queue: "slotq.Queue", filters: "Filters") -> None:
        self._queue = queue
        self._filters = filters
        self._since = datetime.now(UTC)
        # Of the instant that the last look came to: more may end in it, and with smaller ids.
        self._seen: set[int] = set()

    def new(self) -> "Iterator[slotq.Job]":
        after = 0
        while True:
            page = self._queue.ended(
                since=self._since,
                state=self._filters.state,
                key=self._filters.key,
                queue=self._filters.queue,
                task=self._filters.task,
                limit=PAGE,
                after=after,
            )
            for job in page:
                if job.finished_at is not None and job.finished_at > self._since:
                    self._since = job.finished_at
                    self._seen.clear()
                if job.id not in self._seen:
                    self._seen.add(job.id)
                    yield job
            if len(page) < PAGE:
                return
            after = page[-1].id


def _line(job: "slotq.Job") -> str:
    state = coloured(f"{job.state:9}")
    parts = (shown(job.finished_at), str(job.id), state, shown(job.task), shown(job.key))
    line = "  ".join(parts)
    return f"{line}  {shown(job.error)}" if job.error else line
