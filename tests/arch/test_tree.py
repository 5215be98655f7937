"""Guards on the shape of the source tree."""

import ast
import inspect
import os
import queue
import re
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import slotq

ROOT = Path(__file__).resolve().parents[2]
STDLIB = Path(sysconfig.get_paths()["stdlib"])
SQL = re.compile(
    r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE TABLE)\b.*\b(FROM|SET|VALUES|WHERE)\b"
    r"|^\s*(PRAGMA|BEGIN|COMMIT|ROLLBACK|SAVEPOINT|VACUUM|ATTACH)\b",
    re.DOTALL,
)
# Put together from parts, so that this file may be searched like all others.
FOREIGN = re.compile(
    "|".join(
        (
            r"(?<![\w.])/(?:home|Users|root|work)/" + r"\w",
            r"\b[A-Z]:\\" + r"Users\b",
            r"\.pyenv/" + "versions",
            r"\b(?:pypi|npmjs|crates|anaconda)" + r"\.(?:org|io|com)\b",
            r"\b(?:python" + r"hosted|rubygems)\.org\b",
        )
    )
)
# Hidden folders are tools' caches and environments, but for this one.
SHOWN = {".ci"}
BUILT = {"__pycache__", "build", "dist"}
# Looked at in one module, and only if a caller has loaded it.
OF_CALLERS = {"sqlalchemy"}
PUBLIC = [getattr(slotq, name) for name in slotq.__all__]


def sources() -> list[Path]:
    return sorted(p for folder in ("queue", "app") for p in (ROOT / folder).rglob("*.py"))


def repository_files() -> Iterator[Path]:
    for folder, names, files in os.walk(ROOT):
        names[:] = [n for n in names if n not in BUILT and (n in SHOWN or not n.startswith("."))]
        for file in files:
            path = Path(folder, file)
            # In a git worktree .git is a file, and it holds a path of this machine.
            if path.suffix != ".db" and file != ".git" and not file.startswith(".coverage"):
                yield path


def strings_but_docstrings(tree: ast.Module) -> Iterator[str]:
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def test_stdlib_queue_is_the_one_imported() -> None:
    assert Path(queue.__file__).parent == STDLIB


def test_stdlib_queue_is_found_from_the_repository_root() -> None:
    code = "import queue, concurrent.futures, multiprocessing.queues; print(queue.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()).parent == STDLIB


def test_the_package_under_test_is_the_one_of_this_tree() -> None:
    assert Path(slotq.__file__).is_relative_to(ROOT)


def test_source_folders_hold_no_loose_python() -> None:
    loose = [path for folder in ("queue", "app") for path in (ROOT / folder).glob("*.py")]
    assert loose == []


def test_no_test_folder_is_named_like_a_stdlib_module() -> None:
    names = {path.name for path in (ROOT / "tests").rglob("*") if path.is_dir()}
    assert not names & sys.stdlib_module_names


def test_only_support_is_a_package_among_the_tests() -> None:
    packages = {path.parent for path in (ROOT / "tests").rglob("__init__.py")}
    assert packages == {ROOT / "tests" / "support"}


def test_modules_stay_under_400_lines() -> None:
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in sources()}
    assert {path: count for path, count in lines.items() if count > 400} == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT id FROM job", True),
        ("\nUPDATE job\nSET state = 'running'", True),
        ("BEGIN IMMEDIATE", True),
        ("select one from the list", False),
        ("the transaction did not BEGIN", False),
    ],
)
def test_sql_is_told_from_prose(text: str, found: bool) -> None:
    assert bool(SQL.search(text)) is found


def test_sql_lives_in_the_store() -> None:
    found = [
        (path.relative_to(ROOT), text)
        for path in sources()
        if "store" not in path.parts
        for text in strings_but_docstrings(ast.parse(path.read_text(encoding="utf-8")))
        if SQL.search(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see /home" + "/ann/jobs.db", True),
        ('"/root' + '/jobs.db"', True),
        ("https://pypi" + ".org/project/slotq", True),
        ("/tmp/jobs.db", False),
        ("https://example.com/work/1", False),
        ("app/home/page", False),
    ],
)
def test_foreign_places_are_told_from_others(text: str, found: bool) -> None:
    assert bool(FOREIGN.search(text)) is found


def test_no_file_names_a_machine_path_or_a_registry() -> None:
    found: list[tuple[Path, str]] = []
    for path in repository_files():
        text = path.read_bytes().decode("utf-8", errors="replace")
        found += [(path.relative_to(ROOT), match[0]) for match in FOREIGN.finditer(text)]
    assert found == []


def distribution_name(text: str) -> str:
    """The name alone, spelt the one way that index pages spell it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", text)[0]).lower()


def test_every_package_imported_is_a_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {distribution_name(line) for line in project["dependencies"]}
    brought_by = packages_distributions()
    imported: set[str] = set()
    for path in sources():
        of_callers = OF_CALLERS if path.name == "alchemy.py" else set[str]()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {name.name.split(".")[0] for name in node.names} - of_callers
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported |= {node.module.split(".")[0]} - of_callers
    foreign = imported - sys.stdlib_module_names - {"slotq", "slotq_app"}
    undeclared = [
        name
        for name in sorted(foreign)
        if declared.isdisjoint(map(distribution_name, brought_by.get(name, [name])))
    ]
    assert undeclared == []


def kind_and_name(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions: the order that the linter keeps too."""
    kind = 0 if name.isupper() else 1 if name[0].isupper() else 2
    return kind, name


def test_public_names_are_sorted() -> None:
    assert slotq.__all__ == sorted(slotq.__all__, key=kind_and_name)


def test_public_names_are_complete() -> None:
    bound = {
        name
        for name, value in vars(slotq).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert {name for name in slotq.__all__ if not name.startswith("_")} == bound


def is_documented(thing: object) -> bool:
    """Whether it has a docstring of its own: a dataclass gets its signature as one."""
    doc = vars(thing).get("__doc__") if isinstance(thing, type) else inspect.getdoc(thing)
    name = getattr(thing, "__name__", "")
    return isinstance(doc, str) and bool(doc.strip()) and not doc.startswith(f"{name}(")


def undocumented_members(owner: type) -> Iterator[str]:
    for name in vars(owner):
        member: object = getattr(owner, name)
        if name.startswith("_") or not (inspect.isroutine(member) or isinstance(member, property)):
            continue
        if not is_documented(member):
            yield name


def test_every_public_name_is_documented() -> None:
    things = [t for t in PUBLIC if isinstance(t, type) or inspect.isroutine(t)]
    assert [thing.__name__ for thing in things if not is_documented(thing)] == []


@pytest.mark.parametrize("owner", [t for t in PUBLIC if isinstance(t, type)])
def test_every_public_member_is_documented(owner: type) -> None:
    assert list(undocumented_members(owner)) == []
