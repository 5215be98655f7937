"""Limits that code declares, or that are set many at once."""

import contextlib
import threading
import warnings
from collections.abc import Generator, Iterable, Mapping, Sequence

from slotq import arguments, checks, declared_arguments
from slotq.access import Access, twin
from slotq.policies import LimitHidden
from slotq.store import declared
from slotq.store.declared import Entry
from slotq.store.transaction import Reader, Tx
from slotq.terms import LimitDifference, LimitParts, LimitTerms


class _Switch:
    """How many blocks of ``declaring_only`` there are in this process now."""

    def __init__(self) -> None:
        self.count = 0
        self.lock = threading.Lock()

    def turn(self, step: int) -> None:
        with self.lock:
            self.count += step


_only = _Switch()


@contextlib.contextmanager
def declaring_only() -> Generator[None]:
    """Have ``declare_limits`` note what it is given and touch no file, for the length of a block.

    For tools that import an application to see what it declares. It holds for the whole process:
    an application may declare in a thread.
    """
    _only.turn(1)
    try:
        yield
    finally:
        _only.turn(-1)


class Declaring(Access):
    """The verbs of limits that stand in code or in a file of their own.

    Attributes:
        declarations: What was declared, by which limit it is.
    """

    declarations: dict[declared.Place, Entry]

    @property
    def declared_limits(self) -> tuple[LimitTerms, ...]:
        """What ``declare_limits`` was given in this process, in order; of one limit the last."""
        return tuple(entry.terms for entry in list(self.declarations.values()))

    def declare_limits(
        self,
        limits: Mapping[str, LimitParts | Sequence[LimitParts]] | None = None,
        *,
        queues: Mapping[str, LimitParts | Sequence[LimitParts]] | None = None,
        updated_by: str | None = None,
    ) -> list[LimitDifference]:
        """Set limits that code brings, where nobody has set others; call it at start-up.

        A limit that the file does not have is set. One that code has set, and that nobody has
        edited since, follows the code when that changes. One that somebody has set or edited stays
        as it is. A limit that is no longer declared stays too: ``qworker limits apply`` removes it.
        If there is nothing to set, as at most starts, the file is only read.

        Args:
            limits: By key or pattern, as in ``set_limit``, its parts: ``{"tenant:*":
                {"max_running": 3}}``. A list of them, each with a ``name``, gives it several.
            queues: Likewise by name of a queue.
            updated_by: Who sets them, for others to see; None for user@process.

        Returns:
            What it has set.

        Raises:
            InvalidValue: Something is not valid, or one limit is given twice; nothing was set.
            QueueBusy: Others kept the file locked for too long.
            StoreError: The file cannot be used.

        Warns:
            LimitHidden: A more specific limit of the same name hides a part of a wider one.
        """
        entries = declared_arguments.by_subject(limits, queues)
        by = arguments.editor(updated_by)
        self.declarations.update({entry.place: entry for entry in entries})
        if _only.count or not self._read(lambda reader: declared.wanting(reader, entries)):
            return []

        def declare(tx: Tx) -> tuple[list[LimitDifference], list[str]]:
            found = declared.wanting(tx, entries)
            hidden = declared.carry_out(tx, found, by, declared=True)
            return [difference for _, difference in found], hidden

        done, hidden = self._write(declare)
        _warn(hidden)
        return done

    def limit_differences(self) -> list[LimitDifference]:
        """Return where the file differs from what was declared in this process.

        Those of ``declared_limits`` come first, in that order, then limits that code declared
        before and does no longer.
        """
        entries = list(self.declarations.values())
        return self._read(
            lambda reader: [
                difference
                for _, difference in declared.differences(reader, entries, with_gone=True)
            ]
        )

    def apply_limits(self, *, updated_by: str | None = None) -> list[LimitDifference]:
        """Make the file say what was declared in this process, also where somebody has edited it.

        Limits that code declared before and does no longer are removed. Those that somebody has
        set, and that were never declared, stay.

        Args:
            updated_by: Who does so, for others to see; None for user@process.

        Returns:
            The differences that there were.

        Raises:
            InvalidValue: There would be too many patterns; nothing was changed.
            QueueBusy: Others kept the file locked for too long.
            StoreError: The file cannot be used.

        Warns:
            LimitHidden: A more specific limit of the same name hides a part of a wider one.
        """
        entries, by = list(self.declarations.values()), arguments.editor(updated_by)

        def apply(tx: Tx) -> tuple[list[LimitDifference], list[str]]:
            found = declared.differences(tx, entries, with_gone=True)
            hidden = declared.carry_out(tx, found, by, declared=True)
            return [difference for _, difference in found], hidden

        done, hidden = self._write(apply)
        _warn(hidden)
        return done

    def set_limits(
        self,
        entries: Iterable[Mapping[str, object]],
        *,
        dry_run: bool = False,
        updated_by: str | None = None,
    ) -> list[LimitDifference]:
        """Set many limits at once, all or none; others stay as they are.

        Args:
            entries: Each with ``key`` or ``queue``, and with ``name``, ``max_running``,
                ``max_starts``, ``window`` and ``timezone`` as in ``set_limit``; what one leaves
                out, or has as None, the limit will not have. A limit that says the same already is
                left alone.
            dry_run: Whether only to check, and to tell what would be set.
            updated_by: Who sets them, for others to see; None for user@process.

        Returns:
            What it has set, or would set.

        Raises:
            InvalidValue: Something is not valid, or one limit is given twice; nothing was set.
            QueueBusy: Others kept the file locked for too long.
            StoreError: The file cannot be used.

        Warns:
            LimitHidden: A more specific limit of the same name hides a part of a wider one.
        """
        given, by = declared_arguments.in_a_row(entries), arguments.editor(updated_by)

        def look(reader: Reader) -> list[tuple[Entry | None, LimitDifference]]:
            every = declared.differences(reader, given, with_gone=False)
            found = [pair for pair in every if pair[1].kind != "unmarked"]
            declared.check_count(reader, found)
            return found

        def work(tx: Tx) -> tuple[list[LimitDifference], list[str]]:
            found = look(tx)
            hidden = declared.carry_out(tx, found, by, declared=False)
            return [difference for _, difference in found], hidden

        if checks.boolean("dry_run", dry_run):
            return [difference for _, difference in self._read(look)]
        done, hidden = self._write(work)
        _warn(hidden)
        return done

    adeclare_limits = twin(declare_limits)
    alimit_differences = twin(limit_differences)
    aapply_limits = twin(apply_limits)
    aset_limits = twin(set_limits)


def _warn(hidden: Iterable[str]) -> None:
    for warning in hidden:
        warnings.warn(warning, LimitHidden, stacklevel=3)
