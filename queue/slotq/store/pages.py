"""Which keys stand on a page of a frame."""

import json
from dataclasses import dataclass
from typing import Final

from slotq.frames import FrameSort
from slotq.store import frame_queries as queries
from slotq.store.transaction import Reader

# By what a page is sorted: where each key has one lane, and where some have several.
PAGES: Final[dict[FrameSort, tuple[str, str]]] = {
    "waiting": (queries.PAGE_BY_WAITING, queries.PAGE_BY_ALL_WAITING),
    "scheduled": (queries.PAGE_BY_SCHEDULED, queries.PAGE_BY_ALL_SCHEDULED),
    "oldest": (queries.PAGE_BY_OLDEST, queries.PAGE_BY_ALL_OLDEST),
    "running": (queries.PAGE_BY_RUNNING, queries.PAGE_BY_RUNNING),
    "held": (queries.PAGE_BY_HELD, queries.PAGE_BY_HELD),
    "next_start": (queries.PAGE_BY_NEXT_START, queries.PAGE_BY_NEXT_START),
}


@dataclass(frozen=True, slots=True)
class Page:
    """Which keys are wanted."""

    sort: FrameSort
    is_descending: bool
    filter: str | None
    limit: int
    offset: int


class Shape:
    """What a reader remembers of a file from frame to frame: it changes with keys and lanes only."""

    def __init__(self) -> None:
        self._of: tuple[int, int, int] | None = None
        self._has_several = False
        self._floor = 0

    def has_several(self, reader: Reader, of: tuple[int, int, int]) -> bool:
        """Tell whether some key has several lanes.

        Args:
            reader: Of the file.
            of: How many lanes and keys there are, and the number of the last key: lanes come one by
                one, and go with their keys only.
        """
        if self._of != of:
            self._has_several = reader.row(queries.FRAME_SEVERAL) is not None
            self._of = of
        return self._has_several

    def most_waiting(
        self, reader: Reader, page: Page, sorting: dict[str, str | int | None]
    ) -> list[int]:
        """Return the keys with most waiting jobs, where each has one lane; as many as a page needs.

        In a large file most of the time would go into sorting keys that stand on no page. So keys
        are left out that have much less than the last one on the page had the time before; if too
        few are left, all are looked at.
        """
        asked = {**sorting, "limit": page.offset + page.limit}
        rows = reader.rows(queries.PAGE_BY_WAITING, {**asked, "floor": self._floor})
        if self._floor and len(rows) < page.offset + page.limit:
            rows = reader.rows(queries.PAGE_BY_WAITING, {**asked, "floor": 0})
        is_full = len(rows) == page.offset + page.limit
        self._floor = rows[-1][1] * 3 // 4 if rows and is_full else 0
        return [key for key, _ in rows]


def find(reader: Reader, page: Page, shape: Shape, now: int, *, has_several: bool) -> list[int]:
    """Return the ids of a page's keys, in its order."""
    asked = {"filter": page.filter, "limit": page.limit, "offset": page.offset}
    if page.sort == "key":
        sql = queries.PAGE_BY_KEY_DOWN if page.is_descending else queries.PAGE_BY_KEY
        return [key for (key,) in reader.rows(sql, asked)]
    sql = PAGES[page.sort][has_several]
    end = page.offset + page.limit
    # Those that have none of it stand behind all others, and before them the other way round.
    most = end if page.is_descending else -1
    sorting: dict[str, str | int | None] = {
        "floor": 0,
        "sign": -1 if page.is_descending else 1,
        "now": now,
        "filter": page.filter,
    }
    if sql is queries.PAGE_BY_WAITING and page.is_descending:
        some = shape.most_waiting(reader, page, sorting)
    else:
        some = [row[0] for row in reader.rows(sql, {**sorting, "limit": most})]
    if page.is_descending and len(some) >= end:
        return some[page.offset :]
    rest = {"filter": page.filter, "ids": json.dumps(some), "offset": 0, "limit": end}
    if page.is_descending:
        first = max(0, page.offset - len(some))
        rest.update(offset=first, limit=end - max(page.offset, len(some)))
        others = [key for (key,) in reader.rows(queries.PAGE_OF_REST, rest)]
        return [*some[page.offset :], *others]
    others = [key for (key,) in reader.rows(queries.PAGE_OF_REST, rest)]
    return [*others, *some[: end - len(others)]][page.offset :]
