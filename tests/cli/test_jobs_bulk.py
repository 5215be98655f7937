"""``qworker jobs retry``, ``cancel`` and ``delete``: by number, and all that filters match."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

import slotq
from support.commands import QWORKER, Done, environment, qworker
from support.terminals import on_terminal, plain


def command(folder: Path, *words: str) -> Done:
    return qworker("jobs", *words, "--db", "jobs.db", cwd=folder)


def states(q: slotq.Queue) -> list[str]:
    return [job.state for job in q.jobs(limit=1_000)]


@pytest.fixture
def queue(tmp_path: Path) -> slotq.Queue:
    return slotq.Queue(tmp_path / "jobs.db")


def fail_all(q: slotq.Queue, count: int, key: str | None = None) -> None:
    """Leave so many jobs that have failed for good."""

    def fail() -> None:
        raise ValueError

    task = q.task(name=f"app.fail{len(q.tasks)}", max_attempts=1)(fail)
    task.options(key=key).enqueue_many([()] * count)
    slotq.Worker(q, burst=True).run()


def test_each_number_is_acted_on_or_told(tmp_path: Path, queue: slotq.Queue) -> None:
    fail_all(queue, 2)
    waiting = queue.enqueue("a.b").id
    done = command(tmp_path, "retry", "1", str(waiting), "2", "99")
    assert (done.code, done.out) == (1, "retried 2 jobs\n")
    assert done.err.splitlines() == [
        "qworker: job 3 is waiting: only a failed or cancelled one can be retried",
        "qworker: job 99 does not exist",
    ]
    assert states(queue) == ["waiting"] * 3
    assert queue.job(1).max_attempts == 1


def test_cancel_and_delete_by_number(tmp_path: Path, queue: slotq.Queue) -> None:
    for _ in range(3):
        queue.enqueue("a.b")
    assert command(tmp_path, "cancel", "1", "2") == Done(0, "cancelled 2 jobs\n", "")
    again = command(tmp_path, "cancel", "1", "3")
    assert (again.code, again.out) == (1, "cancelled 1 job\n")
    assert again.err == "qworker: job 1 had ended before\n"
    assert command(tmp_path, "delete", "1", "3") == Done(0, "deleted 2 jobs\n", "")
    assert [job.id for job in queue.jobs()] == [2]


def test_a_job_that_runs_is_asked_to_end(tmp_path: Path, queue: slotq.Queue) -> None:
    said: list[str] = []

    @queue.task(name="app.cancel")
    def cancel(*words: str) -> None:
        said.append(command(tmp_path, "cancel", *words).out)

    cancel.enqueue_many([("1", "2", "3"), (), (), ("--all", "--yes")])
    slotq.Worker(queue, slots=1, burst=True).run()
    assert said == [
        "cancelled 2 jobs, asked 1 running job to end\n",
        "asked 1 running job to end\n",
    ]
    assert states(queue) == ["cancelled"] * 4


def test_retry_of_all_means_the_failed_ones(tmp_path: Path, queue: slotq.Queue) -> None:
    fail_all(queue, 3)
    queue.enqueue("a.b")
    queue.cancel(queue.enqueue("a.b").id)
    assert command(tmp_path, "retry", "--all", "--yes") == Done(0, "retried 3 jobs\n", "")
    assert states(queue) == ["waiting"] * 4 + ["cancelled"]
    words = ["retry", "--all", "--yes", "--state", "cancelled"]
    assert command(tmp_path, *words) == Done(0, "retried 1 job\n", "")
    assert command(tmp_path, *words) == Done(0, "retried 0 jobs\n", "")


def test_filters_bound_what_all_means(tmp_path: Path, queue: slotq.Queue) -> None:
    for key, task, name in [
        ("k", "a.b", "q"),
        ("k", "a.c", "q"),
        ("l", "a.b", "q"),
        ("k", "a.b", "r"),
    ]:
        queue.enqueue(task, key=key, queue=name)
    words = ["--all", "--yes", "--key", "k", "--task", "a.b", "--queue", "q"]
    assert command(tmp_path, "cancel", *words).out == "cancelled 1 job\n"
    assert command(tmp_path, "cancel", *words).out == "cancelled 0 jobs\n"
    assert states(queue) == ["cancelled", "waiting", "waiting", "waiting"]


def test_delete_of_all_leaves_what_has_not_ended(tmp_path: Path, queue: slotq.Queue) -> None:
    fail_all(queue, 2)
    queue.enqueue("a.b")
    queue.enqueue("a.b", delay=60)
    assert command(tmp_path, "delete", "--all", "--yes").out == "deleted 2 jobs\n"
    assert states(queue) == ["waiting", "scheduled"]
    words = ["delete", "--all", "--yes", "--state", "waiting"]
    assert command(tmp_path, *words).out == "deleted 1 job\n"


def test_where_nobody_can_be_asked_all_needs_a_yes(tmp_path: Path, queue: slotq.Queue) -> None:
    fail_all(queue, 3)
    done = command(tmp_path, "retry", "--all")
    (line,) = done.err.splitlines()
    assert (done.code, done.out) == (2, "")
    assert "--yes" in line
    assert "3 jobs" in line
    assert states(queue) == ["failed"] * 3


@pytest.mark.parametrize(("answer", "code", "state"), [("y\n", 0, "waiting"), ("n\n", 1, "failed")])
def test_on_a_terminal_the_count_is_asked_about(
    tmp_path: Path, queue: slotq.Queue, answer: str, code: int, state: str
) -> None:
    fail_all(queue, 3)
    words = ["jobs", "retry", "--all", "--db", "jobs.db"]
    done = on_terminal(*words, cwd=tmp_path, answer=answer)
    assert done.code == code
    assert "retry 3 jobs? [y/N]" in plain(done.out)
    assert ("100%" in plain(done.out)) is (code == 0)
    assert states(queue) == [state] * 3


def test_interrupted_at_the_question_nothing_is_done(tmp_path: Path, queue: slotq.Queue) -> None:
    fail_all(queue, 2)
    words = ["jobs", "delete", "--all", "--db", "jobs.db"]
    done = on_terminal(*words, cwd=tmp_path, answer="\x03")
    assert done.code == 130
    assert "Traceback" not in done.out
    assert states(queue) == ["failed"] * 2


def test_what_was_refused_of_all_is_told(tmp_path: Path, queue: slotq.Queue) -> None:
    queue.cancel(queue.enqueue("a.b", dedupe="x").id)
    queue.cancel(queue.enqueue("a.b").id)
    queue.enqueue("a.b", dedupe="x")
    done = command(tmp_path, "retry", "--all", "--yes", "--state", "cancelled")
    assert (done.code, done.out) == (1, "retried 1 job\n")
    assert "job 1 cannot be retried: job 3 with its dedupe value" in done.err


@pytest.mark.slow
def test_two_retries_of_all_at_once_add_up(tmp_path: Path, queue: slotq.Queue) -> None:
    fail_all(queue, 1_500, key="k")
    queue.set_limit("k", max_running=1)
    rounds = [
        subprocess.Popen(
            [str(QWORKER), "jobs", "retry", "--all", "--yes", "--db", "jobs.db"],
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    said = [process.communicate() for process in rounds]
    assert [process.returncode for process in rounds] == [0, 0]
    assert [err for _, err in said] == ["", ""]
    counts = [int(out.split()[1]) for out, _ in said]
    assert sum(counts) == 1_500
    found = queue.jobs(limit=10_000)
    assert Counter(job.state for job in found) == {"waiting": 1_500}
    assert [job.id for job in found] == list(range(1, 1_501))
    assert queue.key("k").max_running == 1
