"""``qworker limits diff``, ``apply``, ``export`` and ``import``."""

import json
import tomllib
from pathlib import Path

import pytest

import slotq
from support.commands import Done, qworker

APP = """
import slotq

q = slotq.Queue("jobs.db")
q.declare_limits(
    {
        "tenant:*": {"max_running": 3},
        "vendor": [
            {"max_running": 1},
            {"name": "daily", "max_starts": 500, "window": "day", "timezone": "Asia/Tokyo"},
        ],
    },
    queues={"exports": {"max_running": 10}},
)
"""


def limits(folder: Path, *words: str) -> Done:
    return qworker("limits", *words, cwd=folder, env={"SLOTQ_DB": "jobs.db"})


def started(folder: Path) -> None:
    """Start the app once, as a worker would."""
    done = qworker("run", "app:q", "--burst", cwd=folder)
    assert done.code == 0, done.err


def found(folder: Path, file: str = "jobs.db") -> dict[tuple[str | None, str], slotq.Limit]:
    with slotq.Queue(folder / file, create=False) as q:
        return {(limit.key or limit.queue, limit.name): limit for limit in q.limits()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    return tmp_path


# diff.


def test_diff_shows_nothing_where_the_file_says_what_the_code_says(folder: Path) -> None:
    started(folder)
    done = limits(folder, "diff", "app:q")
    assert (done.code, done.err, done.out) == (0, "qworker: no differences\n", "")
    assert json.loads(limits(folder, "diff", "app:q", "--json").out) == []


def test_diff_shows_edits_what_is_missing_and_what_code_dropped(folder: Path) -> None:
    with slotq.Queue(folder / "jobs.db") as q:
        q.declare_limits({"old": {"max_starts": 5, "window": 60}, "tenant:*": {"max_running": 2}})
        q.set_limit("vendor", max_running=9, updated_by="ann")
        q.set_limit("vendor", name="daily", max_starts=500, window="day", timezone="Asia/Tokyo")
        q.set_limit("mine", max_running=1)
        before = q.limits()
        done = limits(folder, "diff", "app:q")
        assert q.limits() == before
    assert (done.code, done.err) == (0, "")
    heading, *lines = done.out.splitlines()
    assert heading.split() == [
        "KEY", "QUEUE", "NAME", "DIFFERENCE", "CODE", "FILE", "UPDATED", "BY",
    ]  # fmt: skip
    assert [(line.split()[0], line.split()[3]) for line in lines] == [
        ("tenant:*", "changed"), ("vendor", "edited"), ("-", "missing"), ("old", "gone"),
    ]  # fmt: skip
    assert lines[1].split()[4:8] == ["max_running", "1", "max_running", "9"]
    assert lines[1].endswith("ann")
    assert lines[3].split()[4:9] == ["-", "max_starts", "5", "in", "60s"]
    shown = json.loads(limits(folder, "diff", "app:q", "--json").out)
    assert [each["kind"] for each in shown] == ["changed", "edited", "missing", "gone"]
    assert shown[1]["declared"]["max_running"] == 1
    assert shown[1]["limit"]["max_running"] == 9


@pytest.mark.parametrize("verb", ["diff", "apply"])
def test_neither_makes_a_file(folder: Path, verb: str) -> None:
    done = limits(folder, verb, "app:q")
    assert (done.code, done.out) == (1, "")
    assert done.err == f"qworker: {folder / 'jobs.db'}: there is no such file\n"
    assert not (folder / "jobs.db").exists()


@pytest.mark.parametrize("verb", ["diff", "apply"])
@pytest.mark.parametrize("before", [True, False])
def test_a_db_that_is_another_file_than_the_apps_is_refused(
    folder: Path, verb: str, before: bool
) -> None:
    started(folder)
    db = ["--db", "other.db"]
    words = [*db, "limits", verb, "app:q"] if before else ["limits", verb, "app:q", *db]
    done = qworker(*words, cwd=folder)
    assert (done.code, done.out) == (2, "")
    assert f"{folder / 'other.db'} is not the file of app:q" in done.err
    assert not (folder / "other.db").exists()
    same = qworker("limits", verb, "app:q", "--db", "./jobs.db", cwd=folder)
    assert (same.code, same.err) == (0, "qworker: no differences\n" * (verb == "diff"))


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (["diff"], 2, "missing argument 'APP'"),
        (["diff", "app"], 2, "must be module:attribute"),
        (["apply", "nowhere:q"], 2, "there is no module 'nowhere'"),
        (["diff", "bad:q"], 1, "importing bad failed: ZeroDivisionError"),
        (["diff", "app:q", "--app-dir", "nowhere"], 2, "'--app-dir'"),
    ],
)
def test_a_wrong_app_is_told_in_one_line(
    folder: Path, words: list[str], code: int, problem: str
) -> None:
    (folder / "bad.py").write_text("1 / 0\n", encoding="utf-8")
    done = limits(folder, *words)
    assert (done.code, done.out) == (code, "")
    assert problem in done.err
    assert done.err.count("\n") == 1


def test_an_app_that_declares_nothing_is_told(folder: Path) -> None:
    started(folder)
    (folder / "plain.py").write_text("import slotq\nq = slotq.Queue('jobs.db')\n")
    done = limits(folder, "diff", "plain:q")
    assert done.code == 0
    assert done.err == "qworker: plain:q declares no limits when it is imported\n"


# apply.


def test_apply_sets_what_the_code_says_also_over_edits(folder: Path) -> None:
    started(folder)
    with slotq.Queue(folder / "jobs.db") as q:
        q.declare_limits({"old": {"max_running": 5}})
        q.set_limit("tenant:*", max_running=9, updated_by="ann")
        q.set_limit("vendor", max_running=1)
        q.clear_limit(queue="exports")
        q.set_limit("mine", max_running=1)
        before = q.limits()
        would = limits(folder, "apply", "app:q", "--dry-run")
        assert q.limits() == before
    assert would == Done(
        0,
        "would set tenant:* to max_running 3, which was max_running 9\n"
        "would let vendor follow the code again, at max_running 1\n"
        "would set queue exports to max_running 10\n"
        "would clear old, which was max_running 5\n"
        "would change 4 limits\n",
        "",
    )
    done = limits(folder, "apply", "app:q")
    assert (done.code, done.err) == (0, "")
    assert done.out == would.out.replace("would change", "changed").replace("would ", "")
    assert {place: limit.declared for place, limit in found(folder).items()} == {
        ("tenant:*", ""): True, ("vendor", ""): True, ("vendor", "daily"): True,
        ("exports", ""): True, ("mine", ""): False,
    }  # fmt: skip
    assert found(folder)["tenant:*", ""].max_running == 3
    assert limits(folder, "apply", "app:q").out == "changed 0 limits\n"


def test_apply_warns_of_what_is_hidden(folder: Path) -> None:
    code = "q.declare_limits({'tenant:a': {'max_starts': 1, 'window': 60}})\n"
    (folder / "app.py").write_text(APP + code, encoding="utf-8")
    qworker("keys", "pause", "k", "--db", "jobs.db", cwd=folder)
    done = limits(folder, "apply", "app:q")
    assert done.out.endswith("changed 5 limits\n")
    (line,) = done.err.splitlines()
    assert line.startswith("qworker: warning: the limit of 'tenant:a' hides that of 'tenant:*'")


# export and import.


def test_what_is_exported_is_imported_as_it_was(folder: Path) -> None:
    with slotq.Queue(folder / "jobs.db") as q:
        q.set_limit("tenant:*", max_running=3)
        q.set_limit("a\\*\"\n\x1b\x9b\u202e'", max_starts=5, window=1.5)
        q.set_limit("größe 東", name="täglich", max_starts=5, window="day")
        q.set_limit("b", max_starts=7, window="month", timezone="Asia/Tokyo", max_running=2)
        q.set_limit(queue="true", max_running=10)
    exported = limits(folder, "export")
    assert (exported.code, exported.err) == (0, "")
    assert exported.out.replace("\n", "").isprintable()
    entries = tomllib.loads(exported.out)["limit"]
    assert {"key": "tenant:*", "max_running": 3} in entries
    assert {"queue": "true", "max_running": 10} in entries
    (folder / "limits.toml").write_text(exported.out, encoding="utf-8")
    done = limits(folder, "import", "limits.toml", "--db", "new.db")
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("changed 5 limits\n")
    assert limits(folder, "export", "--db", "new.db").out == exported.out
    assert limits(folder, "import", "limits.toml").out == "changed 0 limits\n"


def test_a_file_without_limits_exports_nothing(folder: Path) -> None:
    qworker("keys", "pause", "k", "--db", "jobs.db", cwd=folder)
    assert limits(folder, "export") == Done(0, "", "")
    (folder / "none.toml").write_text("# nothing\n", encoding="utf-8")
    assert limits(folder, "import", "none.toml") == Done(0, "changed 0 limits\n", "")


def test_import_sets_the_rows_of_the_file_and_leaves_others(folder: Path) -> None:
    with slotq.Queue(folder / "jobs.db") as q:
        q.set_limit("other", max_running=1)
        q.set_limit("k", max_running=1, max_starts=5, window=60)
    text = '[[limit]]\nkey = "k"\nmax_running = 4\n\n[[limit]]\nqueue = "q"\nmax_running = 2\n'
    (folder / "limits.toml").write_text(text, encoding="utf-8")
    would = limits(folder, "import", "limits.toml", "--dry-run")
    assert would == Done(
        0,
        "would set k to max_running 4, which was max_running 1, max_starts 5 in 60s\n"
        "would set queue q to max_running 2\n"
        "would change 2 limits\n",
        "",
    )
    assert len(found(folder)) == 2
    assert limits(folder, "import", "limits.toml").out.endswith("changed 2 limits\n")
    after = found(folder)
    assert set(after) == {("other", ""), ("k", ""), ("q", "")}
    assert (after["k", ""].max_running, after["k", ""].max_starts) == (4, None)
    assert after["k", ""].updated_by.endswith("@qworker")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[limit]\n", "it is no TOML (Expected ']]'"),
        ("\xff", "it is no TOML ("),
        ("a = " + "[" * 10_000, "it is no TOML ("),
        ("[limit]\nkey = 'a'\n", "limit must be tables [[limit]]"),
        ("limit = [1]\n", "limit must be tables [[limit]]"),
        ("[[limits]]\nkey = 'a'\n", "it may have tables [[limit]] only, not 'limits'"),
        ("[[limit]]\nkey = 'b'\nmax_runing = 1\n", "limit 2, of key 'b': 'max_runing' is no part"),
        ("[[limit]]\nkey = 'b'\nmax_running = 0\n", "limit 2, of key 'b': max_running must be"),
        ("[[limit]]\nkey = 'b'\nmax_running = 1.0\n", "from 1 to 1,000,000, not 1.0"),
        ("[[limit]]\nkey = 'b'\nmax_starts = 1\nwindow = nan\n", "window must be a number"),
        ("[[limit]]\nkey = 'b'\nmax_starts = 1\n", "limit 2, of key 'b': window is missing"),
        ("[[limit]]\nmax_running = 1\n", "limit 2: key or queue must be given"),
        ("[[limit]]\nkey = 'good'\nmax_running = 1\n", "limit 2, of key 'good' is there twice"),
    ],
)
@pytest.mark.parametrize("dry_run", [True, False])
def test_one_bad_entry_imports_nothing(
    folder: Path, text: str, problem: str, dry_run: bool
) -> None:
    first = "" if "no TOML" in problem else "[[limit]]\nkey = 'good'\nmax_running = 1\n"
    if "limit must be" in problem:
        first = ""
    (folder / "limits.toml").write_text(first + text, encoding="latin-1")
    done = limits(folder, "import", "limits.toml", *["--dry-run"] * dry_run)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("qworker: invalid value for FILE: limits.toml: ")
    assert problem in done.err
    assert done.err.count("\n") == 1
    assert not (folder / "jobs.db").exists()


def test_a_file_that_cannot_be_read_is_told(folder: Path) -> None:
    for name in ("nowhere.toml", "."):
        done = limits(folder, "import", name)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith(f"qworker: {name}: it cannot be read (")
    assert not (folder / "jobs.db").exists()


def test_a_dry_run_makes_no_file(folder: Path) -> None:
    (folder / "limits.toml").write_text("[[limit]]\nkey = 'k'\nmax_running = 1\n")
    done = limits(folder, "import", "limits.toml", "--dry-run")
    assert (done.code, done.out) == (0, "would set k to max_running 1\nwould change 1 limit\n")
    assert not (folder / "jobs.db").exists()


def test_import_warns_of_what_is_hidden(folder: Path) -> None:
    text = "[[limit]]\nkey = 'a*'\nmax_running = 1\n\n"
    text += "[[limit]]\nkey = 'ab'\nmax_starts = 1\nwindow = 60\n"
    (folder / "limits.toml").write_text(text, encoding="utf-8")
    done = limits(folder, "import", "limits.toml")
    assert done.code == 0
    assert done.err.startswith("qworker: warning: the limit of 'ab' hides that of 'a*'")
