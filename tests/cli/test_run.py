"""``qworker run`` on small apps, in a process of its own."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import slotq
from support.commands import environment, qworker, started, until

APP = """
import pathlib
import time

import slotq

q = slotq.Queue("jobs.db")


@q.task
def double(number: int) -> int:
    return 2 * number


@q.task
async def triple(number: int) -> int:
    return 3 * number


@q.task
def note(text: str) -> None:
    with open("notes", "a") as notes:
        notes.write(text)


@q.task
def dawdle() -> str:
    pathlib.Path("began").touch()
    while not pathlib.Path("go").exists():
        time.sleep(0.005)
    return "whole"


if __name__ == "__main__":
    print(double.enqueue(21).id)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    return tmp_path


def test_sync_and_async_jobs_end_with_their_results(folder: Path) -> None:
    with slotq.Queue(folder / "jobs.db") as q:
        jobs = [q.enqueue("app.double", args=[4]), q.enqueue("app.triple", args=[5])]
        done = qworker("run", "app:q", "--burst", cwd=folder)
        assert done.code == 0, done.err
        assert [q.job(job.id).result for job in jobs] == [8, 15]


def test_it_says_in_one_line_what_it_serves(folder: Path) -> None:
    done = qworker("run", "app:q", "--burst", "--slots", "3", "--queue", "a", cwd=folder)
    serving, stopped = done.err.splitlines()
    pid = serving.partition("[")[2].partition("]")[0]
    assert pid.isdecimal()
    assert serving.endswith(
        f"INFO slotq.run[{pid}]: serving {folder / 'jobs.db'}: queues a, 3 slots, order fair,"
        " tasks app.dawdle, app.double, app.note, app.triple"
    )
    assert stopped.endswith(f"INFO slotq.run[{pid}]: stopped; nothing runs any more")
    assert done.out == ""


def test_a_long_list_of_tasks_is_cut_in_that_line(tmp_path: Path) -> None:
    code = "import slotq\nq = slotq.Queue('jobs.db')\n"
    code += "for n in range(12):\n    q.task(name=f'task-{n:02}')(print)\n"
    (tmp_path / "app.py").write_text(code, encoding="utf-8")
    done = qworker("run", "app:q", "--burst", cwd=tmp_path)
    assert "every queue, 8 slots, order fair, tasks task-00, " in done.err
    assert "task-07 and 4 more\n" in done.err


def test_a_queue_without_tasks_is_served_and_says_so(tmp_path: Path) -> None:
    code = "import slotq\nq = slotq.Queue('jobs.db')\n"
    (tmp_path / "app.py").write_text(code, encoding="utf-8")
    done = qworker("run", "app:q", "--burst", cwd=tmp_path)
    assert (done.code, "tasks none, so nothing will run" in done.err) == (0, True)


def test_only_the_named_queues_are_served(folder: Path) -> None:
    with slotq.Queue(folder / "jobs.db") as q:
        jobs = [q.enqueue("app.double", args=[1], queue=name) for name in ("a", "b", "c")]
        done = qworker("run", "app:q", "--burst", "--queue", "a", "--queue", "c", cwd=folder)
        assert done.code == 0, done.err
        assert [q.job(job.id).state for job in jobs] == ["succeeded", "waiting", "succeeded"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--order", "fifo"], "AAAB"),
        (["--fifo"], "AAAB"),
        (["--order", "round-robin"], "ABAA"),
        (["--round-robin"], "ABAA"),
        (["--round-robin", "--order", "round-robin"], "ABAA"),
    ],
)
def test_jobs_start_in_the_order_asked_for(folder: Path, words: list[str], expected: str) -> None:
    with slotq.Queue(folder / "jobs.db") as q:
        for key in "AAAB":
            q.enqueue("app.note", args=[key], key=key)
    done = qworker("run", "app:q", "--burst", "--slots", "1", *words, cwd=folder)
    assert done.code == 0, done.err
    assert (folder / "notes").read_text(encoding="utf-8") == expected


def test_a_script_that_enqueues_when_run_is_served_by_its_module_name(folder: Path) -> None:
    script = subprocess.run(
        [sys.executable, "app.py"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    done = qworker("run", "app:q", "--burst", cwd=folder)
    assert done.code == 0, done.err
    with slotq.Queue(folder / "jobs.db") as q:
        assert q.job(int(script.stdout)).result == 42
        assert q.stats().succeeded == 1


def test_modules_are_found_in_another_folder(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = qworker("run", "app:q", "--burst", "--app-dir", str(folder), cwd=elsewhere)
    assert done.code == 0, done.err
    assert (elsewhere / "jobs.db").exists()


def test_an_attribute_may_be_inside_another(folder: Path) -> None:
    (folder / "main.py").write_text("import app\n", encoding="utf-8")
    assert qworker("run", "main:app.q", "--burst", cwd=folder).code == 0


def test_db_may_name_the_file_that_the_app_has(folder: Path) -> None:
    (folder / "link").symlink_to(folder)
    done = qworker("run", "app:q", "--burst", "--db", "link/jobs.db", cwd=folder)
    assert done.code == 0, done.err


@pytest.mark.parametrize("words", [["--db", "a.db", "run"], ["run", "--db", "a.db"]])
def test_db_is_the_file_of_a_queue_without_a_path(tmp_path: Path, words: list[str]) -> None:
    code = "import slotq\nq = slotq.Queue()\n"
    (tmp_path / "app.py").write_text(code, encoding="utf-8")
    done = qworker(*words, "app:q", "--burst", cwd=tmp_path, env={"SLOTQ_DB": "b.db"})
    assert done.code == 0, done.err
    assert ((tmp_path / "a.db").exists(), (tmp_path / "b.db").exists()) == (True, False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_running_job_end_and_nothing_more_start(
    folder: Path, number: signal.Signals
) -> None:
    with slotq.Queue(folder / "jobs.db") as q:
        running = q.enqueue("app.dawdle")
        waiting = q.enqueue("app.double", args=[1])
        with started("run", "app:q", "--slots", "1", cwd=folder) as worker:
            until((folder / "began").exists, "the job has begun")
            worker.signal(number)
            until(lambda: "no new jobs" in worker.said, "the signal is noticed")
            assert not worker.has_ended
            (folder / "go").touch()
            assert worker.wait() == 0
        assert q.job(running.id).result == "whole"
        assert (q.job(waiting.id).state, q.job(waiting.id).attempt) == ("waiting", 0)
        assert q.workers() == []


def test_a_job_of_an_unknown_task_stays_and_the_others_end(folder: Path) -> None:
    with slotq.Queue(folder / "jobs.db") as q:
        unknown = q.enqueue("app.gone")
        known = q.enqueue("app.double", args=[1])
        done = qworker("run", "app:q", "--burst", cwd=folder)
        assert done.code == 0, done.err
        assert q.job(known.id).state == "succeeded"
        left = q.job(unknown.id)
        assert (left.state in {"scheduled", "waiting"}, left.attempt) == (True, 0)


def test_an_app_that_set_up_logging_keeps_it(folder: Path) -> None:
    code = "import logging\nlogging.basicConfig(format='mine: %(message)s')\nfrom app import q\n"
    (folder / "main.py").write_text(code, encoding="utf-8")
    done = qworker("run", "main:q", "--burst", cwd=folder)
    assert [line[:14] for line in done.err.splitlines()] == ["mine: serving ", "mine: stopped;"]
