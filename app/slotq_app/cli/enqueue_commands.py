"""``qworker enqueue``."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from slotq_app.cli import completion, files, job_lines, output
from slotq_app.cli.durations import seconds, seconds_or_none
from slotq_app.cli.job_lines import json_value
from slotq_app.cli.options import Database, Delay, MaxRunning
from slotq_app.cli.usage import did_you_mean

if TYPE_CHECKING:
    import slotq


def enqueue(
    context: typer.Context,
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="TASK",
            help="Name of the task, module.function; its code need not be here.",
            autocompletion=completion.tasks,
            show_default=False,
        ),
    ] = None,
    *,
    arg: Annotated[
        list[str] | None,
        typer.Option(metavar="JSON", help="A positional argument; again for more."),
    ] = None,
    kwarg: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=JSON", help="A named argument; again for more."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="What it is limited by.", autocompletion=completion.keys),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Its queue.",
            autocompletion=completion.queues,
            show_default="default",
        ),
    ] = None,
    priority: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=-1_000_000,
            max=1_000_000,
            help="Higher goes first.",
            show_default="0",
        ),
    ] = None,
    delay: Delay = None,
    max_running: MaxRunning = None,
    max_attempts: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=1_000_000,
            help="How often it is tried at most.",
            show_default="5",
        ),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            metavar="TIME|none",
            help="How long it may run, such as 90s or 2h; none for as long as it likes.",
            show_default="300s",
        ),
    ] = None,
    expires: Annotated[
        float | None,
        typer.Option(
            metavar="TIME",
            parser=seconds,
            help="Cancel it if it has not started within this time.",
            show_default="never",
        ),
    ] = None,
    dedupe: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="While a job with this text has not ended, take that one instead of a new one.",
        ),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file",
            metavar="JSONL",
            help="Jobs from a file, - for standard input: a JSON object a line, with task, args, "
            "kwargs and options. TASK and the options here are for lines without their own.",
        ),
    ] = None,
    db: Database = None,
) -> None:
    """Put a job in line, and print its number alone.

    With --file it is all jobs of a file, or none if a line is bad. What the task's own code says
    of its timeout, attempts and key does not count here: give it with the options.

    qworker enqueue app.export --arg '"acme"' --kwarg report=7 --key tenant:acme
    """
    options = _options(
        key=key,
        queue=queue,
        priority=priority,
        delay=delay,
        max_running=max_running,
        max_attempts=max_attempts,
        expires=expires,
        dedupe=dedupe,
    )
    if timeout is not None:
        options["timeout"] = seconds_or_none(timeout, of="--timeout")
    if file is None:
        if task is None:
            raise typer.BadParameter("is missing: name a task, or give --file", param_hint="TASK")
        args = [json_value("--arg", text) for text in arg or ()]
        kwargs = _kwargs(kwarg or ())
        with files.opened(context, db, create=True) as q:
            output.write([str(q.enqueue(task, args=args, kwargs=kwargs, **options).id)])
            _warn_of_unknown(q, task)
    elif arg or kwarg:
        problem = "cannot go with --file: its lines have their own args and kwargs"
        raise typer.BadParameter(problem, param_hint="--arg" if arg else "--kwarg")
    else:
        defaults = {**options} if task is None else {"task": task, **options}
        with job_lines.opened(file, defaults) as lines, files.opened(context, db, create=True) as q:
            told = _enqueued(lines, job_lines.store(q, lines))
        output.write([told])


def _options(
    *,
    key: str | None,
    queue: str | None,
    priority: int | None,
    delay: float | None,
    max_running: int | None,
    max_attempts: int | None,
    expires: float | None,
    dedupe: str | None,
) -> "slotq.Options":
    """Return the options that were given; the others are left to the engine, or to a line."""
    options: slotq.Options = {}
    if key is not None:
        options["key"] = key
    if queue is not None:
        options["queue"] = queue
    if priority is not None:
        options["priority"] = priority
    if delay is not None:
        options["delay"] = delay
    if max_running is not None:
        options["max_running"] = max_running
    if max_attempts is not None:
        options["max_attempts"] = max_attempts
    if expires is not None:
        options["expires"] = expires
    if dedupe is not None:
        options["dedupe"] = dedupe
    return options


def _enqueued(lines: job_lines.JobLines, new: range) -> str:
    told = f"enqueued {len(new)} {'job' if len(new) == 1 else 'jobs'}"
    if new:
        told += f", {new[0]} to {new[-1]}"
    found = lines.count - len(new)
    return f"{told}; {found} found a job of their dedupe text" if found else told


def _warn_of_unknown(queue: "slotq.Queue", task: str) -> None:
    """Warn if there are workers, and none can run the task: its name may be mistyped."""
    workers = queue.workers()
    known = {name for worker in workers for name in worker.tasks}
    if workers and task not in known:
        output.warn(f"warning: no worker now knows task {task}.{did_you_mean(task, known)}")


def _kwargs(given: Iterable[str]) -> dict[str, object]:
    kwargs: dict[str, object] = {}
    for name, value in map(_named, given):
        if name in kwargs:
            raise typer.BadParameter(f"{name!r} is given twice", param_hint="--kwarg")
        kwargs[name] = value
    return kwargs


def _named(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        problem = f"{text!r} must be NAME=JSON, such as report=7"
        raise typer.BadParameter(problem, param_hint="--kwarg")
    return name, json_value("--kwarg", value)
