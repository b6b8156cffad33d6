# SPDX-License-Identifier: Apache-2.0
"""The cost of following the pods of a node again and again.

The pods are objects only, without a kubelet, and their containers those of a runtime that is made
up: it is the reading that is measured. The program it is compared with reads the very same events
at the same time, and throws them away.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from fake.runtime import FakeRuntime
from lab import stubs
from lab.control_plane import ControlPlane
from lab.hashes import plain_hash
from lab.kube import Kube, Object
from lab.pod import META, OPT_IN, container, from_labels
from lab.wait import wait_until

from cluster import Cluster
from node import Node
from resting import Cost, cost_rows, measure_cost
from table import Limit, Row

_NAME = "events"
_N_PODS = 110
_IDLE_SECONDS = 5
_EVENTS_PER_POD = 20
_POD_SIZE = 16 << 10
_IMAGE = "registry.test/bench/app:1"
_MAIN = container("main", _IMAGE, env=from_labels(ROUND="round"), volumeMounts=[])
_PODS = "/api/v1/namespaces/default/pods"


def measure(node: Node) -> list[Row]:
    with ControlPlane(node.folder / "control-plane") as control_plane:
        control_plane.install()
        cluster = Cluster(node, control_plane)
        cluster.make_node_image(_NAME)
        pods = _Pods(control_plane.admin, 20 if node.quick else _N_PODS)
        query = urlencode({"watch": "true", "fieldSelector": f"spec.nodeName={_NAME}"})
        with FakeRuntime(node.folder / "runtime") as runtime:
            pods.run_in(runtime)
            floor = cluster.make_floor(f"/api/v1/pods?{query}")
            agent = cluster.make_agent(
                _NAME, runtime.endpoint, flags=["--kubelet-health-address="]
            )
            with floor, agent:
                floor.start()
                pods.wait_known()
                pids = {"agent": agent.process.pid, "floor": floor.pid}
                n = len(pods.names) * (2 if node.quick else _EVENTS_PER_POD)
                seconds = _measure_events(pods, n, pids)
                costs = {who: measure_cost(pid, 3) for who, pid in pids.items()}
    return _rows(seconds, costs, n)


def _measure_events(pods: _Pods, n: int, pids: dict[str, int]) -> dict[str, float]:
    """Seconds of CPU per event, beyond the cost of idling for as long."""
    Cluster.be_quiet()
    idle_began, idle = time.monotonic(), _cpu(pids)
    time.sleep(_IDLE_SECONDS)
    began, before = time.monotonic(), _cpu(pids)
    pods.touch(n)
    Cluster.be_quiet()
    ended, after = time.monotonic(), _cpu(pids)
    share = (ended - began) / (began - idle_began)
    return {
        who: (after[who] - before[who] - (before[who] - idle[who]) * share) / n for who in pids
    }


def _cpu(pids: dict[str, int]) -> dict[str, float]:
    """Seconds of CPU, of all threads that there have been: clock_getcpuclockid(3)."""
    return {who: time.clock_gettime((~pid << 3) | 2) for who, pid in pids.items()}


def _rows(seconds: dict[str, float], costs: dict[str, Cost], n: int) -> list[Row]:
    limits = {"rss": Limit(24, "≤ 24 MB"), "anonymous": Limit(5.5, "≤ 5.5 MB")}
    figure, base = seconds["agent"] * 1e3, seconds["floor"] * 1e3
    limit = Limit(0.12, "≤ 0.12 ms")
    rows = cost_rows(f"after {n} pod events", costs["agent"], costs["floor"], limits)
    return [Row("CPU per pod event of 16 KB", figure, base, "ms", limit, digits=3), *rows[:2]]


class _Pods:
    """Pods that run, as far as the API server and a runtime know."""

    def __init__(self, kube: Kube, n: int) -> None:
        self.names = [f"pod-{number:03}" for number in range(n)]
        self._kube = kube
        self._messages = stubs.load("runtime.v1.api").messages
        self._uids = {name: self._create(name) for name in self.names}

    def _create(self, name: str) -> str:
        document: Object = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "default",
                "annotations": {OPT_IN: "true", "note": ""},
                "labels": {"round": "one"},
            },
            "spec": {"nodeName": _NAME, "containers": [_MAIN]},
        }
        self._kube.create(document)
        self._kube.patch(f"{_PODS}/{name}/status", {"status": self._status(name)}, "strategic")
        made = self._kube.get(f"{_PODS}/{name}")
        note = "x" * (_POD_SIZE - len(json.dumps(made, separators=(",", ":"))))
        self._kube.patch(f"{_PODS}/{name}", {"metadata": {"annotations": {"note": note}}})
        return made["metadata"]["uid"]

    def _status(self, name: str) -> Object:
        main = {
            "name": "main",
            "image": _IMAGE,
            "imageID": f"{_IMAGE.rpartition(':')[0]}@sha256:{'0' * 64}",
            "containerID": f"containerd://{name}",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": "2020-01-01T00:00:00Z"}},
        }
        conditions = [
            {"type": kind, "status": "True"} for kind in ("Initialized", "ContainersReady", "Ready")
        ]
        return {"phase": "Running", "conditions": conditions, "containerStatuses": [main]}

    def touch(self, n: int) -> None:
        """Sends so many events, of one pod after the other, as if each had been probed again."""
        for number in range(n):
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(number))
            condition = {"type": "Ready", "status": "True", "lastProbeTime": at}
            path = f"{_PODS}/{self.names[number % len(self.names)]}/status"
            self._kube.patch(path, {"status": {"conditions": [condition]}}, "strategic")

    def wait_known(self) -> None:
        """Waits until the agent has reported all of them."""

        def count() -> int:
            pods = self._kube.list(_PODS)
            return sum(META in pod["metadata"]["annotations"] for pod in pods)

        n = len(self.names)
        wait_until(lambda: count() == n, 60, lambda: f"word of more than {count()} pods", pause=0.5)

    # The runtime

    def run_in(self, runtime: FakeRuntime) -> None:
        image_id = runtime.hold(_IMAGE).image_id
        messages = self._messages

        def list_containers(call: Any, answer: Any) -> Any:
            return messages.ListContainersResponse(containers=self._list(call.request, image_id))

        def report(call: Any, answer: Any) -> Any:
            envs = [{"key": "ROUND", "value": "one"}]
            info = {"info": json.dumps({"pid": 1, "config": {"envs": envs}})}
            status = self._fill(messages.ContainerStatus(), call.request.container_id, image_id)
            status.started_at = status.created_at
            return messages.ContainerStatusResponse(status=status, info=info)

        runtime.on("ListContainers", list_containers)
        runtime.on("ContainerStatus", report)

    def _list(self, request: Any, image_id: str) -> Iterator[Any]:
        expected = request.filter.label_selector.items()
        for name in self.names:
            made = self._fill(self._messages.Container(), name, image_id)
            if request.filter.id in ("", name) and expected <= dict(made.labels).items():
                yield made

    def _fill(self, message: Any, name: str, image_id: str) -> Any:
        """Fills the fields that a Container and a ContainerStatus share."""
        message.id = name
        message.metadata.name = "main"
        message.image.image = _IMAGE
        message.image_ref = image_id
        message.state = self._messages.CONTAINER_RUNNING
        message.created_at = 1577836800 * 10**9
        message.labels["io.kubernetes.pod.name"] = name
        message.labels["io.kubernetes.pod.namespace"] = "default"
        message.labels["io.kubernetes.pod.uid"] = self._uids[name]
        message.labels["io.kubernetes.container.name"] = "main"
        message.annotations["io.kubernetes.container.restartCount"] = "0"
        message.annotations["io.kubernetes.container.hash"] = f"{plain_hash(_MAIN):x}"
        return message
