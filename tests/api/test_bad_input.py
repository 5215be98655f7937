"""Whatever comes in: the same clear error everywhere, nothing stored, and the queue works on."""

import contextlib
import functools
import math
from collections.abc import Callable, Generator, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slotq
from slotq import HoldExpired, InvalidValue, JobNotFound, LimitExceeded, Queue, Worker
from slotq.testing import ManualClock
from support.wrongly import wrongly

CYCLE: dict[str, object] = {}
CYCLE["self"] = CYCLE

NUMBERS: list[object] = [
    0, -1, 1.5, 1.0, "3", True, False, None, 10**12, 10**400, math.nan, math.inf, -math.inf, b"1",
    [1], {}, (), object(), timedelta.max, timedelta.min, datetime.max.replace(tzinfo=UTC), int,
]  # fmt: skip
KEYS: list[object] = [
    "", " ", "a'b", 'a"; DROP TABLE slotq_jobs;--', "%", "_", "a-b", "../x", "a\0b", "\ud800",
    "🚀👨‍👩‍👧", "\u202eabc", "a\nb", "\x1b[31m", "k" * 10_000, "k" * 1_000_000, b"bytes", 7, None,
    True, [], {}, object(), "*", "\\*", "\\", "[a", "tenant:{tenant}", "é", "e\u0301", "A", "a",
]  # fmt: skip
ALLOWED_KEYS = [
    key
    for key in KEYS
    if isinstance(key, str) and 0 < len(key) <= 1_024 and "\0" not in key and key != "\ud800"
]


def echo(value: object) -> object:
    return value


def calls(queue: Queue) -> dict[str, Callable[[object], object]]:
    """Return every place of the public API that takes a value, by name."""
    task = queue.tasks.get("echo") or queue.task(name="echo")(echo)
    names = (
        "queue", "key", "max_running", "priority", "delay", "run_at", "expires", "max_attempts",
        "timeout", "dedupe", "store_result", "connection",
    )  # fmt: skip

    def option(name: str, value: object) -> object:
        return wrongly(queue.enqueue)("echo", args=[0], **{name: value})

    def task_option(name: str, value: object) -> object:
        return wrongly(wrongly(task.options)(**{name: value}).enqueue)(0)

    def worker(name: str, value: object) -> object:
        return wrongly(Worker)(queue, **{name: value})

    def named(verb: Callable[..., object], name: str, value: object) -> object:
        return verb(**{name: value})

    def limit(name: str, value: object) -> object:
        whole: dict[str, object] = {"max_running": 1, "max_starts": 1, "window": 1}
        return wrongly(queue.set_limit)("k", **{**whole, name: value})

    def opened(name: str, value: object) -> object:
        path = queue.path.with_name("other.db")
        return wrongly(Queue)(**{"path": path, "create": False, name: value})

    def declared(name: str, value: object) -> object:
        return wrongly(wrongly(queue.task)(**{name: value}))(echo)

    def ended(name: str, value: object) -> object:
        return wrongly(queue.ended)(**{"since": datetime(2026, 1, 1, tzinfo=UTC), name: value})

    def many(verb: Callable[..., object], value: object) -> object:
        return verb([value])

    made: dict[str, Callable[[object], object]] = {}
    for name in names:
        made[f"enqueue {name}"] = functools.partial(option, name)
        made[f"options {name}"] = functools.partial(task_option, name)
        if name != "connection":
            made[f"task {name}"] = functools.partial(declared, name)
    made["task name"] = functools.partial(declared, "name")
    made["enqueue task"] = wrongly(queue.enqueue)
    made["enqueue args"] = lambda value: wrongly(queue.enqueue)("t", args=value)
    made["enqueue kwargs"] = lambda value: wrongly(queue.enqueue)("t", kwargs=value)
    made["enqueue argument"] = wrongly(task.enqueue)
    made["enqueue_many calls"] = wrongly(task.enqueue_many)
    made["enqueue_many item"] = lambda value: wrongly(task.enqueue_many)([value])
    for name in ("max_running", "max_starts", "window", "timezone", "name", "updated_by"):
        made[f"set_limit {name}"] = functools.partial(limit, name)
    made["set_limit key"] = lambda value: wrongly(queue.set_limit)(value, max_running=1)
    made["clear_limit key"] = wrongly(queue.clear_limit)
    made["set_limit queue"] = lambda value: wrongly(queue.set_limit)(queue=value, max_running=1)
    made["clear_limit queue"] = lambda value: wrongly(queue.clear_limit)(queue=value)
    made["clear_limit name"] = lambda value: wrongly(queue.clear_limit)("k", name=value)
    for bulk in (queue.cancel_many, queue.retry_many, queue.delete_many):
        made[bulk.__name__] = wrongly(bulk)
        made[f"{bulk.__name__} item"] = functools.partial(many, wrongly(bulk))
    for name in ("since", "state", "key", "queue", "task", "limit", "after"):
        made[f"ended {name}"] = functools.partial(ended, name)
    for verb in (queue.job, queue.cancel, queue.retry, queue.delete, queue.key, queue.why):
        made[verb.__name__] = wrongly(verb)
    for name in ("state", "key", "queue", "task", "limit", "after"):
        made[f"jobs {name}"] = functools.partial(named, wrongly(queue.jobs), name)
    for name in ("sort", "limit"):
        made[f"keys {name}"] = functools.partial(named, wrongly(queue.keys), name)
    made["prune older_than"] = functools.partial(named, wrongly(queue.prune), "older_than")
    for name in ("slots", "queues", "order", "lease", "burst"):
        made[f"Worker {name}"] = functools.partial(worker, name)
    made["Worker queue"] = wrongly(Worker)
    for name in (
        "path", "durable", "create", "clock", "max_payload", "lock_timeout", "keep_finished",
    ):  # fmt: skip
        made[f"Queue {name}"] = functools.partial(opened, name)
    made["wait timeout"] = lambda value: wrongly(queue.wait_for)(10**9, timeout=value)
    made["literal"] = wrongly(slotq.literal)
    made["key kind"] = lambda value: wrongly(slotq.key)(value, 1)
    made["key id"] = lambda value: wrongly(slotq.key)("w", value)
    made["key action"] = lambda value: wrongly(slotq.key)("w", 1, action=value)
    return made | calls_for_holds(queue)


def calls_for_holds(queue: Queue) -> dict[str, Callable[[object], object]]:
    """Return the places of the verbs of holds that take a value."""
    queue.hold("h").acquire().release()  # from now on the file knows its key

    def hold(name: str, value: object) -> None:
        with wrongly(queue.hold)(**{"key": "h", name: value}):
            assert queue.holds(limit=1_000_000)

    def extend(value: object) -> None:
        with queue.hold("h") as taken:
            wrongly(taken.extend)(value)

    def listed(name: str, value: object) -> object:
        return wrongly(queue.holds)(**{name: value})

    def taken_back(value: object) -> object:
        return wrongly(queue.release_hold)(10**9, updated_by=value)

    made: dict[str, Callable[[object], object]] = {}
    for name in ("key", "ttl", "wait", "slots", "max_running", "label", "connection"):
        made[f"hold {name}"] = functools.partial(hold, name)
    for name in ("key", "limit", "after"):
        made[f"holds {name}"] = functools.partial(listed, name)
    made["extend seconds"] = extend
    made["release_hold"] = wrongly(queue.release_hold)
    made["release_hold updated_by"] = taken_back
    return made


def attempt(call: Callable[[object], object], value: object) -> bool:
    """Call; return whether it was let through."""
    refused: InvalidValue | None = None
    try:
        call(value)
    except InvalidValue as error:
        refused = error
    except (HoldExpired, JobNotFound, TimeoutError):
        pass
    if refused is not None:
        text = str(refused)
        assert isinstance(refused, ValueError)
        assert slotq.visible(text) == text
        assert len(text) < 1_200
    return refused is None


@contextlib.contextmanager
def nothing_is_stored(queue: Queue) -> Generator[Callable[[bool], None]]:
    """Check that a refused call stored nothing; call what it yields with the answer."""
    before = queue.stats()
    answers: list[bool] = []
    yield answers.append
    if not all(answers):
        after = queue.stats()
        counts = ("scheduled", "waiting", "running", "cancelled", "limits", "keys", "queues")
        assert [getattr(after, name) for name in counts] == [
            getattr(before, name) for name in counts
        ]


@pytest.fixture
def works(queue: Queue) -> Iterator[Queue]:
    """The queue; it must still work at the end."""
    queue.task(name="echo")(echo)
    yield queue
    queue.tasks["echo"].options(priority=1_000_000, key=None).enqueue("still here")
    (job,) = [job for job in queue.jobs(task="echo", limit=1_000_000) if job.priority == 1_000_000]
    # Jobs that were let through may have any run_at; only this one is waited for.
    Worker(queue, burst=True, lease=3_600).run()
    assert job.wait(timeout=0) == "still here"


def test_every_place_answers_bad_values_in_one_way(works: Queue) -> None:
    """Field cases 42 and 44: numbers and texts of every odd kind, into every argument."""
    for name, call in calls(works).items():
        for value in [*NUMBERS, *KEYS, CYCLE, {1: "a", "1": "b"}]:
            if name == "wait timeout" and isinstance(value, int | float) and value >= 0:
                continue  # that would wait
            with nothing_is_stored(works) as told:
                told(attempt(call, value))


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
    | st.datetimes() | st.datetimes(timezones=st.just(UTC)) | st.timedeltas()
    | st.from_type(type) | st.complex_numbers() | st.decimals(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner)
    | st.tuples(inner, inner) | st.frozensets(st.integers()),
    max_leaves=6,
)  # fmt: skip


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queue]:
    with Queue(tmp_path_factory.mktemp("any") / "jobs.db", clock=ManualClock()) as queue:
        queue.stats()
        yield queue


@given(data=st.data(), value=anything)
def test_nothing_gets_past_with_another_error(
    shared: Queue, data: st.DataObject, value: object
) -> None:
    places = calls(shared)
    for name in data.draw(st.lists(st.sampled_from(sorted(places)), min_size=5, max_size=5)):
        with nothing_is_stored(shared) as told:
            told(attempt(places[name], value))
    assert shared.enqueue("t").state == "waiting"


@pytest.mark.parametrize("key", ALLOWED_KEYS, ids=ascii)
def test_an_odd_key_comes_back_byte_for_byte(works: Queue, key: str) -> None:
    """Field case 44: an allowed key is the same everywhere, and its limit holds."""
    task = works.tasks["echo"]
    other = key + "x"
    by_option = task.options(key=key).enqueue(1)
    by_template = works.task(name="t", key="{value}")(echo).enqueue(key)
    by_name = works.enqueue("echo", args=[1], key=key)
    task.options(key=other).enqueue(1)
    assert [job.key for job in (by_option, by_template, by_name)] == [key] * 3
    assert [job.id for job in works.jobs(key=key)] == [by_option.id, by_template.id, by_name.id]
    limit = works.set_limit(slotq.literal(key), max_running=1)
    assert limit.key is not None
    assert works.key(key).max_running == 1
    assert works.key(other).max_running is None
    assert works.key(key).key == key
    assert works.key(key).waiting == 3
    assert key in {found.key for found in works.keys(sort="key")}
    with works.hold(key), pytest.raises(LimitExceeded) as caught:
        assert [info.key for info in works.holds(key=key)] == [key]
        works.hold(key).acquire()
    assert (caught.value.key, caught.value.limit) == (key, limit)
    works.hold(other).acquire().release()
    assert works.clear_limit(limit.key) == 1
    assert works.cancel(by_option.id)


def test_an_odd_key_is_refused_alike_by_every_verb(queue: Queue) -> None:
    """Field case 44: what one entry point refuses, every other refuses too."""
    queue.task(name="echo")(echo)
    verbs = (
        "enqueue key", "options key", "jobs key", "key", "set_limit key", "clear_limit key",
        "hold key", "holds key",
    )  # fmt: skip
    for value in KEYS:
        places = calls(queue)
        answers = {name: attempt(places[name], value) for name in verbs}
        # None and "" are no key for a job, and nothing to look at or to limit.
        if value is None or value == "":
            no_key = ("key", "set_limit key", "clear_limit key", "hold key")
            assert not any(answers[name] for name in no_key)
        elif value == "k" * 10_000 or value in ALLOWED_KEYS:
            assert len(set(answers.values())) == 1, (value, answers)
        else:
            assert not any(answers.values()), (value, answers)


def test_a_payload_may_have_exactly_its_cap(queue: Queue) -> None:
    """Field case 46: the cap, one byte less and one more."""
    task = queue.task(name="echo")(echo)
    room = queue.max_payload - len('[""]') - len("{}")
    assert task.enqueue("x" * (room - 1)).id == 1
    assert task.enqueue("x" * room).id == 2
    with pytest.raises(InvalidValue, match="at most 1,048,576 are allowed"):
        task.enqueue("x" * (room + 1))
    with pytest.raises(InvalidValue, match="at most 1,048,576 are allowed"):
        task.enqueue("x" * 20_000_000)
    assert queue.stats().waiting == 2


@pytest.mark.soak
def test_a_payload_larger_than_sqlite_can_keep_is_refused(queue: Queue) -> None:
    """Field case 46: 1.1 GB is refused before a copy of it is made."""
    with pytest.raises(InvalidValue, match="at most 1,048,576 are allowed"):
        queue.task(name="echo")(echo).enqueue("x" * 1_100_000_000)
    assert queue.stats().waiting == 0


def test_a_payload_that_json_would_change_is_refused(queue: Queue) -> None:
    """Field case 46: too deep, self-containing, and keys that JSON would merge."""
    task = queue.task(name="echo")(echo)
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (deep, CYCLE, {1: "a", "1": "b"}, math.nan, {"a": [math.inf]}, "\ud800"):
        with pytest.raises(InvalidValue):
            task.enqueue(value)
        with pytest.raises(InvalidValue):
            queue.enqueue("t", args=[value])
    assert queue.jobs() == []


def test_one_queue_may_have_a_cap_of_its_own(tmp_path: Path) -> None:
    with Queue(tmp_path / "jobs.db", max_payload=100) as queue:
        task = queue.task(name="echo")(echo)
        task.enqueue("x" * 90)
        with pytest.raises(InvalidValue, match="at most 100 are allowed"):
            task.enqueue("x" * 100)

        @queue.task
        def large() -> str:
            return "x" * 100

        job = large.enqueue()
        Worker(queue, burst=True).run()
        assert "at most 100 are allowed" in (queue.job(job.id).error or "")


@pytest.mark.parametrize(
    "options",
    [
        {"delay": timedelta.max},
        {"delay": -1},
        {"run_at": datetime(9999, 12, 31, 20, tzinfo=timezone(timedelta(hours=-5)))},
        {"run_at": datetime(1969, 12, 31, tzinfo=UTC)},
        {"expires": timedelta.max},
        {"timeout": 0},
    ],
)
def test_times_that_cannot_be_kept_are_refused(queue: Queue, options: dict[str, object]) -> None:
    """Field case 17: impossible instants and spans never reach the file."""
    with pytest.raises(InvalidValue):
        wrongly(queue.enqueue)("t", **options)
    assert queue.jobs() == []
