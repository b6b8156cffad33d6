# SPDX-License-Identifier: Apache-2.0
"""The parts that figures of the agent in a cluster are measured with."""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass
from typing import Any

from lab.agent import Agent
from lab.control_plane import ControlPlane
from lab.node_image import NodeImage

from floor import ApiServer, Floor
from node import Node

_MEGABYTE = 10**6

# Longer than the agent takes to find that all is quiet, and that a next image is alone.
_QUIET_SECONDS = 2.2


@dataclass(frozen=True)
class Cluster:
    """A control plane, with our custom resources and roles in it, for the parts of `node`."""

    node: Node
    control_plane: ControlPlane

    def make_node_image(self, name: str) -> NodeImage:
        """Makes the NodeImage of a node of this name; it requests nothing yet."""
        made = NodeImage(self.control_plane.admin, name)
        made.create()
        return made

    def make_agent(self, name: str, runtime_endpoint: str | None = None, **options: Any) -> Agent:
        """Makes the agent of the node of this name, to be started by the caller."""
        kubeconfig = self.node.folder / f"{name}.conf"
        self.control_plane.write_agent_kubeconfig(kubeconfig)
        return self.node.make_agent(
            runtime_endpoint, kubeconfig=kubeconfig, node_name=name, **options
        )

    def make_floor(self, watch: str = "") -> Floor:
        """To be started by the caller. Talks to the API server as the agent does, or watches."""
        token = self.control_plane.agent_token()
        authority = self.control_plane.authority.certificate
        return self.node.make_floor(ApiServer(self.control_plane.url, authority, token, watch))

    def push_fresh(self, name: str, number: int) -> str:
        """An image of 1 MB with a layer that no image of another name or number has."""
        seed = zlib.crc32(f"{name} {number}".encode())
        push = self.node.registry.push_image
        return push(f"bench/{name}", f"1.{number}", [_MEGABYTE], seed=seed).reference

    @staticmethod
    def be_quiet() -> None:
        time.sleep(_QUIET_SECONDS)
