"""The ``qworker`` command."""

from pathlib import Path
from typing import Annotated

import typer

from slotq_app.cli import run_commands
from slotq_app.cli.run_commands import DATABASE_HELP

# Plain help and plain errors: loading rich would double the time of every --help, and what comes
# from a queue file must never be read as markup.
app = typer.Typer(
    name="qworker",
    help="Run and watch the jobs of a slotq queue file.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if not wanted:
        return
    from importlib.metadata import version  # noqa: PLC0415  # slow, and for this option only

    typer.echo(f"slotq {version('slotq')}")
    raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    db: Annotated[Path | None, typer.Option("--db", metavar="PATH", help=DATABASE_HELP)] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Take the options that come before the command."""
    del version  # its callback has done it
    context.obj = db


app.command("run")(run_commands.run)
app.command("demo")(run_commands.demo)


def main() -> None:
    """Run the command; errors become one line and an exit code."""
    try:
        app(prog_name="qworker")
    except Exception as error:
        # Loads the engine, which --help and completion do without.
        from slotq_app.cli import exits  # noqa: PLC0415

        code = exits.code_of(error)
        if code is None:
            raise
        typer.echo(f"qworker: {exits.line_of(error)}", err=True)
        raise SystemExit(code) from None
