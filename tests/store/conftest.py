"""What the store's tests share."""

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from support.partner import Partner
from support.stores import Stores


@pytest.fixture
def stores(tmp_path: Path) -> Generator[Stores]:
    """Databases in a folder of the test's own."""
    opened = Stores(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def partner() -> Generator[Partner]:
    """A second process."""
    with Partner() as process:
        yield process


@pytest.fixture
def partners() -> Generator[Callable[[int], list[Partner]]]:
    """As many more processes as a test wants."""
    started: list[Partner] = []

    def start(count: int) -> list[Partner]:
        started.extend(Partner() for _ in range(count))
        return started

    yield start
    for process in started:
        process.__exit__()
