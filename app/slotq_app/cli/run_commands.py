"""``qworker run`` and ``qworker demo``."""

from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from slotq_app.cli import sizes
from slotq_app.cli.durations import seconds_within

Order = Literal["fair", "round-robin", "fifo"]
LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning"]

DATABASE_HELP: Final = "The queue file."
# What holds without --lease and --grace, in seconds.
LEASE_S: Final = 30.0
GRACE_S: Final = 25.0

App = Annotated[str, typer.Argument(metavar="APP", help="Where the Queue is: module:attribute.")]
AppDir = Annotated[
    Path,
    typer.Option(
        metavar="DIR",
        exists=True,
        file_okay=False,
        help="Where modules are looked for first.",
        show_default="the current folder",
    ),
]
Fair = Annotated[bool, typer.Option("--fair", help="Short for --order fair.")]
RoundRobin = Annotated[bool, typer.Option("--round-robin", help="Short for --order round-robin.")]
Fifo = Annotated[bool, typer.Option("--fifo", help="Short for --order fifo.")]
Ordered = Annotated[
    Order | None,
    typer.Option(help="Whose turn it is, among jobs of equal priority.", show_default="fair"),
]
Slots = Annotated[
    int, typer.Option(metavar="N", min=1, max=10_000, help="Jobs that a worker runs at once.")
]
Database = Annotated[Path | None, typer.Option("--db", metavar="PATH", help=DATABASE_HELP)]


def run(
    context: typer.Context,
    app: App,
    *,
    slots: Slots = 8,
    processes: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=256, help="Worker processes, each with its own slots."
        ),
    ] = 1,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A queue to serve; again for more.", show_default="every queue"
        ),
    ] = None,
    order: Ordered = None,
    fair: Fair = False,
    round_robin: RoundRobin = False,
    fifo: Fifo = False,
    lease: Annotated[
        float | None,
        typer.Option(
            metavar="TIME",
            parser=seconds_within("1s", "1h"),
            help="How long jobs stay this worker's own when it is not heard of.",
            show_default="30s",
        ),
    ] = None,
    grace: Annotated[
        float | None,
        typer.Option(
            metavar="TIME",
            parser=seconds_within("0s", "1d"),
            help="How long running jobs may take to end after SIGTERM or Ctrl-C.",
            show_default="25s",
        ),
    ] = None,
    burst: Annotated[
        bool, typer.Option("--burst", help="Leave once no job waits, instead of waiting for more.")
    ] = False,
    reload: Annotated[
        bool,
        typer.Option(
            "--reload", help="Restart when Python files in --app-dir change; for development."
        ),
    ] = False,
    max_jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Replace a worker process after this many starts.",
            show_default="never",
        ),
    ] = None,
    max_memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Replace a worker process that takes more memory, such as 300M or 1G.",
            show_default="never",
        ),
    ] = None,
    log_format: Annotated[
        LogFormat | None,
        typer.Option(
            help="Lines for people or JSON, also if the app has set up logging.",
            show_default="text",
        ),
    ] = None,
    log_level: Annotated[
        LogLevel | None,
        typer.Option(
            help="The least that the worker says; debug is a line for each job.",
            show_default="info",
        ),
    ] = None,
    app_dir: AppDir = Path(),
    db: Database = None,
) -> None:
    """Run a worker: claim the jobs of a queue file and run them.

    SIGTERM or Ctrl-C stops claiming; jobs that run may end within the time of --grace, what is left
    goes back to be run again. A second one hands it back at once.
    """
    # Load the engine, which --help and completion do without.
    from slotq_app.cli import channel, logs, serving, supervising  # noqa: PLC0415

    grace_s = GRACE_S if grace is None else grace
    with logs.failures_in(log_format, log_level):
        chosen = _order(order, fair=fair, round_robin=round_robin, fifo=fifo)
        max_bytes = None if max_memory is None else sizes.size(max_memory, of="--max-memory")
        parent = channel.to_parent()  # None in the process that the user has started
        is_supervised = processes > 1 or reload or max_jobs is not None or max_bytes is not None
        if parent is None and is_supervised:
            logs.set_up(log_format, log_level)
            plan = supervising.Plan(
                processes=processes,
                grace_s=grace_s,
                burst=burst,
                reload_dir=app_dir.absolute() if reload else None,
            )
            raise typer.Exit(supervising.Supervisor(plan).run())
        served = serving.load(app, app_dir=app_dir, db=db or context.obj)
        logs.set_up(log_format, log_level)
        terms = serving.Terms(
            slots=slots,
            queues=queue or None,
            order=chosen,
            lease_s=LEASE_S if lease is None else lease,
            grace_s=grace_s,
            burst=burst,
            max_jobs=max_jobs,
            max_bytes=max_bytes,
        )
        serving.serve(served, terms, parent)


def demo(
    context: typer.Context,
    *,
    workers: Annotated[int, typer.Option(metavar="N", min=1, max=16, help="Processes.")] = 2,
    slots: Slots = 32,
    order: Ordered = None,
    fair: Fair = False,
    round_robin: RoundRobin = False,
    fifo: Fifo = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=10,
            max=100_000,
            help="How many jobs.",
            show_default="one for each file of the library",
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the files of the run.")] = False,
    db: Database = None,
) -> None:
    """See it work: pack Python's own library, file by file, under limits by tenant.

    Every file is a job, its package is the tenant. Two workers run the jobs; at the end what they
    recorded tells whether every limit held.
    """
    chosen = _order(order, fair=fair, round_robin=round_robin, fifo=fifo)
    # Loads the engine and what draws, which --help and completion do without.
    from slotq_app.demo import running  # noqa: PLC0415

    terms = running.Terms(workers=workers, slots=slots, order=chosen, jobs=jobs)
    raise typer.Exit(running.run(terms, keep_at=db or context.obj, keep=keep))


def _order(order: Order | None, *, fair: bool, round_robin: bool, fifo: bool) -> Order:
    """Return the one order that was asked for.

    Raises:
        typer.BadParameter: There are several.
    """
    flags: dict[Order, bool] = {"fair": fair, "round-robin": round_robin, "fifo": fifo}
    asked: list[Order] = [name for name, is_set in flags.items() if is_set or name == order]
    if len(asked) > 1:
        raise typer.BadParameter(f"one order only, not {' and '.join(asked)}")
    return asked[0] if asked else "fair"
