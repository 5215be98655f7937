"""The demo's judge sees every kind of breach, and passes what is well."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from slotq_app.demo.history import (
    Ended,
    Log,
    Mark,
    Promise,
    Verdict,
    judge,
    log_path,
    most_within,
    percentile,
    read,
)

TWO = Promise(max_running=2)
WINDOW = Promise(max_running=2, max_starts=2, window_ms=1_000)


def marks(job: int, begin_ns: int, end_ns: int, tenant: str = "a") -> list[Mark]:
    return [
        Mark(at_ns=begin_ns, step="begin", job=job, tenant=tenant),
        Mark(at_ns=end_ns, step="end", job=job, tenant=tenant),
    ]


def ended(job: int, started_ms: int = 0, tenant: str = "a") -> Ended:
    return Ended(
        job=job,
        tenant=tenant,
        state="succeeded",
        attempt=1,
        waited_ms=started_ms,
        started_ms=started_ms,
    )


def judged(spans: Sequence[tuple[int, int]], promise: Promise = TWO) -> Verdict:
    """The verdict on jobs of one tenant that ran in these spans and are well otherwise."""
    found = [mark for job, span in enumerate(spans) for mark in marks(job, *span)]
    return judge({"a": promise}, found, [ended(job) for job in range(len(spans))])


def test_a_run_within_its_limits_is_well() -> None:
    verdict = judged([(0, 10), (5, 20), (10, 30)])
    assert (verdict.problems, verdict.at_limit) == ([], 1)
    assert verdict.findings["a"].peak == 2


def test_an_end_and_a_beginning_at_one_instant_do_not_overlap() -> None:
    assert judged([(10, 20), (0, 10), (0, 10)]).findings["a"].peak == 2


def test_one_too_many_at_once_is_a_breach() -> None:
    verdict = judged([(0, 10), (5, 20), (9, 30)])
    assert verdict.problems == ["a: 3 ran at once, allowed are 2"]


def test_the_order_of_the_marks_does_not_matter() -> None:
    found = [*marks(0, 0, 10), *marks(1, 5, 20), *marks(2, 9, 30)]
    jobs = [ended(job) for job in range(3)]
    assert judge({"a": TWO}, reversed(found), jobs) == judge({"a": TWO}, found, jobs)


def test_tenants_are_counted_apart() -> None:
    found = [*marks(0, 0, 10), *marks(1, 0, 10), *marks(2, 0, 10, "b"), *marks(3, 0, 9, "b")]
    jobs = [ended(0), ended(1), ended(2, tenant="b"), ended(3, tenant="b")]
    verdict = judge({"a": TWO, "b": TWO}, found, jobs)
    assert (verdict.problems, verdict.at_limit) == ([], 2)


def test_a_run_in_which_no_limit_was_reached_proves_nothing() -> None:
    verdict = judged([(0, 10), (10, 20)])
    assert verdict.problems == ["no tenant reached its limit, so the run proves nothing"]


def windowed(starts_ms: Iterable[int]) -> Verdict:
    jobs = [ended(job, started_ms) for job, started_ms in enumerate(starts_ms)]
    found = [mark for job in jobs for mark in marks(job.job, job.job // 2, job.job // 2 + 1)]
    return judge({"a": WINDOW}, found, jobs)


def test_one_start_too_many_within_a_window_is_a_breach() -> None:
    verdict = windowed([0, 500, 999])
    assert verdict.problems == ["a: 3 starts within 1 s, allowed are 2"]


def test_a_start_exactly_one_window_later_is_in_time() -> None:
    verdict = windowed([0, 500, 1_000, 1_500])
    assert (verdict.problems, verdict.findings["a"].most_starts) == ([], 2)


@pytest.mark.parametrize(
    ("job", "problem"),
    [
        (
            replace(ended(1), state="failed", error="OSError: gone"),
            "job 1 of a failed: OSError: gone",
        ),
        (replace(ended(1), state="running"), "job 1 of a is running"),
        (
            replace(ended(1), state="waiting", started_ms=None, waited_ms=None),
            "job 1 of a is waiting",
        ),
        (replace(ended(1), attempt=2), "job 1 of a began 1 times and ended 1 times in 2 attempts"),
    ],
)
def test_a_job_that_did_not_end_well_is_a_problem(job: Ended, problem: str) -> None:
    found = [*marks(0, 0, 10), *marks(1, 0, 10)]
    assert judge({"a": TWO}, found, [ended(0), job]).problems == [problem]


def test_a_job_that_never_ran_is_lost() -> None:
    verdict = judge({"a": TWO}, [*marks(0, 0, 9), *marks(1, 0, 9)], [ended(0), ended(1), ended(2)])
    assert verdict.problems == ["job 2 of a began 0 times and ended 0 times in 1 attempts"]


def test_a_body_that_never_ended_is_lost() -> None:
    found = [*marks(0, 0, 10), *marks(1, 0, 10)]
    verdict = judge({"a": TWO}, found[:-1], [ended(0), ended(1)])
    assert verdict.problems == ["job 1 of a began 1 times and ended 0 times in 1 attempts"]


def test_a_body_that_ran_twice_is_a_problem() -> None:
    found = [*marks(0, 0, 10), *marks(1, 0, 10), *marks(1, 20, 30)]
    verdict = judge({"a": TWO}, found, [ended(0), ended(1)])
    assert verdict.problems == ["job 1 of a began 2 times and ended 2 times in 1 attempts"]


def test_a_body_of_an_unknown_job_is_a_problem() -> None:
    found = [*marks(0, 0, 10), *marks(1, 0, 10), *marks(7, 20, 30)]
    verdict = judge({"a": TWO}, found, [ended(0), ended(1)])
    assert verdict.problems == ["job 7 ran and is not known"]


def test_many_problems_are_counted() -> None:
    jobs = [replace(ended(job), state="waiting") for job in range(9)]
    verdict = judge({"a": TWO}, [], jobs)
    assert len(verdict.problems) == 7
    assert verdict.problems[5] == "and 4 more jobs with a problem"


@pytest.mark.parametrize(
    ("instants", "length", "most"),
    [
        ([], 10, 0),
        ([5], 10, 1),
        ([0, 9, 10, 19], 10, 2),
        ([0, 9, 9, 19], 10, 3),
        ([30, 0, 1, 31, 32], 10, 3),
        ([0, 0, 0], 1, 3),
    ],
)
def test_most_within_looks_at_every_span(instants: list[int], length: int, most: int) -> None:
    assert most_within(instants, length) == most


@pytest.mark.parametrize(
    ("values", "percent", "value"),
    [
        ([], 50, 0),
        ([7], 50, 7),
        ([7], 95, 7),
        ([1, 2, 3, 4], 50, 2),
        ([1, 2, 3, 4], 95, 4),
        (list(range(1, 101)), 95, 95),
    ],
)
def test_a_percentile_is_one_of_the_values(values: list[int], percent: int, value: int) -> None:
    assert percentile(values, percent) == value


def test_marks_of_many_threads_come_back_whole(tmp_path: Path) -> None:
    path = log_path(tmp_path / "jobs.db")
    log = Log(path)

    def work(first: int) -> None:
        for job in range(first, first + 50):
            with log.run(job, "größe"):
                pass

    threads = [Thread(target=work, args=(first,)) for first in (0, 50, 100, 150)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = read(path)
    assert len(found) == 400
    assert {mark.job for mark in found if mark.step == "end"} == set(range(200))
    assert {mark.tenant for mark in found} == {"größe"}


def test_a_body_that_raises_leaves_its_end_too(tmp_path: Path) -> None:
    log = Log(tmp_path / "marks")
    with pytest.raises(ZeroDivisionError), log.run(1, "a"):
        _ = 1 / 0
    assert [mark.step for mark in read(tmp_path / "marks")] == ["begin", "end"]
