"""The ``qworker`` command."""

import io
import os
import sys
from typing import Annotated, Final

import typer
from typer.core import TyperGroup

from slotq_app.cli import (
    enqueue_commands,
    event_commands,
    exits,
    file_commands,
    hold_commands,
    job_actions,
    job_commands,
    key_commands,
    limit_commands,
    limit_files,
    pause_commands,
    run_commands,
    shells,
)
from slotq_app.cli.commands import HoldCommand, OnceCommand, RootGroup
from slotq_app.cli.options import Database
from slotq_app.cli.output import OutputClosed

INTERRUPTED: Final = 130
"""The exit code after Ctrl-C, as of a shell: 128 and the signal's number."""


def _group(name: str, help_text: str, cls: type[TyperGroup] = TyperGroup) -> typer.Typer:
    # Plain help and plain errors: loading rich would double the time of every --help, and what
    # comes from a queue file must never be read as markup.
    return typer.Typer(
        name=name,
        cls=cls,
        help=help_text,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


app = _group("qworker", "Run and watch the jobs of a slotq queue file.", RootGroup)
jobs = _group("jobs", "List, show, wait for, retry, cancel and delete jobs.")
limits = _group("limits", "List, set and clear limits of keys and queues, or many by a file.")
keys = _group("keys", "List, show, pause and resume keys.")
queues = _group("queues", "List, pause and resume queues.")
holds = _group("holds", "List and release holds.")
workers = _group("workers", "List workers.")


def _version(wanted: bool) -> None:
    if not wanted:
        return
    from importlib.metadata import version  # noqa: PLC0415  # slow, and for this option only

    typer.echo(f"slotq {version('slotq')}")
    raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    db: Database = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Take the options that come before the command."""
    del version  # its callback has done it
    context.obj = db


def between(context: typer.Context, db: Database = None) -> None:
    """Take the options that come between a group and its command."""
    context.obj = db or context.obj


app.command("run")(run_commands.run)
app.command("enqueue", cls=OnceCommand)(enqueue_commands.enqueue)
app.command("hold", cls=HoldCommand)(hold_commands.hold)

jobs.command("list", cls=OnceCommand)(job_commands.list_jobs)
jobs.command("show")(job_commands.show)
jobs.command("why")(job_commands.why)
jobs.command("wait")(job_commands.wait)
jobs.command("tail", cls=OnceCommand)(job_commands.tail)
jobs.command("retry", cls=OnceCommand)(job_actions.retry)
jobs.command("cancel", cls=OnceCommand)(job_actions.cancel)
jobs.command("delete", cls=OnceCommand)(job_actions.delete)

limits.command("list")(limit_commands.list_limits)
limits.command("set", cls=OnceCommand)(limit_commands.set_limit)
limits.command("clear", cls=OnceCommand)(limit_commands.clear)
limits.command("diff")(limit_files.diff)
limits.command("apply")(limit_files.apply)
limits.command("export")(limit_files.export)
limits.command("import")(limit_files.import_file)

keys.command("list")(key_commands.list_keys)
keys.command("show")(key_commands.show_key)
keys.command("pause")(pause_commands.pause_key)
keys.command("resume")(pause_commands.resume_key)
queues.command("list")(key_commands.list_queues)
queues.command("pause")(pause_commands.pause_queue)
queues.command("resume")(pause_commands.resume_queue)
holds.command("list", cls=OnceCommand)(hold_commands.list_holds)
holds.command("release")(hold_commands.release)
workers.command("list")(file_commands.list_workers)

for group in (jobs, limits, keys, queues, holds, workers):
    group.callback()(between)
    app.add_typer(group)

app.command("events")(event_commands.list_events)
app.command("stats")(file_commands.stats)
app.command("prune")(file_commands.prune)
app.command("demo")(run_commands.demo)


def main() -> int:
    """Run the command; an error becomes one line.

    Returns:
        The exit code.
    """
    for name in ("stdout", "stderr"):
        stream: object = getattr(sys, name)
        if stream is None:  # closed by who started it
            devnull = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, os.fdopen(devnull, "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):
            # What a terminal's encoding has no sign for is no error.
            stream.reconfigure(errors="backslashreplace")
    code = 0
    try:
        code = shells.answer(app) if shells.is_asking() else _run()
        sys.stdout.flush()
    except (OutputClosed, BrokenPipeError):
        _drop_output()
        return 0
    except OSError as error:
        _drop_output()
        if code == 0:  # else it is told already
            typer.echo(f"qworker: {exits.line_of(error)}", err=True)
        return code or exits.FAILED
    return code


def _drop_output() -> None:
    """Let go of what is left in the buffer: it can go nowhere, and the interpreter would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run() -> int:
    try:
        code: object = app(prog_name="qworker", standalone_mode=False)
    except OutputClosed:
        raise
    except typer.Abort:  # Ctrl-C, or the end of the input, at a question
        return INTERRUPTED
    except typer.TyperException as error:
        if error.message.startswith("Usage: "):  # no command was given: this is the help
            typer.echo(error.message, err=True)
        else:
            typer.echo(f"qworker: {exits.line_of(error)}", err=True)
        return error.exit_code
    except Exception as error:
        known = exits.code_of(error)
        if known is None:
            raise
        typer.echo(f"qworker: {exits.line_of(error)}", err=True)
        return known
    return code if isinstance(code, int) else 0
