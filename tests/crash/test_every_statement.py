"""Whoever dies at any statement leaves a whole file, and what he did is there as a whole or not."""

import json
from pathlib import Path

import pytest

from support.crashing import ACTIONS
from support.procs import Process


@pytest.mark.slow
def test_death_at_any_statement_leaves_all_or_nothing(tmp_path: Path) -> None:
    with Process(["-m", "support.crashing", str(tmp_path)], tmp_path / "out") as process:
        deaths: dict[str, int] = json.loads(process.finish().splitlines()[-1])
    assert deaths.keys() == {*ACTIONS, "make"}
    # Opening the file, BEGIN, the clock, COMMIT, and something between.
    assert min(deaths.values()) > 10
