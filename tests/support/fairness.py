"""A pure checker of fair order, for jobs that all may start as soon as they are there."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from support.history import Event


@dataclass(slots=True)
class Fairness:
    """What a history shows.

    Attributes:
        broken: Starts that were not the turn of their job, one line each.
        choices: Starts at which some waiting groups had more running than others.
        ties: Starts at which several waiting groups had the fewest running.
    """

    broken: list[str] = field(default_factory=list[str])
    choices: int = 0
    ties: int = 0


def judge(events: Iterable[Event]) -> Fairness:
    """Return whether each start was of the group with the fewest running, then the oldest job.

    Args:
        events: The history, in the order of commits: keyed jobs of one queue and one priority.
    """
    found = Fairness()
    waiting: defaultdict[str, list[int]] = defaultdict(list)
    running: Counter[str] = Counter()
    keys: dict[int, str] = {}
    for event in events:
        match event.kind:
            case "enqueued":
                keys[event.job] = event.key
                waiting[event.key].append(event.job)  # by age: ids only grow
            case "start":
                groups = [key for key, jobs in waiting.items() if jobs]
                fewest = min(running[key] for key in groups)
                poorest = [key for key in groups if running[key] == fewest]
                turn = min(waiting[key][0] for key in poorest)
                if event.job != turn:
                    found.broken.append(
                        f"job {event.job} of {event.key} started with {running[event.key]} running,"
                        f" it was the turn of job {turn} of {keys[turn]} with {fewest}"
                    )
                found.choices += len(poorest) < len(groups)
                found.ties += len(poorest) > 1
                waiting[event.key].remove(event.job)
                running[event.key] += 1
            case "end":
                running[keys[event.job]] -= 1
            case _:
                pass
    return found
