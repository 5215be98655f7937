"""The schema comes about in one way, as a whole or not at all."""

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from slotq.errors import NotAQueue, SchemaTooNew
from slotq.store import migrate
from support.partner import Partner, wait_until_taken
from support.procs import until
from support.stores import Stores, add, integrity, looking

ROOT = Path(__file__).resolve().parents[2]

# Hashes of the scripts of releases; a script that was released is never edited. Until 0.1.0 is
# tagged there is none, and the first may change.
RELEASED: dict[str, str] = {}

CHANGES = "CREATE TABLE slotq_more (id INTEGER PRIMARY KEY) STRICT;\n"


def schema_of(path: Path) -> list[tuple[str, str, str]]:
    with looking(path) as connection:
        rows = connection.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_schema")
        return sorted(rows.fetchall())


def level_of(path: Path) -> int:
    with looking(path) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


@pytest.fixture
def plain(tmp_path: Path) -> sqlite3.Connection:
    return sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets the scripts that the library has."""

    def use(*scripts: str) -> None:
        monkeypatch.setattr(migrate, "scripts", lambda: scripts)

    return use


def test_a_fresh_schema_is_what_the_scripts_say(stores: Stores, tmp_path: Path) -> None:
    add(stores.open())
    connection = sqlite3.connect(tmp_path / "by-hand.db", isolation_level=None)
    for script in migrate.scripts():
        connection.executescript(script)
    connection.close()
    assert schema_of(tmp_path / "jobs.db") == schema_of(tmp_path / "by-hand.db")
    assert level_of(tmp_path / "jobs.db") == migrate.newest() == len(migrate.scripts())


def test_a_migrated_schema_is_a_fresh_one(
    stores: Stores, tmp_path: Path, scripts: Callable[..., None]
) -> None:
    first = migrate.scripts()[0]
    scripts(first)
    old = stores.open("old.db")
    add(old, 3)
    old.close()
    scripts(first, CHANGES, "ALTER TABLE slotq_more ADD COLUMN text TEXT;\n")
    assert add(old) == [4]
    add(stores.open("new.db"))
    assert schema_of(tmp_path / "old.db") == schema_of(tmp_path / "new.db")
    assert level_of(tmp_path / "old.db") == level_of(tmp_path / "new.db") == 3
    scripts(first)
    with pytest.raises(SchemaTooNew) as caught:
        add(stores.open("old.db"))
    assert (caught.value.found, caught.value.known) == (3, 1)


def test_a_read_migrates_too(stores: Stores, tmp_path: Path, scripts: Callable[..., None]) -> None:
    first = migrate.scripts()[0]
    scripts(first)
    database = stores.open()
    add(database)
    database.close()
    scripts(first, CHANGES)
    with database.read() as reader:
        assert reader.value("SELECT count(*) FROM slotq_more") == 0
    assert level_of(tmp_path / "jobs.db") == 2


def test_a_step_that_fails_half_way_leaves_its_level(
    plain: sqlite3.Connection, tmp_path: Path, scripts: Callable[..., None]
) -> None:
    path = tmp_path / "jobs.db"
    (first,) = migrate.scripts()
    scripts(f"{first}CREATE TABLE slotq_clock (id);\n")
    with pytest.raises(sqlite3.OperationalError, match="already exists"):
        migrate.migrate(plain, path)
    assert (plain.in_transaction, level_of(path), schema_of(path)) == (False, 0, [])
    scripts(first, f"{CHANGES}INSERT INTO missing VALUES (1);\n")
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        migrate.migrate(plain, path)
    assert (plain.in_transaction, level_of(path)) == (False, 1)
    assert "slotq_more" not in {name for _, name, _ in schema_of(path)}
    scripts(first, CHANGES)
    migrate.migrate(plain, path)
    assert (level_of(path), integrity(path)) == (2, "ok")
    plain.close()


def test_a_file_that_is_full_half_way_leaves_its_level(
    plain: sqlite3.Connection, tmp_path: Path
) -> None:
    """SQLite may end the transaction itself: what is told is that the disk is full."""
    plain.execute("PRAGMA max_page_count = 20")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        migrate.migrate(plain, tmp_path / "jobs.db")
    assert (plain.in_transaction, level_of(tmp_path / "jobs.db")) == (False, 0)
    plain.close()


def test_many_migrate_at_once(
    stores: Stores, tmp_path: Path, partners: Callable[[int], list[Partner]]
) -> None:
    """An empty database is there already, and the first of them meets a foreign writer."""
    path = tmp_path / "jobs.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    everyone = partners(4)
    for each in everyone:
        each.ask("use", str(path), 30.0)
    connection.execute("BEGIN IMMEDIATE")
    for each in everyone:
        each.tell("add", 1)
    lock = tmp_path / "jobs.db-slotq" / "lock"
    until(lock.exists)
    wait_until_taken(lock)
    connection.execute("ROLLBACK")
    ids = sorted(job_id for each in everyone for job_id in each.hear_ids())
    connection.close()
    assert ids == [1, 2, 3, 4]
    assert (level_of(path), integrity(path)) == (migrate.newest(), "ok")
    add(stores.open("fresh.db"))
    assert schema_of(path) == schema_of(tmp_path / "fresh.db")


def test_the_level_and_the_schema_are_read_at_one_moment(
    plain: sqlite3.Connection, tmp_path: Path
) -> None:
    """Read one after the other, a level of before and a schema of after would be no queue."""
    asked: list[str] = []
    plain.set_trace_callback(asked.append)
    assert migrate.level(plain, tmp_path / "jobs.db") == 0
    assert len([sql for sql in asked if not sql.startswith("--")]) == 1
    plain.close()


def test_a_foreign_schema_version_is_named(plain: sqlite3.Connection, tmp_path: Path) -> None:
    plain.execute("PRAGMA user_version = 3")
    with pytest.raises(NotAQueue, match="its user_version is 3"):
        migrate.level(plain, tmp_path / "jobs.db")
    plain.close()


def test_scripts_are_split_into_their_statements() -> None:
    script = """\
-- A comment; with a semicolon.
CREATE TABLE a (text TEXT DEFAULT 'x;y');

CREATE TRIGGER t AFTER INSERT ON a WHEN NEW.text <> ';' BEGIN
  -- Inside; too.
  UPDATE a SET text = CASE WHEN 1 THEN 'END;' END;
  DELETE FROM a;
END;
CREATE VIEW v AS
SELECT ';
' AS text;
"""
    statements = migrate.split(script)
    assert [statement.split("\n")[0] for statement in statements] == [
        "CREATE TABLE a (text TEXT DEFAULT 'x;y');",
        "CREATE TRIGGER t AFTER INSERT ON a WHEN NEW.text <> ';' BEGIN",
        "CREATE VIEW v AS",
    ]
    connection = sqlite3.connect(":memory:")
    for statement in statements:
        connection.execute(statement)
    assert connection.execute("SELECT text FROM v").fetchone() == (";\n",)
    connection.close()


def test_a_script_that_breaks_off_is_refused() -> None:
    with pytest.raises(AssertionError, match="a statement without an end: CREATE TABLE b"):
        migrate.split("CREATE TABLE a (id);\nCREATE TABLE b (id)\n")


def test_every_script_is_split_as_sqlite_does() -> None:
    for script in migrate.scripts():
        objects = re.findall(
            r"^CREATE (?:UNIQUE )?(?:TABLE|INDEX|VIEW|TRIGGER) ", script, re.MULTILINE
        )
        made = [each for each in migrate.split(script) if each.startswith("CREATE ")]
        assert len(made) == len(objects) > 0


def test_scripts_are_numbered_without_a_gap() -> None:
    folder = ROOT / "queue" / "slotq" / "store" / "migrations"
    names = sorted(path.name for path in folder.glob("*.sql"))
    assert [int(name[:4]) for name in names] == list(range(1, migrate.newest() + 1))


def test_no_released_script_was_edited() -> None:
    """Filled in when a release is tagged."""
    assert RELEASED == {}
