"""Limits as programs set them: merged, ranged, hidden, listed, cleared."""

import asyncio
import warnings
from datetime import UTC, datetime, timedelta

import pytest

from slotq import ANY, InvalidValue, Limit, LimitHidden, Queue, Worker, key, literal
from slotq.testing import ManualClock
from support.procs import auntil
from support.wrongly import wrongly

START = datetime(2026, 1, 1, tzinfo=UTC)


def parts(limit: Limit) -> tuple[int | None, int | None, object]:
    return limit.max_running, limit.max_starts, limit.window


# Merging.


def test_a_new_limit_has_what_was_given_and_no_more(queue: Queue) -> None:
    limit = queue.set_limit("k", max_running=3, updated_by="ann")
    assert limit == Limit(
        key="k", queue=None, name="", max_running=3, max_starts=None, window=None, timezone=None,
        version=1, updated_at=START, updated_by="ann", declared=False,
    )  # fmt: skip
    assert queue.limits() == [limit]


def test_parts_left_out_keep_their_values(queue: Queue) -> None:
    queue.set_limit("k", max_running=3, max_starts=5, window=60)
    assert parts(queue.set_limit("k", max_running=4)) == (4, 5, 60)
    assert parts(queue.set_limit("k", max_starts=6)) == (4, 6, 60)
    assert parts(queue.set_limit("k", window=90.5)) == (4, 6, 90.5)
    assert parts(queue.set_limit("k")) == (4, 6, 90.5)


def test_none_removes_a_part(queue: Queue) -> None:
    queue.set_limit("k", max_running=3, max_starts=5, window=60)
    assert parts(queue.set_limit("k", max_running=None)) == (None, 5, 60)
    assert parts(queue.set_limit("k", max_running=1, max_starts=None)) == (1, None, None)
    queue.set_limit("k", max_starts=5, window=60)
    assert parts(queue.set_limit("k", max_starts=None, window=None)) == (1, None, None)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"max_running": None},
        {"max_starts": 5},
        {"window": 60},
        {"max_starts": 5, "window": None},
        {"max_starts": None, "window": 60},
        {"max_starts": None, "window": None},
    ],
)
def test_a_new_limit_needs_a_whole_part(queue: Queue, change: dict[str, object]) -> None:
    with pytest.raises(InvalidValue, match=r"come together|clear it"):
        wrongly(queue.set_limit)("k", **change)
    assert queue.limits() == []


@pytest.mark.parametrize(
    "change",
    [
        {"max_running": None, "max_starts": None},
        {"max_running": None, "max_starts": None, "window": None},
        {"window": None},
        {"max_starts": None, "window": 30},
    ],
)
def test_an_edit_that_leaves_nothing_or_half_a_part_is_refused(
    queue: Queue, change: dict[str, object]
) -> None:
    before = queue.set_limit("k", max_running=3, max_starts=5, window=60)
    with pytest.raises(InvalidValue, match=r"come together|clear it"):
        wrongly(queue.set_limit)("k", **change)
    assert queue.limits() == [before]


def test_version_and_updated_tell_of_the_last_edit(queue: Queue, clock: ManualClock) -> None:
    first = queue.set_limit("k", max_running=3)
    assert (first.version, first.updated_at) == (1, START)
    assert "@" in first.updated_by
    clock.advance(5_000)
    second = queue.set_limit("k", max_running=3, updated_by="ann")
    assert (second.version, second.updated_by) == (2, "ann")
    assert second.updated_at == START + timedelta(seconds=5)
    assert queue.set_limit("k", name="other", max_running=1).version == 1
    queue.clear_limit("k")
    assert queue.set_limit("k", max_running=1).version == 1


def test_whoever_edits_has_a_name_even_where_the_system_has_none(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(variable, "ann" + "\udcff" * 300)
    monkeypatch.setattr("sys.argv", ["/bin/\udcfe"])
    limit = queue.set_limit("k", max_running=1)
    assert limit.updated_by.startswith("ann\\udcff")
    assert len(limit.updated_by) <= 200


# Ranges.


@pytest.mark.parametrize("field", ["max_running", "max_starts"])
def test_the_ends_of_the_ranges_are_allowed(queue: Queue, field: str) -> None:
    for value in (1, 1_000_000):
        limit = wrongly(queue.set_limit)("k", **{"max_starts": 1, "window": 60, field: value})
        assert getattr(limit, field) == value


@pytest.mark.parametrize("field", ["max_running", "max_starts"])
@pytest.mark.parametrize(
    "value", [0, -1, 1.5, 1.0, "3", True, False, 1_000_001, 10**12, float("nan"), [1], b"1"]
)
def test_numbers_out_of_range_or_of_a_wrong_type_are_refused(
    queue: Queue, field: str, value: object
) -> None:
    """Field case 42: one answer for zero, negative, fractional, huge and wrongly typed numbers."""
    change: dict[str, object] = {"max_running": 1, "max_starts": 1, "window": 60, field: value}
    with pytest.raises(InvalidValue, match=f"^{field} must be an integer from 1 to 1,000,000"):
        wrongly(queue.set_limit)("k", **change)
    assert queue.limits() == []


@pytest.mark.parametrize(
    ("window", "seconds"),
    [
        (1, 1),
        (0.001, 0.001),
        (0.0001, 0.001),
        (366 * 86_400, 366 * 86_400),
        (timedelta(minutes=5), 300),
        (timedelta(days=366), 366 * 86_400),
        (timedelta(microseconds=1), 0.001),
    ],
)
def test_windows_are_seconds_or_timedeltas(
    queue: Queue, window: float | timedelta, seconds: float
) -> None:
    assert queue.set_limit("k", max_starts=1, window=window).window == seconds


@pytest.mark.parametrize(
    "window",
    [
        0, -1, 366 * 86_400 + 1, timedelta(0), timedelta(days=-1), timedelta.max, float("nan"),
        float("inf"), True, "60", 10**400, None,
    ],
)  # fmt: skip
def test_windows_out_of_range_are_refused(queue: Queue, window: object) -> None:
    with pytest.raises(InvalidValue, match=r"^window "):
        wrongly(queue.set_limit)("k", max_starts=1, window=window)
    assert queue.limits() == []


# Subjects and names.


@pytest.mark.parametrize("subject", ["", "k" * 1025, "a\0b", "\ud800", None, 7, b"k", True])
def test_a_bad_subject_is_refused_by_both_verbs(queue: Queue, subject: object) -> None:
    for call in (wrongly(queue.set_limit), wrongly(queue.clear_limit)):
        with pytest.raises(InvalidValue, match=r"^key "):
            call(subject)
    assert queue.limits() == []


@pytest.mark.parametrize("name", ["n" * 201, "a\0b", "\ud800", 7, b"n"])
def test_a_bad_name_is_refused_by_both_verbs(queue: Queue, name: object) -> None:
    for call in (wrongly(queue.set_limit), wrongly(queue.clear_limit)):
        with pytest.raises(InvalidValue, match=r"^name "):
            call("k", name=name)
    assert queue.limits() == []


def test_there_may_be_1_000_patterns(queue: Queue) -> None:
    for number in range(1_000):
        queue.set_limit(f"p{number}:*", max_running=1)
    with pytest.raises(InvalidValue, match="one pattern too many: there can be 1,000"):
        queue.set_limit("another:*", max_running=1)
    queue.set_limit("exact", max_running=1)
    queue.set_limit("p7:*", max_running=2)
    queue.clear_limit("p8:*")
    queue.set_limit("another:*", max_running=1)
    assert len(queue.limits()) == 1_001


def test_clear_removes_one_name_or_all(queue: Queue) -> None:
    for name in ("", "daily", "hourly"):
        queue.set_limit("k", max_running=1, name=name)
        queue.set_limit("k*", max_running=1, name=name)
    assert queue.clear_limit("k", name="daily") == 1
    assert queue.clear_limit("k", name="daily") == 0
    assert queue.clear_limit("unknown") == 0
    assert queue.clear_limit("k", name="") == 1
    assert queue.clear_limit("k") == 1
    assert [limit.key for limit in queue.limits()] == ["k*"] * 3
    assert queue.clear_limit("k*") == 3


@pytest.mark.parametrize(
    "subject",
    [
        "k", " ", "a'b", 'a"; DROP TABLE slotq_jobs;--', "%", "_", "[a]", "a?b", "tenant:*", "*", "**",
        r"\*", r"\\", r"a\b", r"a\\b", r"\*\\*", literal("a\\*b"), key("w", "*"),
        key("w", ANY, action="export"), "a\nb", "🚀", "é", "e\u0301",
    ],
)  # fmt: skip
def test_a_limit_s_key_given_back_means_the_same_limit(queue: Queue, subject: str) -> None:
    limit = queue.set_limit(subject, max_running=1)
    assert limit.key is not None
    again = queue.set_limit(limit.key, max_running=2)
    assert (again.key, again.version, again.max_running) == (limit.key, 2, 2)
    assert len(queue.limits()) == 1
    assert queue.clear_limit(limit.key) == 1
    assert queue.limits() == []


def test_a_key_named_like_a_pattern_limits_only_itself(queue: Queue) -> None:
    queue.set_limit(literal("*"), max_running=1)
    assert queue.key("*").max_running == 1
    assert queue.key("a").max_running is None
    queue.set_limit("*", max_running=9)
    assert (queue.key("*").max_running, queue.key("a").max_running) == (1, 9)


# Hidden limits.


def warned(queue: Queue, subject: str, name: str = "", **change: int | None) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        wrongly(queue.set_limit)(subject, name=name, **change)
    assert all(warning.category is LimitHidden for warning in caught)
    assert all(warning.filename == __file__ for warning in caught)
    return [str(warning.message) for warning in caught]


def test_setting_the_narrow_limit_warns_of_what_it_hides(queue: Queue) -> None:
    assert warned(queue, "tenant:*", max_starts=5, window=60) == []
    assert warned(queue, "tenant:acme", max_running=1) == [
        "the limit of 'tenant:acme' hides that of 'tenant:*', but has no max_starts"
    ]
    assert warned(queue, "tenant:acme", max_starts=9, window=60) == []


def test_setting_the_wide_limit_warns_of_where_it_is_hidden(queue: Queue) -> None:
    queue.set_limit("tenant:acme", max_starts=1, window=60)
    queue.set_limit("tenant:a*", max_starts=1, window=60)
    assert warned(queue, "tenant:*", max_running=3) == [
        "the limit of 'tenant:a*' hides that of 'tenant:*', but has no max_running",
        "the limit of 'tenant:acme' hides that of 'tenant:*', but has no max_running",
    ]


def test_removing_a_part_of_the_narrow_limit_warns(queue: Queue) -> None:
    queue.set_limit("tenant:*", max_running=3)
    queue.set_limit("tenant:acme", max_running=1, max_starts=1, window=60)
    assert warned(queue, "tenant:acme", max_running=None) == [
        "the limit of 'tenant:acme' hides that of 'tenant:*', but has no max_running"
    ]


def test_all_that_is_hidden_can_be_listed(queue: Queue) -> None:
    for name in ("", "daily"):
        queue.set_limit("tenant:*", max_running=3, max_starts=5, window=60, name=name)
    assert queue.hidden_limits() == []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LimitHidden)
        queue.set_limit("tenant:acme", max_running=1)
        queue.set_limit("tenant:a*", max_starts=1, window=60, name="daily")
        queue.set_limit("tenant:acme", max_starts=1, window=60, name="daily")
    queue.set_limit(queue="tenant:acme", max_running=1)
    assert queue.hidden_limits() == [
        "the limit of 'tenant:a*' hides that of 'tenant:*', but has no max_running",
        "the limit of 'tenant:acme' hides that of 'tenant:*', but has no max_starts",
        "the limit of 'tenant:acme' hides that of 'tenant:*', but has no max_running",
    ]
    assert asyncio.run(queue.ahidden_limits()) == queue.hidden_limits()


def test_limits_of_different_names_hide_nothing(queue: Queue) -> None:
    queue.set_limit("tenant:*", max_starts=5, window=60, name="minute")
    assert warned(queue, "tenant:acme", max_running=1) == []
    assert warned(queue, "other:*", max_running=1, name="minute") == []


def test_the_async_twin_warns_too(queue: Queue) -> None:
    queue.set_limit("tenant:*", max_starts=5, window=60)
    with pytest.warns(LimitHidden, match="has no max_starts"):
        asyncio.run(queue.aset_limit("tenant:acme", max_running=1))
    assert len(queue.limits()) == 2


# Limits in force.


def test_the_most_specific_limit_of_each_name_counts_as_a_whole(queue: Queue) -> None:
    queue.set_limit("*", max_running=9)
    queue.set_limit("tenant:*", max_running=5)
    queue.set_limit("tenant:*", max_starts=4, window=60, name="minute")
    queue.set_limit("tenant:acme", max_running=7)
    in_force = {limit.name: limit.key for limit in queue.key("tenant:acme").limits}
    assert in_force == {"": "tenant:acme", "minute": "tenant:*"}
    assert queue.key("tenant:acme").max_running == 7
    assert queue.key("tenant:other").max_running == 5
    assert queue.key("else").max_running == 9
    queue.clear_limit("tenant:acme")
    assert queue.key("tenant:acme").max_running == 5


async def test_an_edit_acts_on_jobs_that_wait_already(queue: Queue, clock: ManualClock) -> None:
    opened, running = asyncio.Event(), set[int]()
    most = 0

    @queue.task(key="k")
    async def body(number: int) -> None:
        nonlocal most
        running.add(number)
        most = max(most, len(running))
        await opened.wait()
        running.discard(number)

    async def reached(count: int) -> None:
        await auntil(lambda: len(running) == count)

    body.enqueue_many([(number,) for number in range(12)])
    queue.set_limit("k", max_running=2)
    worker = Worker(queue, slots=20)
    serving = asyncio.create_task(worker.serve())
    await reached(2)
    await queue.aset_limit("k", max_running=4)
    await reached(4)
    await queue.aset_limit("k", max_running=1)
    assert (queue.key("k").running, queue.key("k").max_running) == (4, 1)
    await queue.aclear_limit("k")
    await reached(12)
    opened.set()
    worker.stop()
    await serving
    assert (most, queue.stats().succeeded) == (12, 12)


def test_a_window_holds_back_and_opens_exactly_one_window_later(
    queue: Queue, clock: ManualClock
) -> None:
    @queue.task(key="k")
    def body() -> None: ...

    def drained() -> int:
        """Run what may start, with the clock standing still; return how many ended."""
        before = queue.stats().succeeded
        worker = Worker(queue, slots=1)

        async def serve() -> None:
            serving = asyncio.create_task(worker.serve())
            await auntil(lambda: not queue.stats().running and queue.key("k").starts == 2)
            worker.stop()
            await serving

        asyncio.run(serve())
        return queue.stats().succeeded - before

    queue.set_limit("k", max_starts=2, window=60)
    body.enqueue_many([()] * 5)
    assert drained() == 2
    assert queue.key("k").next_start_at == START + timedelta(seconds=60)
    clock.advance(59_999)
    assert drained() == 0
    clock.advance(1)
    assert queue.key("k").next_start_at is None
    assert drained() == 2
