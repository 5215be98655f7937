"""Long random programs on a real file and on the reference model."""

import random
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from slotq.store import claims, due
from support.program import THEMES, Program
from support.reference import KEYED_FLOOR

STEPS = 300

# What must have happened at least once in the programs of one test.
HAPPENS = {
    "a limit over another",
    "a window edited",
    "bell rung",
    "dedupe found",
    "end of a lost lease",
    "expired",
    "fair pick checked",
    "fair: fewer running decided",
    "extended late",
    "hold ended",
    "hold of more than ever",
    "hold refused",
    "hold refused: max_running",
    "hold refused: max_starts",
    "hold refused: own cap",
    "hold refused: paused",
    "hold refused: queued",
    "hold refused: the job has them itself",
    "hold served",
    "hold taken back",
    "holder buried",
    "keyed floor",
    "keys pruned",
    "lowered below what runs",
    "marks forgotten",
    "offers of several queues",
    "place in line lost",
    "pruned",
    "put back again",
    "put back: another worker knows it",
    "reaped",
    "released late",
    "renewal of a lost lease",
    "renewed after the lapse",
    "retry refused: dedupe",
    "round-robin: fewer running decided",
    "round-robin: last start decided",
    "running job deleted by hand",
    "stepped back",
    "time stood still",
    "told that the limit has shrunk",
    "wait was in vain",
    "waiting hold gone",
    "waits behind another",
    "window opened",
}


def run(folder: Path, seeds: range, *, floor: int, steps: int) -> Counter[str]:
    """Run programs, one a seed; return how often each rare thing happened."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        path = folder / f"{seed}.db"
        random.seed(seed)  # for the jitter of delays, or the programs would not repeat
        with closing(Program(path, seed, THEMES[seed % len(THEMES)], floor=floor)) as program:
            try:
                program.run(steps)
            except BaseException as error:
                error.add_note(f"seed {seed}, floor {floor}, after {program.steps} steps")
                raise
            seen += program.twin.seen
        path.unlink()
    return seen


@pytest.mark.parametrize("floor", [3, KEYED_FLOOR])
def test_random_programs_do_what_the_model_does(
    floor: int, scratch_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "KEYED_FLOOR", floor)
    seen = run(scratch_folder, range(42, 66), floor=floor, steps=STEPS)
    assert {what for what in HAPPENS if seen[what] == 0} == set()


def test_holds_are_right_however_little_of_what_is_due_is_handled_at_a_time(
    scratch_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due.handle_due, "__kwdefaults__", {"batch": 1})
    first = THEMES.index("holds")
    seeds = range(first, first + 6 * len(THEMES), len(THEMES))
    seen = run(scratch_folder, seeds, floor=KEYED_FLOOR, steps=STEPS)
    assert seen["hold refused"]


@pytest.mark.soak
@pytest.mark.parametrize("floor", [3, KEYED_FLOOR])
def test_random_programs_do_what_the_model_does_for_long(
    floor: int, scratch_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "KEYED_FLOOR", floor)
    first = random.randrange(10**9)
    seen = run(scratch_folder, range(first, first + 150), floor=floor, steps=1_000)
    assert {what for what in HAPPENS if seen[what] == 0} == set()


def test_same_seed_is_the_same_program(scratch_folder: Path) -> None:
    first, again = (
        run(scratch_folder, range(1, 2), floor=KEYED_FLOOR, steps=100) for _ in range(2)
    )
    assert first == again
