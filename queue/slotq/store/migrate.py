"""The schema of a file, brought to this library's level."""

import sqlite3
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from slotq.errors import NotAQueue, SchemaTooNew

# One statement, hence one snapshot: another process may migrate between two.
READ_LEVEL: Final = """
SELECT user_version, EXISTS (
  SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'slotq_jobs')
FROM pragma_user_version
"""


@cache
def scripts() -> tuple[str, ...]:
    """Return the migrations in order; the first brings an empty file to level 1."""
    folder = files("slotq.store") / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple((folder / name).read_text(encoding="utf-8") for name in names)


def newest() -> int:
    """Return the schema level that this library makes and expects."""
    return len(scripts())


def level(connection: sqlite3.Connection, path: Path) -> int:
    """Return the schema level of a file: 0 for one that is no queue yet.

    Raises:
        SchemaTooNew: The file was made by a newer library.
        NotAQueue: Another program keeps its own schema version in this database.
    """
    ((version, is_ours),) = connection.execute(READ_LEVEL).fetchall()
    if not is_ours:
        if version != 0:
            raise NotAQueue(
                path=path,
                reason=f"its user_version is {version}, so another program keeps its schema there; "
                "give the queue a file of its own",
            )
        return 0
    if version > newest():
        raise SchemaTooNew(path=path, found=version, known=newest())
    return int(version)


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the file to this library's level, each step in one transaction with its level.

    The caller holds no transaction. Many processes may call this at once on a new file.
    """
    for number, script in enumerate(scripts(), start=1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            if level(connection, path) < number:
                for statement in split(script):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # SQLite ends it itself when a disk is full
                connection.execute("ROLLBACK")
            raise


def split(script: str) -> list[str]:
    """Return the statements of a script; ``executescript`` would commit the transaction."""
    statements: list[str] = []
    lines: list[str] = []
    for line in script.splitlines():
        if not lines and (not line.strip() or line.startswith("--")):
            continue
        lines.append(line)
        if line.endswith(";") and sqlite3.complete_statement("\n".join(lines)):
            statements.append("\n".join(lines))
            lines = []
    assert not lines, f"a statement without an end: {lines[0]}"
    return statements
