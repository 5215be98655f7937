"""Whoever dies at any statement leaves a whole file, and what he did is there as a whole or not."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.crashing import ACTIONS
from support.procs import Process

# So that each group takes about as long.
GROUPS = (
    ["turn", "enqueue", "prune"],
    ["enqueue many"],
    [name for name in ACTIONS if name not in {"turn", "enqueue", "prune", "enqueue many"}],
)


def deaths(folder: Path, *names: str) -> dict[str, int]:
    """Return at how many statements of each action a process died."""
    with Process(["-m", "support.crashing", str(folder), *names], folder / "out") as process:
        answer: dict[str, int] = json.loads(process.finish(150.0).splitlines()[-1])
    return answer


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("names", GROUPS, ids=lambda names: names[0])
def test_death_at_any_statement_leaves_all_or_nothing(tmp_path: Path, names: Sequence[str]) -> None:
    found = deaths(tmp_path, *names)
    assert found.keys() == set(names)
    # BEGIN, the clock, COMMIT, and something between.
    assert min(found.values()) > 3


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_death_while_the_file_is_made_leaves_one_that_can_be_made(tmp_path: Path) -> None:
    assert deaths(tmp_path)["make"] > 5


def test_every_action_has_its_turn() -> None:
    assert sorted(name for names in GROUPS for name in names) == sorted(ACTIONS)
