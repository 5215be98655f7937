"""What a worker logs, as lines for people or as JSON, with the job that it is about."""

import json
import logging
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from shlex import quote
from typing import Final

import typer
from typing_extensions import override

import slotq
from slotq_app.cli import exits
from slotq_app.cli.run_commands import LogFormat, LogLevel

logger = logging.getLogger("slotq.run")

ABOUT: Final = ("job", "task", "key", "attempt")
"""What a record may say of a job: attributes, set by ``extra=`` or from the body that logs."""

# Lines of a traceback are set in, so that none can be taken for a line of the log.
INDENT: Final = "  "


def set_up(chosen: LogFormat | None, level: LogLevel | None) -> None:
    """Let this process log to standard error.

    Args:
        chosen: The format; None for text, unless the app has set up logging itself: that is left
            alone.
        level: The least that slotq says of its own; None for info, unless the app has set it.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if chosen == "json" else TextFormatter())
    # It keeps the handlers that are there, if it is not to force its own.
    logging.basicConfig(handlers=[handler], force=chosen is not None)
    own = logging.getLogger("slotq")
    if level is not None:
        own.setLevel(level.upper())
    elif own.level == logging.NOTSET:
        own.setLevel(logging.INFO)


@contextmanager
def failures_in(chosen: LogFormat | None, level: LogLevel | None) -> Generator[None]:
    """Log what ends its block, if the format is JSON: who reads that takes no other lines.

    Raises:
        typer.Exit: The block failed, which is told.
    """
    try:
        yield
    except Exception as error:
        code = exits.code_of(error)
        if chosen != "json" or code is None:
            raise
        set_up(chosen, level)
        logger.error("%s", exits.line_of(error))  # noqa: TRY400  # one line, not a fault of ours
        raise typer.Exit(code) from None


class TextFormatter(logging.Formatter):
    """A line for people, then the traceback if there is one.

    Whatever is in the text of a job, it makes no line of its own and does nothing to a terminal.
    """

    @override
    def format(self, record: logging.LogRecord) -> str:
        source = f"{record.name}[{record.process}]"
        line = f"{self.formatTime(record)} {record.levelname} {source}: {_message(record)}"
        about = " ".join(f"{name}={quote(str(value))}" for name, value in _about(record).items())
        if about:
            line += f" [{about}]"
        story = _story(self, record)
        shown = slotq.visible(line)
        for each in slotq.visible(story, lines=True).split("\n") if story else ():
            shown += f"\n{INDENT}{each}"
        return shown


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, pid, message, the job, exception."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{seconds}.{int(record.msecs):03}Z",
            "level": record.levelname,
            "logger": slotq.visible(record.name),
            "pid": record.process,
            "message": slotq.visible(_message(record)),
        }
        for name, value in _about(record).items():
            line[name] = value if isinstance(value, int) else slotq.visible(str(value))
        story = _story(self, record)
        if story:
            line["exception"] = slotq.visible(story, lines=True)
        # ASCII: a line can be read whatever the encoding of standard error is.
        return json.dumps(line)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001  # a wrong call of the app's must not cost its line
        return f"{record.msg} (its arguments do not fit: {type(error).__name__}: {error})"


def _about(record: logging.LogRecord) -> Mapping[str, object]:
    """Return what the record says of a job, or the job whose body logs it; empty if none."""
    said = {name: getattr(record, name, None) for name in ABOUT}
    if said["job"] is None:
        try:
            job = slotq.current_job()
        except slotq.SlotqError:
            return {}
        said = {"job": job.id, "task": job.task, "key": job.key, "attempt": job.attempt}
    return {name: value for name, value in said.items() if value is not None}


def _story(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """Return the traceback and the stack of a record; empty if it has none."""
    parts: list[str] = []
    # exc_text would be what another formatter has made of it.
    if record.exc_info:
        parts.append(formatter.formatException(record.exc_info))
    if record.stack_info:
        parts.append(record.stack_info)
    return "\n".join(parts)
