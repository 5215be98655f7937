"""Jobs in a file of JSON lines, read one by one."""

import json
import os
import stat
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TypeGuard

import typer

from slotq_app.cli import output
from slotq_app.cli.exits import CommandFailed
from slotq_app.cli.usage import did_you_mean

if TYPE_CHECKING:
    import slotq

LONGEST_LINE: Final = 2**24
"""Bytes of a line: a job's arguments are 1 MiB at most, the rest is little."""

SHOWN_CHARACTERS: Final = 80
"""How much of what is not JSON an error repeats."""

COPIED_BYTES: Final = 65_536

# What a line may hold. What a job is called with is checked by the engine.
NAMES: Final = (
    "task", "args", "kwargs", "queue", "key", "max_running", "priority", "delay", "run_at",
    "expires", "max_attempts", "timeout", "dedupe", "store_result",
)  # fmt: skip
INSTANTS: Final = ("run_at", "expires")


class LineRefused(ValueError):
    """A line is no job; the text says why."""


class JobLines:
    """The jobs of a file, each with the defaults for what its line leaves out.

    Attributes:
        name: The file, as it was given.
        number: The line that was read last, from 1.
        count: The jobs read so far.
    """

    def __init__(
        self,
        stream: BinaryIO,
        name: str,
        defaults: Mapping[str, object],
        moved: Callable[[int], None],
    ) -> None:
        self.name = name
        self._stream = stream
        self._defaults = defaults
        self._moved = moved
        self.number = 0
        self.count = 0

    def __iter__(self) -> Iterator[Mapping[str, object]]:
        while line := self._stream.readline(LONGEST_LINE):
            self.number += 1
            if len(line) == LONGEST_LINE:
                raise LineRefused(f"is longer than {LONGEST_LINE:,} bytes")
            self._moved(len(line))
            if line.strip():
                self.count += 1
                yield self._with_defaults(_item(line))

    def _with_defaults(self, item: Mapping[str, object]) -> Mapping[str, object]:
        made = {**self._defaults, **item}
        if "run_at" in item and "delay" not in item:
            made.pop("delay", None)  # the line says when, so it has its own
        return made


@contextmanager
def opened(file: str, defaults: Mapping[str, object]) -> Generator[JobLines]:
    """Open a file of jobs for a block, and show on a terminal how far it is read.

    Args:
        file: Its path; ``-`` for standard input.
        defaults: What holds for lines that do not say otherwise.

    Raises:
        CommandFailed: It cannot be read.
    """
    with _stream(file) as stream:
        size = os.fstat(stream.fileno()).st_size
        with output.progress(size, "enqueue") as moved:
            yield JobLines(stream, "standard input" if file == "-" else file, defaults, moved)


def store(queue: "slotq.Queue", lines: JobLines) -> range:
    """Put all the jobs of a file in line, or none; return the numbers of the new ones.

    Raises:
        CommandFailed: A line is no job.
    """
    try:
        return queue.enqueue_batch(lines)
    except OSError as error:
        raise CommandFailed(
            f"{lines.name}: {error.strerror}; none of its jobs are stored"
        ) from None
    except ValueError as error:
        # The engine counts jobs from 0, people count lines from 1.
        cause = error.__cause__ or error
        place = f"{lines.name}, line {lines.number}"
        raise CommandFailed(f"{place}: {cause}; none of its jobs are stored") from None


def json_value(option: str, text: str) -> object:
    """Return the value of an option that is JSON.

    Raises:
        typer.BadParameter: It is not JSON.
    """
    try:
        return _decoded(text)
    except ValueError:
        if len(text) > SHOWN_CHARACTERS:
            problem = f"{text[:SHOWN_CHARACTERS]!r}... is not JSON"
        else:
            problem = f"{text!r} is not JSON. Did you mean '{json.dumps(text)}'?"
        raise typer.BadParameter(problem, param_hint=option) from None


def _stream(file: str) -> BinaryIO:
    try:
        stream = os.fdopen(sys.stdin.fileno() if file == "-" else os.open(file, os.O_RDONLY), "rb")
        if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            return stream
        # While lines are stored nobody else writes: they must not wait for who writes into a pipe.
        import tempfile  # noqa: PLC0415  # for this case only

        with stream:
            copy = tempfile.TemporaryFile()  # noqa: SIM115  # who asked for it closes it
            # One read at a time: a buffer would go on reading, and not look whether Ctrl-C came.
            while part := os.read(stream.fileno(), COPIED_BYTES):
                copy.write(part)
    except OSError as error:
        raise CommandFailed(f"{Path(file).absolute()}: {error.strerror}") from None
    copy.seek(0)
    return copy


def _item(line: bytes) -> dict[str, object]:
    try:
        item = _decoded(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise LineRefused("is not UTF-8") from None
    except ValueError as error:
        raise LineRefused(f"is not JSON ({error})") from None
    if not _is_object(item):
        raise LineRefused('must be a JSON object, such as {"task": "app.export"}')
    for name in item:
        if name not in NAMES:
            raise LineRefused(f"has no meaning for {name!r}.{did_you_mean(name, NAMES)}")
    return {name: _instant(name, value) for name, value in item.items()}


def _instant(name: str, value: object) -> object:
    """Return a value of a line; an instant is text in JSON."""
    if name not in INSTANTS or not isinstance(value, str):
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        problem = f"{name} must be an instant such as 2030-01-31T12:00:00Z, not {value!r}"
        raise LineRefused(problem) from None


def _decoded(text: str) -> object:
    """Return the value of a JSON text.

    Raises:
        ValueError: It is none.
    """
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _refuse(name: str) -> object:
    raise ValueError(f"{name} is no JSON number")


def _is_object(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)
