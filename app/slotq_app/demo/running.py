"""The demo from its start to its verdict."""

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Final, Protocol

import msgspec
from rich.console import Console

import slotq
from slotq_app.demo import fleet, history, plan, report, watch
from slotq_app.demo.fleet import Worker
from slotq_app.demo.packing import Packed
from slotq_app.demo.plan import Tenant
from slotq_app.demo.report import counted

# Between two looks at the queue file.
LOOK_S: Final = 0.1
# Without a single job done in this time something is broken, and the demo ends.
STALL_S: Final = 15.0
EPOCH: Final = datetime.fromtimestamp(0, UTC)
MS: Final = timedelta(milliseconds=1)


class DemoFailed(Exception):
    """The run cannot come to its end; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How the demo is to run.

    Attributes:
        workers: Worker processes.
        slots: Slots of each.
        order: Their order.
        jobs: How many jobs; None for one for each file of the library.
    """

    workers: int
    slots: int
    order: str
    jobs: int | None


def run(terms: Terms, *, keep_at: Path | None, keep: bool) -> int:
    """Run the demo and return the exit code: 0 if every limit held and was reached.

    Args:
        terms: How.
        keep_at: Where the queue file is made and stays; None for a temporary folder.
        keep: Whether that folder stays.

    Raises:
        slotq.InvalidValue: There is a file at ``keep_at`` already.
        slotq.SlotqError: The queue file cannot be used.
    """
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    signal.signal(signal.SIGTERM, _leave)
    with _place(keep_at, keep=keep) as database:
        try:
            verdict = _run(terms, database, console)
        except DemoFailed as error:
            console.print(f"the demo failed: {error}", style="bold red")
            return 1
        except KeyboardInterrupt:
            console.print("stopped; its workers have left")
            raise
        finally:
            if keep or keep_at is not None:
                console.print(f"the queue file is kept: {database}")
        return 1 if verdict.problems else 0


def _run(terms: Terms, database: Path, console: Console) -> history.Verdict:
    tenants = tenants_of(terms)
    queue, ids = _prepare(database, tenants)
    with queue:
        title = (
            f"slotq demo: {len(ids):,} jobs of {len(tenants)} tenants,"
            f" {counted(terms.workers, 'worker')} of {counted(terms.slots, 'slot')},"
            f" order {terms.order}"
        )
        options = ["--slots", str(terms.slots), "--order", terms.order]
        with (
            fleet.workers(terms.workers, database, options) as workers,
            watch.view(console, title) as view,
        ):
            took_s = follow(queue, tenants, workers=workers, view=view)
            _let_leave(workers)
        jobs = [queue.job(job_id) for job_id in ids]
    owners = [tenant for tenant in tenants for _ in tenant.files]
    verdict = history.judge(
        {tenant.name: _promise(tenant) for tenant in tenants},
        history.read(history.log_path(database)),
        [_ended(number, owners[number], job) for number, job in enumerate(jobs)],
    )
    results = [msgspec.convert(job.result, Packed) for job in jobs if job.result is not None]
    about = report.Run(
        workers=terms.workers,
        slots=terms.slots,
        order=terms.order,
        took_s=took_s,
        read_bytes=sum(result["size"] for result in results),
        packed_bytes=sum(result["packed"] for result in results),
    )
    _print(console, tenants, verdict, about)
    return verdict


def tenants_of(terms: Terms) -> list[Tenant]:
    """Choose the files to pack, and say whose they are."""
    files = plan.source_files()
    if len(files) < plan.LEAST_FILES:
        raise DemoFailed(f"there are only {len(files)} source files in {plan.LIBRARY}")
    count = terms.jobs
    if count is None:
        processors = min(terms.workers, os.cpu_count() or 1)
        sizes = [(plan.LIBRARY / file).stat().st_size for file in files]
        count = plan.enough_jobs(sizes, plan.speed(files, processors=processors))
    return plan.tenants(plan.spread(files, count))


def _prepare(database: Path, tenants: Sequence[Tenant]) -> tuple[slotq.Queue, list[int]]:
    """Set the limits and enqueue all jobs, the largest tenant's first; return their ids."""
    with slotq.Queue(database) as queue:
        queue.stats()  # a place that cannot be used is told before anything else is made there
    os.environ["SLOTQ_DB"] = str(database)
    # It opens the file that SLOTQ_DB names as it is imported, as its workers do.
    from slotq_app.demo.app import pack, q  # noqa: PLC0415

    q.set_limit(slotq.key("tenant", slotq.ANY), max_running=plan.MAX_RUNNING)
    ids: list[int] = []
    for tenant in tenants:
        if tenant.max_starts is not None:
            # The more specific row counts as a whole, so it says both.
            q.set_limit(
                slotq.literal(tenant.key),
                max_running=plan.MAX_RUNNING,
                max_starts=tenant.max_starts,
                window=plan.WINDOW_S,
            )
        ids += pack.options(key=tenant.key).enqueue_many(
            [(len(ids) + place, tenant.name, file) for place, file in enumerate(tenant.files)]
        )
    return q, ids


class Member(Protocol):
    """What is asked of a worker while the run goes on."""

    @property
    def is_running(self) -> bool:
        """Whether its process lives."""
        ...

    @property
    def trouble(self) -> str | None:
        """How it ended, if that was no good end."""
        ...


def follow(
    queue: slotq.Queue,
    tenants: Sequence[Tenant],
    *,
    workers: Sequence[Member],
    view: watch.View,
    stall_s: float = STALL_S,
) -> float:
    """Show the run until all jobs have ended; return how long that took, in seconds.

    Args:
        queue: Where the jobs are.
        tenants: Whose they are.
        workers: Who works.
        view: Where to show it.
        stall_s: The longest time without a job done.

    Raises:
        DemoFailed: A worker died, all have left too soon, or nothing goes on.
    """
    began = changed = time.monotonic()
    done = 0
    while True:
        # Looked at before the file: a worker that leaves has done its last job.
        is_anybody_there = any(worker.is_running for worker in workers)
        now = time.monotonic()
        look = watch.take(queue, tenants, view.rows, now - began)
        view.show(look)
        if look.done == look.jobs:
            return look.elapsed_s
        for worker in workers:
            if worker.trouble is not None:
                raise DemoFailed(worker.trouble)
        left = f"{look.jobs - look.done:,} jobs are not done"
        if not is_anybody_there:
            raise DemoFailed(f"the workers have left, but {left}")
        if look.done > done:
            done, changed = look.done, now
        if now - changed > stall_s:
            raise DemoFailed(f"nothing was done for {stall_s:g} s, and {left}")
        time.sleep(LOOK_S)


def _let_leave(workers: Sequence[Worker]) -> None:
    """Wait for workers that have nothing left to do.

    Raises:
        DemoFailed: One did not leave, or not in good order.
    """
    until = time.monotonic() + fleet.STOP_S
    for worker in workers:
        worker.wait(until)
        if worker.trouble is not None:
            raise DemoFailed(worker.trouble)


def _promise(tenant: Tenant) -> history.Promise:
    return history.Promise(
        max_running=plan.MAX_RUNNING,
        max_starts=tenant.max_starts,
        window_ms=round(plan.WINDOW_S * 1000),
    )


def _ended(number: int, tenant: Tenant, job: slotq.Job) -> history.Ended:
    started = job.started_at
    return history.Ended(
        job=number,
        tenant=tenant.name,
        state=job.state,
        attempt=job.attempt,
        waited_ms=None if started is None else (started - job.created_at) // MS,
        started_ms=None if started is None else (started - EPOCH) // MS,
        error=job.error,
    )


def _print(
    console: Console, tenants: Sequence[Tenant], verdict: history.Verdict, about: report.Run
) -> None:
    head, *rows = report.table(tenants, verdict)
    console.print(head, style="bold")
    for line in [*rows, "", *report.summary(tenants, verdict, about), ""]:
        console.print(line)
    for line in report.judgement(verdict):
        console.print(line, style="bold red" if verdict.problems else "bold green")


@contextlib.contextmanager
def _place(keep_at: Path | None, *, keep: bool) -> Generator[Path]:
    """Give the path of a queue file that does not exist yet."""
    if keep_at is not None:
        if keep_at.exists():
            problem = f"must be a new file: there is one at {keep_at} already"
            raise slotq.InvalidValue(name="--db", problem=problem)
        yield keep_at.absolute()
        return
    folder = Path(tempfile.mkdtemp(prefix="slotq-demo-"))
    try:
        yield folder / "jobs.db"
    finally:
        if not keep:
            shutil.rmtree(folder)


def _leave(number: int, _: FrameType | None) -> None:
    """End the demo in good order, as Ctrl-C does."""
    raise SystemExit(128 + number)
