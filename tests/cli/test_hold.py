"""``qworker hold``: slots for a command, and what it returns."""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import slotq
from support.commands import DEADLINE_S, QWORKER, Done, environment, qworker, until
from support.gates import CODE, Gated, gated
from support.procs import Process
from support.wrongly import wrongly

NO_LIMIT = "qworker: warning: key k has no limit, and without --max-running nothing is refused\n"


COMMAND = ("sh", "-c", "echo said; exit 7")


def hold(folder: Path, *words: str) -> Done:
    return qworker(
        "hold", *words, "--max-running", "1", "--db", "jobs.db", "--", *COMMAND, cwd=folder
    )


def test_the_command_has_the_slot_while_it_runs(tmp_path: Path) -> None:
    with slotq.Queue(tmp_path / "jobs.db") as q:
        q.set_limit("k", max_running=2)
        with gated("--slots", "2", "--ttl", "1m", folder=tmp_path) as command:
            pid = command.pid
            (info,) = q.holds()
            assert (info.key, info.slots, info.state, info.label) == ("k", 2, "held", "sh")
            assert info.holder.endswith(f":{command.qworker.pid}")
            assert info.expires_at is not None
            assert (info.expires_at - info.acquired_at).total_seconds() == 60
            assert os.getpgid(pid) == os.getpgid(command.qworker.pid) == os.getpgrp()
            assert command.end() == CODE
            assert q.holds() == []
            assert command.qworker.said == ""


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["true"], 0),
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "exit 128"], 128),
        (["sh", "-c", "kill -TERM $$"], 143),
        (["sh", "-c", "kill -KILL $$"], 137),
        (["--", "x"], 127),
    ],
)
def test_the_exit_code_is_the_commands(tmp_path: Path, command: list[str], code: int) -> None:
    words = ["hold", "k", "--max-running", "1", "--db", "jobs.db", "--", *command]
    assert qworker(*words, cwd=tmp_path).code == code
    with slotq.Queue(tmp_path / "jobs.db", create=False) as q:
        assert q.holds() == []


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("missing-command", 127, "missing-command: No such file or directory"),
        ("./folder/missing", 127, "./folder/missing: No such file or directory"),
        ("./plain", 126, "./plain: Permission denied"),
        ("./nonsense", 126, "./nonsense: Exec format error"),
        ("./plain/x", 126, "./plain/x: Not a directory"),
    ],
)
def test_a_command_that_cannot_be_run_gives_the_slot_back(
    tmp_path: Path, command: str, code: int, told: str
) -> None:
    (tmp_path / "plain").write_text("x")
    (tmp_path / "nonsense").write_bytes(b"\0\1\2\3")
    (tmp_path / "nonsense").chmod(0o755)
    words = ["hold", "k", "--max-running", "1", "--db", "jobs.db", "--", command]
    assert qworker(*words, cwd=tmp_path) == Done(code, "", f"qworker: {told}\n")
    with slotq.Queue(tmp_path / "jobs.db", create=False) as q:
        assert q.holds() == []


def test_a_full_key_is_refused_in_one_line(tmp_path: Path) -> None:
    with gated("--max-running", "1", "--ttl", "1m", folder=tmp_path) as first:
        assert first.pid
        done = hold(tmp_path, "k")
        assert (done.code, done.out) == (75, "")
        start, rest, end = done.err.partition(" s\n")[0].rpartition("in ")
        assert start == "qworker: key 'k' has all its slots in use: try again "
        assert rest
        assert 0 < float(end) <= 60
        assert hold(tmp_path, "k", "--wait", "0.05s").code == 75
        assert hold(tmp_path, "other") == Done(7, "said\n", "")
        assert first.end() == CODE
    assert hold(tmp_path, "k") == Done(7, "said\n", "")


@pytest.mark.parametrize(
    ("limit", "words", "code", "told"),
    [
        ({"max_starts": 1, "window": 60}, [], 75, "has no start left in its window: try again in"),
        ({"max_running": 1}, ["--slots", "2"], 2, "slots can be 1 at most: key 'k' never allows"),
    ],
)
def test_the_limits_of_the_key_count(
    tmp_path: Path, limit: dict[str, int], words: list[str], code: int, told: str
) -> None:
    with slotq.Queue(tmp_path / "jobs.db") as q:
        wrongly(q.set_limit)("k", **limit)
        with q.hold("k"):
            pass
    done = qworker("hold", "k", *words, "--db", "jobs.db", "--", *COMMAND, cwd=tmp_path)
    assert (done.code, done.out) == (code, "")
    assert told in done.err
    assert done.err.count("\n") == 1


def test_a_paused_key_is_refused(tmp_path: Path) -> None:
    with slotq.Queue(tmp_path / "jobs.db") as q:
        q.pause(key="k")
    assert hold(tmp_path, "k") == Done(75, "", "qworker: key 'k' is paused: try again in 60 s\n")


def test_who_waits_is_served_in_order_of_arrival(tmp_path: Path) -> None:
    words = ("--max-running", "1", "--wait")
    with slotq.Queue(tmp_path / "jobs.db") as q, ExitStack() as stack:
        started: list[Gated] = []
        for name, wait in (("a", "0"), ("b", "inf"), ("c", "60s")):
            command = stack.enter_context(gated(*words, wait, folder=tmp_path, name=name))
            started.append(command)
            until(lambda: len(q.holds()) == len(started), f"{name} is in the line")
        assert [info.state for info in q.holds()] == ["held", "waiting", "waiting"]
        last = started[2]
        for command in started:
            assert command.pid
            assert last.has_begun == (command is last)
            assert command.end() == CODE
        assert [command.qworker.said for command in started] == [""] * 3


def test_nobody_else_has_the_slot_meanwhile(tmp_path: Path) -> None:
    """A folder can be made by one at a time only."""
    script = 'mkdir taken && echo "$0" >> served && rmdir taken'
    words = ["hold", "k", "--max-running", "1", "--wait", "inf", "--db", "jobs.db", "--"]
    with ExitStack() as stack:
        commands = [
            stack.enter_context(
                subprocess.Popen(
                    [str(QWORKER), *words, "sh", "-c", script, str(number)],
                    cwd=tmp_path,
                    env=environment(),
                )
            )
            for number in range(6)
        ]
        assert [command.wait(DEADLINE_S) for command in commands] == [0] * 6
    served = (tmp_path / "served").read_text().split()
    assert sorted(served) == [str(number) for number in range(6)]


def test_a_key_without_any_limit_is_warned_of(tmp_path: Path) -> None:
    words = ["hold", "k", "--db", "jobs.db", "--", "true"]
    assert qworker(*words, cwd=tmp_path) == Done(0, "", NO_LIMIT)
    qworker("limits", "set", "k*", "--max-running", "3", "--db", "jobs.db", cwd=tmp_path)
    assert qworker(*words, cwd=tmp_path) == Done(0, "", "")
    assert hold(tmp_path, "other").err == ""


def test_input_and_output_are_the_commands(tmp_path: Path) -> None:
    words = [str(QWORKER), "hold", "k", "--max-running", "1", "--db", "jobs.db", "--", "cat"]
    done = subprocess.run(
        words, cwd=tmp_path, env=environment(), input=b"\0typed\n", capture_output=True, check=True
    )
    assert (done.stdout, done.stderr) == (b"\0typed\n", b"")


def test_what_a_shell_opens_for_the_command_stays_open(tmp_path: Path) -> None:
    script = f"""
{QWORKER} hold k --max-running 1 --db jobs.db -- cat <(echo one) <(echo two)
{QWORKER} hold k --max-running 1 --db jobs.db -- sh -c 'echo three >&5' 5>&1
"""
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment(), capture_output=True, check=True
    )
    assert (done.stdout, done.stderr) == (b"one\ntwo\nthree\n", b"")


def test_of_the_queue_the_command_inherits_the_lock_alone(tmp_path: Path) -> None:
    script = "import os\nfor fd in range(3, 100):\n  try: print(os.readlink(f'/proc/self/fd/{fd}'))"
    script += "\n  except OSError: pass"
    words = ["hold", "k", "--max-running", "1", "--db", "jobs.db", "--", sys.executable, "-c"]
    done = qworker(*words, script, cwd=tmp_path)
    ours = [line for line in done.out.splitlines() if line.startswith(str(tmp_path))]
    assert len(ours) == 1
    assert "alive-hold-" in ours[0]


@pytest.mark.parametrize(
    "key", ["a'b", "%", "-x", "--db", "../x", "🚀\u202e", "a\nb", "\x1b[31m", " ", "*", "k" * 1024]
)
def test_keys_are_taken_byte_for_byte(tmp_path: Path, key: str) -> None:
    words = ["hold", "--max-running", "1", "--db", "jobs.db", "--", key, "--"]
    with slotq.Queue(tmp_path / "jobs.db") as q:
        q.set_limit(slotq.literal(key), max_running=1)
        done = qworker(*words, "sh", "-c", "cat /dev/null; echo $0", "--", cwd=tmp_path)
        assert done == Done(0, "--\n", "")
        (found,) = q.keys()
        assert found.key == key
        with q.hold(key):
            done = qworker(*words, "true", cwd=tmp_path)
    assert done.code == 75
    assert done.err.count("\n") == 1
    assert done.err[:-1].isprintable()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["", "--", "true"], "key must be a key, not none"),
        (["k" * 1025, "--", "true"], "1,024"),
        (["k", "true"], "-- must stand between KEY"),
        (["k"], "-- must stand between KEY"),
        (["k", "sh", "--", "-c", "true"], "-- must stand between KEY"),
        (["k", "--"], "missing argument 'COMMAND...'"),
        (["--"], "missing argument 'KEY'"),
        (["k", "--", ""], "COMMAND"),
        (["k", "--ttl", "0", "--", "true"], "must be from 0.001s to 1d"),
        (["k", "--ttl", "25h", "--", "true"], "must be from 0.001s to 1d"),
        (["k", "--ttl", "inf", "--", "true"], "must be a time such as"),
        (["k", "--wait", "soon", "--", "true"], "inf is for ever"),
        (["k", "--wait", "-1", "--", "true"], "'-1' must be a time"),
        (["k", "--slots", "0", "--", "true"], "--slots"),
        (["k", "--slots", "1.5", "--", "true"], "--slots"),
        (["k", "--max-running", "0", "--", "true"], "--max-running"),
        (["k", "--slots", "2", "--max-running", "1", "--", "true"], "slots can be 1 at most"),
        (["k", "--label", "x" * 201, "--", "true"], "label"),
        (["k", "--lable", "x", "--", "true"], "--label"),
    ],
)
def test_what_cannot_be_taken_is_a_usage_error_in_one_line(
    tmp_path: Path, words: list[str], told: str
) -> None:
    done = qworker("hold", *words, cwd=tmp_path, env={"SLOTQ_DB": "jobs.db"})
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert told in done.err


def test_text_that_is_no_unicode_is_refused_but_in_the_command(tmp_path: Path) -> None:
    start = [os.fsencode(QWORKER), b"hold", b"--db", b"jobs.db", b"--max-running", b"1"]
    ends = ([b"\xff", b"--", b"true"], [b"k", b"--label", b"\xff", b"--", b"true"])
    for words in ends:
        done = subprocess.run(
            [*start, *words], cwd=tmp_path, env=environment(), capture_output=True, check=False
        )
        assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    script = tmp_path / os.fsdecode(b"\xff")
    script.write_text("#!/bin/sh\necho $1\n")
    script.chmod(0o755)
    words = [*start, b"k", b"--", b"./\xff", b"\xfe"]
    done = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"\xfe\n", b"")


def test_the_label_is_the_commands_name_or_what_is_given(tmp_path: Path) -> None:
    command = [str(QWORKER), "holds", "list", "--db", "jobs.db", "--json"]
    words = ["hold", "k", "--max-running", "1", "--db", "jobs.db"]
    assert '"label": "qworker"' in qworker(*words, "--", *command, cwd=tmp_path).out
    given = qworker(*words, "--label", "nightly dump", "--", *command, cwd=tmp_path).out
    assert '"label": "nightly dump"' in given


def test_the_file_is_named_before_or_after_and_made(tmp_path: Path) -> None:
    rest = ["k", "--max-running", "1", "--", "true"]
    assert qworker("--db", "before.db", "hold", *rest, cwd=tmp_path).code == 0
    assert qworker("hold", "--db", "after.db", *rest, cwd=tmp_path).code == 0
    assert qworker("hold", *rest, cwd=tmp_path, env={"SLOTQ_DB": "env.db"}).code == 0
    assert {path.name for path in tmp_path.glob("*.db")} == {"before.db", "after.db", "env.db"}
    assert qworker("hold", *rest, cwd=tmp_path).code == 2


def test_a_file_that_cannot_be_used_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "jobs.db").write_text("no database\n" * 100)
    done = qworker("hold", "k", "--db", "jobs.db", "--", "touch", "started", cwd=tmp_path)
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert not (tmp_path / "started").exists()


def test_jobs_and_commands_share_the_slots(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "import slotq\nq = slotq.Queue('jobs.db')\nq.task(name='t', key='k')(lambda: None)\n"
        "slotq.Worker(q).run()\n"
    )
    with slotq.Queue(tmp_path / "jobs.db") as q:
        q.set_limit("k", max_running=1)
        with gated("--wait", "inf", folder=tmp_path) as command:
            assert command.pid
            job = q.enqueue("t", key="k")
            with Process(["app.py"], tmp_path / "worker.txt"):
                until(lambda: len(q.workers()) == 1, "a worker serves")
                assert [reason.kind for reason in q.why(job.id)] == ["slots"]
                assert command.end() == CODE
                job.wait(timeout=DEADLINE_S)
