# SPDX-License-Identifier: Apache-2.0
"""Carries out the disturbances of a schedule: kills and freezes parts, fills the disk, cuts connections.

As a supervisor of services does, it starts again what has ended. It runs in the main thread alone, since a process of the
lab ends with the thread that started it.
"""

from __future__ import annotations

import heapq
import itertools
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from fake.tcp_proxy import TcpProxy
from lab.disk import fill, n_free
from lab.process import Process
from lab.wait import wait_until

from schedule import Action
from world import World

_MB = 1_000_000
_LINE = "line of the "


@dataclass(frozen=True)
class Program:
    """A process that can be killed, frozen, and started again."""

    process: Callable[[], Process]
    start: Callable[[], object]


class Chaos:
    """`step(now)` does what is due; `ended` are the programs that ended by themselves: name and exit code."""

    def __init__(self, world: World, plan: list[Action], say: Callable[[str], None]) -> None:
        self.counts: Counter[str] = Counter()
        self.ended: list[tuple[str, int]] = []
        self._world = world
        self._say = say
        self._programs = _programs(world)
        self._down: set[str] = set()
        self._now = 0.0
        self._numbers = itertools.count()
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        for action in plan:
            self._at(action.second, lambda action=action: self._begin(action))

    def step(self, now: float) -> None:
        self._now = now
        while self._due and self._due[0][0] <= now:
            heapq.heappop(self._due)[2]()
        self.revive()

    def revive(self) -> None:
        """Starts what has ended by itself, as an API server does that does not find its store."""
        for name, program in self._programs.items():
            code = program.process().code
            if name in self._down or code is None:
                continue
            self.ended.append((name, code))
            self._say(f"{name} ended by itself with {code}; started again")
            self._start(name)

    def finish(self) -> None:
        """Ends what is under way, and waits until every part is up."""
        while self._due:
            heapq.heappop(self._due)[2]()
        plane = self._world.control_plane
        for part in (plane.etcd, plane.apiserver, self._world.node.kubelet):

            def is_up(part=part) -> bool:
                self.revive()
                with suppress(RuntimeError):  # it has just ended, and is started again
                    return part.is_up()
                return False

            wait_until(is_up, 120, part.name, 0.2)

    def _at(self, second: float, work: Callable[[], object]) -> None:
        heapq.heappush(self._due, (second, next(self._numbers), work))

    def _begin(self, action: Action) -> None:
        self._say(str(action))
        self.counts[f"{action.what} {action.who}"] += 1
        end = getattr(self, f"_{action.what}")(action)
        if end is not None:
            self._at(self._now + action.details["seconds"], end)

    # Disturbances as the schedule names them: each returns the function that ends it

    def _kill(self, action: Action) -> Callable[[], object]:
        ended = self._programs[action.who].process().kill9()
        if ended.code != -signal.SIGKILL:
            self.ended.append((action.who, ended.code))  # it had ended just before
        self._down.add(action.who)
        return lambda: self._start(action.who)

    def _terminate(self, action: Action) -> Callable[[], object]:
        ended = self._programs[action.who].process().terminate()
        if ended.code != 0:
            self.ended.append((action.who, ended.code))
        self._down.add(action.who)
        return lambda: self._start(action.who)

    def _freeze(self, action: Action) -> Callable[[], object]:
        if action.who.startswith(_LINE):
            self._line_of(action).freeze()
            return self._line_of(action).thaw
        process = self._programs[action.who].process()
        process.send(signal.SIGSTOP)
        return lambda: process.send(signal.SIGCONT)

    def _fill(self, action: Action) -> Callable[[], object] | None:
        runtime, leave = self._world.node.runtime, action.details["leave_megabytes"] * _MB
        return fill(runtime, leave).unlink if n_free(runtime) > leave else None

    def _cut(self, action: Action) -> Callable[[], object]:
        line = self._line_of(action)
        line.drop()
        line.cut_after(action.details["after_bytes"])
        return line.behave

    def _vanish(self, action: Action) -> Callable[[], object]:
        self._line_of(action).vanish()
        return self._line_of(action).listen

    def _break(self, action: Action) -> None:
        self._line_of(action).drop()

    def _line_of(self, action: Action) -> TcpProxy:
        return self._world.lines[action.who.removeprefix(_LINE)]

    def _start(self, name: str) -> None:
        self._down.discard(name)
        self._programs[name].start()


def _programs(world: World) -> dict[str, Program]:
    plane, node = world.control_plane, world.node
    parts = {"etcd": plane.etcd, "apiserver": plane.apiserver, "kubelet": node.kubelet}
    return {
        "agent": Program(lambda: world.agent.process, lambda: world.agent.start(wait_ready=False)),
        "controller": Program(lambda: world.controller, world.start_controller),
        "containerd": Program(lambda: node.runtime.process, lambda: node.runtime.start(wait_ready=False)),
        "registry": Program(lambda: world.vault.process, lambda: world.vault.start(wait_ready=False)),
        **{
            name: Program(lambda part=part: part.process, lambda part=part: part.start(wait_ready=False))
            for name, part in parts.items()
        },
    }
