# SPDX-License-Identifier: Apache-2.0
"""Decides from what a container has recorded of its own life whether each restart happened exactly once. Pure.

Its lines are "start SECOND VALUE", "hook SECOND VALUE" of its preStop hook, and "term SECOND VALUE" of SIGTERM, by the
clock of the machine. Of a second start with the same
value there are three harmless kinds, which are counted:

  late       the next value had been requested, but the kubelet did not know it yet; at most three times for a value
  unforced   nothing had asked the process before to end: the runtime or the kubelet lost it while they were killed
  requested  a request for a restart of its own

Any other one is a restart that was done twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

_MOST_LATE = 3


@dataclass(frozen=True)
class Wanted:
    """A value, and when it was first requested."""

    second: float
    value: str


@dataclass(frozen=True)
class Event:
    kind: str
    second: float
    value: str


@dataclass
class Verdict:
    changes: int = 0
    merged: int = 0  # values that the next one overtook
    late: int = 0
    unforced: int = 0
    requested: int = 0
    complaints: list[str] = field(default_factory=list)


class Life:
    def __init__(self, lines: Sequence[str]) -> None:
        words = [line.split(maxsplit=2) for line in lines]
        self.events = [Event(one[0], float(one[1]), one[2] if len(one) > 2 else "") for one in words]

    def __str__(self) -> str:
        """Without the values: they are secrets."""
        numbers = {event.value: str(n) for n, event in reversed(list(enumerate(self.events)))}
        return " ".join(f"{one.kind}@{one.second:.1f}#{numbers[one.value]}" for one in self.events)

    @property
    def n_starts(self) -> int:
        return sum(event.kind == "start" for event in self.events)

    def value(self) -> str | None:
        """With which it was started last."""
        return next((event.value for event in reversed(self.events) if event.kind == "start"), None)


def judge(life: Life, wanted: Sequence[Wanted], least: int = 0, most: int = 0, by_agent: bool = True) -> Verdict:
    """`least` and `most` are the restarts that were requested one by one. By the agent, and not by a kubelet whose
    runtime is away, the hook of a container runs once.
    """
    verdict = Verdict()
    position, n_late = -1, 0
    for number, event in enumerate(life.events):
        if event.kind != "start":
            continue
        ahead = _find(wanted, position, event)
        if ahead is not None:
            verdict.changes += position >= 0
            verdict.merged += ahead - position - 1
            position, n_late = ahead, 0
        elif position < 0 or event.value != wanted[position].value:
            verdict.complaints.append(f"start {number} has a value that was not requested then")
        elif life.events[number - 1].kind == "start":
            verdict.unforced += 1
        elif position + 1 < len(wanted) and wanted[position + 1].second <= event.second and n_late < _MOST_LATE:
            verdict.late += 1
            n_late += 1
        else:
            verdict.requested += 1
    n_hooks = 0
    for event in life.events if by_agent else []:
        n_hooks = n_hooks + (event.kind == "hook") if event.kind != "start" else 0
        if n_hooks == 2:
            verdict.complaints.append(f"the hook of one container ran twice, at {event.second}")
    if position + 1 != len(wanted):
        verdict.complaints.append(f"lost: the last {len(wanted) - 1 - position} values were never started with")
    if verdict.requested > most:
        verdict.complaints.append(f"doubled: {verdict.requested} further restarts, but at most {most} were requested")
    if verdict.requested + verdict.late < least:
        verdict.complaints.append(f"lost: {verdict.requested} further restarts, but {least} were reported")
    return verdict


def _find(wanted: Sequence[Wanted], position: int, event: Event) -> int | None:
    """The next value that was requested by then, and is this one."""
    for ahead in range(position + 1, len(wanted)):
        if wanted[ahead].second <= event.second and wanted[ahead].value == event.value:
            return ahead
    return None
