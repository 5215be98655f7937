"""``qworker limits``: diff, apply, export, import."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from slotq_app.cli import files, output
from slotq_app.cli.exits import CommandFailed
from slotq_app.cli.options import Database, Json
from slotq_app.cli.run_commands import App, AppDir
from slotq_app.cli.tables import Cell, shown, text, window_of, word

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import TypeGuard

    import slotq

# What makes a limit, in the order in which it is exported.
FIELDS: Final = ("key", "queue", "name", "max_running", "max_starts", "window", "timezone")

COLUMNS: Final = (
    text("KEY"), text("QUEUE"), text("NAME", is_minor=True), word("DIFFERENCE"), text("CODE"),
    text("FILE"), text("UPDATED BY", is_minor=True),
)  # fmt: skip

DryRun = Annotated[bool, typer.Option("--dry-run", help="Tell what would be done, and do nothing.")]


def diff(
    context: typer.Context,
    app: App,
    *,
    app_dir: AppDir = Path(),
    as_json: Json = False,
    db: Database = None,
) -> None:
    """Show where the file differs from what the code of an app declares.

    A limit that somebody has set or edited stays when workers start; 'limits apply' undoes that.
    """
    with _declared(context, app, app_dir, db) as q:
        found = [each for each in q.limit_differences() if each.kind != "unmarked"]
    if as_json:
        output.write_json_list(found)
    elif found:
        output.write_table(COLUMNS, map(_row, found))
    else:
        output.warn("no differences")


def apply(
    context: typer.Context,
    app: App,
    *,
    app_dir: AppDir = Path(),
    dry_run: DryRun = False,
    db: Database = None,
) -> None:
    """Set the limits that the code of an app declares, also over edits.

    Limits that it declared before and does no longer are removed; others stay.
    """
    with _declared(context, app, app_dir, db) as q, _warnings_told():
        done = q.limit_differences() if dry_run else q.apply_limits()
    output.write(_lines(done, dry_run=dry_run))


def export(context: typer.Context, *, db: Database = None) -> None:
    """Print every limit as TOML, for 'limits import'."""
    with files.opened(context, db) as q:
        limits = q.limits()
    # Slow to load, and for this command only.
    import tomlkit  # noqa: PLC0415

    def tables() -> Iterator[str]:
        for limit in limits:
            parts = {field: getattr(limit, field) for field in FIELDS}
            # The usual zone and name go without saying.
            usual = {"name": "", "timezone": "UTC", "key": None, "queue": None}
            told = {
                field: value
                for field, value in parts.items()
                if value is not None and value != usual.get(field)
            }
            yield _escaped(tomlkit.dumps({"limit": [told]}))

    output.write(tables())


def import_file(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="As 'limits export' prints it.")],
    *,
    dry_run: DryRun = False,
    db: Database = None,
) -> None:
    """Set the limits of a TOML file, all or none; others stay as they are.

    Each is a table [[limit]] with key or queue, and with max_running, or max_starts and window.
    What one leaves out, the limit will not have.
    """
    place = files.place_of(context, db)
    entries = _entries(file)
    # Loads the engine, which --help and usage errors do without.
    import slotq  # noqa: PLC0415

    with _place_for(place, dry_run=dry_run) as path, slotq.Queue(path) as q, _warnings_told():
        try:
            done = q.set_limits(entries, dry_run=dry_run)
        except slotq.InvalidValue as error:
            raise _bad(file, str(error)) from None
    output.write(_lines(done, dry_run=dry_run))


@contextmanager
def _place_for(place: Path, *, dry_run: bool) -> "Generator[Path]":
    """Give the queue file; one that is not there is not made by a dry run, nor missed by it."""
    if not dry_run or place.exists():
        yield place
        return
    # Slow to load, and for this case only.
    import tempfile  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="qworker-") as folder:
        yield Path(folder, "empty.db")


@contextmanager
def _declared(
    context: typer.Context, app: str, app_dir: Path, db: Path | None
) -> "Generator[slotq.Queue]":
    """Import an app; open its queue, with the limits that it declares, if its file is there."""
    # Load the engine, which --help does without.
    import slotq  # noqa: PLC0415
    from slotq_app.cli import serving  # noqa: PLC0415

    with slotq.declaring_only():
        queue = serving.load(app, app_dir=app_dir, db=db or context.obj)
    with slotq.Queue(queue.path, create=False) as there, queue:
        there.stats()  # a file that is not there is told, and not made
        if not queue.declared_limits:
            output.warn(f"{app} declares no limits when it is imported")
        yield queue


@contextmanager
def _warnings_told() -> "Generator[None]":
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield
    for warning in told:
        output.warn(f"warning: {warning.message}")


def _entries(file: Path) -> list[dict[str, object]]:
    """Return the limits of a TOML file.

    Raises:
        typer.BadParameter: It is no such file.
        CommandFailed: It cannot be read.
    """
    # Slow to load, and for this command only.
    import tomllib  # noqa: PLC0415

    try:
        with file.open("rb") as stream:
            content: dict[str, object] = tomllib.load(stream)
    except OSError as error:
        raise CommandFailed(f"{file}: it cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, a number without end
        raise _bad(file, f"it is no TOML ({error})") from None
    for name in content:
        if name != "limit":
            raise _bad(file, f"it may have tables [[limit]] only, not {name!r}")
    entries = content.get("limit", [])
    if not _are_tables(entries):
        raise _bad(file, "limit must be tables [[limit]]")
    return entries


def _are_tables(value: object) -> "TypeGuard[list[dict[str, object]]]":
    return _is_list(value) and all(isinstance(entry, dict) for entry in value)


def _is_list(value: object) -> "TypeGuard[list[object]]":
    return isinstance(value, list)


def _escaped(toml: str) -> str:
    """Escape what TOML allows in a text, and a terminal could take for a command."""
    if toml.replace("\n", "").isprintable():
        return toml
    return "".join(
        char if char == "\n" or char.isprintable() else f"\\U{ord(char):08x}" for char in toml
    )


def _bad(file: Path, problem: str) -> typer.BadParameter:
    return typer.BadParameter(f"{file}: {problem}", param_hint="FILE")


def _lines(done: "Iterable[slotq.LimitDifference]", *, dry_run: bool) -> Iterator[str]:
    """Yield a line for each thing that was, or would be, done to a limit, and how many there are."""
    would, count = "would " if dry_run else "", 0
    for count, difference in enumerate(done, 1):  # noqa: B007  # the last one is of use
        yield shown(f"{would}{_step(difference)}")
    yield (
        f"{would}change {count} {'limit' if count == 1 else 'limits'}"
        if dry_run
        else (f"changed {count} {'limit' if count == 1 else 'limits'}")
    )


def _step(difference: "slotq.LimitDifference") -> str:
    terms, limit = difference.declared, difference.limit
    if terms is None:
        return f"clear {_place(limit)}, which was {_parts(limit)}"
    if limit is None:
        return f"set {_place(terms)} to {_parts(terms)}"
    if difference.kind == "unmarked":
        return f"let {_place(terms)} follow the code again, at {_parts(terms)}"
    return f"set {_place(terms)} to {_parts(terms)}, which was {_parts(limit)}"


def _place(of: "slotq.LimitTerms | slotq.Limit | None") -> str:
    assert of is not None, "a difference has at least one side"
    subject = f"queue {of.queue}" if of.key is None else of.key
    return f"{subject} ({of.name})" if of.name else subject


def _parts(of: "slotq.LimitTerms | slotq.Limit | None") -> str:
    """Return what a limit says, as it is typed; "" for none."""
    if of is None:
        return ""
    told = [] if of.max_running is None else [f"max_running {of.max_running}"]
    if of.max_starts is not None:
        zone = "" if of.timezone in {None, "UTC"} else f" {of.timezone}"
        told.append(f"max_starts {of.max_starts} in {window_of(of.window)}{zone}")
    return ", ".join(told)


def _row(difference: "slotq.LimitDifference") -> tuple[Cell, ...]:
    either = difference.declared or difference.limit
    assert either is not None, "a difference has at least one side"
    by = difference.limit.updated_by if difference.limit else None
    return (
        either.key, either.queue, either.name, difference.kind, _parts(difference.declared),
        _parts(difference.limit), by,
    )  # fmt: skip
