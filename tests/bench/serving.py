# SPDX-License-Identifier: Apache-2.0
"""The work of the agent in a cluster, and its cost."""

from __future__ import annotations

import os
from pathlib import Path

from lab.control_plane import ControlPlane

import reporting
from cluster import Cluster
from node import Node
from resting import cost_rows, measure_cost
from table import Limit, Row


def measure(node: Node) -> list[Row]:
    with ControlPlane(node.folder / "control-plane") as control_plane:
        control_plane.install()
        cluster = Cluster(node, control_plane)
        return [
            *reporting.measure_single(cluster),
            *reporting.measure_in_turn(cluster),
            *reporting.measure_crowd(cluster),
            *_measure_idle(cluster),
        ]


def _measure_idle(cluster: Cluster) -> list[Row]:
    """After the first sync and one image."""
    seconds = 3 if cluster.node.quick else 60
    with cluster.make_floor() as floor:
        floor.start()
        floor_cost = measure_cost(floor.pid, seconds)
        n_of_floor = _count_connections(floor.pid)
    node_image = cluster.make_node_image("idle")
    with cluster.make_agent("idle") as agent:
        reference = cluster.push_fresh("idle", 0)
        node_image.request(reference)
        node_image.wait_status(reference, "Succeeded")
        cost = measure_cost(agent.process.pid, seconds)
        n = _count_connections(agent.process.pid)
    limits = {
        "rss": Limit(23, "≤ 23 MB"),
        "anonymous": Limit(4.5, "≤ 4.5 MB"),
        "switches": Limit(4, "≤ 4 /s"),
    }
    return [
        *cost_rows("cluster, idle", cost, floor_cost, limits),
        Row("cluster, idle: TCP connections", n, n_of_floor, "", Limit(1, "1"), digits=0),
    ]


def _count_connections(pid: int) -> int:
    """The number of established connections."""
    own = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        try:
            own.add(os.readlink(fd))
        except FileNotFoundError:
            continue
    found = 0
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
            words = line.split()
            found += words[3] == "01" and f"socket:[{words[9]}]" in own
    return found
