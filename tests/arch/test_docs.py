"""What the pages show is run: every Python block, each in a process and a folder of its own."""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w+-]*)")
MARK = re.compile(r"^<!-- not run(?:: *(?P<reason>\S.*?))? *-->$")
TIME_LIMIT_S = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block of a page, and the mark on the line before it."""

    page: str
    line: int
    language: str
    code: str
    is_marked: bool
    reason: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: str, text: str) -> Iterator[Block]:
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        opened = FENCE.match(lines[number])
        if opened is None:
            number += 1
            continue
        start, indent, ticks = number, len(opened["indent"]), opened["ticks"]
        number += 1
        body: list[str] = []
        while number < len(lines) and lines[number].strip() != ticks:
            body.append(lines[number][indent:])
            number += 1
        assert number < len(lines), f"{page}:{start + 1}: block without an end"
        number += 1
        mark = MARK.match(lines[start - 1].strip()) if start else None
        yield Block(
            page=page,
            line=start + 1,
            language=opened["language"],
            code="\n".join(body) + "\n",
            is_marked=mark is not None,
            reason=(mark["reason"] or "") if mark else "",
        )


ALL = [
    block
    for page in PAGES
    for block in blocks(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8"))
]
PYTHON = [block for block in ALL if block.language in {"python", "py"}]


def test_blocks_are_found_with_their_marks() -> None:
    text = """\
# Title

```python
print(1)
```

<!-- not run: needs a server -->
```python
print(2)
```

<!-- not run -->
- a list
  ```console
  $ ls
  ```
"""
    found = [(b.line, b.language, b.code, b.is_marked, b.reason) for b in blocks("p.md", text)]
    assert found == [
        (3, "python", "print(1)\n", False, ""),
        (8, "python", "print(2)\n", True, "needs a server"),
        (14, "console", "$ ls\n", False, ""),
    ]


def test_a_block_that_is_not_run_says_why() -> None:
    assert [block.place for block in ALL if block.is_marked and not block.reason] == []


@pytest.mark.parametrize("block", PYTHON, ids=[block.place for block in PYTHON])
def test_python_block_runs(block: Block, tmp_path: Path) -> None:
    if block.reason:
        pytest.skip(block.reason)
    # Named as a reader would name it: tasks are called after their file.
    (tmp_path / "app.py").write_text(block.code, encoding="utf-8")
    done = subprocess.run(
        # Early releases of Python 3.12 take the numbered ?1 for a name, and warn.
        [sys.executable, "-W", "error", "-W", "ignore:Binding:DeprecationWarning", "app.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIME_LIMIT_S,
    )
    assert done.returncode == 0, f"{block.place}\n{done.stdout}{done.stderr}"


def test_each_guarantee_names_tests_that_are_there() -> None:
    page = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if re.match(r"\| G\d+ \|", line)]
    assert len(rows) > 10
    for row in rows:
        named = re.findall(r"`([a-z_]+/test_[a-z_]+\.py)(?:::(test_\w+))?`", row)
        assert named, row
        for file, test in named:
            code = (ROOT / "tests" / file).read_text(encoding="utf-8")
            assert f"def {test or 'test_'}" in code or "TestCase" in code, (file, test)
