# SPDX-License-Identifier: Apache-2.0
"""The parts that figures about pods are measured with: a real node, its agent, and its pods."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import Any

import grpc

from lab.agent import Agent
from lab.cleanup import Closing
from lab.control_plane import ControlPlane
from lab.cri import Cri
from lab.kube import Kube, Object
from lab.kubelet import Kubelet, is_ready
from lab.metrics import parse_metrics
from lab.pod import META, OPT_IN, Pod, container, from_labels
from lab.wait import wait_until

from audit import Audit
from cluster import Cluster
from node import Node

_NAME = "lab"
_MAX_PODS = 200
_REMOVE = "/runtime.v1.RuntimeService/RemoveContainer"
_RELIST = "kubelet_pleg_relist_interval_seconds"

# Even without the controllers that take a new node's taints off.
_ANYWHERE = {"nodeName": None, "tolerations": [{"operator": "Exists"}]}


class PodNode(Closing):
    """A cluster with one real node and the agent of that node, until closed.

    Its pods are small: one layer with a shell, no volumes, processes that end on SIGTERM.
    """

    def __init__(
        self, node: Node, *, scheduler: bool = False, environment: Mapping[str, str] | None = None
    ) -> None:
        """`environment` is more of the agent's."""
        self.node = node
        self._environment = dict(environment or {})
        self.quick = node.quick
        self._scheduler = scheduler
        self._stack = ExitStack()

    def start(self) -> None:
        with ExitStack() as stack:
            made = ControlPlane(self.node.folder / "control-plane", scheduler=self._scheduler)
            self.control_plane = stack.enter_context(made)
            self.control_plane.install()
            self.kubelet = stack.enter_context(self._make_kubelet())
            self.agent = stack.enter_context(self._make_agent())
            self._stack = stack.pop_all()
        self.kube: Kube = self.control_plane.admin
        self.cri = self.kubelet.runtime.cri
        self.audit = Audit(self.control_plane, _NAME)
        self.image = self.push_version("1")
        self._relists = self._read_relists()

    def close(self) -> None:
        self._stack.close()

    def _make_kubelet(self) -> Kubelet:
        return Kubelet(
            self.node.folder / "k",
            self.control_plane,
            self.node.registry,
            _NAME,
            config={"maxPods": _MAX_PODS},
        )

    def _make_agent(self) -> Agent:
        cluster = Cluster(self.node, self.control_plane)
        cluster.make_node_image(_NAME)
        return cluster.make_agent(
            _NAME,
            self.kubelet.runtime.endpoint,
            flags=[f"--kubelet-health-address={self.kubelet.health_address}"],
            environment=self._environment,
        )

    # Pods

    def push_version(self, version: str, layers: Iterable[int] = ()) -> str:
        """Pushes a version of the pods' image, with layers of random bytes beside the one with the shell."""
        env = {"VERSION": version}
        push = self.node.registry.push_image
        return push("bench/pod", version, list(layers), busybox=True, env=env).reference

    def create_pod(
        self,
        name: str,
        *,
        takes_part: bool = True,
        image: str | None = None,
        also: Iterable[str] = (),
        must_schedule: bool = False,
    ) -> Pod:
        """Makes a pod whose container `main` has the label `round` in its environment; the others, `also`, do not.

        The agent leaves alone pods that do not take part. With `must_schedule` the scheduler is
        to find the node.
        """
        image = image or self.image
        main = container("main", image, env=from_labels(ROUND="round"), volumeMounts=[])
        others = [container(other, image, volumeMounts=[]) for other in also]
        annotations = {OPT_IN: "true"} if takes_part else {}
        more: dict[str, Any] = _ANYWHERE if must_schedule else {}
        labels = {"round": "one"}
        return Pod(
            *(self.kubelet, main, *others),
            **dict(name=name, owner=False, annotations=annotations, labels=labels),
            **dict(volumes=[], **more),
        ).create()

    def watch(self, timeout: float) -> Iterator[Object]:
        """All pods, see object_watch.Watched."""
        return self.kube.watch(self.path, timeout)

    path = "/api/v1/namespaces/default/pods"

    def wait_ready(self, pods: Iterable[Pod], timeout: float = 60) -> None:
        self._wait_all(pods, is_ready, timeout, "ready")

    def wait_known(self, pods: Iterable[Pod], timeout: float = 30) -> None:
        """Until the agent has reported all containers that they have now."""
        self._wait_all(pods, _is_known, timeout, "reported by the agent")

    def _wait_all(self, pods: Iterable[Pod], condition: Any, timeout: float, what: str) -> None:
        names = {pod.name for pod in pods}
        missing = names

        def is_done() -> bool:
            nonlocal missing
            listed = self.kube.list(self.path)
            missing = names - {one["metadata"]["name"] for one in listed if condition(one)}
            return not missing

        wait_until(is_done, timeout, lambda: f"{what}: {len(missing)} of {len(names)}", pause=0.4)

    def delete_all(self, pods: Iterable[Pod], timeout: float = 30) -> None:
        """Returns when neither the pods nor their containers are there."""
        uids = [pod.uid for pod in pods]
        for pod in pods:
            pod.delete()
        for pod in pods:
            self.kube.wait_gone(pod.path, timeout)
        wait_until(
            lambda: not any([remove_containers(self.cri, uid) for uid in uids]),
            timeout,
            "end of all containers",
            pause=0.05,
        )

    # The kubelet's clock

    def relist_seconds(self) -> float:
        """How often the kubelet has listed the containers, on average since last asked.

        It does so by the clock, about once a second: so it depends on when a container ends how
        long the kubelet takes to see it.
        """
        before, self._relists = self._relists, self._read_relists()
        n = self._relists[1] - before[1]
        return (self._relists[0] - before[0]) / n if n else 1.0

    def _read_relists(self) -> tuple[float, float]:
        text = self.kube.request("GET", f"{self.kubelet.path}/proxy/metrics")
        lines = [line for line in text.splitlines() if line.startswith(_RELIST)]
        metrics = parse_metrics("\n".join(lines))
        return metrics.total(f"{_RELIST}_sum"), metrics.total(f"{_RELIST}_count")


def remove_containers(cri: Cri, uid: str) -> bool:
    """Removes the ended containers of a deleted pod. Returns whether it had any containers. The kubelet does
    the same, but not always at once.
    """
    found = cri.pod_containers(uid)
    for one in found:
        if one.state == cri.messages.CONTAINER_EXITED:
            _remove_container(cri, one.id)
    return bool(found)


def _remove_container(cri: Cri, container_id: str) -> None:
    """The agent does not know of the call; its request is on the wire as that of a stop."""
    kind = cri.messages.StopContainerRequest
    remove = cri.channel.unary_unary(_REMOVE, request_serializer=kind.SerializeToString)
    with suppress(grpc.RpcError):  # the kubelet is at it
        remove(kind(container_id=container_id), timeout=cri.timeout)


def _is_known(pod: Object) -> bool:
    statuses = pod["status"].get("containerStatuses", [])
    meta = json.loads(pod["metadata"].get("annotations", {}).get(META, "{}"))
    reported = {one["containerID"] for one in meta.get("containers", [])}
    return bool(statuses) and reported == {one.get("containerID") for one in statuses}


class Pace:
    """Begins things at the same phase of the kubelet's clock, and rounds at ever different ones."""

    def __init__(self, lab: PodNode) -> None:
        self._lab = lab
        self._n_rounds = 0
        self._began = 0.0

    def begin_round(self) -> None:
        """Phases of any number of rounds are spread evenly: multiples of the golden ratio."""
        self._n_rounds += 1
        self._seconds = self._lab.relist_seconds()
        time.sleep(self._n_rounds * 0.618034 % 1 * self._seconds)
        self._began = time.monotonic()

    def wait_turn(self) -> None:
        """Until so many of its periods have passed since the round began that none is cut."""
        passed = (time.monotonic() - self._began) / self._seconds
        if passed > 0.05:
            time.sleep((-passed % 1) * self._seconds)
