"""No statement on the way of jobs, and no trigger that it fires, reads a table from end to end."""

import re
import sqlite3
from collections import Counter
from collections.abc import Generator, Iterator

import pytest

from slotq.store import history_statements, hold_statements, migrate, queries, statements

STATEMENTS = {
    name: sql
    for module in (statements, queries, hold_statements, history_statements)
    for name, sql in vars(module).items()
    if isinstance(sql, str) and re.match("[A-Z]", name)
}

# Statements that people wait for, or that one of many turns runs; each reads what it lists.
COLD = {
    "ANY_WAITING",
    "COUNT_ALL",
    "COUNT_FINISHED",
    "HIDDEN_LIMITS",
    "HIDDEN_PARTS",
    "HISTORY_OF_KEY",
    "HISTORY_OF_QUEUE",
    "KEY_COUNTS",
    "LIMITS_FOR",
    "LIST_HOLDS",
    "LIST_JOBS_RUNNING",
    "LIST_LAST_EVENTS",
    "LIST_KEYS",
    "LIST_LIMITS",
    "LIST_QUEUES",
    "LIST_WORKERS",
    "OLDEST_OF_KEY",
    "QUEUE_NAMES",
    "SLOT_ENDS",
    "WAITING_BY_QUEUE",
}
# Triggers of edits, and of a clock that was set back: they touch whatever the edit means.
EDITS = {"slotq_limit_new_pattern", "slotq_order_wanted", "slotq_clock_back"}
# Tables of one row, or of one for each worker; the patterns are read once for each new key.
SMALL = {"slotq_clock", "slotq_orders", "slotq_workers", "sqlite_sequence"}
SMALL_IN = {"slotq_key_new": {"slotq_limits"}, "slotq_key_limit_gone": {"slotq_limits"}}

TABLE = re.compile(r"\b(slotq_\w+|sqlite_sequence)\b(?:\s+(\w+))?")


@pytest.fixture(scope="module")
def schema() -> Generator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for script in migrate.scripts():
        connection.executescript(script)
    yield connection
    connection.close()


def plan(schema: sqlite3.Connection, sql: str) -> list[str]:
    numbered = [int(number) for number in re.findall(r"\?(\d+)", sql)]
    count = max(numbered, default=sql.count("?"))
    named = dict.fromkeys(re.findall(r":(\w+)", sql))
    rows = schema.execute(f"EXPLAIN QUERY PLAN {sql}", named or [None] * count).fetchall()
    return [row[3] for row in rows]


def faults(schema: sqlite3.Connection, sql: str, small: set[str]) -> list[str]:
    """Return the lines of a plan that read a whole table, or sort, or build an index."""
    views = schema.execute("SELECT sql FROM sqlite_schema WHERE type = 'view'").fetchall()
    # Each mention of a small table allows one scan by its name there.
    allowed = Counter(
        name
        for text in (*(view for (view,) in views), sql)
        for table, alias in TABLE.findall(text)
        if table in small
        for name in {table, alias}
    )
    found: list[str] = []
    for line in plan(schema, sql):
        scan = re.match(r"SCAN (?!\(|.*CONSTANT ROW|.*VIRTUAL TABLE)(\S+)", line)
        is_scan = scan is not None and allowed[scan[1]] == 0
        if scan is not None:
            allowed[scan[1]] -= 1
        if is_scan or "TEMP B-TREE" in line or "AUTOMATIC" in line:
            found.append(line)
    return found


def body_of(trigger: str) -> Iterator[str]:
    """Return the statements of a trigger as they could stand alone."""
    text = trigger[trigger.index(" BEGIN\n") + len(" BEGIN\n") : trigger.rindex("END")]
    for statement in migrate.split("\n".join(line.strip() for line in text.splitlines())):
        alone = re.sub(r"\b(NEW|OLD)\.(\w+)", r":\1_\2", statement)
        yield re.sub(r"RAISE\([^)]*\)", "NULL", alone)


def triggers(schema: sqlite3.Connection) -> dict[str, str]:
    rows = schema.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    return dict(rows)


@pytest.mark.parametrize("name", sorted(STATEMENTS.keys() - COLD))
def test_statement_reads_no_table_from_end_to_end(schema: sqlite3.Connection, name: str) -> None:
    assert faults(schema, STATEMENTS[name], SMALL) == []


def test_trigger_reads_no_table_from_end_to_end(schema: sqlite3.Connection) -> None:
    hot = {name: sql for name, sql in triggers(schema).items() if name not in EDITS}
    assert len(hot) > 30
    found = {
        name: [
            fault
            for statement in body_of(sql)
            for fault in faults(schema, statement, SMALL | SMALL_IN.get(name, set()))
        ]
        for name, sql in hot.items()
    }
    assert {name: each for name, each in found.items() if each} == {}


def test_edits_are_known(schema: sqlite3.Connection) -> None:
    """A name that is no more would hide what takes its place."""
    assert triggers(schema).keys() >= EDITS | SMALL_IN.keys()
    assert STATEMENTS.keys() >= COLD


@pytest.mark.parametrize(
    ("order", "index"), [("FAIR", "fair"), ("ROBIN", "robin"), ("FIFO", "fifo")]
)
def test_an_offer_is_one_probe_of_its_index(
    schema: sqlite3.Connection, order: str, index: str
) -> None:
    lines = plan(schema, STATEMENTS[f"OFFER_{order}"])
    probes = [line for line in lines if f"USING INDEX slotq_lanes_{index} (queue_id=?)" in line]
    assert len(probes) == 1
    assert not any("ORDER BY" in line for line in lines)


FIRST_OF = {
    "slotq_jobs_due": "run_at",
    "slotq_jobs_lease": "lease_until",
    "slotq_jobs_expires": "expires_at",
    "slotq_holds_until": "until",
    "slotq_keys_opens": "opens_at",
}


def test_what_is_due_first_is_one_probe_of_each_index(schema: sqlite3.Connection) -> None:
    lines = plan(schema, statements.FIRST_DUE)
    probed = {index for line in lines for index in re.findall(r"^SEARCH .* INDEX (\w+)", line)}
    assert probed == FIRST_OF.keys()


def test_the_check_itself_sees_scans_and_sorts(schema: sqlite3.Connection) -> None:
    for sql in (
        "SELECT * FROM slotq_jobs",
        "SELECT j.id FROM slotq_jobs j WHERE j.attempt = 3",
        "SELECT id FROM slotq_keys WHERE id > 3 ORDER BY running",
        "SELECT 1 FROM slotq_jobs a JOIN slotq_jobs b ON a.attempt = b.attempt WHERE a.id = 1",
    ):
        assert faults(schema, sql, SMALL)
