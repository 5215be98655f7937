"""The app that the demo's workers serve: ``SLOTQ_DB=jobs.db qworker run slotq_app.demo.app:q``."""

from typing import Final

import slotq
from slotq_app.demo import packing
from slotq_app.demo.history import Log, log_path
from slotq_app.demo.plan import LIBRARY

q: Final = slotq.Queue()  # the file that SLOTQ_DB names
log: Final = Log(log_path(q.path))


# One attempt: a file that cannot be packed, or a worker that died, is to fail the demo.
@q.task(name="demo.pack", max_attempts=1)
def pack(number: int, tenant: str, file: str) -> packing.Packed:
    """Pack one file of Python's library, and leave a trace of when that was.

    Args:
        number: Which job of the demo this is.
        tenant: Whose job it is.
        file: The file, as a path inside the library.
    """
    with log.run(number, tenant):
        return packing.pack((LIBRARY / file).read_bytes())
