"""Options of tasks and of single enqueues: checked, and in the form that the store takes."""

import string
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, TypedDict, TypeGuard

from slotq import backoff, checks
from slotq.backoff import Backoff
from slotq.errors import InvalidValue
from slotq.parameters import Parameters
from slotq.store.jobs import UNLIMITED, Terms

if typing.TYPE_CHECKING:
    from slotq.store.callers import Connection

MOST_PRIORITY: Final = 1_000_000
MOST_ATTEMPTS: Final = 1_000_000
MOST_RUNNING: Final = 1_000_000


class Options(TypedDict, total=False):
    """What ``@q.task(...)``, ``task.options(...)`` and ``q.enqueue(...)`` take.

    - queue: name of the queue, 1 to 200 characters; default ``default``.
    - key: what the job is limited by, up to 1,024 characters; None or "" for none. In the decorator
      it is a template over the arguments (``"tenant:{tenant}"``; ``{{`` is a brace), elsewhere it is
      taken as it is.
    - max_running: the job's own limit for its key, 1 to 1,000,000; None for none. Needs a key.
    - priority: -1,000,000 to 1,000,000, higher goes first; default 0.
    - delay: seconds from now, or a timedelta; or run_at: an aware datetime. Default: at once.
    - expires: seconds from now, a timedelta or an aware datetime: if it has not started by then, it
      is cancelled. None for never.
    - max_attempts: 1 to 1,000,000; default 5.
    - timeout: seconds or a timedelta for the body; default 300; None for as long as it likes.
    - dedupe: while a job with this value is scheduled, waiting or running, enqueue returns that one.
    - store_result: whether to keep what the body returns; default True.
    - retry_on: exception classes, one or a tuple: an attempt that fails with another fails the job
      for good. None, the default, for any. A time-out is a ``TimeoutError``. Decorator only.
    - backoff: how long to wait before the next attempt: seconds or a timedelta; a list of them, one
      for each attempt, the last for all further ones; or a function that takes the attempts made so
      far and returns such a wait. None, the default, is 1 s doubling to 1 h, shortened by chance by
      up to a half. Decorator only: a worker has both from its own code, the file does not hold them.
    - connection: enqueue in this connection's open transaction: of sqlite3, or a Connection or
      Session of SQLAlchemy; for the async twins also of aiosqlite, or an AsyncConnection or
      AsyncSession. It is best begun by BEGIN IMMEDIATE: a deferred one that has read fails when
      somebody has written since. From then on the connection's automatic checkpoints are off
      (``wal_autocheckpoint`` 0): the queue folds the log.
    """

    queue: str
    key: str | None
    max_running: int | None
    priority: int
    delay: float | timedelta
    run_at: datetime
    expires: float | timedelta | datetime | None
    max_attempts: int
    timeout: float | timedelta | None
    dedupe: str | None
    store_result: bool
    retry_on: type[BaseException] | tuple[type[BaseException], ...] | None
    backoff: backoff.Given | None
    connection: "Connection | None"


class Template:
    """A key with arguments in it, such as ``tenant:{tenant}``."""

    def __init__(self, text: str, parameters: Parameters) -> None:
        try:
            parsed = list(string.Formatter().parse(text))
        except ValueError as error:
            raise InvalidValue(
                name="key", problem=f"is no template ({error})", value=text
            ) from None
        self._parts: list[tuple[str, str | None]] = []
        for before, name, spec, conversion in parsed:
            if name is not None and (spec or conversion or name not in parameters.names):
                problem = f"names {{{name}}}: a template may hold the names of arguments only"
                raise InvalidValue(name="key", problem=problem, value=text)
            self._parts.append((before, name))

    def render(self, values: Mapping[str, object]) -> str:
        """Return the key for these arguments; "" if one of them is None.

        Raises:
            InvalidValue: An argument cannot be written into a key.
        """
        made: list[str] = []
        for before, name in self._parts:
            made.append(before)
            if name is not None:
                value = values[name]
                if value is None:
                    return ""
                made.append(value if type(value) is str else _text(name, value))
        return "".join(made)


def _text(name: str, value: object) -> str:
    try:
        return str(value)
    except Exception as error:
        problem = f"cannot be written into a key ({type(error).__name__})"
        raise InvalidValue(name=name, problem=problem, value=value) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Options, checked.

    Attributes:
        terms: What the store needs of them; its task is filled in.
        key: The key, or the template of one; "" for none.
        connection: The caller's connection; None to use our own.
        retry_on: What an attempt must fail with to be made again; None for anything.
        backoff: The task's own; None for the usual one.
    """

    terms: Terms
    key: str | Template = ""
    connection: object = None
    retry_on: tuple[type[BaseException], ...] | None = None
    backoff: Backoff | None = None

    def key_for(self, values: Callable[[], Mapping[str, object]]) -> str:
        """Return the key of one call; ``values`` gives its arguments by name."""
        if isinstance(self.key, str):
            return self.key
        return checks.key("key", self.key.render(values()))


def settle(base: Settings, options: Options, parameters: Parameters | None = None) -> Settings:
    """Return settings with these options on top.

    Args:
        base: The settings so far.
        options: What changes.
        parameters: Of the task, in its decorator: there the key is a template.

    Raises:
        InvalidValue: An option is unknown, of a wrong type or out of range, or they do not go
            together.
    """
    unknown = options.keys() - Options.__annotations__.keys()
    if unknown:
        known = ", ".join(Options.__annotations__)
        problem = f"is no option; there are {known}"
        raise InvalidValue(name=min(unknown), problem=problem)
    if parameters is None:
        for name in options.keys() & {"retry_on", "backoff"}:
            problem = "belongs to the task: give it in @q.task(...), workers have it from there"
            raise InvalidValue(name=name, problem=problem)
    if "delay" in options and "run_at" in options:
        raise InvalidValue(name="delay", problem="and run_at cannot both be given")
    terms = base.terms
    for name, value in options.items():
        if name in _SETTERS:
            terms = _SETTERS[name](terms, value)
    key = base.key
    if "key" in options:
        key = _key(checks.key("key", options["key"]), parameters)
    if terms.cap != UNLIMITED and not key:
        raise InvalidValue(
            name="max_running", problem="needs a key: without one nothing is limited"
        )
    return replace(
        base,
        terms=terms,
        key=key,
        connection=options.get("connection", base.connection),
        retry_on=_retried(options["retry_on"]) if "retry_on" in options else base.retry_on,
        backoff=_backoff(options["backoff"]) if "backoff" in options else base.backoff,
    )


def _retried(value: object) -> tuple[type[BaseException], ...] | None:
    if value is None:
        return None
    kinds: tuple[object, ...] = value if _is_tuple(value) else (value,)
    found = tuple(kind for kind in kinds if _is_exception(kind))
    if len(found) < len(kinds):
        problem = "must be an exception class or a tuple of them"
        raise InvalidValue(name="retry_on", problem=problem, value=value)
    return found


def _is_tuple(value: object) -> TypeGuard[tuple[object, ...]]:
    return isinstance(value, tuple)


def _is_exception(value: object) -> TypeGuard[type[BaseException]]:
    return isinstance(value, type) and issubclass(value, BaseException)


def _backoff(value: object) -> Backoff | None:
    return None if value is None else backoff.given(value)


def _key(text: str, parameters: Parameters | None) -> str | Template:
    if parameters is None or ("{" not in text and "}" not in text):
        return text
    return Template(text, parameters)


def _with_cap(terms: Terms, value: object) -> Terms:
    if value is None:
        return replace(terms, cap=UNLIMITED)
    return replace(terms, cap=checks.integer("max_running", value, 1, MOST_RUNNING))


def _with_delay(terms: Terms, value: object) -> Terms:
    delay_ms = checks.seconds_ms("delay", value, low_ms=0, high_ms=checks.LONGEST_MS)
    return replace(terms, delay_ms=delay_ms, run_at=None)


def _with_expiry(terms: Terms, value: object) -> Terms:
    if value is None:
        return replace(terms, expires_in_ms=None, expires_at=None)
    if isinstance(value, datetime):
        return replace(terms, expires_in_ms=None, expires_at=checks.instant_ms("expires", value))
    span_ms = checks.seconds_ms("expires", value, low_ms=1, high_ms=checks.LONGEST_MS)
    return replace(terms, expires_in_ms=span_ms, expires_at=None)


def _with_timeout(terms: Terms, value: object) -> Terms:
    if value is None:
        return replace(terms, timeout_ms=None)
    timeout_ms = checks.seconds_ms("timeout", value, low_ms=1, high_ms=checks.LONGEST_MS)
    return replace(terms, timeout_ms=timeout_ms)


def _with_dedupe(terms: Terms, value: object) -> Terms:
    if value is None:
        return replace(terms, dedupe=None)
    return replace(terms, dedupe=checks.text("dedupe", value, high=checks.KEY_CHARACTERS))


_SETTERS: Final[dict[str, Callable[[Terms, object], Terms]]] = {
    "queue": lambda terms, value: replace(terms, queue=checks.text("queue", value)),
    "max_running": _with_cap,
    "priority": lambda terms, value: replace(
        terms, priority=checks.integer("priority", value, -MOST_PRIORITY, MOST_PRIORITY)
    ),
    "delay": _with_delay,
    "run_at": lambda terms, value: replace(
        terms, run_at=checks.instant_ms("run_at", value), delay_ms=0
    ),
    "expires": _with_expiry,
    "max_attempts": lambda terms, value: replace(
        terms, max_attempts=checks.integer("max_attempts", value, 1, MOST_ATTEMPTS)
    ),
    "timeout": _with_timeout,
    "dedupe": _with_dedupe,
    "store_result": lambda terms, value: replace(
        terms, store_result=checks.boolean("store_result", value)
    ),
}
