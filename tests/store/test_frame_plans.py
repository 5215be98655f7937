"""What a frame reads: never all jobs, and lanes and keys at most once a statement."""

import re
import sqlite3
from collections.abc import Generator

import pytest

from slotq.store import frame_queries, history_statements, migrate

STATEMENTS = {
    name: sql for name, sql in vars(frame_queries).items() if re.match("(FRAME|PAGE)_", name)
}
# Those that read a table or an index of it from end to end, and which: lanes, keys, queues, limits,
# workers; holds are as many as somebody holds. Keys beside lanes are read for a filter only.
SCANS = {
    "FRAME_COUNTS": {"slotq_keys", "slotq_lanes", "slotq_limits", "sqlite_sequence"},
    "FRAME_LINE": {"slotq_lanes"},
    "FRAME_LINES": {"slotq_lanes"},
    "FRAME_MATCHING": {"slotq_keys"},
    "FRAME_OLDEST": {"l", "f"},
    "FRAME_QUEUES": {"q", "w"},
    "FRAME_SEVERAL": {"slotq_lanes"},
    "FRAME_WORKERS": {"w"},
    "PAGE_BY_ALL_OLDEST": {"slotq_lanes", "slotq_keys"},
    "PAGE_BY_ALL_SCHEDULED": {"slotq_lanes", "slotq_keys"},
    "PAGE_BY_ALL_WAITING": {"slotq_lanes", "slotq_keys"},
    "PAGE_BY_HELD": {"h", "slotq_keys"},
    "PAGE_BY_KEY": {"slotq_keys"},
    "PAGE_BY_KEY_DOWN": {"slotq_keys"},
    "PAGE_BY_OLDEST": {"slotq_lanes", "slotq_keys"},
    "PAGE_BY_RUNNING": {"slotq_keys"},
    "PAGE_BY_SCHEDULED": {"slotq_lanes", "slotq_keys"},
    "PAGE_BY_WAITING": {"slotq_lanes", "slotq_keys"},
    "PAGE_LANES": {"f"},
    "PAGE_OF_REST": {"slotq_keys"},
}


@pytest.fixture(scope="module")
def schema() -> Generator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for script in migrate.scripts():
        connection.executescript(script)
    yield connection
    connection.close()


def plan(schema: sqlite3.Connection, sql: str) -> list[str]:
    named = dict.fromkeys(re.findall(r":(\w+)", sql))
    return [row[3] for row in schema.execute(f"EXPLAIN QUERY PLAN {sql}", named)]


def scans(lines: list[str]) -> set[str]:
    found = (re.match(r"SCAN (?!\(|.*CONSTANT ROW|.*VIRTUAL TABLE)(\S+)", line) for line in lines)
    return {match[1] for match in found if match is not None}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_of_a_frame_reads_what_it_may(schema: sqlite3.Connection, name: str) -> None:
    lines = plan(schema, STATEMENTS[name])
    assert scans(lines) == SCANS.get(name, set())
    assert not any("AUTOMATIC" in line for line in lines)


def test_none_reads_jobs_but_by_an_index_of_few(schema: sqlite3.Connection) -> None:
    looked = {
        index
        for sql in STATEMENTS.values()
        for line in plan(schema, sql)
        for index in re.findall(r"INDEX (slotq_jobs_\w+)", line)
    }
    assert looked == {
        "slotq_jobs_due", "slotq_jobs_expires", "slotq_jobs_lease", "slotq_jobs_unsuccessful",
        "slotq_jobs_waiting",  # a probe for each rank of a lane
    }  # fmt: skip


@pytest.mark.parametrize("name", ["HISTORY_OF_QUEUE", "HISTORY_OF_KEY"])
def test_history_is_a_probe_a_bucket(schema: sqlite3.Connection, name: str) -> None:
    lines = plan(schema, getattr(history_statements, name))
    assert "SEARCH h USING PRIMARY KEY (kind=? AND at=? AND ref=?)" in lines
