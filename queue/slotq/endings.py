"""What the body of a job raises to say how its job goes on."""

from datetime import timedelta

from slotq import checks


class Retry(Exception):
    """The attempt has failed and is to be made again, whatever ``retry_on`` says.

    Raised ``from`` another error it is told as that one. On the last attempt the job has failed.

    Args:
        delay: Seconds, or a timedelta, until then, from 0; None for the task's backoff.

    Raises:
        InvalidValue: The delay is out of its range.
    """

    def __init__(self, delay: float | timedelta | None = None) -> None:
        self.delay_ms = (
            None
            if delay is None
            else checks.seconds_ms("delay", delay, low_ms=0, high_ms=checks.LONGEST_MS)
        )
        super().__init__("asked to be tried again")


class Snooze(Exception):
    """The job is to run later, and nothing has failed: no attempt is used.

    Args:
        seconds: Seconds, or a timedelta, until then, from 0.

    Raises:
        InvalidValue: The time is out of its range.
    """

    def __init__(self, seconds: float | timedelta) -> None:
        self.delay_ms = checks.seconds_ms("seconds", seconds, low_ms=0, high_ms=checks.LONGEST_MS)
        super().__init__("asked to run later")


class Discard(Exception):
    """The job is not worth doing any more: it becomes ``cancelled``, and is not tried again.

    Args:
        reason: Why, in one line; ``Job.error`` keeps it.
    """

    def __init__(self, reason: str = "discarded") -> None:
        self.reason = reason
        super().__init__(reason)
