"""``qworker run`` replaces its processes: --max-jobs and --max-memory."""

import signal
from collections import Counter
from pathlib import Path

import pytest

import slotq
from slotq_app.cli.recycling import resident_bytes
from slotq_app.cli.sizes import size
from support.commands import qworker, until
from support.fleet import began, children_of, descriptors_of, fleet, lines, state_of, write_app

MIB = 1024**2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_app(tmp_path)


def enqueue(q: slotq.Queue, count: int) -> None:
    for number in range(count):
        q.enqueue("app.who", args=[number])


def test_each_process_runs_exactly_so_many_jobs(folder: Path) -> None:
    with slotq.Queue(folder / "jobs.db") as q:
        enqueue(q, 10)
        words = ("--max-jobs", "3", "--burst")
        done = qworker("run", "app:q", *words, cwd=folder)
        assert done.code == 0, done.err
        assert q.stats().succeeded == 10
        assert {job.attempt for job in q.jobs()} == {1}
    ran = Counter(line.split()[1] for line in lines(folder / "ran"))
    assert sorted(ran.values()) == [1, 3, 3, 3]
    assert done.err.count("is replaced by another") == 3
    assert "died" not in done.err


def test_a_burst_ends_though_its_last_process_was_replaced(folder: Path) -> None:
    with slotq.Queue(folder / "jobs.db") as q:
        enqueue(q, 4)
        words = ("--max-jobs", "2", "--burst", "--processes", "2")
        done = qworker("run", "app:q", *words, cwd=folder)
        assert done.code == 0, done.err
        assert q.stats().succeeded == 4


def test_a_process_that_is_replaced_lets_its_jobs_end_first(folder: Path) -> None:
    with slotq.Queue(folder / "jobs.db") as q:
        jobs = [q.enqueue("app.dawdle", args=[name]) for name in ("one", "two", "three")]
        with fleet("--max-jobs", "2", "--slots", "3", cwd=folder) as parent:
            until(lambda: len(began(folder)) == 2, "two jobs have begun")
            (first,) = children_of(parent.pid)
            (folder / "go").touch()
            until(lambda: q.stats().succeeded == 3, "all have ended")
            before = began(folder)
            assert {name for name, pid in before.items() if pid == first} == {"one", "two"}
            assert before["three"] != first
            assert {q.job(job.id).attempt for job in jobs} == {1}


def test_many_replacements_are_no_deaths_and_leave_nothing_behind(folder: Path) -> None:
    with slotq.Queue(folder / "jobs.db") as q:
        with fleet("--max-jobs", "1", cwd=folder, serving=1) as parent:
            before = descriptors_of(parent.pid)
            enqueue(q, 6)
            until(lambda: parent.said.count(" serving ") == 7, "the seventh process serves")
            assert descriptors_of(parent.pid) == before
            assert [state_of(pid) for pid in children_of(parent.pid)].count("Z") == 0
            assert len(children_of(parent.pid)) == 1
            parent.signal(signal.SIGTERM)
            assert parent.wait() == 0
        assert q.stats().succeeded == 6
    assert len({line.split()[1] for line in lines(folder / "ran")}) == 6


def test_a_process_that_has_grown_too_large_is_replaced(folder: Path) -> None:
    with slotq.Queue(folder / "jobs.db") as q:
        swell = q.enqueue("app.swell", args=[300 * MIB])
        with fleet("--max-memory", "200M", cwd=folder) as parent:
            until(lambda: "is replaced by another" in parent.said, "the process is replaced")
            until(lambda: parent.said.count(" serving ") == 2, "another serves")
            after = q.enqueue("app.who", args=[1])
            until(lambda: q.job(after.id).state == "succeeded", "it runs jobs")
            assert "more than 200M: leaves when its jobs have ended" in parent.said
            assert "died" not in parent.said
        assert (q.job(swell.id).state, q.job(swell.id).attempt) == ("succeeded", 1)


def test_less_memory_than_the_app_takes_is_refused_once(folder: Path) -> None:
    """Else its processes would be replaced for ever."""
    words = ("--processes", "2", "--max-memory", "5M")
    done = qworker("run", "app:q", *words, cwd=folder)
    (line,) = done.err.splitlines()
    assert done.code == 1
    assert line.startswith("qworker: --max-memory 5M is too little: the app takes ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1),
        ("300M", 300 * MIB),
        ("300 MB", 300 * MIB),
        ("300MiB", 300 * MIB),
        ("512k", 512 * 1024),
        ("1.5g", 1536 * MIB),
        (" 2T ", 2 * 1024**2 * MIB),
    ],
)
def test_sizes_are_read(text: str, expected: int) -> None:
    assert size(text, of="--max-memory") == expected


def test_memory_is_told_about_alike_where_the_kernel_tells_only_the_most(tmp_path: Path) -> None:
    ballast = b"x" * (100 * MIB)
    now, most = resident_bytes(), resident_bytes(tmp_path / "not there")
    assert len(ballast) < now <= most * 1.1
    assert most < 100 * now
