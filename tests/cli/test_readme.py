"""What README.md shows of the command line is run, line by line."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from support.commands import QWORKER, environment

README = Path(__file__).resolve().parents[2] / "README.md"


def section(title: str) -> str:
    text = README.read_text(encoding="utf-8")
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def run(lines: Sequence[str], folder: Path, **env: str) -> list[str]:
    """Run lines of a shell; return what they say."""
    script = "\n".join(["set -e -x", f"PATH={QWORKER.parent}:$PATH", *lines])
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=folder,
        env=environment(env),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_each_line_of_the_command_line_section_works(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", section("Twenty lines"), re.DOTALL)
    (tmp_path / "app.py").write_text(code, encoding="utf-8")
    (block,) = re.findall(r"```console\n(.*?)```", section("From the command line"), re.DOTALL)
    lines = [line.removeprefix("$ ") for line in block.splitlines()]
    said = run(lines, tmp_path)
    assert len(lines) > 10
    assert said[:3] == ["1", "2", "enqueued 1 job, 3 to 3"]
    assert "42" in said


def test_each_line_of_the_holds_section_works(tmp_path: Path) -> None:
    (tmp_path / "app.py").touch()
    (block,) = re.findall(r"```console\n(.*?)```", section("Holds"), re.DOTALL)
    lines = [line.removeprefix("$ ") for line in block.splitlines()]
    turn, heading, held = run(lines, tmp_path, SLOTQ_DB="jobs.db")
    assert (turn, heading.split()[0]) == ("my turn", "ID")
    assert held.split()[1:4] == ["disk", "1", "held"]
