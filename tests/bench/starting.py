# SPDX-License-Identifier: Apache-2.0
"""How soon the agent is ready."""

from __future__ import annotations

from statistics import median

from node import Node
from table import Limit, Row


def measure(node: Node) -> list[Row]:
    agent_seconds, floor_seconds = [], []
    for number in range(-1, 2 if node.quick else 10):
        agent, floor = node.make_agent(), node.make_floor()
        with floor:
            floor_second = floor.start()
        try:
            agent_second = agent.start()
        finally:
            agent.close()
        if number >= 0:  # the first one reads the programs from the disk
            agent_seconds.append(agent_second)
            floor_seconds.append(floor_second)
    return [
        Row(
            "start → ready",
            median(agent_seconds) * 1e3,
            median(floor_seconds) * 1e3,
            "ms",
            Limit(50, "≤ 50 ms"),
        )
    ]
