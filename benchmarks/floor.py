"""The floor that figures are held against: the least that a committed write of one row costs.

Run by hand, it measures just that. Machines differ and so do their moments: a figure in floors,
both taken in the same loop, says more than one in microseconds.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from slotq.store.opening import connect

# The size of log at which a queue folds its own.
FOLD_EVERY: Final = 4_000
SAMPLES: Final = 5_000


class Floor:
    """A file like a queue's, with one row that is updated in a transaction of its own.

    Args:
        folder: Where the file is made.
        page_size: That of the queue's file.

    Attributes:
        times_us: What each transaction took.
    """

    def __init__(self, folder: Path, page_size: int) -> None:
        self.times_us: list[float] = []
        self._connection = connect(folder / "floor.db", mode="rwc", durable=False)
        self._connection.execute(f"PRAGMA page_size = {page_size}")
        self._connection.execute("PRAGMA journal_mode = WAL").fetchall()
        self._connection.execute("CREATE TABLE floor (id INTEGER PRIMARY KEY, value INTEGER)")
        self._connection.execute("INSERT INTO floor VALUES (1, 0)")

    def sample(self) -> None:
        """Take one sample."""
        connection = self._connection
        value = len(self.times_us)
        began = time.perf_counter_ns()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE floor SET value = ? WHERE id = 1", (value,))
        connection.execute("COMMIT")
        self.times_us.append((time.perf_counter_ns() - began) / 1_000)
        if len(self.times_us) % FOLD_EVERY == 0:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of all values does not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def main() -> None:
    """Measure the floor alone."""
    argparse.ArgumentParser(description=__doc__).parse_known_args()
    with TemporaryDirectory(prefix="slotq-floor-") as folder:
        floor = Floor(Path(folder), page_size=4_096)
        for _ in range(SAMPLES):
            floor.sample()
        floor.close()
    for share in (0.5, 0.99):
        print(f"p{share * 100:.0f} {percentile(floor.times_us, share):.1f} us")


if __name__ == "__main__":
    main()
