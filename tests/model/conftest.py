"""A folder for the files of the model tests."""

from collections.abc import Generator
from pathlib import Path

import pytest

from support.twin_core import scratch


@pytest.fixture
def scratch_folder() -> Generator[Path]:
    with scratch() as folder:
        yield folder
