"""Following the demo while it runs: bars on a terminal, lines in a pipe."""

import contextlib
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

import slotq
from slotq_app.demo.plan import MAX_RUNNING, Tenant
from slotq_app.demo.report import counted

# Lines of the picture that are no tenants, and one for the cursor.
OTHER_LINES: Final = 8
MOST_ROWS: Final = 24
NARROWEST_BAR: Final = 8
# In a pipe: one line in this time, and so many tenants in it.
LINE_EVERY_S: Final = 1.0
LINE_TENANTS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What bars and slots are drawn with."""

    done: str
    left: str
    taken: str
    free: str


PRETTY: Final = Signs(done="━", left="─", taken="●", free="○")
PLAIN: Final = Signs(done="#", left="-", taken="*", free=".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The run at one instant.

    Attributes:
        tenants: The busiest ones; so many as there is place for.
        keys: How each of them stands.
        others: How many tenants are not among them.
        jobs: All jobs.
        running: Those that run.
        done: Those that have ended.
        elapsed_s: Since the workers were started.
    """

    tenants: Sequence[Tenant]
    keys: Sequence[slotq.Key]
    others: int
    jobs: int
    running: int
    done: int
    elapsed_s: float

    @property
    def rate(self) -> float:
        """Jobs a second so far."""
        return self.done / max(self.elapsed_s, 0.001)


class View(Protocol):
    """Something that shows a run."""

    @property
    def rows(self) -> int:
        """How many tenants it has place for."""
        ...

    def show(self, look: Look) -> None:
        """Show the run as it is now."""
        ...


def take(queue: slotq.Queue, tenants: Sequence[Tenant], rows: int, elapsed_s: float) -> Look:
    """Look at the queue file."""
    shown = tenants[:rows]
    stats = queue.stats()
    return Look(
        tenants=shown,
        keys=[queue.key(tenant.key) for tenant in shown],
        others=len(tenants) - len(shown),
        jobs=sum(len(tenant.files) for tenant in tenants),
        running=stats.running,
        done=stats.succeeded + stats.failed + stats.cancelled,
        elapsed_s=elapsed_s,
    )


@contextlib.contextmanager
def view(console: Console, title: str) -> Generator[View]:
    """Show a run on this console for the length of the block."""
    if not console.is_terminal or console.is_dumb_terminal:
        console.print(title)
        yield Lines(console)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield Bars(live, title)


class Lines:
    """A plain line about every second."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = 0.0

    @property
    def rows(self) -> int:
        """How many tenants stand in a line."""
        return LINE_TENANTS

    def show(self, look: Look) -> None:
        """Print a line, if it is time for one or the run is over."""
        if time.monotonic() < self._next and look.done < look.jobs:
            return
        self._next = time.monotonic() + LINE_EVERY_S
        width = len(f"{look.jobs:,}")
        busy = ", ".join(
            f"{tenant.name} {key.running}/{MAX_RUNNING}"
            for tenant, key in zip(look.tenants, look.keys, strict=True)
        )
        self._console.print(
            f"{look.elapsed_s:5.1f} s  {look.done:{width},} of {look.jobs:,} done"
            f"  {look.running:2} running  ({busy})"
        )


class Bars:
    """A picture that is drawn again at every look."""

    def __init__(self, live: Live, title: str) -> None:
        self._live = live
        self._title = title
        self._signs = signs(live.console.encoding)

    @property
    def rows(self) -> int:
        """How many tenants the terminal has place for."""
        return max(1, min(MOST_ROWS, self._live.console.size.height - OTHER_LINES))

    def show(self, look: Look) -> None:
        """Draw the picture."""
        width = self._live.console.size.width
        self._live.update(picture(look, self._title, width, self._signs), refresh=True)


def signs(encoding: str) -> Signs:
    """Return the signs that can be written in this encoding."""
    try:
        "".join((PRETTY.done, PRETTY.left, PRETTY.taken, PRETTY.free)).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return PLAIN
    return PRETTY


def picture(look: Look, title: str, width: int, drawn: Signs) -> Group:
    """Return the picture of a look, for a terminal of this width."""
    names = max(len("tenant"), *(len(tenant.name) for tenant in look.tenants))
    windows = [_window(key) for key in look.keys]
    widest = max(len("starts"), *map(len, windows))
    digits = max(len(f"{len(tenant.files):,}") for tenant in look.tenants)
    head = f"{'tenant':{names}}  running  {'starts':{widest}}  waiting  "
    bar = max(NARROWEST_BAR, width - len(head) - len("   of ") - 2 * digits - 1)
    lines = [Text(title, style="bold"), Text(), Text(f"{head}done", style="dim")]
    for tenant, key, window in zip(look.tenants, look.keys, windows, strict=True):
        jobs = len(tenant.files)
        done = jobs - key.waiting - key.scheduled - key.running
        line = Text(f"{tenant.name:{names}}  ")
        line.append_text(_pips(key.running, drawn))
        line.append(f"{'':{len('running') - MAX_RUNNING}}  {window:{widest}}  {key.waiting:7,}  ")
        line.append_text(_bar(done, jobs, bar, drawn))
        line.append(f"  {done:{digits},} of {jobs:{digits},}")
        lines.append(line)
    if look.others:
        lines.append(Text(f"and {counted(look.others, 'more tenant')}", style="dim"))
    total = Text(f"{look.elapsed_s:5.1f} s  {look.running} running  ")
    ending = f"  {look.done:,} of {look.jobs:,}  {look.rate:,.0f}/s"
    room = width - len(total) - len(ending) - len("^C ")  # what a terminal shows of a Ctrl-C
    total.append_text(_bar(look.done, look.jobs, room, drawn))
    total.append(ending)
    lines += [Text(), total]
    for line in lines:
        line.no_wrap = True
        line.overflow = "crop"
    return Group(*lines)


def _pips(running: int, drawn: Signs) -> Text:
    style = "bold yellow" if running >= MAX_RUNNING else "cyan"
    pips = Text(drawn.taken * running, style=style)
    return pips.append(drawn.free * (MAX_RUNNING - running), style="dim")


def _bar(done: int, jobs: int, width: int, drawn: Signs) -> Text:
    filled = width * done // max(jobs, 1)
    style = "green" if done == jobs else "cyan"
    bar = Text(drawn.done * filled, style=style)
    return bar.append(drawn.left * (width - filled), style="dim")


def _window(key: slotq.Key) -> str:
    if key.max_starts is None or key.window is None or isinstance(key.window, str):
        return ""
    digits = len(f"{key.max_starts}")  # as wide for few starts as for many: nothing jumps
    return f"{key.starts:{digits}}/{key.max_starts} in {key.window:g} s"
