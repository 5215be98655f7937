"""Every statement fits the schema, and is used."""

import re
import sqlite3
from collections.abc import Generator
from pathlib import Path

import pytest

from slotq.store import (
    frame_queries,
    history_statements,
    hold_statements,
    migrate,
    queries,
    statements,
)

MODULES = (statements, queries, hold_statements, history_statements, frame_queries)
FILES = {f"{module.__name__.rpartition('.')[2]}.py" for module in MODULES}

ROOT = Path(__file__).resolve().parents[2]
STATEMENTS = {
    name: sql
    for module in MODULES
    for name, sql in vars(module).items()
    if isinstance(sql, str) and re.match("[A-Z]", name)
}


@pytest.fixture(scope="module")
def schema() -> Generator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for script in migrate.scripts():
        connection.executescript(script)
    yield connection
    connection.close()


@pytest.mark.parametrize("name", STATEMENTS)
def test_it_prepares(schema: sqlite3.Connection, name: str) -> None:
    sql = STATEMENTS[name]
    numbered = [int(number) for number in re.findall(r"\?(\d+)", sql)]
    count = max(numbered, default=sql.count("?"))
    named = dict.fromkeys(re.findall(r":(\w+)", sql))
    assert not (named and count)
    schema.execute(f"EXPLAIN {sql}", named or [None] * count).fetchall()


def test_each_is_used() -> None:
    code = "".join(
        path.read_text("utf-8") for path in (ROOT / "queue").rglob("*.py") if path.name not in FILES
    )
    assert [name for name in STATEMENTS if f".{name}" not in code] == []


def test_no_sql_is_anywhere_else_in_the_store() -> None:
    """But for what opens, folds, begins and ends."""
    words = re.compile(
        r'"""\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b|"(SELECT|INSERT|UPDATE|DELETE) '
    )
    found = {
        path.name
        for path in (ROOT / "queue" / "slotq" / "store").glob("*.py")
        if words.search(path.read_text("utf-8"))
    }
    assert found == FILES | {"migrate.py"}
