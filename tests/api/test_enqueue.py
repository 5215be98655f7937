"""Enqueue: every form of the call, every option, and what is refused."""

import asyncio
import inspect
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import slotq
from slotq import InvalidValue, Job, Options, Queue, Worker
from slotq.testing import ManualClock
from support.wrongly import wrongly

START = datetime(2026, 1, 1, tzinfo=UTC)


def nothing() -> None:
    """Do nothing."""


def report(tenant: str | None, report_id: int = 1) -> str:
    return f"{tenant}/{report_id}"


def test_bare_decorator_makes_a_task_of_module_and_function(queue: Queue) -> None:
    task = queue.task(nothing)
    assert task.name == f"{__name__}.nothing"
    job = task.enqueue()
    assert (job.task, job.args, job.kwargs) == (task.name, [], {})


def test_a_new_job_has_the_documented_defaults(queue: Queue) -> None:
    job = queue.task(nothing).enqueue()
    assert job == Job(
        id=1, task=f"{__name__}.nothing", args=[], kwargs={}, queue="default", key=None,
        max_running=None, priority=0, state="waiting", run_at=START, expires=None, attempt=0,
        max_attempts=5, created_at=START, started_at=None, finished_at=None, lease_until=None,
        worker=None, timeout=300, cancelling=False, progress=None, progress_text=None, error=None, traceback=None, result=None, is_new=True,
    )  # fmt: skip
    assert queue.job(job.id) == job


def test_decorator_options_are_those_of_each_job(queue: Queue) -> None:
    task = queue.task(
        name="r", queue="exports", key="tenant:{tenant}", max_running=2, max_attempts=3, priority=-4
    )(report)
    job = task.enqueue("acme", report_id=7)
    assert (job.task, job.queue, job.key) == ("r", "exports", "tenant:acme")
    assert (job.max_running, job.max_attempts, job.priority) == (2, 3, -4)
    assert (job.args, job.kwargs) == (["acme"], {"report_id": 7})


def test_options_change_a_copy_and_not_the_task(queue: Queue) -> None:
    task = queue.task(queue="exports")(nothing)
    other = task.options(priority=5).options(queue="mail")
    assert (other.enqueue().queue, other.enqueue().priority) == ("mail", 5)
    assert (task.enqueue().queue, task.enqueue().priority) == ("exports", 0)


def test_a_task_is_still_the_function(queue: Queue) -> None:
    task = queue.task(report)
    assert task("acme", report_id=2) == "acme/2"
    assert task.__doc__ == report.__doc__
    assert inspect.signature(task) == inspect.signature(report)
    assert repr(task) == f"<Task {__name__}.report>"
    assert queue.stats().waiting == 0


async def test_an_async_task_is_still_the_function(queue: Queue) -> None:
    @queue.task
    async def double(number: int) -> int:
        return 2 * number

    assert double.is_async
    assert await double(4) == 8


async def test_async_enqueue_stores_the_same_job(queue: Queue) -> None:
    task = queue.task(report)
    first, second = task.enqueue("a", 2), await task.aenqueue("a", 2)
    assert (first.args, first.state) == (second.args, second.state)
    assert second.id == first.id + 1


async def test_enqueue_by_name_needs_no_function(queue: Queue) -> None:
    job = queue.enqueue("elsewhere.send", args=["a", 1], kwargs={"b": None}, key="k", max_running=1)
    assert (job.task, job.args, job.kwargs) == ("elsewhere.send", ["a", 1], {"b": None})
    assert (job.key, job.max_running) == ("k", 1)
    other = await queue.aenqueue("elsewhere.send", args=("a", 1), kwargs={"b": None}, key="k")
    assert (other.id, other.args, other.kwargs) == (job.id + 1, job.args, job.kwargs)


def test_a_key_given_by_name_is_no_template(queue: Queue) -> None:
    assert queue.enqueue("t", key="tenant:{tenant}").key == "tenant:{tenant}"
    task = queue.task(report)
    assert task.options(key="{tenant}").enqueue("acme").key == "{tenant}"


# Options.

GOOD: list[tuple[Options, str, object]] = [
    ({"queue": "q" * 200}, "queue", "q" * 200),
    ({"key": "k" * 1024}, "key", "k" * 1024),
    ({"key": None}, "key", None),
    ({"key": ""}, "key", None),
    ({"key": "k", "max_running": 1}, "max_running", 1),
    ({"key": "k", "max_running": 1_000_000}, "max_running", 1_000_000),
    ({"key": "k", "max_running": None}, "max_running", None),
    ({"priority": 1_000_000}, "priority", 1_000_000),
    ({"priority": -1_000_000}, "priority", -1_000_000),
    ({"delay": 0}, "run_at", START),
    ({"delay": 1.5}, "run_at", START + timedelta(seconds=1.5)),
    ({"delay": 0.0001}, "run_at", START + timedelta(milliseconds=1)),
    ({"delay": timedelta(days=36_600)}, "run_at", START + timedelta(days=36_600)),
    ({"run_at": START - timedelta(days=1)}, "run_at", START - timedelta(days=1)),
    ({"run_at": datetime(9999, 12, 31, tzinfo=UTC)}, "run_at", datetime(9999, 12, 31, tzinfo=UTC)),
    ({"expires": 60}, "expires", START + timedelta(minutes=1)),
    ({"expires": timedelta(hours=1)}, "expires", START + timedelta(hours=1)),
    ({"expires": START + timedelta(days=2)}, "expires", START + timedelta(days=2)),
    ({"expires": None}, "expires", None),
    ({"max_attempts": 1}, "max_attempts", 1),
    ({"max_attempts": 1_000_000}, "max_attempts", 1_000_000),
]


@pytest.mark.parametrize(("options", "field", "value"), GOOD)
def test_an_option_is_taken_in_every_form_of_the_call(
    queue: Queue, options: Options, field: str, value: object
) -> None:
    by_decorator = queue.task(**options)(nothing).enqueue()
    by_options = queue.task(name="n")(nothing).options(**options).enqueue()
    by_name = queue.enqueue("n", **options)
    found = [getattr(job, field) for job in (by_decorator, by_options, by_name)]
    assert found == [value] * 3


@pytest.mark.parametrize(
    ("delay", "state"), [(0, "waiting"), (0.001, "scheduled"), (timedelta(0), "waiting")]
)
def test_a_delay_decides_whether_a_job_waits_or_is_scheduled(
    queue: Queue, delay: float | timedelta, state: str
) -> None:
    assert queue.enqueue("t", delay=delay).state == state


def test_delay_and_run_at_take_each_others_place(queue: Queue) -> None:
    later = START + timedelta(hours=1)
    task = queue.task(delay=10)(nothing)
    assert task.options(run_at=later).enqueue().run_at == later
    assert task.options(run_at=later).options(delay=5).enqueue().run_at == START + timedelta(
        seconds=5
    )


def test_delay_and_run_at_together_are_refused(queue: Queue) -> None:
    with pytest.raises(InvalidValue, match="delay and run_at cannot both be given"):
        queue.enqueue("t", delay=1, run_at=START)


def test_timeout_and_store_result_reach_the_worker(queue: Queue) -> None:
    @queue.task(timeout=0.02, store_result=False)
    async def slow() -> int:
        await asyncio.sleep(30)
        return 1

    @queue.task(timeout=None, store_result=False)
    async def quick() -> int:
        return 1

    slow_job, quick_job = slow.options(max_attempts=1).enqueue(), quick.enqueue()
    Worker(queue, burst=True).run()
    assert queue.job(slow_job.id).error == "timeout after 0.02 s"
    assert queue.job(quick_job.id).state == "succeeded"
    assert queue.job(quick_job.id).result is None


@pytest.mark.parametrize("option", ["run_at", "expires"])
def test_a_naive_datetime_is_refused_with_a_hint(queue: Queue, option: str) -> None:
    naive = datetime(2026, 7, 1, 9)  # noqa: DTZ001  # that is the point
    with pytest.raises(InvalidValue, match=f"{option} must say its time zone"):
        wrongly(queue.task(nothing).options)(**{option: naive})
    assert queue.stats().scheduled == 0


def test_an_unknown_option_is_refused_by_name(queue: Queue) -> None:
    with pytest.raises(InvalidValue, match="priorty is no option; there are queue, key"):
        wrongly(queue.task(nothing).options)(priorty=5)
    with pytest.raises(InvalidValue, match="priorty is no option; there are queue, key"):
        wrongly(queue.enqueue)("t", priorty=5)
    register = wrongly(queue.task)(priorty=5)
    with pytest.raises(InvalidValue, match="priorty is no option; there are queue, key"):
        wrongly(register)(report)


@pytest.mark.parametrize("key", [None, ""])
def test_max_running_without_a_key_is_refused(queue: Queue, key: str | None) -> None:
    with pytest.raises(InvalidValue, match="max_running needs a key"):
        queue.task(nothing).options(max_running=1)
    with pytest.raises(InvalidValue, match="max_running needs a key"):
        queue.enqueue("t", max_running=1, key=key)
    with pytest.raises(InvalidValue, match="max_running needs a key"):
        queue.task(name="u", max_running=1)(nothing)
    keyed = queue.task(key="k", max_running=1, name="keyed")(nothing)
    with pytest.raises(InvalidValue, match="max_running needs a key"):
        keyed.options(key=key)


# Key templates.


@pytest.mark.parametrize(
    ("template", "tenant", "key"),
    [
        ("tenant:{tenant}", "acme", "tenant:acme"),
        ("tenant:{tenant}", None, None),
        ("tenant:{tenant}", "", "tenant:"),
        ("{tenant}", "", None),
        ("{tenant}/{report_id}", "a", "a/1"),
        ("{{tenant}}", "acme", "{tenant}"),
        ("{{{tenant}}}", "acme", "{acme}"),
        ("fixed", None, "fixed"),
        ("{tenant}", "{report_id}", "{report_id}"),
        ("{tenant}", "*", "*"),
        ("{tenant}", "a\nb", "a\nb"),
    ],
)
def test_a_template_gives_the_key(
    queue: Queue, template: str, tenant: str | None, key: str | None
) -> None:
    task = queue.task(key=template)(report)
    assert task.enqueue(tenant).key == key
    assert task.enqueue(tenant=tenant).key == key
    assert [queue.job(job_id).key for job_id in task.enqueue_many([(tenant,)])] == [key]


@pytest.mark.parametrize(
    "template",
    [
        "{nobody}", "{}", "{0}", "{tenant.name}", "{tenant[0]}", "{tenant!r}", "{tenant:>9}",
        "{tenant", "tenant}", "{args}",
    ],
)  # fmt: skip
def test_a_template_of_anything_but_arguments_is_refused_at_once(
    queue: Queue, template: str
) -> None:
    def function(tenant: str, *args: str) -> None: ...

    with pytest.raises(InvalidValue, match=r"^key "):
        queue.task(key=template)(function)
    assert queue.tasks == {}


def test_an_argument_that_is_too_long_for_a_key_is_refused(queue: Queue) -> None:
    task = queue.task(key="{tenant}")(report)
    with pytest.raises(InvalidValue, match="at most 1,024 characters"):
        task.enqueue("k" * 1025)
    assert queue.jobs() == []


def test_one_value_has_one_key_however_it_was_given(queue: Queue) -> None:
    @queue.task(key="day:{day}")
    def count(day: datetime) -> None: ...

    ids = count.enqueue_many([(START,), (START.isoformat(),)])
    assert len({queue.job(job_id).key for job_id in ids}) == 1


# Calls.


def test_a_call_that_does_not_fit_the_function_is_refused(queue: Queue) -> None:
    task = queue.task(report)
    enqueue = wrongly(task.enqueue)
    calls: list[tuple[tuple[object, ...], dict[str, object]]] = [
        ((), {}),
        (("a", 1, 2), {}),
        (("a",), {"tenant": "b"}),
        (("a",), {"nobody": 1}),
    ]
    for args, kwargs in calls:
        with pytest.raises(InvalidValue, match=r"report\(\) cannot be called so"):
            enqueue(*args, **kwargs)
    assert queue.jobs() == []


def test_enqueue_many_takes_tuples_lists_and_dicts(queue: Queue) -> None:
    task = queue.task(key="tenant:{tenant}")(report)
    ids = task.enqueue_many([("a", 1), ["b"], {"tenant": "c", "report_id": 2}])
    assert ids == [1, 2, 3]
    assert [(job.args, job.kwargs, job.key) for job in map(queue.job, ids)] == [
        (["a", 1], {}, "tenant:a"),
        (["b"], {}, "tenant:b"),
        ([], {"tenant": "c", "report_id": 2}, "tenant:c"),
    ]


async def test_enqueue_many_takes_any_iterable_also_an_empty_one(queue: Queue) -> None:
    task = queue.task(report)
    assert task.enqueue_many(()) == []
    assert task.enqueue_many((str(number),) for number in range(3)) == [1, 2, 3]
    assert await task.aenqueue_many([("a",)]) == [4]


def test_enqueue_many_stores_100_000_jobs_in_one_call(queue: Queue) -> None:
    task = queue.task(key="tenant:{tenant}")(report)
    ids = task.enqueue_many((f"t{number % 100}", number) for number in range(100_000))
    assert ids == list(range(1, 100_001))
    assert queue.stats().waiting == 100_000
    assert queue.key("tenant:t99").waiting == 1_000
    assert queue.job(100_000).args == ["t99", 99_999]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (("a", "x"), "report_id.*Expected `int`, got `str`"),
        ((), "missing a required argument"),
        ({"nobody": 1}, "missing a required argument|unexpected keyword"),
        ({1: 2}, "must be strings"),
        ("ab", "must be a tuple or list of arguments, or a dict"),
        (7, "must be a tuple or list of arguments, or a dict"),
        (("a", float("nan")), "finite"),
        (("k" * 1_100_000,), "at most 1,048,576 are allowed"),
    ],
)
def test_one_bad_item_stores_nothing_and_is_named(queue: Queue, bad: object, why: str) -> None:
    task = queue.task(report)
    items: list[object] = [("a", 1), ("b", 2), bad, ("c", 3)]
    with pytest.raises(InvalidValue, match=rf"^item 2: .*({why})"):
        wrongly(task.enqueue_many)(items)
    assert queue.jobs() == []
    assert task.enqueue_many([("a", 1)]) == [1]


def test_enqueue_many_of_no_iterable_is_refused(queue: Queue) -> None:
    task = queue.task(report)
    for wrong in (None, 7):
        with pytest.raises(InvalidValue, match=r"^calls must be calls"):
            wrongly(task.enqueue_many)(wrong)


def test_an_error_of_the_callers_own_iterable_is_the_callers(queue: Queue) -> None:
    def items() -> list[tuple[str]]:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        queue.task(report).enqueue_many(item for item in items())
    assert queue.jobs() == []


# Dedupe.


async def test_dedupe_finds_the_job_that_has_not_ended(queue: Queue) -> None:
    task = queue.task(report)
    first = task.options(dedupe="d").enqueue("a")
    assert first.is_new
    second = await task.options(dedupe="d", delay=10, key="other").aenqueue("b")
    assert not second.is_new
    assert (second.id, second.args, second.key) == (first.id, ["a"], None)
    assert task.options(dedupe="e").enqueue("a").id == first.id + 1
    await Worker(queue, burst=True).serve()
    third = task.options(dedupe="d").enqueue("c")
    assert third.is_new
    assert third.id > first.id


def test_dedupe_has_one_namespace_for_the_whole_file(queue: Queue) -> None:
    assert queue.enqueue("one", dedupe="d", queue="a").is_new
    assert not queue.enqueue("two", dedupe="d", queue="b", delay=5).is_new


def test_dedupe_does_not_find_a_job_that_has_expired(queue: Queue, clock: ManualClock) -> None:
    first = queue.enqueue("t", dedupe="d", expires=10)
    clock.advance(9_999)
    assert not queue.enqueue("t", dedupe="d").is_new
    clock.advance(1)
    second = queue.enqueue("t", dedupe="d")
    assert second.is_new
    assert queue.job(first.id).state == "cancelled"


def test_dedupe_for_many_is_refused(queue: Queue) -> None:
    with pytest.raises(InvalidValue, match="dedupe is for one job"):
        queue.task(report).options(dedupe="d").enqueue_many([("a",)])


# Expiry.


def test_a_job_that_has_expired_does_not_start(queue: Queue, clock: ManualClock) -> None:
    ran: list[str] = []

    @queue.task
    def run(name: str) -> None:
        ran.append(name)

    late = run.options(expires=10).enqueue("late")
    run.options(expires=11).enqueue("in time")
    run.options(expires=START + timedelta(seconds=10), delay=10).enqueue("never")
    clock.advance(10_000)
    Worker(queue, burst=True).run()
    assert ran == ["in time"]
    assert (queue.job(late.id).state, queue.job(late.id).error) == (
        "cancelled",
        "expired before it started",
    )
    with pytest.raises(slotq.JobCancelled):
        queue.job(late.id).wait(timeout=0)


# The file.


def test_the_path_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOTQ_DB", str(tmp_path / "env.db"))
    with Queue() as queue:
        assert queue.path == tmp_path / "env.db"
        queue.enqueue("t")
    assert (tmp_path / "env.db").exists()
    monkeypatch.delenv("SLOTQ_DB")
    with pytest.raises(InvalidValue, match="path is missing"):
        Queue()


def test_a_relative_path_is_made_absolute_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Queue("jobs.db") as queue:
        monkeypatch.chdir("/")
        queue.enqueue("t")
    assert (tmp_path / "jobs.db").exists()


def test_nothing_is_made_before_the_first_use(tmp_path: Path) -> None:
    queue = Queue(tmp_path / "jobs.db")
    queue.task(nothing)
    Worker(queue)
    assert list(tmp_path.iterdir()) == []


async def test_a_closed_queue_opens_again(queue: Queue) -> None:
    queue.enqueue("t")
    queue.close()
    await queue.aenqueue("t")
    await queue.aclose()
    assert [job.id for job in await queue.ajobs()] == [1, 2]
    queue.close()
    async with queue:
        assert queue.stats().waiting == 2
