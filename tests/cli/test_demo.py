"""``qworker demo`` from end to end, with few jobs."""

import os
import pty
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

import slotq
from support.commands import QWORKER, environment, qworker, started, until

# Few enough to be quick, enough that the largest tenant reaches its limit.
SMALL = ("demo", "--jobs", "120", "--slots", "8")
# More than can be done before a test has acted.
LARGE = ("demo", "--jobs", "20000", "--slots", "4")

pytestmark = pytest.mark.slow


def temporary(folder: Path) -> dict[str, str]:
    """Let the demo make its temporary folder in this one."""
    made = folder / "temporary"
    made.mkdir()
    return {"TMPDIR": str(made)}


def left(folder: Path) -> list[Path]:
    return list((folder / "temporary").iterdir())


def test_in_a_pipe_the_demo_shows_lines_a_table_and_its_verdict(tmp_path: Path) -> None:
    done = qworker(*SMALL, cwd=tmp_path, env=temporary(tmp_path))
    lines = done.out.splitlines()
    assert (done.code, done.err) == (0, "")
    assert re.match(
        r"slotq demo: 120 jobs of \d+ tenants, 2 workers of 8 slots, order fair", done.out
    )
    assert [line for line in lines if re.search(r" s  120 of 120 done   0 running  \(", line)]
    assert "tenant" in lines[lines.index("") - 14]
    assert re.match(r"and \d+ more +\d+  3 each +[123] ", lines[lines.index("") - 1])
    assert re.match(
        r"every limit held: [1-9]\d* of \d+ tenants reached theirs, none went above it$", lines[-1]
    )
    assert "\x1b" not in done.out
    assert left(tmp_path) == []


def test_the_order_reaches_the_workers_and_the_file_can_be_kept(tmp_path: Path) -> None:
    done = qworker(*SMALL, "--fifo", "--db", "kept.db", "--workers", "1", cwd=tmp_path)
    assert done.code == 0, done.out
    assert "1 worker of 8 slots, order fifo" in done.out
    assert done.out.splitlines()[-1] == f"the queue file is kept: {tmp_path / 'kept.db'}"
    assert ": every queue, 8 slots, order fifo, tasks demo.pack" in (
        (tmp_path / "kept.db.worker-1.log").read_text(encoding="utf-8")
    )
    with slotq.Queue(tmp_path / "kept.db", create=False) as q:
        assert q.stats().succeeded == 120
        assert {(limit.max_running, limit.max_starts is None) for limit in q.limits()} == {
            (3, True),
            (3, False),
        }


def test_a_file_that_is_there_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / "jobs.db").write_text("mine", encoding="utf-8")
    done = qworker(*SMALL, "--db", "jobs.db", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err == "qworker: --db must be a new file: there is one at jobs.db already\n"
    assert (tmp_path / "jobs.db").read_text(encoding="utf-8") == "mine"


def test_a_folder_that_is_missing_is_told_in_one_line(tmp_path: Path) -> None:
    done = qworker(*SMALL, "--db", "nowhere/jobs.db", cwd=tmp_path)
    assert done.code == 1
    assert (
        done.err == f"qworker: {tmp_path}/nowhere/jobs.db: there is no folder {tmp_path}/nowhere\n"
    )


@pytest.mark.parametrize(
    "words", [["--jobs", "9"], ["--workers", "0"], ["--slots", "0"], ["--fair", "--fifo"]]
)
def test_bad_options_are_usage_errors(tmp_path: Path, words: list[str]) -> None:
    done = qworker("demo", *words, cwd=tmp_path)
    assert (done.code, done.out) == (2, "")


def serving(path: Path) -> list[int]:
    """The processes that work on a file, as far as there is a file."""
    if not path.exists():
        return []
    try:
        with slotq.Queue(path, create=False) as q:
            return [worker.pid for worker in q.workers()]
    except slotq.StoreError:
        return []  # it is being made


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_worker_that_dies_fails_the_demo(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    with started(*LARGE, "--db", str(path), cwd=tmp_path) as demo:
        until(lambda: len(serving(path)) == 2, "both workers are there")
        one, other = serving(path)
        os.kill(one, signal.SIGKILL)
        assert demo.wait() == 1
        until(lambda: not is_alive(other), "the other worker is gone")
        assert re.search(
            rf"the demo failed: worker [12] \(process {one}\) was ended by signal 9: ", demo.said
        )
        assert "every limit held" not in demo.said


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_demo_and_its_workers(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    path = tmp_path / "jobs.db"
    with started(*LARGE, "--db", str(path), cwd=tmp_path) as demo:
        until(lambda: len(serving(path)) == 2, "both workers are there")
        pids = serving(path)
        demo.signal(number)
        assert demo.wait() == code
        assert not [pid for pid in pids if is_alive(pid)]
        assert "Traceback" not in demo.said
        assert ("stopped; its workers have left" in demo.said) is (number == signal.SIGINT)
    with slotq.Queue(path, create=False) as q:
        assert (q.stats().running, q.workers()) == (0, [])


def on_a_terminal(*words: str, cwd: Path, env: Mapping[str, str]) -> tuple[int, str]:
    """Run a command on a terminal of 80 by 24; return how it ended and all it wrote."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [str(QWORKER), *words],
        cwd=cwd,
        env=environment({"TERM": "xterm", "COLUMNS": "80", "LINES": "24", **env}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    wrote = bytearray()
    try:
        while block := os.read(ours, 65_536):
            wrote += block
    except OSError:
        pass  # how Linux says that nobody has the other end any more
    os.close(ours)
    return process.wait(), wrote.decode()


def test_on_a_terminal_the_demo_draws_and_leaves_it_tidy(tmp_path: Path) -> None:
    env = temporary(tmp_path) | {"NO_COLOR": "1"}
    code, wrote = on_a_terminal(*SMALL, cwd=tmp_path, env=env)
    assert code == 0, wrote
    assert {"●", "○", "━"} <= set(wrote)
    assert wrote.rindex("\x1b[?25h") > wrote.rindex("\x1b[?25l")  # the cursor is shown again
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", wrote)  # NO_COLOR
    assert "every limit held" in wrote
