"""The blocks in which transactions are held."""

import sqlite3
from collections.abc import Generator
from pathlib import Path
from typing import Generic, TypeVar

from slotq.store.faults import translate
from slotq.store.transaction import Reader

R = TypeVar("R", bound=Reader)


class Block(Generic[R]):
    """Takes a generator to its yield, and on to its end, or closes it after an exception.

    An interrupt (a signal handler that raises) can come as ``__exit__`` begins. Then nothing of it
    is run, but the block is dropped, and with it the generator, which so comes to its end. The
    standard library's ``contextmanager`` does the same, and costs each transaction more.
    """

    __slots__ = ("_path", "_steps")

    def __init__(self, steps: Generator[R], path: Path) -> None:
        self._steps = steps
        self._path = path

    def __enter__(self) -> R:
        return next(self._steps)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: object
    ) -> None:
        if kind is None:
            next(self._steps, None)
            return
        self._steps.close()
        if isinstance(error, sqlite3.Error):
            raise translate(error, self._path) from error
