"""Field case 16: blocks are cancelled and interrupted at any moment, and their slots are free."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from slotq import Queue
from support.hold_interrupts import MOST, SCENES, Told
from support.procs import Process, until


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES.values())
@pytest.mark.parametrize(
    ("seed", "rounds"),
    [(1, 40), pytest.param(None, 500, marks=[pytest.mark.soak, pytest.mark.timeout(300)])],
)
def test_interrupted_blocks_leave_nothing(
    tmp_path: Path, scene: Callable[..., Told], seed: int | None, rounds: int
) -> None:
    """Field case 16: all slots are free at once, and another process can write, while the
    interrupted one lives on and does nothing."""
    seed = random.randrange(10**6) if seed is None else seed
    print(f"seed {seed}")  # noqa: T201  # to repeat a failure
    path = tmp_path / "jobs.db"
    words = ["-m", "support.hold_interrupts", scene.__name__, str(path), str(rounds), str(seed)]
    with Process(words, tmp_path / "told") as process:
        until(lambda: "}\n" in process.text or not process.is_alive, patience_s=240)
        assert process.is_alive, process.text
        # Of threads, the last may have been hit as it left, and what is dropped takes a moment.
        with Queue(path, create=False, lock_timeout=0.5) as queue:
            until(lambda: queue.holds() == [], patience_s=5)
            assert queue.key("k").held == 0
            with queue.hold("k", slots=MOST):
                pass
        assert process.is_alive
        (line,) = (line for line in process.text.splitlines() if line.startswith("{"))
        told = Told(**json.loads(line))
    assert told.left == 0
    assert min(told.whole, told.early, told.within) > rounds / 20, told
