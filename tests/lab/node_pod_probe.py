# SPDX-License-Identifier: Apache-2.0
"""The NodePodProbe of one node, as OpenKruise's manager writes it and reads its status."""

from __future__ import annotations

from typing import Any

from lab.kube import Kube, Object, one_of
from lab.pod import Pod


class NodePodProbe:
    """There from the beginning, without probes, until it is deleted."""

    def __init__(self, kube: Kube, name: str) -> None:
        self.kube = kube
        self.name = name
        self.path = f"/apis/apps.kruise.io/v1alpha1/nodepodprobes/{name}"
        self.create()

    def create(self) -> None:
        metadata = {"name": self.name}
        kind = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "NodePodProbe"}
        self.kube.create({**kind, "metadata": metadata, "spec": {}})

    def delete(self) -> None:
        self.kube.delete(self.path)

    def request(self, *pods: Object) -> Object:
        """From now on the probes of these pods, made by `probes_of`, and no others."""
        patch = [{"op": "add", "path": "/spec", "value": {"podProbes": list(pods)}}]
        return self.kube.patch(self.path, patch, "json")

    def version(self) -> str:
        return self.kube.get(self.path)["metadata"]["resourceVersion"]

    def state(self, pod: Pod, name: str) -> Object | None:
        """The state of a probe in the status; None if there is none."""
        items = self.kube.get(self.path).get("status", {}).get("podProbeStatuses", [])
        states = [s for item in items if item["uid"] == pod.uid for s in item["probeStates"]]
        found = [state for state in states if state["name"] == name]
        assert len(found) < 2, found
        return found[0] if found else None

    def wait_state(
        self, pod: Pod, name: str, state: str, message: str | None = None, timeout: float = 30
    ) -> Object:
        """Waits until the status says so, with a message that contains the text."""

        def reached() -> Object | None:
            found = self.state(pod, name)
            if found is None or found["state"] != state:
                return None
            return found if message is None or message in found.get("message", "") else None

        what = f"{state} {message or ''} of {name}"
        return self.kube.wait_until(
            reached, one_of(self.path), timeout, lambda: f"{what}, but {self.state(pod, name)}"
        )


def probe(name: str, container: str = "main", **more: Any) -> Object:
    """probe("marker#web", tcpSocket={"port": 80}); every second, unless `more` says otherwise."""
    return {"name": name, "containerName": container, "probe": {"periodSeconds": 1, **more}}


def probes_of(pod: Pod, *probes: Object, **more: str) -> Object:
    """An item of the spec; `more` replaces members that the pod gives."""
    address = pod.get()["status"].get("podIP", "")
    truth = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "IP": address}
    return {**truth, **more, "probes": list(probes)}
