"""What can be wrong with a path is said in one line, and nothing is made or changed."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typing_extensions import override

from slotq.errors import NotAQueue, SchemaTooNew, StoreError
from slotq.store import faults
from slotq.store.connection import Database
from support.partner import NOBODY, Partner, RefusedError
from support.stores import (
    Stores,
    UseOf,
    add,
    integrity,
    job_ids,
    looking,
    open_files,
    read_once,
    tree,
    write_once,
)

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\6\0\0\0\x1f\x15\xc4\x89" * 200

Make = Callable[[Path], Path]


def nothing(folder: Path) -> Path:
    return folder / "jobs.db"


def no_parent(folder: Path) -> Path:
    return folder / "missing" / "jobs.db"


def parent_is_a_file(folder: Path) -> Path:
    (folder / "file").write_bytes(b"")
    return folder / "file" / "jobs.db"


def a_folder(folder: Path) -> Path:
    (folder / "jobs.db").mkdir()
    return folder / "jobs.db"


def zero_bytes(folder: Path) -> Path:
    (folder / "jobs.db").write_bytes(b"")
    return folder / "jobs.db"


def a_fifo(folder: Path) -> Path:
    os.mkfifo(folder / "jobs.db")
    return folder / "jobs.db"


def a_picture(folder: Path) -> Path:
    (folder / "jobs.db").write_bytes(PNG)
    return folder / "jobs.db"


def foreign(folder: Path, *statements: str) -> Path:
    connection = sqlite3.connect(folder / "jobs.db")
    connection.execute("CREATE TABLE theirs (id INTEGER PRIMARY KEY, text TEXT)")
    connection.execute("INSERT INTO theirs (text) VALUES ('kept')")
    connection.commit()
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.commit()
    connection.close()
    return folder / "jobs.db"


def foreign_with_a_log(folder: Path) -> Path:
    return foreign(folder, "PRAGMA journal_mode = WAL")


def foreign_that_crashed(folder: Path) -> Path:
    """Its log still holds what it last committed."""
    path = foreign_with_a_log(folder)
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO theirs (text) VALUES ('in the log')")
    connection.commit()
    left = tree(folder)
    connection.close()
    for name, content in left.items():
        (folder / name).write_bytes(content)
    return path


def foreign_with_a_version(folder: Path) -> Path:
    return foreign(folder, "PRAGMA user_version = 7")


def a_queue(folder: Path) -> Path:
    stores = Stores(folder)
    add(stores.open())
    stores.close()
    return folder / "jobs.db"


def a_newer_queue(folder: Path) -> Path:
    path = a_queue(folder)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    return path


def a_damaged_queue(folder: Path) -> Path:
    path = a_queue(folder)
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xa5" * 3_900)
    return path


def locks_in_the_way(folder: Path) -> Path:
    (folder / "jobs.db-slotq").write_bytes(b"mine")
    return folder / "jobs.db"


@dataclass(frozen=True, slots=True)
class Wrong:
    """A path that is no good, and what is said of it."""

    make: Make
    create: bool
    kind: type[StoreError]
    reason: str

    @override
    def __str__(self) -> str:
        return f"{self.make.__name__}-{'make' if self.create else 'open'}"


ANY, OPENING = (True, False), (False,)
WRONG = [
    Wrong(make, create, kind, reason)
    for make, creates, kind, reason in (
        (nothing, OPENING, NotAQueue, "there is no such file"),
        (no_parent, ANY, NotAQueue, "there is no folder "),
        (parent_is_a_file, ANY, NotAQueue, " is not a folder"),
        (a_folder, ANY, NotAQueue, "it is a folder"),
        (a_fifo, ANY, NotAQueue, "it is a device, a pipe or a socket, not a file"),
        (zero_bytes, OPENING, NotAQueue, "there is no queue in it"),
        (a_picture, ANY, NotAQueue, "it is not a database"),
        (foreign, OPENING, NotAQueue, "there is no queue in it"),
        (foreign_with_a_log, OPENING, NotAQueue, "there is no queue in it"),
        (foreign_that_crashed, OPENING, NotAQueue, "there is no queue in it"),
        (foreign_with_a_version, ANY, NotAQueue, "its user_version is 7, so another program "),
        (a_newer_queue, ANY, SchemaTooNew, "schema version is 99, this slotq knows up to "),
        (a_damaged_queue, ANY, StoreError, "it is damaged: restore a backup, "),
    )
    for create in creates
]


@pytest.mark.parametrize("use", [write_once, read_once])
@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_what_is_wrong_is_said_in_one_line(
    stores: Stores, tmp_path: Path, wrong: Wrong, use: UseOf
) -> None:
    """Field cases 41 and 53: nothing is made, and what is there stays as it is."""
    path = wrong.make(tmp_path)
    before = tree(tmp_path)
    database = stores.open(str(path.relative_to(tmp_path)), create=wrong.create)
    for _ in range(2):
        with pytest.raises(StoreError) as caught:
            use(database)
        assert type(caught.value) is wrong.kind
        assert caught.value.path == str(path)
        assert str(path) in str(caught.value)
        assert wrong.reason in str(caught.value)
        assert "\n" not in str(caught.value)
        assert tree(tmp_path) == before
        assert open_files(tmp_path) == []


def test_a_file_in_the_place_of_the_locks_is_named(stores: Stores, tmp_path: Path) -> None:
    locks_in_the_way(tmp_path)
    before = tree(tmp_path)
    with pytest.raises(StoreError, match=r"jobs\.db-slotq is in the way of its locks"):
        write_once(stores.open())
    assert tree(tmp_path) == before


def test_a_foreign_database_is_adopted_and_its_tables_are_untouched(
    stores: Stores, tmp_path: Path
) -> None:
    path = foreign(tmp_path)
    assert add(stores.open(), 2) == [1, 2]
    with looking(path) as connection:
        rows = connection.execute("SELECT * FROM theirs").fetchall()
        schema = connection.execute("SELECT sql FROM sqlite_schema WHERE name NOT LIKE 'slotq_%'")
        tables = [sql for (sql,) in schema if sql and "sqlite_sequence" not in sql]
    assert rows == [(1, "kept")]
    assert tables == ["CREATE TABLE theirs (id INTEGER PRIMARY KEY, text TEXT)"]
    assert integrity(path) == "ok"


def test_a_zero_byte_file_becomes_a_queue_if_it_may(stores: Stores, tmp_path: Path) -> None:
    path = zero_bytes(tmp_path)
    assert add(stores.open()) == [1]
    assert job_ids(path) == [1]


def test_a_first_read_makes_the_queue_if_it_may(stores: Stores, tmp_path: Path) -> None:
    assert read_once(stores.open()) == 0
    assert job_ids(tmp_path / "jobs.db") == []


def test_damage_inside_is_told_at_its_use(stores: Stores, tmp_path: Path) -> None:
    path = a_queue(tmp_path)
    with path.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        end = file.tell()
        file.seek(4_096)
        file.write(b"\xa5" * (end - 4_096))
    before = path.read_bytes()
    with pytest.raises(StoreError, match="it is damaged"):
        add(stores.open())
    assert path.read_bytes() == before


def test_no_file_is_made_by_making_a_database(stores: Stores, tmp_path: Path) -> None:
    stores.open().close()
    assert tree(tmp_path) == {}


def test_a_relative_path_is_made_absolute_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    stores = Stores(Path())
    database = stores.open()
    monkeypatch.chdir(tmp_path / "other")
    add(database)
    stores.close()
    assert (database.path, database.path.exists()) == (tmp_path / "jobs.db", True)


NAMES = [
    "with space",
    "50%",
    "%41%2f%00",
    "what?mode=memory",
    "a#b",
    "a&b=c;d",
    "file:jobs.db",
    "naïve-日本-🙂",
    "e\u0301",
    "two\nlines",
    "tab\there",
    "quote'\"`",
    "back\\slash\\041",
    "-dash",
    ".hidden",
    os.fsdecode(b"not-\xff-utf8"),
    "x" * 200,
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_odd_names_are_taken_as_they_are(stores: Stores, tmp_path: Path, name: str) -> None:
    database = stores.open(name)
    add(database)
    assert read_once(database) == 1
    beside = {entry.name for entry in tmp_path.iterdir()}
    assert beside == {name, f"{name}-wal", f"{name}-shm", f"{name}-slotq"}
    database.close()
    assert add(stores.open(name, create=False)) == [2]


def test_odd_names_are_told_in_one_line(stores: Stores) -> None:
    for name in NAMES:
        with pytest.raises(NotAQueue) as caught:
            write_once(stores.open(name, create=False))
        assert str(caught.value).isprintable()


def test_a_link_and_its_file_are_one_queue(stores: Stores, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "there" / "jobs.db")
    link, file = stores.open("link.db"), stores.open("there/jobs.db")
    add(link, 20)
    add(file)
    assert link.directory == file.directory
    assert link.log.size() == file.log.size() > 0
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["link.db", "there"]


def test_links_in_a_circle_are_told(stores: Stores, tmp_path: Path) -> None:
    (tmp_path / "jobs.db").symlink_to(tmp_path / "jobs.db")
    with pytest.raises(StoreError, match="it cannot be looked at"):
        write_once(stores.open())


def test_a_name_that_is_too_long_is_told(stores: Stores) -> None:
    with pytest.raises(StoreError, match="it cannot be looked at"):
        write_once(stores.open("x" * 300))


def test_nothing_stays_open_after_close(stores: Stores, tmp_path: Path) -> None:
    database = stores.open()
    for _ in range(3):
        add(database)
        read_once(database)
        assert len(open_files(tmp_path)) > 4
        database.close()
        assert open_files(tmp_path) == []


@pytest.fixture
def public_folder() -> Generator[Path]:
    """A folder that ordinary users can get to; those of pytest they cannot."""
    folder = Path(tempfile.mkdtemp(prefix="slotq-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def nobody(partner: Partner) -> Partner:
    """A process of an ordinary user: root may write what is read-only."""
    if os.geteuid() != 0:
        pytest.skip("only root can become an ordinary user")
    partner.ask("nobody")
    return partner


def refused(partner: Partner, verb: str, *values: object) -> tuple[str, str]:
    with pytest.raises(RefusedError) as caught:
        partner.ask(verb, *values)
    return caught.value.kind, str(caught.value)


def test_a_read_only_file_is_told(nobody: Partner, public_folder: Path) -> None:
    path = a_queue(public_folder)
    public_folder.chmod(0o777)
    path.chmod(0o444)
    before = tree(public_folder)
    nobody.ask("use", str(path), 1.0)
    kind, text = refused(nobody, "add", 1)
    assert (kind, "it is read-only" in text, str(path) in text) == ("StoreError", True, True)
    assert tree(public_folder) == before


@pytest.mark.parametrize("is_there", [True, False])
def test_a_read_only_folder_is_told(nobody: Partner, public_folder: Path, is_there: bool) -> None:
    path = a_queue(public_folder) if is_there else public_folder / "jobs.db"
    if is_there:
        path.chmod(0o666)
    before = tree(public_folder)
    nobody.ask("use", str(path), 1.0)
    for verb in ("add", "read"):
        kind, text = refused(nobody, verb, *([1] if verb == "add" else []))
        assert (kind, str(path) in text) == ("StoreError", True)
        assert "read-only" in text
    assert tree(public_folder) == before


def test_a_read_only_file_can_be_looked_at_while_it_is_in_use(
    nobody: Partner, public_folder: Path
) -> None:
    owner = Stores(public_folder)
    add(owner.open(), 3)
    nobody.ask("use", str(public_folder / "jobs.db"), 1.0, False)
    assert nobody.ask("read") == 3
    nobody.ask("read_end")
    owner.close()


def test_a_folder_that_may_not_be_entered_is_told(nobody: Partner, public_folder: Path) -> None:
    path = a_queue(public_folder)
    public_folder.chmod(0o700)
    nobody.ask("use", str(path), 1.0)
    kind, text = refused(nobody, "add", 1)
    assert (kind, "it cannot be looked at (Permission denied)" in text) == ("StoreError", True)


def test_locks_of_another_user_serve_all_who_may_write(
    nobody: Partner, public_folder: Path
) -> None:
    owner = Stores(public_folder)
    add(owner.open())
    owner.close()
    public_folder.chmod(0o777)
    (public_folder / "jobs.db").chmod(0o666)
    nobody.ask("use", str(public_folder / "jobs.db"), 1.0)
    assert nobody.ask("add", 1) == [2]
    assert os.stat(public_folder / "jobs.db-slotq" / "lock").st_uid != NOBODY  # noqa: PTH116


def test_too_old_an_sqlite_is_told(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 39, 4))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.39.4")
    with pytest.raises(StoreError, match=r"SQLite 3\.39\.4 is too old: 3\.40\.0 is needed"):
        write_once(stores.open())
    assert tree(tmp_path) == {}


MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:21 / /proc rw,nosuid - proc proc rw
40 22 0:44 / {here} rw,relatime shared:9 master:2 - nfs4 server:/export rw,vers=4.2
41 40 0:45 / {here}/local rw - tmpfs tmpfs rw
42 40 0:46 / {here}/over rw - tmpfs tmpfs rw
43 42 0:47 / {here}/over rw - fuse.sshfs me@host: rw
broken line
"""


@pytest.fixture
def mounts(tmp_path: Path) -> tuple[Path, Path]:
    """A made-up list of mounts, and the folder in it that is a network's."""
    here = tmp_path / "a b\\c\td\ne"
    for name in ("local", "over", "deep/er"):
        (here / name).mkdir(parents=True)
    told = str(here)
    for letter in ("\\", " ", "\t", "\n"):
        told = told.replace(letter, f"\\{ord(letter):03o}")
    (tmp_path / "mounts").write_text(MOUNTS.format(here=told), encoding="utf-8")
    return tmp_path / "mounts", here


def test_the_file_system_is_that_of_the_innermost_and_latest_mount(
    mounts: tuple[Path, Path], tmp_path: Path
) -> None:
    table, here = mounts
    found = {
        name: faults.file_system(here / name, table) for name in (".", "deep/er", "local", "over")
    }
    assert found == {".": "nfs4", "deep/er": "nfs4", "local": "tmpfs", "over": "fuse.sshfs"}
    assert faults.file_system(tmp_path, table) == "ext4"
    assert faults.file_system(here.with_name(here.name + "x"), table) == "ext4"
    assert faults.file_system(tmp_path, tmp_path / "none") is None


def test_a_network_file_system_is_refused(mounts: tuple[Path, Path]) -> None:
    table, here = mounts
    for folder, kind in ((here, "nfs4"), (here / "over", "fuse.sshfs")):
        with pytest.raises(StoreError, match=rf"on a network file system \({kind}\)"):
            faults.check_place(folder / "jobs.db", create=True, write=True, mounts=table)
    faults.check_place(here / "local" / "jobs.db", create=True, write=True, mounts=table)


def test_this_very_folder_is_on_a_known_file_system(tmp_path: Path) -> None:
    assert faults.file_system(tmp_path) is not None


def test_every_thread_gets_the_same_answer(tmp_path: Path) -> None:
    database: Database = Stores(tmp_path).open("missing/jobs.db")
    for use in (write_once, read_once, Database.data_version):
        with pytest.raises(NotAQueue, match="there is no folder"):
            use(database)
