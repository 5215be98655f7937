"""Each mutant breaks the schema, a statement or a function; the random program must notice."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from slotq.errors import StoreError
from slotq.store import claims, due
from support.mutants import MUTANTS, Mutant
from support.program import THEMES, Program, Theme

# Most mutants are noticed by one of the first three programs.
PROGRAMS = 32
STEPS = 300
FLOOR = 3


@pytest.mark.parametrize(
    ("mutant", "theme"),
    [(mutant, theme) for theme, mutants in MUTANTS.items() for mutant in mutants],
    ids=lambda value: value.story if isinstance(value, Mutant) else "",
)
def test_mutant_is_noticed(
    mutant: Mutant, theme: Theme, scratch_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "KEYED_FLOOR", FLOOR)
    mutant.apply(monkeypatch)
    for seed in range(PROGRAMS):
        # Whoever takes a hold handles little of what is due, in every other program.
        monkeypatch.setattr(due.handle_due, "__kwdefaults__", {"batch": (due.BATCH, 1)[seed % 2]})
        # Every fourth program is of any theme.
        of = THEMES[seed // 4 % len(THEMES)] if seed % 4 == 3 else theme
        if fails(Program(scratch_folder / f"{seed}.db", seed, of, floor=FLOOR)):
            return
    pytest.fail(f"{PROGRAMS} programs of {STEPS} steps noticed nothing")


def fails(program: Program) -> bool:
    """Return whether file and model part, or a constraint of the file is hurt."""
    with closing(program):
        try:
            program.run(STEPS)
        except AssertionError:
            return True
        except (StoreError, sqlite3.Error) as error:
            # Any other error says that the mutant is no statement at all.
            return isinstance(error.__cause__ or error, sqlite3.IntegrityError)
    return False
