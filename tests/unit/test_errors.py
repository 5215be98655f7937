import copy
import pickle
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slotq import Limit, errors
from slotq.errors import (
    EditConflict,
    FileReplaced,
    HoldExpired,
    InvalidValue,
    JobCancelled,
    JobFailed,
    JobNotFound,
    LimitExceeded,
    NotAQueue,
    QueueBusy,
    SchemaTooNew,
    SlotqError,
    StoreError,
    shown,
)

PATH = Path("/data/jobs.db")
LIMIT = Limit(
    key="k", queue=None, name="", max_running=3, max_starts=None, window=None, timezone=None,
    version=3, updated_at=datetime(2026, 1, 1, tzinfo=UTC), updated_by="ann@x", declared=False,
)  # fmt: skip

SAMPLES: list[tuple[SlotqError, str, dict[str, object]]] = [
    (
        InvalidValue(name="priority", problem="must be an integer from 1 to 5", value=7),
        "priority must be an integer from 1 to 5, not 7",
        {"name": "priority", "problem": "must be an integer from 1 to 5", "shown": "7"},
    ),
    (
        InvalidValue(name="max_running", problem="needs a key"),
        "max_running needs a key",
        {"name": "max_running", "problem": "needs a key", "shown": None},
    ),
    (JobNotFound(job_id=7), "job 7 does not exist", {"job_id": 7}),
    (
        EditConflict(limit=None, if_version=7),
        "the edit was meant for version 7, but there is none now: look again",
        {"limit": None, "if_version": 7},
    ),
    (
        EditConflict(limit=LIMIT, if_version=0),
        "the edit was meant for no limit, but it has version 3 now, by ann@x: look again",
        {"limit": LIMIT, "if_version": 0},
    ),
    (
        JobFailed(job_id=7, error="ValueError: no\nmore", traceback="Traceback ..."),
        "job 7 failed: ValueError: no more",
        {"job_id": 7, "error": "ValueError: no\nmore", "traceback": "Traceback ..."},
    ),
    (JobCancelled(job_id=7), "job 7 was cancelled", {"job_id": 7}),
    (
        LimitExceeded(key="a\nb", reason="max_running", limit=LIMIT, retry_after=1.5),
        "key 'a\\nb' has all its slots in use: try again in 1.5 s",
        {
            "key": "a\nb",
            "reason": "max_running",
            "limit": LIMIT,
            "retry_after": 1.5,
            "is_own": False,
        },
    ),
    (
        LimitExceeded(key="k", reason="max_starts", limit=None, retry_after=9.0, is_own=True),
        "key 'k' has no start left in its window: the job that asks has them itself",
        {
            "key": "k",
            "reason": "max_starts",
            "limit": None,
            "retry_after": 9.0,
            "is_own": True,
        },
    ),
    (
        HoldExpired(key="k", hold_id=7),
        "hold 7 of key 'k' has ended: its slots may be others' by now",
        {"key": "k", "hold_id": 7},
    ),
    (
        QueueBusy(path=PATH, waited_s=5.04),
        "/data/jobs.db: still locked by others after 5.0 s",
        {"path": "/data/jobs.db", "waited_s": 5.04, "hint": ""},
    ),
    (
        QueueBusy(path=PATH, waited_s=0, hint="begin it with BEGIN IMMEDIATE"),
        "/data/jobs.db: begin it with BEGIN IMMEDIATE",
        {"path": "/data/jobs.db", "waited_s": 0, "hint": "begin it with BEGIN IMMEDIATE"},
    ),
    (
        StoreError(path=PATH, reason="disk is full"),
        "/data/jobs.db: disk is full",
        {"path": "/data/jobs.db", "reason": "disk is full"},
    ),
    (
        NotAQueue(path=PATH, reason="it is not a database"),
        "/data/jobs.db: it is not a database",
        {"path": "/data/jobs.db", "reason": "it is not a database"},
    ),
    (
        SchemaTooNew(path=PATH, found=9, known=2),
        "/data/jobs.db: its schema version is 9, this slotq knows up to 2: upgrade slotq",
        {"path": "/data/jobs.db", "found": 9, "known": 2},
    ),
    (
        FileReplaced(path=PATH),
        "/data/jobs.db: it was deleted or replaced while it was open",
        {"path": "/data/jobs.db"},
    ),
]

every_error = pytest.mark.parametrize(
    ("error", "line", "data"), SAMPLES, ids=[line for _, line, _ in SAMPLES]
)


def all_kinds(kind: type[SlotqError]) -> set[type[SlotqError]]:
    return {kind}.union(*(all_kinds(child) for child in kind.__subclasses__()))


def test_every_error_has_a_sample_here() -> None:
    kinds = {kind for kind in all_kinds(SlotqError) if kind.__module__ == errors.__name__}
    assert kinds - {type(error) for error, _, _ in SAMPLES} == {SlotqError}


def test_tree_in_the_docstring_is_the_hierarchy() -> None:
    drawn: list[str] = []

    def draw(kind: type[SlotqError], indent: str) -> None:
        children = sorted(kind.__subclasses__(), key=lambda child: child.__name__)
        children = [child for child in children if child.__module__ == errors.__name__]
        for child in children:
            is_last = child is children[-1]
            also = " (also a ValueError)" if issubclass(child, ValueError) else ""
            drawn.append(f"{indent}{'└── ' if is_last else '├── '}{child.__name__}{also}")
            draw(child, indent + ("    " if is_last else "│   "))

    draw(SlotqError, "")
    assert "\n".join(["SlotqError", *drawn]) in (errors.__doc__ or "")


@every_error
def test_error_says_one_line_and_carries_data(
    error: SlotqError, line: str, data: dict[str, object]
) -> None:
    assert str(error) == line
    assert {name: getattr(error, name) for name in data} == data


@every_error
def test_error_arrives_whole_when_copied_or_pickled(
    error: SlotqError, line: str, data: dict[str, object]
) -> None:
    for twin in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is type(error)
        assert str(twin) == line
        assert vars(twin) == vars(error)


def test_notes_survive_pickling() -> None:
    error = JobNotFound(job_id=7)
    error.add_note("looked twice")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["looked twice"]


def test_invalid_value_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="max_running needs a key"):
        raise InvalidValue(name="max_running", problem="needs a key")


def test_foreign_texts_stay_on_one_printable_line() -> None:
    for text in ("a\nb", "a\r\n\tb", "x" * 5_000_000, "\x1b[31m\0\ud800\x07"):
        for error in (
            JobFailed(job_id=1, error=text),
            StoreError(path="dir/" + text, reason=text),
            InvalidValue(name=text, problem=text, value=text),
        ):
            assert str(error).isprintable()
            assert len(str(error)) < 1_200


def broken_repr(self: object) -> str:
    raise RuntimeError


def chatty_repr(self: object) -> str:
    return "<chatty\nover lines>"


class Broken:
    __repr__ = broken_repr


class Chatty:
    __repr__ = chatty_repr


class LikeAList:
    """Named like a builtin below: reprlib goes by the name of a type."""


LikeAList.__name__ = "list"


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


SHOWN: list[tuple[object, str]] = [
    (7, "7"),
    ("a'b", '"a\'b"'),
    ("a\nb", r"'a\nb'"),
    ("\ud800", r"'\ud800'"),
    (b"\0", r"b'\x00'"),
    (None, "None"),
    (Chatty(), "<chatty over lines>"),
    (10**5_000, "an integer of 16,610 bits"),
    (-(10**5_000), "an integer of 16,610 bits"),
    ("x" * 500, "'" + "x" * 76 + "..."),
    ("é" * 76, "'" + "é" * 76 + "'"),
]


def test_shown_values() -> None:
    assert [shown(value) for value, _ in SHOWN] == [line for _, line in SHOWN]


def test_shown_is_short_and_printable_for_anything() -> None:
    values: list[object] = [
        Broken(),
        LikeAList(),
        "x" * 50_000_000,
        b"x" * 50_000_000,
        bytearray(50_000_000),
        list(range(1_000_000)),
        dict.fromkeys(range(1_000_000)),
        nested(100_000),
        [Broken()] * 3,
        float("nan"),
        2**255,
        object(),
    ]
    for line in map(shown, values):
        assert 1 <= len(line) <= errors.SHOWN_CHARACTERS
        assert line.isprintable()
