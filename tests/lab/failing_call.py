# SPDX-License-Identifier: Apache-2.0
"""A failing call of a program, see failing-call.c: each of the calls in turn.

    failing = FailingCall(folder / "plan", "inplaced")
    ... start the program with failing.environment ...
    for point in failing.points(operation):
        with failing.at(point):
            operation()
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import random
import struct
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab import sanitizers
from lab.agent import Agent
from lab.trouble import complaints
from lab.wait import wait_until

_KINDS = ("memory", "open", "read", "write", "sync", "rename", "connect", "file", "copy")
_HEAD = struct.Struct("32s224s")
_ARMS = struct.Struct("IiII")
_COUNTS = struct.Struct("II")
_FRAMES = struct.Struct("12Q")
_WAYS = struct.Struct("65536Q")
_SIZE = _HEAD.size + _ARMS.size + _COUNTS.size + _FRAMES.size + _WAYS.size

# Errors that the manual pages name for the calls of a kind.
ERRORS: Mapping[str, Sequence[int]] = {
    "memory": (errno.ENOMEM,),
    "copy": (errno.ENOMEM,),
    "open": (errno.EMFILE, errno.ENOMEM, errno.EIO, errno.EINTR),
    "read": (errno.EIO, errno.EINTR),
    "write": (errno.ENOSPC, errno.EIO, errno.EINTR),
    "sync": (errno.EIO, errno.ENOSPC),
    "rename": (errno.ENOSPC, errno.EIO),
    "connect": (errno.ENOMEM, errno.EINTR),
    "file": (errno.EIO, errno.ENOMEM),
}

# Libraries that report a failure to their caller. gRPC ends the program when it has no memory.
LIBRARIES = ("/libjson-c.", "/libyaml-", "/libprotobuf-c.", "/libsystemd.", "/libmicrohttpd.", "/libcurl.")

# How many points of a kind are tried, for each operation, or "each": of those that the program reaches by another way,
# through other functions of its own or of its libraries; or "all".
_MOST = os.environ.get("INPLACED_FAILING_CALLS", "4")
_SEED = os.environ.get("INPLACED_FAILING_SEED", "1")  # seed of the choice
_PART, _N_PARTS = map(int, os.environ.get("INPLACED_FAILING_PART", "1/1").split("/"))  # part of the points, from 1

_MOST_PROBLEMS = 5  # a program that is broken in many places shows the first ones soon


@dataclass(frozen=True)
class Point:
    kind: str
    nth: int
    number: int

    def __str__(self) -> str:
        return f"{self.kind} {self.nth} {errno.errorcode[self.number]}"


class FailingCall:
    """The plan of a program. `tried` counts points of each kind, `reached` all that there are."""

    def __init__(self, path: Path, program: str, libraries: Sequence[str] = LIBRARIES) -> None:
        self.path = path
        self.program = program
        self.reached: Counter[str] = Counter()
        self.tried: Counter[str] = Counter()
        self._problems: list[str] = []
        path.write_bytes(bytes(_SIZE))
        with path.open("r+b") as file:
            self._plan = mmap.mmap(file.fileno(), _SIZE)
        _HEAD.pack_into(self._plan, 0, program.encode(), " ".join(libraries).encode())

    @property
    def environment(self) -> dict[str, str]:
        library = Path(os.environ["INPLACED_BUILD_DIR"], "tests", "libfailing-call.so").absolute()
        assert library.exists()
        made = {"LD_PRELOAD": str(library), "INPLACED_FAILING_CALL": str(self.path)}
        if sanitizers.NAME:
            # The sanitizer requires to be the first library. A program that ends for want of memory leaves what gRPC has.
            others = os.environ.get("ASAN_OPTIONS", "")
            made["ASAN_OPTIONS"] = f"{others}:verify_asan_link_order=0:detect_leaks=0"
        return made

    def points(self, operation: Callable[[], object]) -> Iterator[Point]:
        """The points of an operation, in which nothing fails here, as many as are wanted."""
        chance = random.Random(_SEED)
        for kind, numbers in ERRORS.items():
            self._arm(kind, 0, 0)
            operation()
            self.disarm()
            points = [Point(kind, nth, number) for nth in self._chosen_calls() for number in numbers]
            self.reached[kind] += len(points)
            if _MOST.isdigit():
                points = sorted(chance.sample(points, min(int(_MOST), len(points))), key=str)
            yield from points[_PART - 1 :: _N_PARTS]

    @contextmanager
    def at(self, point: Point) -> Iterator[None]:
        """Fails there, once, until disarm(). What goes wrong in the block is a problem of this point."""
        self._arm(point.kind, point.number, point.nth)
        try:
            yield
        except Exception as problem:
            if not self.has_failed:
                problem.add_note("\n".join(["problems before:", *self._problems]))
                raise
            self._problems.append(f"{point}: {problem!r}\n  at {self._find_place()}")
            if len(self._problems) == _MOST_PROBLEMS:
                self.close()
        finally:
            self.tried[point.kind] += self.has_failed
            self.disarm()

    def close(self) -> None:
        """AssertionError if there were problems."""
        assert not self._problems, "\n".join(self._problems)

    def disarm(self) -> None:
        """The counts and the place stay."""
        _ARMS.pack_into(self._plan, _HEAD.size, 0, 0, 0, 0)

    def _arm(self, kind: str, number: int, nth: int) -> None:
        self.disarm()
        _COUNTS.pack_into(self._plan, _HEAD.size + _ARMS.size, 0, 0)
        _FRAMES.pack_into(self._plan, _HEAD.size + _ARMS.size + _COUNTS.size, *[0] * 12)
        _ARMS.pack_into(self._plan, _HEAD.size, 1 << _KINDS.index(kind), number, nth, 1)

    def _chosen_calls(self) -> Iterable[int]:
        """Numbers of the calls, or of the first one on each way."""
        if _MOST == "all":
            return range(1, self.n_calls + 1)
        ways = _WAYS.unpack_from(self._plan, _SIZE - _WAYS.size)[: self.n_calls]
        return sorted({way: len(ways) - i for i, way in enumerate(reversed(ways))}.values())

    @property
    def n_calls(self) -> int:
        return int(_COUNTS.unpack_from(self._plan, _HEAD.size + _ARMS.size)[0])

    @property
    def has_failed(self) -> bool:
        return bool(_COUNTS.unpack_from(self._plan, _HEAD.size + _ARMS.size)[1])

    def _find_place(self) -> str:
        """Functions of the program that led to the failure, the innermost first."""
        frames = _FRAMES.unpack_from(self._plan, _HEAD.size + _ARMS.size + _COUNTS.size)
        program = Path(os.environ["INPLACED_BUILD_DIR"], "agent", self.program)
        argv = ["addr2line", "--functions", "--basenames", "--pretty-print", f"--exe={program}"]
        found = subprocess.run([*argv, *(hex(frame) for frame in frames if frame)], capture_output=True, text=True, check=False)
        return " < ".join(found.stdout.splitlines())

    def __str__(self) -> str:
        kinds = (f"{self.tried[kind]} of {count} {kind}" for kind, count in self.reached.items() if count)
        return f"{sum(self.tried.values())} points tried (seed {_SEED}): {', '.join(kinds)}"


def time_limit(seconds: int) -> int:
    """Seconds for the points of one test, which takes at most so many for a sample of 4; 0 is no limit."""
    return seconds * sanitizers.SLOWNESS * max(1, int(_MOST) // 4) if _MOST.isdigit() else 0


def begin(agent: Agent) -> None:
    """Returns when the agent is ready or has ended. Its log has nothing of earlier runs then."""
    agent.log_path.write_text("")
    agent.notify.catch_up()  # a READY of the run before may be unread
    agent.start(wait_ready=False)
    began = agent.process.began_at

    def is_ready() -> bool:
        said = any(notice.at >= began for notice in agent.notify.notices("READY"))
        return said or "is ready on node" in agent.log_text()  # each of them may be what fails

    wait_until(lambda: agent.process.code is not None or is_ready(), 15 * sanitizers.SLOWNESS, "start")


def check_end(agent: Agent) -> None:
    """Ends it, unless it has ended: it has exited, for a reason that it has told, and its files are whole."""
    code = agent.terminate().code
    log = agent.log_text()
    assert code in (0, 1, 2), f"ended with {code}:\n{log}"
    assert code == 0 or "inplaced: " in log or complaints(agent), f"ended with {code}, without a message:\n{log}"
    assert sanitizers.find_report(log) is None, log
    for path in agent.state_dir.glob("*.json"):
        json.loads(path.read_text())
