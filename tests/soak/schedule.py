# SPDX-License-Identifier: Apache-2.0
"""Plans the requests and disturbances of a soak: a pure function of the seed and the length.

A schedule has two kinds of actions: requests, which actors make (actors.py), and disturbances, which last for a while
(chaos.py). An actor that still waits for its previous request makes the next one later, but never in another order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

PODS_FOR_METADATA = ("labelled", "annotated")
WORKLOADS = ("updated", "stateful", "declared")
N_IMAGES = 12  # they are in the registry for NodeImage and `inplacectl pull`
N_RELEASES = 5  # versions of the image that the workloads run

# Between two requests of one actor, on average; in seconds.
_PAUSES = {
    "images": 5,
    "pull": 11,
    "remover": 13,
    **dict.fromkeys(PODS_FOR_METADATA, 8),
    "mixed": 9,
    "recreated": 9,
    "restarted": 11,
    "probe": 4,
    **dict.fromkeys(WORKLOADS, 20),
}

_QUIET_AT_THE_END = 4  # seconds without a new disturbance
_LAST_KILL = 0.5  # part of the time after which agent and controller live on, so that their growth can be seen


@dataclass(frozen=True)
class Action:
    second: float
    who: str
    what: str
    details: dict[str, Any]

    def __str__(self) -> str:
        details = " ".join(f"{key}={value}" for key, value in self.details.items())
        return f"{self.second:7.1f} s  {self.who}: {self.what} {details}".rstrip()


@dataclass(frozen=True)
class Disturbance:
    """`seconds`: the least and the most; `weight`: how often in each round of all of them; `rest`: for so many seconds
    after it nothing else happens to the part, or to another one without which it is of no use.
    """

    who: str
    what: str
    seconds: tuple[float, float]
    weight: int = 1
    rest: float = 4
    more: Callable[[random.Random], dict[str, Any]] = lambda _: {}


_CUT = {"more": lambda dice: {"after_bytes": dice.randrange(1, 6000)}}

DISTURBANCES = (
    Disturbance("agent", "kill", (0, 3), 3),
    Disturbance("agent", "terminate", (0, 2)),
    Disturbance("agent", "freeze", (0.5, 6)),
    Disturbance("containerd", "kill", (0, 3), 2),
    Disturbance("containerd", "freeze", (0.5, 6)),
    Disturbance("kubelet", "kill", (0, 4), 2, rest=8),
    Disturbance("kubelet", "freeze", (0.5, 6)),
    Disturbance("apiserver", "kill", (0, 3), rest=30),
    Disturbance("apiserver", "freeze", (0.5, 6)),
    Disturbance("etcd", "kill", (0, 3), rest=20),
    Disturbance("etcd", "freeze", (0.5, 6)),
    Disturbance("registry", "kill", (0.5, 5)),
    Disturbance("registry", "freeze", (0.5, 5)),
    Disturbance("controller", "kill", (0, 3)),
    Disturbance("controller", "freeze", (0.5, 4)),
    Disturbance("disk", "fill", (3, 8), 2, more=lambda dice: {"leave_megabytes": dice.randrange(1, 25)}),
    Disturbance("line of the agent", "break", (0, 0), 2),
    Disturbance("line of the agent", "cut", (2, 6), **_CUT),
    Disturbance("line of the agent", "freeze", (0.5, 6)),
    Disturbance("line of the kubelet", "break", (0, 0)),
    Disturbance("line of the kubelet", "freeze", (0.5, 4)),
    Disturbance("line of the controller", "cut", (2, 6), **_CUT),
    Disturbance("line of the registry", "break", (0, 0)),
    Disturbance("line of the registry", "vanish", (2, 6)),
    Disturbance("line of the registry", "cut", (2, 6), more=lambda dice: {"after_bytes": dice.randrange(1, 3_000_000)}),
)
_PAUSE_OF_CHAOS = 3.0  # between the beginnings of two disturbances, on average
_TOGETHER = {"etcd": "apiserver"}


def make_requests(seed: int, seconds: float) -> list[Action]:
    """Every actor has dice of its own, so that a further actor changes nothing for the others."""
    return sorted(
        (action for who in _PAUSES for action in _requests_of(who, random.Random(f"{seed} {who}"), seconds)),
        key=lambda action: action.second,
    )


def make_chaos(seed: int, seconds: float) -> list[Action]:
    """Each disturbance comes about as often as its weight says, and ends within the time."""
    dice = random.Random(f"{seed} chaos")
    free_at: dict[str, float] = {}
    made: list[Action] = []
    now = dice.uniform(1, _PAUSE_OF_CHAOS)
    for one in _rounds(dice):
        if now > seconds - _QUIET_AT_THE_END:
            return made
        lasts, more = round(dice.uniform(*one.seconds), 1), one.more(dice)
        if one.who in ("agent", "controller") and one.what != "freeze" and now > seconds * _LAST_KILL:
            continue
        part = _TOGETHER.get(one.who, one.who)
        begin = max(now, free_at.get(part, 0))
        if begin + lasts > seconds:
            continue
        free_at[part] = begin + lasts + one.rest
        made.append(Action(round(begin, 1), one.who, one.what, {"seconds": lasts, **more}))
        now += dice.uniform(0.3, 2 * _PAUSE_OF_CHAOS)
    raise AssertionError("unreachable")


def _rounds(dice: random.Random) -> Iterator[Disturbance]:
    while True:
        round_ = [one for one in DISTURBANCES for _ in range(one.weight)]
        dice.shuffle(round_)
        yield from round_


def _requests_of(who: str, dice: random.Random, seconds: float) -> Iterator[Action]:
    now = dice.uniform(0.5, _PAUSES[who])
    while now < seconds:
        what, details = _REQUESTS[who](dice)
        yield Action(round(now, 1), who, what, details)
        now += dice.uniform(0.3, 2) * _PAUSES[who]


def _want_images(dice: random.Random) -> tuple[str, dict[str, Any]]:
    """A new set of images, which withdraws others; sometimes one that is missing in the registry."""
    tags = sorted(dice.sample(range(N_IMAGES), dice.randrange(1, 7)))
    return "request", {"tags": tags, "missing": dice.random() < 0.25, "must_wait": dice.random() < 0.5}


def _remove(dice: random.Random) -> tuple[str, dict[str, Any]]:
    return "remove", {"tag": dice.randrange(N_IMAGES)}


def _pull(dice: random.Random) -> tuple[str, dict[str, Any]]:
    return "pull", {"tag": dice.randrange(N_IMAGES)}


def _change(dice: random.Random) -> tuple[str, dict[str, Any]]:
    """So many values, in a row; each but the last may be overtaken by the next."""
    return "change", {"times": dice.choice((1, 1, 1, 2, 3)), "pause": round(dice.uniform(0, 2), 1)}


def _mix(dice: random.Random) -> tuple[str, dict[str, Any]]:
    return "mix", {"ways": dice.choice(("change+recreate", "recreate+restart", "change+restart"))}


def _recreate(dice: random.Random) -> tuple[str, dict[str, Any]]:
    return "recreate", {"container": dice.choice(("main",) * 5 + ("none",))}


def _restart(_: random.Random) -> tuple[str, dict[str, Any]]:
    return "restart", {}


def _flap(dice: random.Random) -> tuple[str, dict[str, Any]]:
    return "flap", {"times": dice.choice((1, 1, 2, 3))}


def _update(dice: random.Random) -> tuple[str, dict[str, Any]]:
    """The next release by so many steps; it is another one each time."""
    return "update", {"step": dice.randrange(1, N_RELEASES)}


_REQUESTS: dict[str, Callable[[random.Random], tuple[str, dict[str, Any]]]] = {
    "images": _want_images,
    "pull": _pull,
    "remover": _remove,
    **dict.fromkeys(PODS_FOR_METADATA, _change),
    "mixed": _mix,
    "recreated": _recreate,
    "restarted": _restart,
    "probe": _flap,
    **dict.fromkeys(WORKLOADS, _update),
}
