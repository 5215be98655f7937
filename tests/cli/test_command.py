"""The ``qworker`` command as a whole."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import slotq
from slotq_app.cli import exits
from support.commands import environment, qworker


def test_help_has_a_short_name(tmp_path: Path) -> None:
    assert qworker("run", "-h", cwd=tmp_path) == qworker("run", "--help", cwd=tmp_path)


def test_the_version_is_told(tmp_path: Path) -> None:
    done = qworker("--version", cwd=tmp_path)
    assert (done.code, done.out) == (0, f"slotq {version('slotq')}\n")


def python(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_package_can_be_run_as_a_module(tmp_path: Path) -> None:
    done = python("-m", "slotq_app", "--help", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, qworker("--help", cwd=tmp_path).out)


def test_a_worker_and_the_demo_do_not_load_textual(tmp_path: Path) -> None:
    code = "import sys, slotq_app.cli.serving, slotq_app.demo.running\n"
    code += "print('textual' in sys.modules)"
    assert python("-c", code, cwd=tmp_path).stdout == "False\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (slotq.InvalidValue(name="slots", problem="must be more"), 2),
        (slotq.QueueBusy(path="jobs.db", waited_s=5), 75),
        (TimeoutError("job 1 has not ended"), 75),
        (slotq.StoreError(path="jobs.db", reason="is broken"), 1),
        (exits.CommandFailed("no"), 1),
        (PermissionError("no"), 1),
        (ZeroDivisionError("a fault of the program keeps its traceback"), None),
    ],
)
def test_errors_have_exit_codes(error: Exception, code: int | None) -> None:
    assert exits.code_of(error) == code


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain", "plain"),
        ("two\nlines\t and   spaces", "two lines and spaces"),
        ("red \x1b[31m bell \x07", r"red \x1b[31m bell \x07"),
        ("größer 表", "größer 表"),
        ("x" * 600, "x" * 497 + "..."),
    ],
)
def test_a_text_becomes_one_printable_line(text: str, line: str) -> None:
    assert exits.one_line(text) == line


def test_an_error_without_a_text_is_named() -> None:
    assert exits.line_of(OSError()) == "OSError"
