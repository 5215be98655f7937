"""The checker itself: each kind of broken history is caught, and a good one passes."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from support import history
from support.history import Event, Log, judge

A = "tenant:a"


def enqueued(job: int, key: str = A) -> Event:
    return Event(kind="enqueued", at=0, job=job, key=key)


def start(job: int, at: int, *, key: str = A, token: int = 0, pid: int = 1) -> Event:
    return Event(kind="start", at=at, job=job, key=key, token=token, pid=pid)


def end(job: int, at: int, *, is_final: bool = True) -> Event:
    return Event(kind="end", at=at, job=job, is_final=is_final)


def limit(
    key: str = A, most: int | None = None, starts: int | None = None, window: int = 0
) -> Event:
    return Event(
        kind="limit", at=0, key=key, max_running=most, max_starts=starts, window=window
    )  # fmt: skip


def test_a_good_history_breaks_nothing() -> None:
    events = [
        limit(most=2, starts=3, window=10),
        *(enqueued(job) for job in (1, 2, 3, 4)),
        start(1, 1, token=1),
        start(2, 2, token=1),
        end(1, 3),
        start(3, 4, token=1),
        end(2, 5, is_final=False),
        end(3, 6),
        start(2, 11, token=2),
        end(2, 12),
        start(4, 12, token=1),
        end(4, 13),
    ]
    verdict = judge(events)
    assert verdict.broken == []
    assert verdict.peaks == {A: 2}
    assert verdict.reached == {A}
    assert verdict.filled == {A}
    assert verdict.starts == {1: 1, 2: 2, 3: 1, 4: 1}


@pytest.mark.parametrize(
    ("events", "broken"),
    [
        ([enqueued(1)], "job 1 lost: never ended"),
        ([enqueued(1), start(1, 1)], "job 1 lost: never ended"),
        ([enqueued(1), start(1, 1), end(1, 2, is_final=False)], "job 1 lost: never ended"),
        ([start(1, 1), end(1, 2)], "job 1 unexpected: it was never enqueued"),
        (
            [enqueued(1), start(1, 1), start(1, 2), end(1, 3)],
            "job 1 doubled: it ran twice at once",
        ),
        (
            [enqueued(1), start(1, 1), end(1, 2), start(1, 3), end(1, 4, is_final=False)],
            "job 1 doubled: it ran after its end",
        ),
        ([enqueued(1), start(1, 1), end(1, 2), end(1, 3)], "job 1 doubled: ended twice"),
        (
            [
                enqueued(1),
                start(1, 1, token=2),
                end(1, 2, is_final=False),
                start(1, 3, token=2),
                end(1, 4),
            ],
            "job 1 token 2 did not grow",
        ),
        (
            [
                limit(most=1),
                enqueued(1),
                enqueued(2),
                start(1, 1),
                start(2, 1),
                end(1, 2),
                end(2, 2),
            ],
            f"limit of {A}: 2 ran, 1 may",
        ),
        (
            [
                limit(starts=1, window=10),
                enqueued(1),
                enqueued(2),
                start(1, 1),
                end(1, 2),
                start(2, 10),
                end(2, 11),
            ],
            f"window of {A}: 2 starts up to 10, 1 may be",
        ),
    ],
)
def test_a_broken_history_is_caught(events: Sequence[Event], broken: str) -> None:
    assert judge(events).broken == [broken]


def test_a_start_at_the_far_edge_of_a_window_no_longer_counts() -> None:
    events = [limit(starts=1, window=10), enqueued(1), enqueued(2)]
    events += [start(1, 1), end(1, 2), start(2, 11), end(2, 12)]
    assert judge(events).broken == []


def test_a_limit_that_is_not_reached_shows() -> None:
    events = [limit(most=2), enqueued(1), start(1, 1), end(1, 2)]
    verdict = judge(events)
    assert verdict.broken == []
    assert verdict.reached == set()


def test_each_start_is_judged_by_the_limit_then_in_force() -> None:
    jobs = [enqueued(job) for job in (1, 2, 3)]
    lowered = [limit(most=2), *jobs, start(1, 1), start(2, 2), limit(most=1)]
    ends = [end(1, 9), end(2, 9), end(3, 9)]
    # Lowering stops nothing that runs; nothing starts until there is room again.
    assert judge([*lowered, end(1, 3), end(2, 4), start(3, 5), end(3, 6)]).broken == []
    assert judge([*lowered, start(3, 3), *ends]).broken == [f"limit of {A}: 3 ran, 1 may"]
    assert judge([*lowered, limit(), start(3, 3), *ends]).broken == []


def test_a_window_set_after_a_clear_counts_from_zero() -> None:
    events = [limit(starts=1, window=10), enqueued(1), enqueued(2), start(1, 1), end(1, 2)]
    events += [limit(), limit(starts=1, window=10), start(2, 3), end(2, 4)]
    assert judge(events).broken == []


def test_a_run_ends_at_the_kill_that_the_driver_saw() -> None:
    killed = Event(kind="killed", at=2, pid=7)
    before = [limit(most=1), enqueued(1), enqueued(2), start(1, 1, pid=7)]
    after = [start(1, 3, pid=8), end(1, 4), start(2, 5), end(2, 6)]
    assert judge([*before, killed, *after]).broken == []
    assert judge([*before, *after]).broken != []


def test_nothing_that_a_stopped_process_still_does_counts() -> None:
    stopped, lost = Event(kind="stopped", at=2, pid=7), Event(kind="lost", at=5, job=1, pid=7)
    before = [limit(most=1), enqueued(1), enqueued(2), start(1, 1, pid=7)]
    zombie = Event(kind="end", at=5, job=1, pid=7)
    after = [start(1, 3, pid=8), lost, zombie, Event(kind="end", at=6, job=1, pid=8)]
    last = [start(2, 7, pid=7), Event(kind="end", at=8, job=2, pid=7)]
    assert judge([*before, stopped, *after, *last]).broken == []
    assert judge([*before, stopped, *after, zombie, *last]).broken == ["job 1 doubled: ended twice"]
    assert judge([*before, *after, *last]).peaks == {A: 2}


def test_limits_may_be_told_apart_from_the_events() -> None:
    events = [enqueued(1), enqueued(2), start(1, 1), start(2, 2), end(1, 3), end(2, 4)]
    assert judge(events, {A: 1}).broken == [f"limit of {A}: 2 ran, 1 may"]
    assert judge(events, {A: 2}).reached == {A}


def test_a_log_keeps_what_was_written(tmp_path: Path) -> None:
    assert history.read(tmp_path / "log") == []
    with Log(tmp_path / "log") as log:
        log.write("start", job=1, key="a\nb")
        log.write("end", job=1)
        log.write("killed", pid=5)
    first, second, third = history.read(tmp_path / "log")
    assert (first.kind, first.job, first.key, first.pid) == ("start", 1, "a\nb", os.getpid())
    assert (second.kind, third.pid) == ("end", 5)
    assert first.at <= second.at <= third.at
