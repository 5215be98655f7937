"""What the demo shows while it runs, and its last page."""

import io
from pathlib import Path

import pytest
from rich.console import Console

import slotq
from slotq_app.demo import report, running, watch
from slotq_app.demo.history import Finding, Verdict
from slotq_app.demo.plan import Tenant

SMALL = Tenant(name="s", files=["s.py"], sources=1)
LARGE = Tenant(name="large", files=["a.py", "b.py", "c.py", "d.py"], sources=4)
MIDDLE = Tenant(name="middle", files=["a.py", "b.py"], sources=2, max_starts=5)


def filled(path: Path) -> slotq.Queue:
    """A queue with these tenants' jobs, of which nothing has run."""
    q = slotq.Queue(path)
    q.set_limit("tenant:*", max_running=3)
    q.set_limit("tenant:middle", max_running=3, max_starts=5, window=1.0)
    for tenant in (LARGE, MIDDLE, SMALL):
        for file in tenant.files:
            q.enqueue("work", args=[file], key=tenant.key)
    return q


def console(width: int = 80, height: int = 24) -> tuple[Console, io.StringIO]:
    """A terminal of this size without colours, and what is written to it."""
    out = io.StringIO()
    made = Console(
        file=out, width=width, height=height, force_terminal=True, color_system=None,
        highlight=False, markup=False, _environ={"TERM": "xterm"},
    )  # fmt: skip
    return made, out


def drawn(look: watch.Look, width: int, signs: watch.Signs = watch.PRETTY) -> list[str]:
    screen, out = console(width)
    screen.print(watch.picture(look, "the title", width, signs))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_the_picture_shows_slots_windows_and_bars(tmp_path: Path) -> None:
    with filled(tmp_path / "jobs.db") as q:
        look = watch.take(q, [LARGE, MIDDLE, SMALL], 2, 0.5)
    title, _, head, large, middle, others, _, total = drawn(look, 80)
    assert title == "the title"
    assert head.split() == ["tenant", "running", "starts", "waiting", "done"]
    assert large.startswith("large   ○○○                        4  ──────")
    assert large.endswith("─  0 of 4")
    assert middle.startswith("middle  ○○○      0/5 in 1 s        2  ───")
    assert others == "and 1 more tenant"
    assert total.startswith("  0.5 s  0 running  ──────")
    assert total.endswith("──  0 of 7  0/s")


@pytest.mark.parametrize("width", [40, 80, 160])
def test_the_picture_fits_the_terminal(tmp_path: Path, width: int) -> None:
    with filled(tmp_path / "jobs.db") as q:
        look = watch.take(q, [LARGE, MIDDLE, SMALL], 3, 0.5)
    lines = drawn(look, width)
    assert len(lines) == 8
    assert max(map(len, lines)) <= width


def test_taken_slots_and_done_jobs_fill_the_picture(tmp_path: Path) -> None:
    with filled(tmp_path / "jobs.db") as q:
        look = watch.take(q, [SMALL], 1, 2.0)
        q.cancel(7)
        done = watch.take(q, [SMALL], 1, 2.0)
    assert "#" not in "".join(drawn(look, 80, watch.PLAIN))
    line = drawn(done, 80, watch.PLAIN)[3]
    assert line.startswith("s       ...                    0  #####")
    assert line.endswith("#  1 of 1")


@pytest.mark.parametrize(
    ("encoding", "signs"),
    [("utf-8", watch.PRETTY), ("ascii", watch.PLAIN), ("no-such-encoding", watch.PLAIN)],
)
def test_signs_are_those_that_can_be_written(encoding: str, signs: watch.Signs) -> None:
    assert watch.signs(encoding) == signs


@pytest.mark.parametrize(("height", "rows"), [(5, 1), (24, 16), (45, 24)])
def test_a_terminal_shows_as_many_tenants_as_it_has_place_for(height: int, rows: int) -> None:
    screen, _ = console(height=height)
    with watch.view(screen, "title") as view:
        assert view.rows == rows


def test_a_pipe_gets_a_line_now_and_then_and_one_at_the_end(tmp_path: Path) -> None:
    out = io.StringIO()
    with filled(tmp_path / "jobs.db") as q, watch.view(Console(file=out), "title") as view:
        view.show(watch.take(q, [LARGE, MIDDLE, SMALL], view.rows, 0.0))
        view.show(watch.take(q, [LARGE, MIDDLE, SMALL], view.rows, 0.1))
        for job in q.jobs():
            q.cancel(job.id)
        view.show(watch.take(q, [LARGE, MIDDLE, SMALL], view.rows, 0.2))
    assert out.getvalue().splitlines() == [
        "title",
        "  0.0 s  0 of 7 done   0 running  (large 0/3, middle 0/3, s 0/3)",
        "  0.2 s  7 of 7 done   0 running  (large 0/3, middle 0/3, s 0/3)",
    ]


class Fake:
    """A worker that does nothing."""

    def __init__(self, *, is_running: bool, trouble: str | None = None) -> None:
        self.is_running = is_running
        self.trouble = trouble


@pytest.mark.parametrize(
    ("worker", "problem"),
    [
        (Fake(is_running=False, trouble="worker 1 was ended"), "worker 1 was ended"),
        (Fake(is_running=False), "the workers have left, but 7 jobs are not done"),
        (Fake(is_running=True), "nothing was done for 0.05 s, and 7 jobs are not done"),
    ],
)
def test_a_run_that_cannot_end_is_given_up(tmp_path: Path, worker: Fake, problem: str) -> None:
    out = io.StringIO()
    with (
        filled(tmp_path / "jobs.db") as q,
        watch.view(Console(file=out), "title") as view,
        pytest.raises(running.DemoFailed, match=f"^{problem}$"),
    ):
        running.follow(q, [LARGE, MIDDLE, SMALL], workers=[worker], view=view, stall_s=0.05)


FINDINGS = {
    "large": Finding(peak=3, most_starts=0, waits_ms=[1_000, 2_000, 3_000, 4_000]),
    "middle": Finding(peak=2, most_starts=2, waits_ms=[500, 600]),
    "s": Finding(peak=1, most_starts=0, waits_ms=[20]),
}
WELL = Verdict(findings=FINDINGS, problems=[], at_limit=1)


def test_the_table_has_a_line_for_each_tenant() -> None:
    assert report.table([LARGE, MIDDLE, SMALL], WELL) == [
        "tenant  jobs  limit         peak running  wait p50  wait p95",
        "large      4  3                        3    2.00 s    4.00 s",
        "middle     2  3, 5 per 1 s             2    0.50 s    0.60 s",
        "s          1  3                        1    0.02 s    0.02 s",
    ]


def test_the_table_folds_the_small_tenants_into_one_line() -> None:
    many = [Tenant(name=f"t{n}", files=["a.py"], sources=1) for n in range(20)]
    findings = {f"t{n}": Finding(peak=1, most_starts=0, waits_ms=[n]) for n in range(20)}
    lines = report.table(many, Verdict(findings=findings, problems=[], at_limit=0))
    assert len(lines) == 14
    assert lines[-1] == "and 8 more     8  3 each             1    0.01 s    0.02 s"


def test_the_summary_says_what_the_order_meant() -> None:
    run = report.Run(
        workers=2, slots=8, order="fifo", took_s=2.0, read_bytes=7_500_000, packed_bytes=1_000_000
    )
    assert report.summary([LARGE, MIDDLE, SMALL], WELL, run) == [
        "7 jobs of 3 tenants in 2.0 s (4/s): 7.5 MB packed into 1.0 MB",
        "2 workers of 8 slots, order fifo (there are --fair, --round-robin and --fifo)",
        "1 tenant with one file waited 0.02 s (p50), 0.02 s (p95)",
        "large, the largest tenant, waited 2.00 s (p50), 4.00 s (p95)",
        "middle: at most 2 starts within any 1 s, 5 are allowed",
    ]


def test_the_last_line_says_whether_every_limit_held() -> None:
    assert report.judgement(WELL) == [
        "every limit held: 1 of 3 tenants reached theirs, none went above it"
    ]
    broken = Verdict(findings=FINDINGS, problems=["large: 4 ran at once"], at_limit=1)
    assert report.judgement(broken) == [
        "the run is not as it should be:",
        "  large: 4 ran at once",
    ]
