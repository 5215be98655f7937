"""Many jobs in one call: in order, each under its key, whatever the keys look like."""

from collections.abc import Sequence

import pytest

from slotq.store import jobs
from slotq.store.statements import JOBS_AT_ONCE
from support.stores import TERMS, Stores

ODD_KEYS = [
    "", " ", "a", "A", "a ", '"', "'", "\\", "\\u0041", "\n", "\r\n", "\t", "\x01", "\x1f", "\x7f",
    "\x80", "\u00e9", "e\u0301", "\u2028", "\ufeffx", "\ufffe", "\U0001f600", "\U0010ffff", "null",
    "1", "1.0", "[1]", "{}", "%", "t:*", "x" * 1024,
]  # fmt: skip

STORED = "SELECT k.key, j.args FROM slotq_jobs j JOIN slotq_keys k ON k.id = j.key_id ORDER BY j.id"


def calls(keys: Sequence[str]) -> list[jobs.Call]:
    return [jobs.Call(f"[{number}]", "{}", key) for number, key in enumerate(keys)]


@pytest.mark.parametrize(
    "count", [0, 1, JOBS_AT_ONCE - 1, JOBS_AT_ONCE, JOBS_AT_ONCE + 1, 4 * JOBS_AT_ONCE + 3]
)
def test_many_jobs_are_stored_in_the_order_given(stores: Stores, count: int) -> None:
    database = stores.open()
    keys = [f"k{number % 3}" for number in range(count)]
    with database.write() as tx:
        first = jobs.add_many(tx, TERMS, calls(keys))
        second = jobs.add_many(tx, TERMS, calls(keys))
    assert [*first, *second] == list(range(1, 2 * count + 1))
    with database.read() as reader:
        stored = reader.rows(STORED)
    assert stored == [(call.key, call.args) for call in calls(keys)] * 2


def test_odd_keys_of_many_jobs_come_back_byte_for_byte(stores: Stores) -> None:
    database = stores.open()
    wanted = calls(ODD_KEYS)
    for known in (wanted[::2], wanted):  # half of the keys are there already
        with database.write() as tx:
            jobs.add_many(tx, TERMS, known)
    with database.read() as reader:
        stored = reader.rows(STORED)
        assert reader.value("SELECT count(*) FROM slotq_keys") == len(ODD_KEYS)
    assert stored == [(call.key, call.args) for call in [*wanted[::2], *wanted]]
