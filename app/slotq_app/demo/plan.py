"""The work of the demo: which files are packed, for which tenants, under which limits."""

import random
import sysconfig
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import slotq
from slotq_app.demo import packing

LIBRARY: Final = Path(sysconfig.get_paths()["stdlib"])
"""Python's own library: a few hundred source files that every machine has."""

# Packages that are not the library's own, and what is no source.
SKIPPED: Final = frozenset({"site-packages", "dist-packages", "__pycache__"})
# With fewer files there is no tenant that could reach its limit, so nothing to see.
LEAST_FILES: Final = 50

MAX_RUNNING: Final = 3
WINDOW_S: Final = 1.0
# One large tenant may also start only so many jobs within a window, about this share of them.
WINDOWS_FOR_ALL: Final = 8
LEAST_STARTS: Final = 4

# Each file is packed once, so that runs can be compared; fewer where that would take longer than
# this, though never fewer than the least.
LONGEST_S: Final = 14.0
LEAST_JOBS: Final = 1_000
# How long the speed of this machine is measured for.
SAMPLE_S: Final = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One tenant: a top-level package or module, whose files are its jobs.

    Attributes:
        name: The package.
        files: One for each job, as paths inside the library.
        sources: How many different files there are among them.
        max_starts: Most starts within ``WINDOW_S``; None for no such limit.
    """

    name: str
    files: Sequence[str]
    sources: int
    max_starts: int | None = None

    @property
    def key(self) -> str:
        """What its jobs are limited by."""
        return slotq.key("tenant", self.name)

    @property
    def limit(self) -> str:
        """Its limits, for people."""
        if self.max_starts is None:
            return f"{MAX_RUNNING}"
        return f"{MAX_RUNNING}, {self.max_starts} per {WINDOW_S:g} s"


def source_files(library: Path = LIBRARY) -> list[str]:
    """Return the library's files as paths inside it, sorted."""
    inside = (path.relative_to(library) for path in library.rglob("*.py"))
    return sorted(path.as_posix() for path in inside if SKIPPED.isdisjoint(path.parts))


def speed(files: Sequence[str], *, processors: int, library: Path = LIBRARY) -> float:
    """Measure how many bytes these processors pack in a second; takes a moment."""
    began = time.perf_counter()

    def sample(seed: int) -> int:
        packed = 0
        for file in random.Random(seed).sample(files, len(files)):
            packed += packing.pack((library / file).read_bytes())["size"]
            if time.perf_counter() - began > SAMPLE_S:
                break
        return packed

    # All at once, as the jobs will be: the machine may have other work too.
    with ThreadPoolExecutor(processors) as threads:
        packed = sum(threads.map(sample, range(processors)))
    return packed / (time.perf_counter() - began)


def enough_jobs(sizes: Sequence[int], bytes_per_s: float) -> int:
    """Return how many files of such sizes to pack: each once, if the machine is fast enough."""
    jobs = LONGEST_S * bytes_per_s * len(sizes) / max(sum(sizes), 1)
    return max(min(round(jobs), len(sizes)), LEAST_JOBS)


def spread(files: Sequence[str], count: int) -> list[str]:
    """Return so many files: all of them as often as they fit, the rest taken evenly."""
    rounds, rest = divmod(count, len(files))
    return [*files] * rounds + [files[index * len(files) // rest] for index in range(rest)]


def tenants(files: Sequence[str]) -> list[Tenant]:
    """Return the owners of these files, the one with most jobs first; the second has a window."""
    owned: dict[str, list[str]] = defaultdict(list)
    for file in files:
        owned[file.split("/")[0].removesuffix(".py")].append(file)
    sizes = sorted(owned, key=lambda name: (-len(owned[name]), name))
    return [
        Tenant(
            name=name,
            files=owned[name],
            sources=len(set(owned[name])),
            max_starts=_max_starts(len(owned[name])) if place == 1 else None,
        )
        for place, name in enumerate(sizes)
    ]


def _max_starts(jobs: int) -> int:
    return max(LEAST_STARTS, -(-jobs // WINDOWS_FOR_ALL))
