"""The demo's work: real files, large and small tenants, as much as the machine takes."""

import hashlib
from pathlib import Path

import pytest

from slotq_app.demo import plan, running
from slotq_app.demo.packing import pack


@pytest.fixture
def library(tmp_path: Path) -> Path:
    for name in ("large/a.py", "large/b.py", "large/c/d.py", "middle/a.py", "middle/b.py", "s.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"name = {name!r}\n" * 100, encoding="utf-8")
    for name in ("site-packages/x.py", "large/__pycache__/x.py", "large/data.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def test_source_files_are_the_librarys_own(library: Path) -> None:
    assert plan.source_files(library) == [
        "large/a.py", "large/b.py", "large/c/d.py", "middle/a.py", "middle/b.py", "s.py",
    ]  # fmt: skip


def test_this_python_has_enough_of_them() -> None:
    assert len(plan.source_files()) > plan.LEAST_FILES


def test_tenants_are_packages_the_largest_first(library: Path) -> None:
    large, middle, small = plan.tenants(plan.source_files(library))
    assert (large.name, len(large.files), large.limit) == ("large", 3, "3")
    assert (middle.name, middle.limit) == ("middle", "3, 4 per 1 s")
    assert (small.name, small.files, small.sources) == ("s", ["s.py"], 1)
    assert small.key == "tenant:s"


def test_a_file_packed_again_is_another_job_and_no_other_source() -> None:
    (tenant,) = plan.tenants(["s.py", "s.py"])
    assert (len(tenant.files), tenant.sources) == (2, 1)


def test_the_window_lets_a_large_tenant_end_in_some_seconds() -> None:
    _, second = plan.tenants([f"a/{n}.py" for n in range(101)] + [f"b/{n}.py" for n in range(100)])
    assert second.max_starts == 13


@pytest.mark.parametrize(
    ("count", "chosen"), [(1, "a"), (2, "ac"), (4, "abcd"), (6, "abcdac"), (8, "abcdabcd")]
)
def test_files_are_taken_evenly(count: int, chosen: str) -> None:
    assert plan.spread("abcd", count) == list(chosen)


@pytest.mark.parametrize(
    ("bytes_per_s", "jobs"), [(0.0, plan.LEAST_JOBS), (20_000.0, 14 * 100), (1e12, 2_000)]
)
def test_each_file_is_a_job_unless_the_machine_is_too_slow(bytes_per_s: float, jobs: int) -> None:
    assert plan.enough_jobs([100, 300] * 1_000, bytes_per_s) == jobs


def test_files_without_a_byte_do_not_matter() -> None:
    assert plan.enough_jobs([0, 0], 1.0) == plan.LEAST_JOBS


def test_speed_is_measured_on_the_files(library: Path) -> None:
    assert plan.speed(plan.source_files(library), processors=2, library=library) > 0


def test_packing_tells_what_came_out() -> None:
    data = b"the same again and again, " * 400
    packed = pack(data)
    assert packed["sha256"] == hashlib.sha256(data).hexdigest()
    assert packed["size"] == len(data)
    assert packed["packed"] < 200
    assert packed["by"] in {"zlib", "bz2", "lzma"}


def test_an_empty_file_can_be_packed() -> None:
    assert pack(b"")["size"] == 0


def test_without_a_number_there_are_at_least_a_thousand_jobs() -> None:
    terms = running.Terms(workers=2, slots=8, order="fair", jobs=None)
    jobs = sum(len(tenant.files) for tenant in running.tenants_of(terms))
    assert plan.LEAST_JOBS <= jobs <= max(plan.LEAST_JOBS, len(plan.source_files()))
