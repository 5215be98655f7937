"""The last page of the demo: what every tenant had, and whether every limit held."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from slotq_app.demo.history import Verdict, percentile
from slotq_app.demo.plan import MAX_RUNNING, WINDOW_S, Tenant

# With the summary below it the page fits a terminal of 24 lines.
SHOWN_TENANTS: Final = 12
# Columns of text; the others are numbers.
LEFT: Final = (0, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The run as a whole.

    Attributes:
        workers: Worker processes.
        slots: Slots of each.
        order: Their order.
        took_s: From the start of the workers to the end of the last job.
        read_bytes: Size of the files.
        packed_bytes: Size of what came out.
    """

    workers: int
    slots: int
    order: str
    took_s: float
    read_bytes: int
    packed_bytes: int


def table(tenants: Sequence[Tenant], verdict: Verdict) -> list[str]:
    """Return the busiest tenants, a line each, under a head; the others in one line."""
    shown, others = tenants[:SHOWN_TENANTS], tenants[SHOWN_TENANTS:]
    rows = [("tenant", "jobs", "limit", "peak running", "wait p50", "wait p95")]
    rows += [_row(tenant.name, [tenant], tenant.limit, verdict) for tenant in shown]
    if others:
        rows.append(_row(f"and {len(others)} more", others, f"{MAX_RUNNING} each", verdict))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(widths[place]) if place in LEFT else cell.rjust(widths[place])
            for place, cell in enumerate(row)
        )
        for row in rows
    ]


def summary(tenants: Sequence[Tenant], verdict: Verdict, run: Run) -> list[str]:
    """Return what was done, and what the order meant for the small tenants and the largest."""
    jobs = sum(len(tenant.files) for tenant in tenants)
    small = [tenant for tenant in tenants if tenant.sources == 1]
    largest = tenants[0]
    lines = [
        f"{jobs:,} jobs of {len(tenants)} tenants in {run.took_s:.1f} s ({jobs / run.took_s:,.0f}/s):"
        f" {_mb(run.read_bytes)} packed into {_mb(run.packed_bytes)}",
        f"{counted(run.workers, 'worker')} of {counted(run.slots, 'slot')}, order {run.order}"
        " (there are --fair, --round-robin and --fifo)",
        f"{counted(len(small), 'tenant')} with one file waited {_waited(small, verdict)}",
        f"{largest.name}, the largest tenant, waited {_waited([largest], verdict)}",
    ]
    lines += [
        f"{tenant.name}: at most {verdict.findings[tenant.name].most_starts} starts within any"
        f" {WINDOW_S:g} s, {tenant.max_starts} are allowed"
        for tenant in tenants
        if tenant.max_starts is not None
    ]
    return lines


def judgement(verdict: Verdict) -> list[str]:
    """Return whether every limit held, or else what went wrong."""
    if verdict.problems:
        return ["the run is not as it should be:", *(f"  {line}" for line in verdict.problems)]
    return [
        f"every limit held: {verdict.at_limit} of {len(verdict.findings)} tenants reached theirs,"
        " none went above it"
    ]


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as "1 worker" or "2 workers"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _waited(tenants: Sequence[Tenant], verdict: Verdict) -> str:
    waits = _waits(tenants, verdict)
    return f"{_seconds(percentile(waits, 50))} (p50), {_seconds(percentile(waits, 95))} (p95)"


def _row(
    name: str, tenants: Sequence[Tenant], limit: str, verdict: Verdict
) -> tuple[str, str, str, str, str, str]:
    waits = _waits(tenants, verdict)
    return (
        name,
        f"{sum(len(tenant.files) for tenant in tenants):,}",
        limit,
        f"{max(verdict.findings[tenant.name].peak for tenant in tenants)}",
        _seconds(percentile(waits, 50)),
        _seconds(percentile(waits, 95)),
    )


def _waits(tenants: Sequence[Tenant], verdict: Verdict) -> list[int]:
    found = (verdict.findings[tenant.name].waits_ms for tenant in tenants)
    return sorted(chain.from_iterable(found))


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.2f} s"


def _mb(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB"
