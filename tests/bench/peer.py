# SPDX-License-Identifier: Apache-2.0
"""The agent and kruise-daemon, each as the pod of its own DaemonSet, one after the other on the same node of a cluster
with OpenKruise's manager: the same work for both.

A label of the node says which of them serves it. Both run as their manifests say, except that kruise-daemon has no
requests and limits of resources, and neither is on the network of the host.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

from lab.agent_image import build_agent_image
from lab.cluster import Cluster as LabCluster
from lab.documents import has_succeeded
from lab.kruise import NAMESPACE, Kruise, build_kruise_image
from lab.kube import Object
from lab.kubelet import is_ready
from lab.node_image import NodeImage
from lab.pod import GATE, OPT_IN, Pod, container, from_labels
from lab.wait import wait_until

from node import Node
from resting import Cost, cost_rows, measure_cost
from restarting import running_containers, wait_restarted
from table import Row

_CROWD = 110
_SECONDS = 30
_LIMIT = 90
_HERE = "inplaced"  # the label of a node that our agent serves
_SIDECARS = "kruise.io/sidecarset-hash"  # the annotation of a pod that is OpenKruise's, though no workload of its own owns it
_JOBS = "/apis/apps.kruise.io/v1alpha1/namespaces/default/imagepulljobs"
_WAYS = {"inplaced": "here", NAMESPACE: None}  # namespace of the agent, and the label of a node that it serves

Times = dict[str, list[float]]


class Peers:
    """The cluster with both of them."""

    def __init__(self, node: Node, cluster: LabCluster) -> None:
        self.quick = node.quick
        self.registry = node.registry
        self.cluster = cluster
        self.kube = cluster.admin
        self.cri = cluster.node.runtime.cri
        self.image = self.push(0)
        self._n = 0

    def push(self, number: int) -> str:
        """An image of 1 MB with a shell, which nothing has pulled yet."""
        push = self.registry.push_image
        return push("bench/peer", str(number), [10**6], busybox=True, seed=number).reference

    def fresh(self) -> tuple[int, str]:
        self._n += 1
        return self._n, self.push(self._n)

    def serve(self, way: str) -> int:
        """Returns the process of this agent, which alone serves the node from now on."""
        self.kube.patch(self.cluster.node.path, {"metadata": {"labels": {_HERE: _WAYS[way]}}})

        def find() -> Object | None:
            found = [pod for one in _WAYS for pod in self.kube.list(f"/api/v1/namespaces/{one}/pods")]
            is_alone = [pod["metadata"]["namespace"] for pod in found] == [way] and is_ready(found[0])
            return found[0] if is_alone else None

        pod = wait_until(find, _LIMIT, f"pod of {way} alone", pause=0.1)
        (main,) = self.cri.pod_containers(pod["metadata"]["uid"])[-1:]
        return self.cri.container_status(main.id)[1]["pid"]

    def pull(self) -> float:
        """Seconds from the request in the NodeImage to the status that says that the image is there."""
        _, image = self.fresh()
        node_image = NodeImage(self.kube, self.cluster.node.name)
        self.kube.wait_for(node_image.path, timeout=_LIMIT)
        began = time.monotonic()
        node_image.request(image, ttlSecondsAfterFinished=3600)
        self.kube.wait_for(node_image.path, lambda found: has_succeeded(found, image), _LIMIT)
        return time.monotonic() - began

    def run_job(self) -> float:
        """Seconds from an ImagePullJob to its own status, which the manager writes, that says that it has succeeded."""
        number, image = self.fresh()
        job = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob"}
        job["metadata"] = {"name": f"job-{number}", "namespace": "default"}
        job["spec"] = {"image": image, "completionPolicy": {"type": "Always"}}
        began = time.monotonic()
        self.kube.create(job)
        path = f"{_JOBS}/job-{number}"
        self.kube.wait_for(path, lambda found: found.get("status", {}).get("succeeded") == 1, _LIMIT)
        return time.monotonic() - began

    def make_pod(self, name: str) -> Pod:
        """With a container whose environment comes from a label, as both serve it."""
        main = container("main", self.image, env=from_labels(ROUND="round"), volumeMounts=[])
        gates = [{"conditionType": GATE}]
        return Pod(
            *(self.cluster.node, main),
            **dict(name=name, owner=False, annotations={OPT_IN: "true", _SIDECARS: "{}"}, labels={"round": "one"}),
            **dict(volumes=[], readinessGates=gates),
        ).create()

    def start_pod(self, name: str) -> Pod:
        pod = self.make_pod(name)
        pod.set_condition(GATE, "True")
        pod.wait(is_ready, _LIMIT)
        pod.wait_meta(_LIMIT)
        return pod

    def restart(self) -> tuple[float, float]:
        """Seconds from the change of a pod's label until its container has stopped, and until it runs again."""
        number, _ = self.fresh()
        pod = self.start_pod(f"restart-{number}")
        pod.set_condition(GATE, "False")
        before = {pod.uid: running_containers(self.cri)[pod.uid]}
        began = time.time()
        pod.change(labels={"round": "two"})
        (restarted,) = wait_restarted(self.cri, before, timeout=_LIMIT).values()
        pod.delete()
        return restarted.stopped_at - began, restarted.running_at - began


@contextmanager
def _make_peers(node: Node) -> Iterator[Peers]:
    os.environ["INPLACED_BUILD_DIR"] = str(node.build_dir)
    ours = node.registry.push("bench/inplaced", "1", build_agent_image()).reference
    theirs = node.registry.push("bench/kruise-daemon", "1", build_kruise_image()).reference
    pod = "/spec/template/spec"
    chosen = {"op": "add", "path": f"{pod}/nodeSelector/{_HERE}", "value": "here"}
    terms = [{"matchExpressions": [{"key": _HERE, "operator": "NotIn", "values": ["here"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    others = {"op": "add", "path": f"{pod}/affinity", "value": {"nodeAffinity": required}}
    config = {"maxPods": 2 * _CROWD}
    with (
        LabCluster(node.folder / "p", node.registry, hasty=False, config=config) as cluster,
        Kruise(cluster, theirs, [others]),
    ):
        cluster.prepare(definitions=False)
        cluster.kubectl("apply", "-k", cluster.write_kustomization(ours, "openkruise", [chosen]))
        yield Peers(node, cluster)


def _repeat(measured: Callable[[], float], n: int) -> list[float]:
    measured()  # not counted
    return [measured() for _ in range(n)]


def measure(node: Node) -> list[Row]:
    n, seconds = (1, 3) if node.quick else (5, _SECONDS)
    crowd = 10 if node.quick else _CROWD
    times: dict[str, Times] = {"pull": {}, "job": {}, "stopped": {}, "running": {}}
    idle: dict[str, Cost] = {}
    full: dict[str, Cost] = {}
    with _make_peers(node) as peers:
        for way in _WAYS:
            pid = peers.serve(way)
            times["pull"][way] = _repeat(peers.pull, n)
            times["job"][way] = _repeat(peers.run_job, n)
            both = [peers.restart() for _ in range(n)]
            times["stopped"][way], times["running"][way] = map(list, zip(*both))
            idle[way] = measure_cost(pid, seconds)
        pods = [peers.make_pod(f"crowd-{number:03}") for number in range(crowd)]
        for pod in pods:
            pod.set_condition(GATE, "True")
        for pod in pods:
            pod.wait(is_ready, 180)
        for way in _WAYS:
            pid = peers.serve(way)
            for pod in pods:
                pod.change(labels={"seen-by": way})  # kruise-daemon reports a pod only after it has changed
                pod.wait_meta(_LIMIT)
            full[way] = measure_cost(pid, seconds)
    names = {
        "pull": "1 MB image: NodeImage → Succeeded",
        "job": "1 MB image: ImagePullJob → its status",
        "stopped": "label PATCH → stopped",
        "running": "label PATCH → runs again",
    }
    rows = [
        Row(f"peer, {names[what]}", *(median(found[way]) for way in _WAYS), "s", digits=2)
        for what, found in times.items()
    ]
    for name, cost in (("peer, idle", idle), (f"peer, {crowd} pods", full)):
        rows += cost_rows(name, *(cost[way] for way in _WAYS), {})
    return rows
