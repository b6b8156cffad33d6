# SPDX-License-Identifier: Apache-2.0
"""The writes of a node's agent through the API server, by the server's own account."""

from __future__ import annotations

import json
from collections import Counter

from lab.control_plane import ControlPlane
from lab.kube import Object

_PODS = {"resource": "pods"}


class Audit:
    """Reports the writes since it was made, or since its last `begin`."""

    def __init__(self, control_plane: ControlPlane, node_name: str) -> None:
        self._control_plane = control_plane
        self._node_name = node_name
        self.begin()

    def begin(self) -> None:
        self._n_before = len(self._control_plane.audit())

    def patches(self, about: str = "") -> list[Object]:
        """Bodies of the patches of the NodeImage's status that contain the text."""
        target = {"resource": "nodeimages", "name": self._node_name, "subresource": "status"}
        bodies = [entry["requestObject"] for entry in self._entries("patch", target)]
        return [body for body in bodies if about in json.dumps(body)]

    def events(self) -> list[Object]:
        """Bodies of new events, and of changes of events, about the NodeImage."""
        target = {"resource": "events"}
        entries = self._entries("create", target) + self._entries("patch", target)
        prefix = f"{self._node_name}."
        return [entry["requestObject"] for entry in entries if _name_of(entry).startswith(prefix)]

    def pod_patches(self) -> Counter[str]:
        """How often each pod was patched, its status included; by name."""
        return Counter(entry["objectRef"]["name"] for entry in self._entries("patch", _PODS))

    def probe_patches(self) -> int:
        """How often the NodePodProbe's status was patched."""
        target = {"resource": "nodepodprobes", "name": self._node_name, "subresource": "status"}
        return len(self._entries("patch", target))

    def created_events(self, reason: str) -> int:
        """The number of created events whose reason begins so, about any object."""
        created = self._entries("create", {"resource": "events"})
        return sum(one["requestObject"]["reason"].startswith(reason) for one in created)

    def _entries(self, verb: str, target: dict[str, str]) -> list[Object]:
        return [
            entry
            for entry in self._control_plane.audit()[self._n_before :]
            if entry["verb"] == verb and target.items() <= entry.get("objectRef", {}).items()
        ]


def _name_of(entry: Object) -> str:
    """Finds the name of the object; one that is being created has it in the body only."""
    return entry["objectRef"].get("name") or entry["requestObject"]["metadata"]["name"]


def size_of(body: Object) -> int:
    """The size of the body on the wire, in bytes."""
    return len(json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode())
