"""Options and arguments that several commands have in common."""

from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from slotq_app.cli import completion
from slotq_app.cli.durations import seconds
from slotq_app.cli.filters import State

EndState = Literal["succeeded", "failed", "cancelled"]
KeySort = Literal["key", "waiting", "running", "scheduled"]

DATABASE_HELP: Final = "The queue file; else $SLOTQ_DB."

Database = Annotated[Path | None, typer.Option("--db", metavar="PATH", help=DATABASE_HELP)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

JobId = Annotated[
    int,
    typer.Argument(
        metavar="ID", min=0, help="Number of the job.", autocompletion=completion.job_ids
    ),
]
JobState = Annotated[State | None, typer.Option("--state", help="Only jobs in this state.")]
JobEnd = Annotated[
    EndState | None, typer.Option("--state", help="Only jobs that end in this state.")
]
JobKey = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="KEY",
        help='Only jobs of this key; "" for those without one.',
        autocompletion=completion.keys,
    ),
]
JobQueue = Annotated[
    str | None,
    typer.Option(
        "--queue",
        metavar="NAME",
        help="Only jobs of this queue.",
        autocompletion=completion.queues,
    ),
]
JobTask = Annotated[
    str | None,
    typer.Option(
        "--task", metavar="NAME", help="Only jobs of this task.", autocompletion=completion.tasks
    ),
]
After = Annotated[
    int, typer.Option("--after", metavar="ID", min=0, help="Only jobs with a greater number.")
]
Most = Annotated[
    int, typer.Option("--limit", metavar="N", min=0, help="How many at most; 0 for all.")
]
Key = Annotated[
    str,
    typer.Argument(metavar="KEY", help="A key, byte for byte.", autocompletion=completion.keys),
]
Sort = Annotated[KeySort, typer.Option("--sort", help="The most of these first, or by key.")]
MaxRunning = Annotated[
    int | None,
    typer.Option(
        "--max-running",
        metavar="N",
        min=1,
        max=1_000_000,
        help="Most jobs of its key at once, for this job. Needs --key.",
    ),
]
Delay = Annotated[
    float | None,
    typer.Option(
        "--delay",
        metavar="TIME",
        parser=seconds,
        help="Wait this long before it may start: 90, 90s, 5m, 2h or 7d.",
    ),
]
