"""Every reason that a job is not running, each with its data."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from slotq import InvalidValue, JobNotFound, Queue, Reason
from slotq.store import claims
from slotq.testing import ManualClock
from support.starting import LEASE_MS, finish, held, registered, start, started
from support.wrongly import wrongly

START = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = timedelta(milliseconds=LEASE_MS)


@pytest.fixture(autouse=True)
def worker(queue: Queue) -> int:
    """A worker of every queue that knows the task of these tests."""
    return registered(queue, "t", lease_ms=3_600_000)


def enqueue(queue: Queue, count: int = 1, *, key: str = "k", priority: int = 0) -> int:
    """Store jobs; return the id of the last."""
    return [queue.enqueue("t", key=key, priority=priority).id for _ in range(count)][-1]


def kinds(queue: Queue, job_id: int) -> list[str]:
    return [reason.kind for reason in queue.why(job_id)]


def only(queue: Queue, job_id: int) -> Reason:
    (reason,) = queue.why(job_id)
    return reason


def listed(reason: Reason, name: str) -> list[dict[str, object]]:
    """Return a list out of the data of a reason."""
    return msgspec.convert(reason.data[name], list[dict[str, object]])


def test_a_paused_key_and_a_paused_queue_are_two_reasons(queue: Queue) -> None:
    job_id = enqueue(queue)
    queue.pause(key="k")
    assert only(queue, job_id) == Reason(
        kind="paused", text="key k is paused", until=None, data={"key": "k"}
    )
    queue.pause(queue="default")
    assert [reason.data for reason in queue.why(job_id)] == [{"queue": "default"}, {"key": "k"}]


def test_a_queue_that_no_worker_serves(queue: Queue) -> None:
    job = queue.enqueue("t", queue="q")
    assert kinds(queue, job.id) == ["behind"]
    with queue.database.write() as tx:
        tx.run("DELETE FROM slotq_workers")
    registered(queue, "t", queues=["other", "q2"])
    assert only(queue, job.id) == Reason(
        kind="no worker", text="no worker serves queue q", until=None, data={"queue": "q"}
    )
    registered(queue, "t", queues=["q"])
    assert kinds(queue, job.id) == ["behind"]


def test_a_worker_that_was_not_seen_for_long_serves_nothing(
    queue: Queue, clock: ManualClock
) -> None:
    job_id = enqueue(queue)
    clock.advance(3 * 3_600_000)
    assert kinds(queue, job_id) == ["behind"]
    clock.advance(1)
    assert kinds(queue, job_id) == ["no worker"]


def test_a_task_that_no_worker_of_its_queue_knows(queue: Queue, clock: ManualClock) -> None:
    job = queue.enqueue("gone", key="k")
    data = {"task": "gone", "queue": "default"}
    assert only(queue, job.id) == Reason(
        kind="unknown task",
        text="no worker of queue default knows task gone",
        until=None,
        data=data,
    )
    assert started(queue) == []
    put_back = only(queue, job.id)
    assert (put_back.kind, put_back.data) == ("unknown task", data)
    assert put_back.until == queue.job(job.id).run_at > START
    registered(queue, "gone", lease_ms=3_600_000)
    assert kinds(queue, job.id) == ["unknown task"]
    clock.advance(600_000)
    assert kinds(queue, job.id) == ["behind"]


def test_a_task_that_was_put_back_and_falls_due_is_still_unknown(
    queue: Queue, clock: ManualClock
) -> None:
    job = queue.enqueue("gone")
    assert started(queue) == []
    clock.advance(600_000)
    assert [(reason.kind, reason.until) for reason in queue.why(job.id)] == [("unknown task", None)]


def test_a_full_window_tells_when_it_opens_and_which_limits_are_full(
    queue: Queue, clock: ManualClock
) -> None:
    minute = queue.set_limit("k", max_starts=1, window=60)
    daily = queue.set_limit("k*", max_starts=2, window="day", name="daily")
    job_id = enqueue(queue, 5)
    finish(queue, *start(queue))
    window = queue.why(job_id)[0]
    assert (window.kind, window.until) == ("window", START + timedelta(seconds=60))
    assert window.data == {"key": "k", "limits": [{"limit": minute, "until": window.until}]}
    clock.advance(60_000)
    finish(queue, *start(queue))
    window = queue.why(job_id)[0]
    tomorrow = START + timedelta(days=1)
    assert window.until == tomorrow
    untils = {limit["limit"]: limit["until"] for limit in listed(window, "limits")}
    assert untils == {minute: START + timedelta(seconds=120), daily: tomorrow}
    clock.advance(86_400_000)
    assert "window" not in kinds(queue, job_id)


def test_full_slots_tell_who_has_them_and_until_when(queue: Queue, clock: ManualClock) -> None:
    queue.set_limit("k", max_running=3)
    enqueue(queue, key="other")
    started(queue)
    enqueue(queue, 2)
    first, second = started(queue, 2)
    hold = held(queue, "k", 1, START + timedelta(seconds=10))
    job_id = enqueue(queue)
    reason = only(queue, job_id)
    assert (reason.kind, reason.text) == ("slots", "key k has 3 of 3 slots in use")
    assert reason.until == START + timedelta(seconds=10)
    assert reason.data == {
        "key": "k",
        "running": 3,
        "max_running": 3,
        "holders": [
            {"hold": hold, "slots": 1, "until": START + timedelta(seconds=10)},
            {"job": first, "slots": 1, "until": START + LEASE},
            {"job": second, "slots": 1, "until": START + LEASE},
        ],
    }
    clock.advance(10_000)
    assert kinds(queue, job_id) == ["behind"]


def test_after_a_limit_was_lowered_enough_slots_must_be_given_back(
    queue: Queue, clock: ManualClock
) -> None:
    enqueue(queue, 30)
    for _ in range(30):
        assert len(started(queue)) == 1
        clock.advance(1)
    queue.set_limit("k", max_running=5)
    reason = only(queue, enqueue(queue))
    assert len(listed(reason, "holders")) == 20
    # The 26th end leaves four.
    assert reason.until == START + LEASE + timedelta(milliseconds=25)


def test_own_slots_are_those_of_the_job_itself(queue: Queue) -> None:
    enqueue(queue, 2)
    running = started(queue, 2)
    own = queue.enqueue("t", key="k", max_running=2)
    reason = only(queue, own.id)
    assert (reason.kind, reason.data["running"], reason.data["max_running"]) == ("own slots", 2, 2)
    assert reason.text == "key k has 2 slots in use, and the job's own limit is 2"
    assert [holder["job"] for holder in listed(reason, "holders")] == running
    queue.set_limit("k", max_running=1)
    assert kinds(queue, own.id) == ["slots", "own slots"]


def test_queue_slots_are_those_of_all_keys_of_the_queue(queue: Queue) -> None:
    queue.set_limit(queue="default", max_running=2)
    enqueue(queue, key="a")
    enqueue(queue, key="")
    queue.enqueue("t", key="a", queue="elsewhere")
    running = [job_id for job_id in started(queue, 9) if queue.job(job_id).queue == "default"]
    job_id = enqueue(queue, key="b")
    reason = only(queue, job_id)
    assert (reason.kind, reason.until) == ("queue slots", START + LEASE)
    assert reason.data["queue"] == "default"
    assert reason.data["running"] == reason.data["max_running"] == 2
    assert {holder["job"] for holder in listed(reason, "holders")} == set(running)


def test_a_hold_that_waits_goes_first(queue: Queue) -> None:
    job_id = enqueue(queue)
    holds = [held(queue, "k", 1, START + LEASE, state="waiting") for _ in range(2)]
    assert only(queue, job_id) == Reason(
        kind="held up",
        text="holds that wait for key k come first: 2",
        until=None,
        data={"key": "k", "waiting": 2, "holds": holds},
    )


def fail(queue: Queue, claim: claims.Claim, again: datetime) -> None:
    with queue.database.write() as tx:
        tx.run(
            "UPDATE slotq_jobs SET state = 'scheduled', lease_until = NULL, run_at = ?, error = ?"
            " WHERE id = ?",
            (int(again.timestamp() * 1000), "ValueError: \x1b[31mno", claim.id),
        )


def test_a_failed_attempt_is_tried_again_at_an_instant(queue: Queue, clock: ManualClock) -> None:
    job_id = enqueue(queue)
    again = START + timedelta(seconds=2)
    fail(queue, start(queue)[0], again)
    assert only(queue, job_id) == Reason(
        kind="retry",
        text=r"attempt 1 of 5 failed: ValueError: \x1b[31mno",
        until=again,
        data={"error": "ValueError: \x1b[31mno", "attempt": 1, "max_attempts": 5},
    )
    clock.advance(2_000)
    assert kinds(queue, job_id) == ["behind"]


def test_a_scheduled_job_waits_for_its_time(queue: Queue, clock: ManualClock) -> None:
    job = queue.enqueue("t", delay=60)
    assert only(queue, job.id) == Reason(
        kind="scheduled", text="its time has not come", until=job.run_at, data={}
    )
    clock.advance(60_000)
    assert kinds(queue, job.id) == ["behind"]


def test_what_stands_before_it_in_its_own_group_is_counted(queue: Queue) -> None:
    first = enqueue(queue, 3)
    enqueue(queue, 2, key="other")
    queue.enqueue("t", key="k", queue="elsewhere")
    queue.enqueue("t", key="k", delay=9)
    queue.enqueue("t", key="k", max_running=7)
    assert only(queue, first) == Reason(
        kind="behind", text="2 of its group stand before it", until=None, data={"ahead": 2}
    )
    assert only(queue, enqueue(queue)).data == {"ahead": 4}
    assert only(queue, enqueue(queue, priority=1)).data == {"ahead": 0}
    assert only(queue, enqueue(queue, priority=-1)).data == {"ahead": 6}


def test_the_first_of_its_group_waits_for_a_worker_slot(queue: Queue) -> None:
    reason = only(queue, enqueue(queue))
    assert (reason.kind, reason.data) == ("behind", {"ahead": 0})


def test_the_count_is_exact_up_to_a_thousand(queue: Queue, clock: ManualClock) -> None:
    task = queue.task(name="t", key="k")(print)
    ids = wrongly(task.enqueue_many)([()] * 700)
    clock.advance(1)
    ids += wrongly(task.enqueue_many)([()] * 302)
    assert [queue.why(job_id)[0].data["ahead"] for job_id in ids[999:]] == [999, 1000, "1000+"]


def test_all_reasons_are_given_in_the_order_of_the_list(queue: Queue) -> None:
    queue.set_limit("k", max_running=2, max_starts=2, window=60)
    queue.set_limit(queue="default", max_running=1)
    enqueue(queue)
    started(queue)
    queue.set_limit(queue="default", max_running=2)
    enqueue(queue)
    started(queue)
    held(queue, "k", 1, START + LEASE, state="waiting")
    own = queue.enqueue("u", key="k", max_running=1)
    last = queue.enqueue("u", key="k", max_running=1)
    queue.pause(key="k")
    full = ["paused", "unknown task", "window", "slots", "own slots", "queue slots", "held up"]
    assert kinds(queue, own.id) == full
    slots = queue.why(own.id)[full.index("slots")]
    assert [("job" in holder) for holder in listed(slots, "holders")] == [True, True]
    assert kinds(queue, last.id) == [*full, "behind"]
    later = queue.enqueue("u", key="k", max_running=1, delay=5)
    assert kinds(queue, later.id) == [*full, "scheduled"]
    assert msgspec.json.decode(msgspec.json.encode(queue.why(own.id)))


def test_a_job_that_runs_or_has_ended_has_no_reason(queue: Queue) -> None:
    enqueue(queue, 2)
    claim = start(queue)[0]
    assert queue.why(claim.id) == []
    finish(queue, claim)
    assert queue.why(claim.id) == []
    queue.cancel(2)
    assert queue.why(2) == []


def test_the_job_of_a_dead_worker_no_longer_runs(queue: Queue, clock: ManualClock) -> None:
    queue.set_limit("k", max_running=1)
    job_id, behind = enqueue(queue), enqueue(queue)
    started(queue)
    assert kinds(queue, behind) == ["slots"]
    clock.advance(LEASE_MS)
    assert kinds(queue, job_id) == ["retry"]
    assert kinds(queue, behind) == ["behind"]


def test_names_from_elsewhere_are_shown_as_one_visible_line(queue: Queue) -> None:
    job = queue.enqueue("t", key="a\nb\x1b[2J" + "x" * 500)
    queue.pause(key=str(job.key))
    (reason,) = queue.why(job.id)
    assert reason.text.startswith(r"key a b\x1b[2Jxxx")
    assert len(reason.text) < 120
    assert reason.data == {"key": job.key}


def test_an_unknown_job_and_a_bad_id_are_refused(queue: Queue) -> None:
    with pytest.raises(JobNotFound):
        queue.why(9)
    with pytest.raises(InvalidValue, match="job_id must be an integer"):
        wrongly(queue.why)("1")


async def test_the_twin_gives_the_same(queue: Queue) -> None:
    job_id = enqueue(queue, 3)
    assert await queue.awhy(job_id) == queue.why(job_id)
