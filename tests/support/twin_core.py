"""One real file and the reference model beside it, kept in step."""

import contextlib
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path

from slotq.errors import InvalidValue, JobNotFound
from slotq.store import due, migrate
from slotq.store.connection import Database
from slotq.store.transaction import Tx
from slotq.testing import ManualClock
from support.compare import compare
from support.looks import look
from support.recount import Rows, recount
from support.reference import KEYED_FLOOR, Reference

# Rounds of a turn in which something always stays due.
MOST_ROUNDS = 1_000

_new_files: dict[tuple[str, ...], bytes] = {}


class TwinCore:
    """What all operations need: a transaction on both, and the comparison after it.

    Args:
        path: The file, made anew.
        start_ms: What the clock shows at first.
        floor: The keyed floor of the model.
    """

    def __init__(
        self, path: Path, *, start_ms: int = 1_767_225_600_000, floor: int = KEYED_FLOOR
    ) -> None:
        self.path = path
        self.clock = ManualClock(start_ms)
        self.model = Reference(floor=floor)
        _make_file(path)
        self.database = self._open()
        # Somebody else's connection to the same file: for looking, and for changes by hand.
        self.hand = sqlite3.connect(path, isolation_level=None)
        self.hand.execute("PRAGMA wal_autocheckpoint = 0")
        self.hand.execute("PRAGMA synchronous = OFF")

    @property
    def seen(self) -> Counter[str]:
        """How often each rare thing happened."""
        return self.model.seen

    def close(self) -> None:
        """Let go of the file."""
        self.hand.close()
        self.database.close()

    def reopen(self) -> None:
        """Close the file and open it again, as a restart does."""
        self.database.close()
        self.database = self._open()

    def _open(self) -> Database:
        return Database(self.path, clock=self.clock, create=True, durable=False, lock_timeout_s=5.0)

    @contextlib.contextmanager
    def both(self) -> Generator[Tx]:
        """Begin a transaction on the file and on the model, at the same instant."""
        if self.clock.now_ms() < self.model.now:
            # Which marks may have gone is judged by the instants they had.
            self.check()
        with self.database.write() as tx:
            self.model.begin(self.clock.now_ms())
            assert tx.now == self.model.now
            yield tx

    def handle_due(self, tx: Tx, batch: int = due.BATCH) -> None:
        """Handle all that is due, some at a time."""
        self.settle(tx, batch)
        assert due.next_due(tx) == self.model.next_due()

    def settle(self, tx: Tx, batch: int = due.BATCH) -> None:
        """Handle what is due in the file, as far as nobody has, and in the model."""
        for _ in range(MOST_ROUNDS):
            first = due.next_due(tx)
            if first is None or first > tx.now:
                break
            due.handle_due(tx, batch=batch)
        self.model.handle_due(lambda job_id: self.run_at(tx, job_id))

    def run_at(self, tx: Tx, job_id: int) -> int:
        """Return when the file says that a job may run."""
        found: int = tx.value("SELECT run_at FROM slotq_jobs WHERE id = ?", (job_id,))
        return found

    @property
    def steady_now(self) -> int | None:
        """The instant of the last transaction; None if a clock that went back a little blurs it."""
        steady = self.model.now >= self.model.latest and not self.model.blurred
        return self.model.now if steady else None

    def check(self) -> None:
        """Recount the file, and compare all its rows with the model."""
        rows = Rows(self.hand)
        recount(rows, self.steady_now)
        compare(rows, self.model)

    def look(self, key: str) -> None:
        """Compare what is shown of a key and of the queues with the model."""
        with self.database.read() as reader:
            look(reader, self.model, key)


@contextlib.contextmanager
def scratch() -> Generator[Path]:
    """Make a folder for files of a moment; in memory if there is such a place: no disk to sync."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def refused(action: Callable[[], object]) -> str | None:
    """Do something; return the name of the error that refused it, or None."""
    try:
        action()
    except (InvalidValue, JobNotFound) as error:
        return type(error).__name__
    return None


def _make_file(path: Path) -> None:
    """Make a new file: a copy of one that the library made, which takes a fifth of the time."""
    schema = migrate.scripts()
    if schema not in _new_files:
        database = Database(
            path, clock=ManualClock(0), create=True, durable=False, lock_timeout_s=5.0
        )
        with database.read():
            pass
        database.close()
        _new_files[schema] = path.read_bytes()
    else:
        path.write_bytes(_new_files[schema])
