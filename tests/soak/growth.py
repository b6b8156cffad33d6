# SPDX-License-Identifier: Apache-2.0
"""Resources that a program holds while it runs: descriptors, threads and memory, as /proc shows them, and whether they grow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from lab.process import Process

@dataclass(frozen=True)
class Sample:
    """Resources of a process at that second; memory is in KiB."""

    second: float
    descriptors: int
    threads: int
    resident: int
    anonymous: int


# The least at the end may exceed the most at the beginning by so many.
_ALLOWANCE = {"descriptors": 2, "threads": 1, "resident": 1500, "anonymous": 1000}


@dataclass
class Growth:
    """Samples of a program, those of its latest process alone."""

    name: str
    process: Callable[[], Process]
    samples: list[Sample] = field(default_factory=list)
    _pid: int = 0

    def take(self, second: float) -> None:
        pid = self.process().pid
        if pid != self._pid:
            self._pid, self.samples = pid, []
        with suppress(OSError, KeyError):  # it has just ended
            self.samples.append(_sample(pid, second))

    def lines(self) -> Iterator[str]:
        if not self.samples:
            return
        span = self.samples[-1].second - self.samples[0].second
        for what in _ALLOWANCE:
            first, last = ends(self.samples, what)
            slope = slope_of([(one.second, getattr(one, what)) for one in self.samples])
            yield f"{self.name}: {what} {first} → {last} in {span:.0f} s, {slope * 3600:+.0f} an hour"

    def complaints(self) -> list[str]:
        if not self.samples:
            return [f"{self.name} was never measured"]
        return [
            f"{self.name} has grown: {what} from {first} to {last}"
            for what, allowed in _ALLOWANCE.items()
            for first, last in [ends(self.samples, what)]
            if last - first > allowed
        ]


def ends(samples: list[Sample], what: str) -> tuple[int, int]:
    """The most in the second fifth of the time, and the least in the last: a process fills its tables at first, and is
    busy at times.
    """
    values = [getattr(one, what) for one in samples]
    fifth = max(len(values) // 5, 1)
    return max(values[fifth : 2 * fifth] or values), min(values[-fifth:])


def slope_of(points: list[tuple[float, float]]) -> float:
    """By least squares, of the samples after the first fifth."""
    points = points[len(points) // 5 :]
    x, y = (sum(values) / len(points) for values in zip(*points, strict=True))
    spread = sum((a - x) ** 2 for a, _ in points)
    return sum((a - x) * (b - y) for a, b in points) / spread if spread else 0.0


def _sample(pid: int, second: float) -> Sample:
    proc = Path("/proc") / str(pid)
    text = (proc / "smaps_rollup").read_text()
    fields = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()[1:]}
    n_descriptors, n_threads = (len(os.listdir(proc / name)) for name in ("fd", "task"))
    return Sample(second, n_descriptors, n_threads, fields["Rss"], fields["Anonymous"])
