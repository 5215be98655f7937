"""Limits as a program sets, clears and lists them."""

import typing
import warnings
from datetime import timedelta

from slotq import arguments
from slotq.access import Access, twin
from slotq.errors import InvalidValue
from slotq.model import Limit, Window
from slotq.store import limits
from slotq.store.limits import UNSET, Unset

if typing.TYPE_CHECKING:
    from slotq.store.callers import Connection


class LimitHidden(UserWarning):
    """A limit has no say in a part, because a more specific one of its name lacks that part."""


class Policies(Access):
    """The verbs of limits."""

    def set_limit(
        self,
        key: str | None = None,
        *,
        queue: str | None = None,
        max_running: int | Unset | None = UNSET,
        max_starts: int | Unset | None = UNSET,
        window: float | timedelta | Window | Unset | None = UNSET,
        timezone: str | Unset | None = UNSET,
        name: str = "",
        updated_by: str | None = None,
        if_version: int | None = None,
        connection: "Connection | None" = None,
    ) -> Limit:
        r"""Set a limit of a key, of every key that a pattern matches, each on its own, or of a queue.

        It acts on the next claim, also on jobs that wait already. Running jobs go on.

        Args:
            key: A key, or a pattern: ``*`` is any run of characters, ``\*`` a star, ``\\`` a
                backslash. Use ``slotq.literal`` or ``slotq.key`` for text from elsewhere.
            queue: Or the name of a queue, whose limit has ``max_running`` only.
            max_running: Most jobs at once, 1 to 1,000,000.
            max_starts: Most starts within the window, 1 to 1,000,000; every attempt is one.
            window: Its length in seconds or as a timedelta, up to 366 days. A start counts until
                exactly this long after it. Or ``"minute"``, ``"hour"``, ``"day"``, ``"week"`` (from
                Monday) or ``"month"``: starts since that period of the calendar began.
            timezone: Where the calendar is read, an IANA name such as ``Europe/Berlin``; None for
                UTC, as for a new limit. Left out, a limit that has one keeps it.
            name: Tells several limits of one key apart; of different names all must have room, of
                one name only the most specific counts.
            updated_by: Who sets it, for others to see; None for user@process.
            if_version: Set it only if it has this version, 0 only if there is none; None in any
                case. A limit that was cleared and set again counts from 1.
            connection: Set it in this connection's open transaction.

        A part left out keeps its value, None removes it.

        Raises:
            EditConflict: It has another version: somebody else was faster.
            InvalidValue: A value is out of its range, the limit would have no part, or not exactly
                one of ``key`` and ``queue`` was given.
            QueueBusy: Others kept the file locked for too long.
            StoreError: The file cannot be used.

        Warns:
            LimitHidden: A more specific limit of this name hides a part of a wider one.
        """
        target = arguments.target(key, queue, name)
        change = arguments.change(
            of_queue=target.kind == "queue",
            max_running=max_running,
            max_starts=max_starts,
            window=window,
            timezone=timezone,
        )
        by, version = arguments.editor(updated_by), arguments.version(if_version)
        limit, hidden = self._write(
            lambda tx: limits.set_limit(tx, target, change, by, if_version=version), connection
        )
        for warning in hidden:
            warnings.warn(warning, LimitHidden, stacklevel=2)
        return limit

    def clear_limit(
        self,
        key: str | None = None,
        *,
        queue: str | None = None,
        name: str | None = None,
        updated_by: str | None = None,
        if_version: int | None = None,
        connection: "Connection | None" = None,
    ) -> int:
        """Remove limits of a key, a pattern or a queue; what runs goes on.

        Args:
            key: As in ``set_limit``.
            queue: Or the name of a queue.
            name: Which one; None for all of this key, pattern or queue.
            updated_by: Who clears it, for others to see; None for user@process.
            if_version: Clear it only if it has this version, 0 only if there is none; None in any
                case. Needs ``name``, which is "" for a limit without one.
            connection: Clear it in this connection's open transaction.

        Returns:
            How many there were; 0 is no error.

        Raises:
            EditConflict: It has another version: somebody else was faster.
            InvalidValue: A value is not valid, ``if_version`` comes without ``name``, or not exactly
                one of ``key`` and ``queue`` was given.
            QueueBusy: Others kept the file locked for too long.
            StoreError: The file cannot be used.
        """
        target = arguments.target(key, queue, "" if name is None else name)
        every = name is None
        by, version = arguments.editor(updated_by), arguments.version(if_version)
        if every and version is not None:
            problem = 'needs name: a version is that of one limit; give "" for one without a name'
            raise InvalidValue(name="if_version", problem=problem)
        return self._write(
            lambda tx: limits.clear_limit(tx, target, every_name=every, by=by, if_version=version),
            connection,
        )

    def limits(self) -> list[Limit]:
        """Return every limit."""
        return self._read(limits.list_limits)

    def hidden_limits(self) -> list[str]:
        """Tell where a more specific limit of the same name hides a part of a wider one.

        Returns:
            A line for each such pair, as ``set_limit`` warns of it; at most 100.
        """
        return self._read(limits.list_hidden)

    aset_limit = twin(set_limit)
    aclear_limit = twin(clear_limit)
    alimits = twin(limits)
    ahidden_limits = twin(hidden_limits)
