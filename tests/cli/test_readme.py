"""What README.md shows of the command line is run, line by line."""

import re
import subprocess
from pathlib import Path

from support.commands import QWORKER, environment

README = Path(__file__).resolve().parents[2] / "README.md"


def section(title: str) -> str:
    text = README.read_text(encoding="utf-8")
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_each_line_of_the_command_line_section_works(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", section("Twenty lines"), re.DOTALL)
    (tmp_path / "app.py").write_text(code, encoding="utf-8")
    (block,) = re.findall(r"```console\n(.*?)```", section("From the command line"), re.DOTALL)
    lines = [line.removeprefix("$ ") for line in block.splitlines()]
    script = "\n".join(["set -e -x", f"PATH={QWORKER.parent}:$PATH", *lines])
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(lines) > 10
    said = done.stdout.splitlines()
    assert said[:3] == ["1", "2", "enqueued 1 job, 3 to 3"]
    assert "42" in said
