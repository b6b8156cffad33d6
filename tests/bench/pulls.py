# SPDX-License-Identifier: Apache-2.0
"""The time of a pull through the agent, and that of the same pull by the runtime alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import grpc
from grpc.experimental import ChannelOptions

from lab import runtimes, stubs
from lab.agent import Agent
from lab.cri import CHANNEL_OPTIONS
from lab.documents import has_succeeded
from lab.folder import LabFolder

from node import Node
from table import Estimate, Limit, Row, estimate
from watch import FolderWatch

_MEGABYTE = 10**6
_DOCUMENT = "wanted.yaml"

# Streams are then read by the thread that waits for them, as the answer of a plain call is.
_CHANNEL_OPTIONS = [*CHANNEL_OPTIONS, (ChannelOptions.SingleThreadedUnaryStream, 1)]

Way = Callable[[str], float]


class LocalApi:
    """Asks over the agent's socket."""

    def __init__(self, agent: Agent) -> None:
        node = stubs.load("inplaced.v1.node")
        self._messages = node.messages
        self._channel = grpc.insecure_channel(f"unix:{agent.socket}", options=_CHANNEL_OPTIONS)
        self._stub = node.services.NodeStub(self._channel)
        self._stub.GetVersion(self._messages.GetVersionRequest(), timeout=10)

    def close(self) -> None:
        self._channel.close()

    def time_pull(self, reference: str) -> float:
        """Seconds from the request to the event that says that it succeeded."""
        request = self._messages.PreloadRequest(images=[reference])
        began = time.monotonic()
        for event in self._stub.Preload(request, timeout=120):
            if event.phase == self._messages.PHASE_SUCCEEDED:
                return self._check(event, time.monotonic() - began)
            if event.phase == self._messages.PHASE_FAILED:
                break
        raise RuntimeError(f"{reference} was not pulled: {event.reason} {event.message}")

    def _check(self, event: Any, seconds: float) -> float:
        if event.was_present:
            raise RuntimeError(f"{event.image} was there before it was asked for")
        return seconds


class Folder:
    """Asks by a document in the agent's images folder, and reads its status file."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._watch = FolderWatch(agent.state_dir)

    def close(self) -> None:
        self._watch.close()

    def time_pull(self, reference: str) -> float:
        """Seconds from the document to the status file that says that it succeeded."""
        self._forget(reference)
        began = time.monotonic()
        self._agent.request(reference, file=_DOCUMENT)
        self._watch.wait_until(lambda: has_succeeded(self._agent.status(), reference))
        return time.monotonic() - began

    def _forget(self, reference: str) -> None:
        (self._agent.images_dir / _DOCUMENT).unlink(missing_ok=True)
        self._watch.wait_until(lambda: self._agent.tag_status(reference) is None)


@dataclass(frozen=True)
class Rounds:
    """Seconds by way, one per round and in its order."""

    seconds: dict[str, list[float]]

    def median(self, way: str) -> float:
        return median(self.seconds[way])

    def excess(self, way: str) -> Estimate:
        """The time of a way beyond that of the bare call in the same round."""
        return estimate(a - b for a, b in zip(self.seconds[way], self.seconds["bare"]))

    def ratio(self, way: str) -> Estimate:
        return estimate(a / b for a, b in zip(self.seconds[way], self.seconds["bare"]))


def measure_small(node: Node) -> list[Row]:
    rounds = _time_small(node)
    return [
        _small_row("1 MB image, request → event Succeeded", rounds, "socket", 20),
        _small_row("1 MB image, document → status Succeeded", rounds, "folder", 20),
    ]


def measure_large(node: Node) -> list[Row]:
    return _measure_large(node, "500 MB image", [125 * _MEGABYTE] * 4, 15)


def measure_runtimes(node: Node) -> list[Row]:
    """Each with a node of its own."""
    rows = []
    for name in runtimes.NAMES:
        with LabFolder() as folder, Node(folder, node.build_dir, node.quick, name) as other:
            small = _time_small(other)
            rows.append(_small_row(f"{name}: 1 MB image", small, "socket", 60))
            rows += _measure_large(other, f"{name}: 400 MB image", [100 * _MEGABYTE] * 4, 7)
    return rows


def _time_small(node: Node) -> Rounds:
    with node.make_agent() as agent:
        api, folder = LocalApi(agent), Folder(agent)
        ways: dict[str, Way] = {
            "bare": lambda reference: node.runtime.pull(reference).seconds,
            "socket": api.time_pull,
            "folder": folder.time_pull,
        }
        rounds = _run_rounds(node, ways, [_MEGABYTE], 5 if node.quick else 31)
        api.close()
        folder.close()
    return rounds


def _measure_large(node: Node, what: str, layers: list[int], n: int) -> list[Row]:
    outside: list[float] = []
    with node.make_agent() as agent:
        api = LocalApi(agent)

        def pull_through_agent(reference: str) -> float:
            before = _seconds_in_pull_image(agent)
            taken = api.time_pull(reference)
            outside.append(taken - (_seconds_in_pull_image(agent) - before))
            return taken

        ways: dict[str, Way] = {
            "bare": lambda reference: node.runtime.pull(reference).seconds,
            "socket": pull_through_agent,
        }
        rounds = _run_rounds(node, ways, layers, 3 if node.quick else n)
        api.close()
    bare = rounds.median("bare")
    return [
        Row(
            f"{what}, request → event Succeeded",
            rounds.median("socket"),
            bare,
            "s",
            Limit(1.01, "≤ 1 % longer", "ratio"),
            ratio=rounds.ratio("socket"),
            digits=2,
        ),
        Row(
            f"{what}, outside of the agent's PullImage",
            median(outside[1:]) * 1e3,
            bare * 1e3,
            "ms",
            Limit(0.01, "≤ 1 %", "ratio"),
        ),
    ]


def _seconds_in_pull_image(agent: Agent) -> float:
    """The seconds that all the agent's pulls at the runtime have taken, by its own clock."""
    name = "inplaced_cri_request_duration_seconds_sum"
    return agent.metrics().total(name, method="PullImage")


def _small_row(name: str, rounds: Rounds, way: str, limit: int) -> Row:
    return Row(
        name,
        rounds.median(way) * 1e3,
        rounds.median("bare") * 1e3,
        "ms",
        Limit(limit, f"≤ {limit} ms more", "excess"),
        ratio=rounds.ratio(way),
        excess=rounds.excess(way).scale(1e3),
    )


def _run_rounds(node: Node, ways: dict[str, Way], layers: list[int], n: int) -> Rounds:
    """Every way once per round, in an order that goes round; the very first is not counted.

    Each has a tag of its own for the one image, since the agent remembers what it was asked for.
    """
    tags = {way: node.registry.push_image("bench/app", way, layers).reference for way in ways}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    order = list(ways)
    for number in range(-1, n):
        for way in order:
            taken = ways[way](tags[way])
            node.runtime.remove_image(tags[way])
            if number >= 0:
                seconds[way].append(taken)
        order.append(order.pop(0))
    return Rounds(seconds)
