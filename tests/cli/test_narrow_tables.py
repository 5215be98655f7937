"""Tables on terminals that are too narrow for them."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

import slotq
from support.terminals import on_terminal, plain

KEY = "tenant:a-company-with-a-long-name:export"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("narrow")
    with slotq.Queue(made / "jobs.db") as q:
        q.set_limit(KEY, max_running=3, updated_by="admin@example.org")
        q.set_limit(
            "v", max_starts=1_000, window="day", timezone="America/Argentina/Buenos_Aires", name="d"
        )

        def fail() -> None:
            raise ValueError("the vendor has sent an empty file, so there is no report")

        task = q.task(name="reports.export_every_report_of_a_tenant", max_attempts=1)(fail)
        task.options(key=KEY).enqueue()
        slotq.Worker(q, burst=True).run()
        task.options(key=KEY, queue="a-queue-with-a-long-name").enqueue()
        task.options(key=KEY, delay=400 * 86_400).enqueue()
    return made


def shown(folder: Path, *words: str, columns: int = 80) -> list[str]:
    done = on_terminal(
        *words, "--db", "jobs.db", cwd=folder, columns=columns, env={"NO_COLOR": "1"}
    )
    assert done.code == 0
    return plain(done.out).splitlines()


@pytest.mark.parametrize("columns", [12, 80])
@pytest.mark.parametrize(
    "words", ["jobs list", "keys list", "limits list", "queues list", "workers list"]
)
def test_no_line_is_wider_than_the_terminal(folder: Path, words: str, columns: int) -> None:
    lines = shown(folder, *words.split(), columns=columns)
    assert max(map(len, lines)) <= columns
    assert lines[0]


def test_what_tells_rows_apart_stays_readable(folder: Path) -> None:
    assert any(line.startswith(KEY) for line in shown(folder, "keys", "list"))
    assert any(line.startswith(KEY) for line in shown(folder, "limits", "list"))
    _, first, *_ = shown(folder, "jobs", "list", columns=60)
    assert "reports.export_ever…" in first


def test_columns_without_a_value_go_first_then_minor_ones(folder: Path) -> None:
    wide = shown(folder, "limits", "list", columns=200)[0].split()
    narrow = shown(folder, "limits", "list")[0].split()
    assert {"QUEUE", "VERSION", "TIMEZONE"} <= set(wide)
    assert not {"QUEUE", "VERSION", "TIMEZONE"} & set(narrow)
    assert {"KEY", "RUNNING", "STARTS", "WINDOW"} <= set(narrow)
    assert "QUEUE" not in shown(folder, "jobs", "list")[0]


def test_an_instant_of_today_is_a_time_only(folder: Path) -> None:
    with slotq.Queue(folder / "jobs.db") as q:
        (job,) = q.jobs(state="waiting")
    (_, line) = shown(folder, "jobs", "list", "--state", "waiting", columns=75)
    is_todays = job.run_at.date() == datetime.now(UTC).date()  # it is not just after midnight
    assert line.endswith(f"{job.run_at:%H:%M:%SZ}")
    assert ("T" not in line) is is_todays
    (_, later) = shown(folder, "jobs", "list", "--state", "scheduled", columns=90)
    assert re.search(r" \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$", later)


def test_where_all_fits_nothing_is_left_out(folder: Path) -> None:
    heading = shown(folder, "keys", "list", columns=200)[0]
    assert {"HELD", "SCHEDULED", "WINDOW", "PAUSED"} <= set(heading.split())
