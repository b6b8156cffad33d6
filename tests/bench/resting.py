# SPDX-License-Identifier: Apache-2.0
"""The cost of the agent when nothing happens."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fake.runtime import FakeRuntime
from lab.agent import Agent
from lab.wait import wait_until

from node import Node
from table import Limit, Row

_MANY = 1000
_FOLDER = 60
_QUICK_FOLDER_SECONDS, _FULL_FOLDER_SECONDS = 10, 600
_QUICK_SECONDS, _FULL_SECONDS = 3, 30

# Earlier work has ended by then, and its memory was given back.
_SETTLE_SECONDS = 3

_WORDS = {
    "rss": ("resident memory", "MB"),
    "anonymous": ("anonymous memory", "MB"),
    "switches": ("context switches", "/s"),
    "cpu": ("CPU time", "ms/min"),
}


@dataclass(frozen=True)
class Cost:
    """Megabytes of 10^6 bytes; context switches per second; milliseconds of CPU per minute."""

    rss: float
    anonymous: float
    switches: float
    cpu: float


def measure_idle(node: Node) -> list[Row]:
    with node.make_floor() as floor:
        floor.start()
        floor_cost = measure_cost(floor.pid, _seconds(node))
    with node.make_agent() as agent:
        cost = measure_cost(agent.process.pid, _seconds(node))
    limits = {
        "rss": Limit(17, "≤ 17 MB"),
        "anonymous": Limit(3.5, "≤ 3.5 MB"),
        "switches": Limit(4, "≤ 4 /s"),
        "cpu": Limit(20, "< 20 ms/min"),
    }
    return cost_rows("idle", cost, floor_cost, limits)


def measure_many(node: Node) -> list[Row]:
    n = 50 if node.quick else _MANY
    references = [_push_tiny(node, number) for number in range(n)]
    with node.make_floor() as floor:
        floor.start()
        floor_cost = measure_cost(floor.pid, _QUICK_SECONDS)
    limits = {"anonymous": Limit(6, "≤ 6 MB")}
    agent = node.make_agent()
    with agent:
        agent.request(*references)
        _wait_for_all(agent, references)
        pulled = measure_cost(agent.process.pid, _seconds(node))
        agent.terminate()
        seconds = agent.start()
        _wait_for_all(agent, references)
        restarted = measure_cost(agent.process.pid, _seconds(node))
    return [
        *cost_rows(f"{n} images, just pulled", pulled, floor_cost, limits),
        *cost_rows(f"{n} images, restarted", restarted, floor_cost, limits),
        Row(f"{n} images, start → ready", seconds * 1e3, None, "ms"),
    ]


def measure_folder(node: Node) -> list[Row]:
    """Measures all at the same time, so that each has the same machine."""
    seconds = _QUICK_FOLDER_SECONDS if node.quick else _FULL_FOLDER_SECONDS
    references = [_push_tiny(node, number) for number in range(_FOLDER)]
    with (
        FakeRuntime(node.folder / "fake") as fake,
        node.make_floor() as floor,
        node.make_agent() as empty,
        node.make_agent() as full,
        node.make_agent(fake.endpoint) as listing,
        ThreadPoolExecutor() as pool,
    ):
        floor.start()
        for agent in (full, listing):
            agent.request(*references)
            _wait_for_all(agent, references)
        _wait_until_quiet(empty, full, listing)
        before = {agent: _count_requests(agent) for agent in (empty, full, listing)}
        pids = [floor.pid, *(agent.process.pid for agent in before)]
        least, *costs = pool.map(lambda pid: measure_cost(pid, seconds), pids)
        asked = {agent: _count_requests(agent) - before[agent] for agent in before}
    names = ("no image", f"{_FOLDER} images", f"{_FOLDER} images, a runtime without events")
    rows = []
    for name, agent, cost in zip(names, asked, costs):
        most = seconds / 60 if agent is listing else 0
        limits = {} if agent is listing else {"switches": Limit(4, "≤ 4 /s")}
        rows += [
            Row(
                f"{name}, {seconds} s: requests to the runtime",
                asked[agent],
                0,
                "",
                Limit(most, f"≤ {most:g}"),
            ),
            *cost_rows(f"{name}, {seconds} s", cost, least, limits),
        ]
    return rows


def _count_requests(agent: Agent) -> float:
    return agent.metrics().total("inplaced_cri_requests_total")


def _wait_until_quiet(*agents: Agent) -> None:
    """A second after the last event of an image, agents look whether it is pinned."""
    counted: list[float] = []

    def is_quiet() -> bool:
        counted.append(sum(map(_count_requests, agents)))
        return counted[-2:-1] == counted[-1:]

    wait_until(is_quiet, 60, "end of the requests to the runtime", pause=3)


def _seconds(node: Node) -> float:
    return _QUICK_SECONDS if node.quick else _FULL_SECONDS


def _push_tiny(node: Node, number: int) -> str:
    """All share one layer; each has a configuration, and so an image ID, of its own."""
    name, labels = f"bench/team-{number % 40}/app", {"number": str(number)}
    return node.registry.push_image(name, f"1.{number}", [1000], labels=labels).reference


def _wait_for_all(agent: Agent, references: list[str]) -> None:
    def count() -> dict[str, int]:
        agent.process.check_alive()
        status = agent.status().get("status", {})
        return {name: status.get(name, 0) for name in ("desired", "succeeded", "failed")}

    def is_done() -> bool:
        return count()["succeeded"] == len(references)

    wait_until(is_done, 180, lambda: f"success of all {len(references)}: {count()}", pause=0.2)


def measure_cost(pid: int, seconds: float) -> Cost:
    """Measures a process at rest, over so many seconds; first lets its earlier work end."""
    time.sleep(_SETTLE_SECONDS)
    switches, cpu = _watch_threads(pid, seconds)
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    fields = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()[1:]}
    return Cost(
        rss=fields["Rss"] * 1024 / 1e6,
        anonymous=fields["Anonymous"] * 1024 / 1e6,
        switches=switches / seconds,
        cpu=cpu * 60 / seconds,
    )


def cost_rows(name: str, cost: Cost, floor: Cost, limits: dict[str, Limit]) -> list[Row]:
    """`limits` are by field of Cost."""
    return [
        Row(
            f"{name}: {text}",
            getattr(cost, field),
            getattr(floor, field),
            unit,
            limits.get(field),
            digits=2,
        )
        for field, (text, unit) in _WORDS.items()
    ]


def _watch_threads(pid: int, seconds: float) -> tuple[int, float]:
    """The context switches and milliseconds of CPU of all threads meanwhile.

    Reads every second, since threads come and go; what one does in its last second is not seen.
    """
    first = _read_threads(pid)
    last = dict(first)
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(1, left))
        last.update(_read_threads(pid))
    zero = (0, 0.0)
    switches = sum(now[0] - first.get(thread, zero)[0] for thread, now in last.items())
    cpu = sum(now[1] - first.get(thread, zero)[1] for thread, now in last.items())
    return switches, cpu


def _read_threads(pid: int) -> dict[str, tuple[int, float]]:
    threads = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            status = (task / "status").read_text().splitlines()
            nanoseconds = int((task / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue
        counts = [int(line.split()[1]) for line in status if "voluntary_ctxt_switches" in line]
        threads[task.name] = sum(counts), nanoseconds / 1e6
    return threads
