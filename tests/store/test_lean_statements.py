"""What every job goes through leaves out what SQLite is slow at; see the head of the schema."""

import re
import sqlite3
from collections import Counter
from collections.abc import Generator

import pytest

from slotq.store import migrate, statements

HOT = {
    "enqueue": (statements.ADD_JOB, 16),
    "start": (statements.START_JOB, 4),
    "finish": (statements.FINISH_JOB, 4),
    "fair offer": (statements.OFFER_FAIR, 2),
    "round-robin offer": (statements.OFFER_ROBIN, 2),
    "fifo offer": (statements.OFFER_FIFO, 2),
    "what is due": (statements.FIRST_DUE, 0),
}
# One IN list that is looked at for one start of a key in 16: which marks to forget.
TABLES = {"start": 1, "finish": 1}


@pytest.fixture(scope="module")
def schema() -> Generator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for script in migrate.scripts():
        connection.executescript(script)
    yield connection
    connection.close()


def steps(schema: sqlite3.Connection, name: str) -> Counter[str]:
    """Return the steps of a statement's program and of all triggers that it can fire."""
    sql, values = HOT[name]
    return Counter(row[1] for row in schema.execute(f"EXPLAIN {sql}", [None] * values))


@pytest.mark.parametrize("name", HOT)
def test_hot_statement_builds_no_table(schema: sqlite3.Connection, name: str) -> None:
    found = steps(schema, name)
    assert found["OpenEphemeral"] == TABLES.get(name, 0)
    assert found["SorterOpen"] == 0


@pytest.mark.parametrize("name", ["enqueue", "start", "finish"])
def test_hot_statement_needs_no_way_back_of_its_own(schema: sqlite3.Connection, name: str) -> None:
    """Calls of functions, RAISE(ABORT) and constraints that abort each make SQLite keep one."""
    found = steps(schema, name)
    assert found["Function"] + found["PureFunc"] == 0
    assert " OR FAIL " in HOT[name][0]
    triggers: list[tuple[str]] = schema.execute(
        "SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'slotq_jobs'"
    ).fetchall()
    hot = [sql for (sql,) in triggers if re.search("AFTER (INSERT|UPDATE OF state)", sql)]
    assert len(hot) == 4
    assert not any("RAISE(ABORT" in sql for sql in hot)


def test_the_check_itself_sees_tables_and_calls(schema: sqlite3.Connection) -> None:
    rows = schema.execute(
        "EXPLAIN SELECT random() FROM slotq_jobs WHERE task IN ('a', 'b', 'c') ORDER BY attempt"
    )
    found = Counter(row[1] for row in rows)
    assert found["OpenEphemeral"] + found["SorterOpen"] >= 2
    assert found["Function"] == 1
