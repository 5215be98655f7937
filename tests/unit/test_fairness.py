"""The checker of fair order: it catches each kind of unfair start, and passes a fair history."""

from support.fairness import judge
from support.history import Event, Kind

KINDS: dict[str, Kind] = {"+": "enqueued", ">": "start", "<": "end"}


def told(*words: str) -> list[Event]:
    """Read events from short words: ``+1a`` arrives, ``>1a`` starts, ``<1a`` ends."""
    return [Event(kind=KINDS[word[0]], at=0, job=int(word[1:-1]), key=word[-1]) for word in words]


ARRIVE = ("+1a", "+2a", "+3a", "+4b", "+5c")


def test_a_fair_history_breaks_nothing() -> None:
    found = judge(told(*ARRIVE, ">1a", ">4b", ">5c", "<4b", ">2a", "<1a", "<2a", ">3a"))
    assert (found.broken, found.choices, found.ties) == ([], 2, 2)


def test_a_group_with_more_running_may_not_go_first() -> None:
    (line,) = judge(told(*ARRIVE, ">1a", ">2a", ">4b", ">5c")).broken
    assert line == (
        "job 2 of a started with 1 running, it was the turn of job 4 of b with 0"
    )  # fmt: skip


def test_of_groups_alike_the_oldest_job_goes_first() -> None:
    (line,) = judge(told(*ARRIVE, ">1a", ">5c", ">4b")).broken
    assert line.startswith("job 5 of c started with 0 running, it was the turn of job 4 of b")


def test_inside_a_group_the_oldest_job_goes_first() -> None:
    (line,) = judge(told("+1a", "+2a", ">2a", ">1a")).broken
    assert "it was the turn of job 1 of a" in line


def test_what_ended_no_longer_counts() -> None:
    assert judge(told("+1a", "+2a", "+3b", ">1a", "<1a", ">2a", ">3b")).broken == []
