"""Jobs that no worker can run, and apps that are not there: case 52."""

import signal
from pathlib import Path

import pytest

import slotq
from support.commands import qworker, until
from support.fleet import fleet, write_app

# A function that was renamed, modules that are not there or do not compile, a name that a careless
# worker would import and call, and names that are none.
BAD = [
    "app.gone",
    "nomod.x",
    "nomod:x",
    "broken.task",
    "os.system",
    "os:system",
    "app",
    "print",
    " ",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "broken.py").write_text("def task(:\n", encoding="utf-8")
    return write_app(tmp_path)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_jobs_of_unknown_tasks_wait_and_the_good_ones_behind_them_end(
    folder: Path, processes: str
) -> None:
    """Case 52: the bad ones are put back with a reason, and never called."""
    with slotq.Queue(folder / "jobs.db") as q:
        bad = [q.enqueue(name, args=["touch called"]).id for name in BAD]
        good = [q.enqueue("app.who", args=[number]).id for number in range(5)]
        with fleet("--processes", processes, "--slots", "1", cwd=folder) as worker:
            until(lambda: q.stats().succeeded == 5, "the good ones have ended")
            until(lambda: q.stats().scheduled == len(bad), "the bad ones are put back")
            assert not worker.has_ended
            assert [name for name in BAD if name not in worker.said] == []
            worker.signal(signal.SIGTERM)
            assert worker.wait() == 0
        assert [q.job(each).attempt for each in good] == [1] * 5
        for name, each in zip(BAD, bad, strict=True):
            job = q.job(each)
            assert (job.task, job.state, job.attempt) == (name, "scheduled", 0)
            assert [reason.kind for reason in q.why(each)].count("unknown task") == 1
    assert not (folder / "called").exists()


def test_a_task_without_a_name_is_refused_when_it_is_enqueued(folder: Path) -> None:
    with slotq.Queue(folder / "jobs.db") as q, pytest.raises(slotq.InvalidValue):
        q.enqueue("")


@pytest.mark.parametrize(
    ("words", "processes", "code", "problem"),
    [
        (("nomod:q",), "1", 2, "there is no module 'nomod' in "),
        (("app:q", "--app-dir", "elsewhere"), "2", 2, "there is no module 'app' in "),
        (("broken:q",), "1", 1, "importing broken failed: SyntaxError: "),
        (("broken:q",), "2", 1, "importing broken failed: SyntaxError: "),
    ],
)
def test_a_wrong_start_stops_and_has_claimed_nothing(
    folder: Path, words: tuple[str, ...], code: int, problem: str, processes: str
) -> None:
    """Case 52: non-zero, with the cause told once."""
    (folder / "elsewhere").mkdir()
    with slotq.Queue(folder / "jobs.db") as q:
        job = q.enqueue("app.who", args=[1])
        done = qworker("run", *words, "--processes", processes, cwd=folder)
        assert (done.code, done.out) == (code, "")
        assert " ".join(done.err.split()).count(problem) == 1
        assert "Traceback" not in done.err
        assert (q.job(job.id).state, q.job(job.id).attempt, q.workers()) == ("waiting", 0, [])
