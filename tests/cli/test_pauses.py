"""``qworker keys`` and ``queues``: pause and resume."""

from pathlib import Path

import pytest

import slotq
from support.commands import Done, qworker


def told(folder: Path, *words: str) -> Done:
    return qworker(*words, "--db", "jobs.db", cwd=folder)


def test_a_key_is_paused_and_resumed(tmp_path: Path) -> None:
    with slotq.Queue(tmp_path / "jobs.db") as q:
        assert told(tmp_path, "keys", "pause", "k") == Done(0, "key k paused\n", "")
        assert q.key("k").paused
        assert told(tmp_path, "keys", "pause", "k") == Done(0, "key k was paused already\n", "")
        assert told(tmp_path, "keys", "resume", "k") == Done(0, "key k resumed\n", "")
        assert not q.key("k").paused
        assert told(tmp_path, "keys", "resume", "k") == Done(0, "key k was not paused\n", "")
        assert {event.by.split("@")[1] for event in q.events()} == {"qworker"}


def test_a_queue_is_paused_and_resumed(tmp_path: Path) -> None:
    with slotq.Queue(tmp_path / "jobs.db") as q:
        assert told(tmp_path, "queues", "pause", "slow") == Done(0, "queue slow paused\n", "")
        assert [info.paused for info in q.queues()] == [True]
        assert told(tmp_path, "queues", "pause", "slow").out == "queue slow was paused already\n"
        assert told(tmp_path, "queues", "resume", "slow") == Done(0, "queue slow resumed\n", "")
        assert [info.paused for info in q.queues()] == [False]
        assert told(tmp_path, "queues", "resume", "no").out == "queue no was not paused\n"
        assert [info.name for info in q.queues()] == ["slow"]


@pytest.mark.parametrize("kind", ["keys", "queues"])
def test_a_pause_makes_a_file_and_a_resume_does_not(tmp_path: Path, kind: str) -> None:
    done = told(tmp_path, kind, "resume", "x")
    assert (done.code, done.out) == (1, "")
    assert "there is no such file" in done.err
    assert not (tmp_path / "jobs.db").exists()
    assert told(tmp_path, kind, "pause", "x").code == 0
    assert (tmp_path / "jobs.db").exists()


def test_a_star_is_warned_of_since_it_pauses_one_key(tmp_path: Path) -> None:
    done = told(tmp_path, "keys", "pause", "tenant:*")
    assert done.out == "key tenant:* paused\n"
    assert done.err == (
        "qworker: warning: a pause takes one key as it is, and * is not a pattern here\n"
    )


def test_what_is_paused_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    done = told(tmp_path, "keys", "pause", "a\x1b[31m\nb")
    assert done.out == "key a\\x1b[31m\\nb paused\n"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["keys", "pause", ""], "key must be a key, not none"),
        (["queues", "pause", ""], "queue must have 1 to 200 characters"),
        (["keys", "pause"], "missing argument 'KEY'"),
        (["queues", "resume"], "missing argument 'QUEUE'"),
        (["pause", "k"], "Did you mean 'keys pause' or 'queues pause'?"),
    ],
)
def test_a_wrong_call_is_a_usage_error(tmp_path: Path, words: list[str], problem: str) -> None:
    done = told(tmp_path, *words)
    assert (done.code, done.out) == (2, "")
    assert problem in done.err
    assert done.err.count("\n") == 1
