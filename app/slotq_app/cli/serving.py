"""A worker for a user's app: find its queue, serve it, say so."""

import importlib
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

import typer

import slotq
from slotq_app.cli.channel import Parent
from slotq_app.cli.exits import CommandFailed, line_of, one_line
from slotq_app.cli.recycling import MemoryWatch
from slotq_app.cli.run_commands import Order

logger = logging.getLogger("slotq.run")

# Tasks named in the line at the start.
SHOWN_TASKS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a worker is to work; see ``slotq.Worker``.

    Attributes:
        max_bytes: The memory above which this process is to be replaced; None for any.
    """

    slots: int
    queues: Sequence[str] | None
    order: Order
    lease_s: float
    grace_s: float
    burst: bool
    max_jobs: int | None
    max_bytes: int | None


def load(target: str, *, app_dir: Path, db: Path | None) -> slotq.Queue:
    """Import a module and return the queue in it.

    Args:
        target: ``module:attribute``; both may have dots.
        app_dir: Where modules are looked for first.
        db: The file that the queue must be; it also becomes ``$SLOTQ_DB``, so that a ``Queue()``
            without a path takes it.

    Raises:
        typer.BadParameter: There is no such module or attribute, it is no queue, or it has another
            file.
        CommandFailed: The module's own code failed.
    """
    name, colon, attribute = target.partition(":")
    if not (colon and _is_dotted(name) and _is_dotted(attribute)):
        raise _bad(f"{target!r} must be module:attribute, such as app:q")
    if db is not None:
        os.environ["SLOTQ_DB"] = str(db.absolute())
    found: object = _import(name, attribute, app_dir)
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise _bad(f"{_place(found, name)} has no attribute {part!r}") from None
    if not isinstance(found, slotq.Queue):
        raise _bad(f"{target} is of type {type(found).__name__}, not a slotq.Queue")
    if db is not None and db.resolve() != found.path.resolve():
        problem = f"{db.absolute()} is not the file of {target}, which is {found.path}"
        raise typer.BadParameter(problem, param_hint="--db")
    return found


def serve(queue: slotq.Queue, terms: Terms, parent: Parent | None) -> None:
    """Work until a signal, until a burst is done, or until this process is to be replaced.

    Args:
        queue: The queue.
        terms: How to work.
        parent: Who supervises this process; None for nobody.

    Raises:
        slotq.SlotqError: The file cannot be used, or a term is out of its range.
        SystemExit: It was told to leave twice.
    """
    worker = slotq.Worker(
        queue,
        slots=terms.slots,
        queues=terms.queues,
        order=terms.order,
        lease=terms.lease_s,
        grace=terms.grace_s,
        burst=terms.burst,
        max_jobs=terms.max_jobs,
    )
    with queue, MemoryWatch(terms.max_bytes, worker.stop) as memory:
        queue.stats()  # a file that cannot be used is told before anything is said to be served
        logger.info("%s", one_line(_start_line(queue, terms)))
        if parent is not None:
            parent.tell_ready()
        worker.run()
    is_done = terms.burst and not (memory.is_over or worker.has_used_up)
    if parent is not None and not is_done:
        parent.tell_recycled()
    logger.info("stopped; nothing runs any more")


def _import(name: str, attribute: str, app_dir: Path) -> ModuleType:
    is_file = name.endswith(".py")
    hint = f"; did you mean '{name.removesuffix('.py')}:{attribute}'?" if is_file else ""
    sys.path.insert(0, str(app_dir.absolute()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # The module that was asked for, or a package on the way to it; else its own code failed.
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            problem = f"there is no module {error.name!r} in {app_dir.absolute()}"
            raise _bad(f"{problem} or among the installed ones{hint}") from None
        raise _failed(name, error, app_dir) from error
    except BaseException as error:  # also SystemExit: a script that runs to its end
        raise _failed(name, error, app_dir) from error


def _failed(name: str, error: BaseException, app_dir: Path) -> CommandFailed:
    text = f"importing {name} failed: {type(error).__name__}: {line_of(error)}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(app_dir.absolute())]
    # A syntax error says itself where it is; its frames are the importer's.
    if frames and not isinstance(error, SyntaxError):
        last = (own or frames)[-1]
        text += f" ({last.filename}, line {last.lineno})"
    return CommandFailed(text)


def _start_line(queue: slotq.Queue, terms: Terms) -> str:
    names = sorted(queue.tasks)
    tasks = ", ".join(names[:SHOWN_TASKS]) or "none, so nothing will run"
    if len(names) > SHOWN_TASKS:
        tasks += f" and {len(names) - SHOWN_TASKS} more"
    queues = "every queue" if terms.queues is None else f"queues {', '.join(terms.queues)}"
    return (
        f"serving {queue.path}: {queues}, {terms.slots} slots, order {terms.order}, tasks {tasks}"
    )


def _is_dotted(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


def _place(found: object, name: str) -> str:
    """Name the thing that was looked in; a file tells of a module that was not the one meant."""
    if isinstance(found, ModuleType) and found.__file__ is not None:
        return f"{name} ({found.__file__})"
    return name


def _bad(problem: str) -> typer.BadParameter:
    return typer.BadParameter(problem, param_hint="APP")
