"""What runs inside one transaction: its statements, and the one instant at which all happens."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Final

from slotq.clock import Clock
from slotq.periods import period
from slotq.store import statements

# What a row holds is known to its statement only; rows.py and the callers give it types.
Row = tuple[Any, ...]
Value = str | float | None
Parameters = Sequence[Value] | Mapping[str, Value]

# The instant kept in the file is rewritten this often at most; a smaller step back stands still.
CLOCK_GRAIN_MS: Final = 1_000


class Reader:
    """Runs statements and fetches all their rows.

    Rows are always read to the end: SQLite refuses to commit while a RETURNING statement is open.
    The cursor is our own, so a caller's row factory does not change what we see.
    """

    __slots__ = ("_cursor",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        # Not connection.cursor(): a subclass may return what it likes, with a row factory.
        self._cursor = sqlite3.Cursor(connection)

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Return every row."""
        return self._cursor.execute(sql, parameters).fetchall()

    def row(self, sql: str, parameters: Parameters = ()) -> Row | None:
        """Return the first row, or None."""
        found = self._cursor.execute(sql, parameters).fetchall()
        return found[0] if found else None

    def value(self, sql: str, parameters: Parameters = ()) -> Any:
        """Return the first column of the first row, or None."""
        found = self._cursor.execute(sql, parameters).fetchall()
        return found[0][0] if found else None

    def now_ms(self, clock: Clock) -> int:
        """Return the instant by which to judge what is read: no earlier than the last one used.

        But for a clock that was set back by more: nobody has written since.
        """
        kept: int = self.rows(statements.READ_CLOCK)[0][0]
        now = clock.now_ms()
        return kept if 0 < kept - now < CLOCK_GRAIN_MS else now

    def close(self) -> None:
        """End the use of it: a statement that it keeps would keep its connection open."""
        self._cursor.close()


class Tx(Reader):
    """A write transaction that holds the lock.

    Attributes:
        now: The instant of everything in it, in milliseconds; read after the lock was held.
        period_end: When the next calendar window turns over; None without calendar windows.
    """

    __slots__ = ("now", "period_end")

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        super().__init__(connection)
        kept: int
        kept, self.period_end = self.rows(statements.READ_CLOCK)[0]
        now = clock.now_ms()
        if now < kept:
            if kept - now < CLOCK_GRAIN_MS:
                now = kept
            else:
                self._step_back(now, kept)
        elif now - kept >= CLOCK_GRAIN_MS:
            self._cursor.execute(statements.SET_CLOCK, (now,))
        self.now = now

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        """Run a statement that returns no rows; return how many it changed."""
        return self._cursor.execute(sql, parameters).rowcount

    def turn_periods(self) -> None:
        """Bring calendar windows that are over to the period of now."""
        self._set_periods(self.now, self.now)
        self.period_end = self.value(statements.READ_PERIOD_END)

    def _step_back(self, now: int, kept: int) -> None:
        # Bounds first: the trigger on the clock works out openings from them.
        self._set_periods(now, None)
        self._cursor.execute(statements.SET_CLOCK, (now,))
        told = {"at": now, "kind": "clock_set_back", "key": None, "queue": None, "job": None}
        text = f"by at least {(kept - now) / 1000:,.1f} s"
        self._cursor.execute(statements.ADD_EVENT, told | {"text": text, "by": ""})
        self.period_end = self.value(statements.READ_PERIOD_END)

    def _set_periods(self, now: int, over_by: int | None) -> None:
        for limit_id, unit, zone in self.rows(statements.CALENDAR_LIMITS, (over_by,)):
            start, end = period(unit, zone, now)
            self._cursor.execute(statements.SET_PERIOD, (start, end, limit_id))
