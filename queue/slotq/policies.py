"""Limits as a program sets, clears and lists them."""

import typing
import warnings
from datetime import timedelta

from slotq import arguments
from slotq.access import Access, twin
from slotq.model import Limit
from slotq.store import limits
from slotq.store.limits import UNSET, Change, Unset

if typing.TYPE_CHECKING:
    import sqlite3

    import aiosqlite


class LimitHidden(UserWarning):
    """A limit has no say in a part, because a more specific one of its name lacks that part."""


class Policies(Access):
    """The verbs of limits."""

    def set_limit(
        self,
        key: str,
        *,
        max_running: int | Unset | None = UNSET,
        max_starts: int | Unset | None = UNSET,
        window: float | timedelta | Unset | None = UNSET,
        name: str = "",
        updated_by: str | None = None,
        connection: "sqlite3.Connection | aiosqlite.Connection | None" = None,
    ) -> Limit:
        r"""Set a limit of a key, or of every key that a pattern matches, each on its own.

        It acts on the next claim, also on jobs that wait already. Running jobs go on.

        Args:
            key: A key, or a pattern: ``*`` is any run of characters, ``\*`` a star, ``\\`` a
                backslash. Use ``slotq.literal`` or ``slotq.key`` for text from elsewhere.
            max_running: Most jobs at once, 1 to 1,000,000.
            max_starts: Most starts within the window, 1 to 1,000,000; every attempt is one.
            window: Its length in seconds or as a timedelta, up to 366 days. A start counts until
                exactly this long after it.
            name: Tells several limits of one key apart; of different names all must have room, of
                one name only the most specific counts.
            updated_by: Who sets it, for others to see; None for user@process.
            connection: Set it in this connection's open transaction.

        A part left out keeps its value, None removes it.

        Raises:
            InvalidValue: A value is out of its range, or the limit would have no part.
            QueueBusy: Others kept the file locked for too long.
            StoreError: The file cannot be used.

        Warns:
            LimitHidden: A more specific limit of this name hides a part of a wider one.
        """
        change = Change(
            max_running=arguments.most("max_running", max_running),
            max_starts=arguments.most("max_starts", max_starts),
            window=arguments.span(window),
        )
        by = arguments.editor(updated_by)
        target = arguments.target(key, name)
        limit, hidden = self._write(lambda tx: limits.set_limit(tx, target, change, by), connection)
        for warning in hidden:
            warnings.warn(warning, LimitHidden, stacklevel=2)
        return limit

    def clear_limit(
        self,
        key: str,
        *,
        name: str | None = None,
        connection: "sqlite3.Connection | aiosqlite.Connection | None" = None,
    ) -> int:
        """Remove limits of a key or pattern; what runs goes on, and nothing else is limited by it.

        Args:
            key: As in ``set_limit``.
            name: Which one; None for all of this key or pattern.
            connection: Clear it in this connection's open transaction.

        Returns:
            How many there were; 0 is no error.

        Raises:
            InvalidValue: The key or the name is not valid.
            QueueBusy: Others kept the file locked for too long.
            StoreError: The file cannot be used.
        """
        target = arguments.target(key, "" if name is None else name)
        every = name is None
        return self._write(lambda tx: limits.clear_limit(tx, target, every_name=every), connection)

    def limits(self) -> list[Limit]:
        """Return every limit."""
        return self._read(limits.list_limits)

    aset_limit = twin(set_limit)
    aclear_limit = twin(clear_limit)
    alimits = twin(limits)
