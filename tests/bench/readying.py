# SPDX-License-Identifier: Apache-2.0
"""How soon a node that waits for the images of its sets takes pods, once it has them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from statistics import median

from fake.runtime_proxy import RuntimeProxy
from lab.agent import Agent
from lab.clients import MANIFESTS
from lab.control_plane import ControlPlane
from lab.cri import Cri
from lab.kube import Object
from lab.kubelet import Kubelet
from lab.node_image import ImageSet, NodeImage
from lab.pod import Pod, container
from lab.wait import wait_until

from node import Node
from object_watch import ObjectWatch
from pods import remove_containers
from table import Limit, Row, estimate
from uplink import Uplink

_NAME = "warm"
_CONDITION, _TAINT = "inplaced.io/ImagesReady", "inplaced.io/images-pending"
_RIGHTS = ("images-ready/policy.yaml", "images-ready/rbac.yaml", "startup-taint/rbac.yaml")
_BYTES_PER_SECOND = 50e6
_N_IMAGES, _LAYERS = 5, [50 * 10**6] * 4  # 1 GB in all
_QUICK = 10  # times less of both
_LIMIT = 300
_NODES = "/api/v1/nodes"


def measure(node: Node) -> list[Row]:
    with ExitStack() as stack:
        readiness = _Readiness(node, stack)
        rounds = [readiness.run_round(n) for n in range(1 if node.quick else 5)]
    size, n_fetched = readiness.size / 1e9, max(one.pod_bytes for one in rounds)
    times = {field.name: [getattr(one, field.name) for one in rounds] for field in fields(_Round)}
    middle = {name: median(values) for name, values in times.items()}
    pairs = [taken / bare for taken, bare in zip(times["pulls"], times["bare_pulls"], strict=True)]
    return [
        Row(
            f"{_N_IMAGES} images, {size:g} GB in sum: agent's start → end of the last pull, or bare pulls",
            *(middle["pulls"], middle["bare_pulls"], "s"),
            ratio=estimate(pairs) if len(pairs) > 1 else None,
            digits=2,
        ),
        Row(
            "end of the last pull → condition ImagesReady True, or a bare PATCH of it",
            *(max(times["condition"]) * 1e3, middle["bare_condition"] * 1e3, "ms", Limit(100, "≤ 100 ms")),
        ),
        Row(
            "end of the last pull → startup taint gone, or bare PATCHes of both",
            *(max(times["taint"]) * 1e3, middle["bare_taint"] * 1e3, "ms", Limit(1000, "≤ 1 s")),
        ),
        Row("bytes that a pod with these images fetches then", n_fetched, None, "", Limit(0, "none"), digits=0),
    ]


@dataclass(frozen=True)
class _Round:
    """Times in seconds: of the agent, and of the same by hand."""

    pulls: float
    bare_pulls: float
    condition: float
    bare_condition: float
    taint: float
    bare_taint: float
    pod_bytes: int


class _NodeObject:
    """The Node, see object_watch.Watched."""

    path = f"{_NODES}/{_NAME}"

    def __init__(self, control_plane: ControlPlane) -> None:
        self.kube = control_plane.admin

    def watch(self, timeout: float) -> Iterator[Object]:
        return self.kube.watch(_NODES, timeout, fieldSelector=f"metadata.name={_NAME}")

    def taint(self) -> None:
        taints = [{"key": _TAINT, "effect": "NoSchedule"}]
        self.kube.patch(self.path, {"spec": {"taints": taints}})

    def untaint(self) -> None:
        self.kube.patch(self.path, {"spec": {"taints": None}})

    def set_condition(self, **condition: str) -> None:
        conditions = [{"type": _CONDITION, **condition}]
        self.kube.patch(f"{self.path}/status", {"status": {"conditions": conditions}}, "strategic")

    def remove_condition(self) -> None:
        self.set_condition(**{"$patch": "delete"})


def _is_true(seen: Object) -> bool:
    conditions = seen["status"].get("conditions", [])
    return any(one["type"] == _CONDITION and one["status"] == "True" for one in conditions)


def _is_untainted(seen: Object) -> bool:
    return not any(one["key"] == _TAINT for one in seen["spec"].get("taints", []))


class _Readiness:
    """A node whose agent is new in each round, and whose images come from far away."""

    def __init__(self, node: Node, stack: ExitStack) -> None:
        part = 1 / _QUICK if node.quick else 1
        layers = [round(size * part) for size in _LAYERS]
        self.size = sum(layers) * _N_IMAGES
        self._node = node
        self._control_plane = stack.enter_context(ControlPlane(node.folder / "control-plane"))
        self._control_plane.install()
        self._control_plane.apply_files(*(MANIFESTS / "components" / file for file in _RIGHTS))
        registry = node.registry
        self._kubelet = stack.enter_context(Kubelet(node.folder / "k", self._control_plane, registry, _NAME))
        self._kubelet.start()
        runtime = self._kubelet.runtime
        self._cri: Cri = runtime.cri
        self._proxy = stack.enter_context(RuntimeProxy(node.folder / "proxy", runtime.socket))
        self._uplink = stack.enter_context(Uplink(("127.0.0.1", registry.port), _BYTES_PER_SECOND * part))
        pushed = [
            registry.push_image("bench/warm", f"{n}", layers, busybox=True, seed=100 * (n + 1)).reference
            for n in range(_N_IMAGES)
        ]
        self._images = [one.replace(registry.host, f"127.0.0.1:{self._uplink.port}") for one in pushed]
        self._object = _NodeObject(self._control_plane)
        self._watch = ObjectWatch(self._object)

    def run_round(self, number: int) -> _Round:
        bare_pulls = self._pull_by_hand()
        bare_condition, bare_taint = self._write_by_hand()
        self._begin()
        images = ImageSet(self._object.kube, f"set-{number}")
        images.create_set(f"kubernetes.io/hostname={_NAME}", *self._images)
        n_seen, n_pulls = len(self._watch.seen), len(self._proxy.calls("PullImage"))
        with self._run_agent(number) as agent:
            began = time.monotonic()
            agent.start()
            is_true = self._wait_seen(_is_true, n_seen)
            untainted = self._wait_seen(_is_untainted, n_seen)
            calls = self._proxy.calls("PullImage")[n_pulls:]
            assert len(calls) == _N_IMAGES and all(one.wait_over(10) for one in calls), "other pulls than these"
            ended = max(one.ended_at or 0 for one in calls)
            n_bytes = self._run_pod(number)
        images.delete()
        NodeImage(self._object.kube, _NAME).delete()
        self._remove_images()
        written = is_true - ended, bare_condition, untainted - ended, bare_taint
        return _Round(ended - began, bare_pulls, *written, n_bytes)

    @contextmanager
    def _run_agent(self, number: int) -> Iterator[Agent]:
        path = self._control_plane.write_agent_kubeconfig(self._node.folder / f"{number}.conf", node=_NAME)
        agent = self._node.make_agent(
            self._proxy.endpoint,
            kubeconfig=path,
            node_name=_NAME,
            flags=["--register-node", f"--startup-taint={_TAINT}"],
        )
        try:
            yield agent
        finally:
            agent.close()

    def _begin(self) -> None:
        """The Node has the taint, and not the condition."""
        self._object.remove_condition()
        self._object.taint()
        self._wait_seen(lambda seen: not _is_true(seen) and not _is_untainted(seen), len(self._watch.seen) - 1)

    def _wait_seen(self, condition: Callable[[Object], bool], since: int) -> float:
        return self._watch.wait_for(condition, since, timeout=_LIMIT)

    def _pull_by_hand(self) -> float:
        """All at a time, as the agent pulls them by default."""
        began = time.monotonic()
        with ThreadPoolExecutor(_N_IMAGES) as pool:
            list(pool.map(self._cri.pull, self._images))
        taken = time.monotonic() - began
        self._remove_images()
        return taken

    def _write_by_hand(self) -> tuple[float, float]:
        """The taint goes only once the condition is seen."""
        self._begin()
        n_seen, began = len(self._watch.seen), time.monotonic()
        self._object.set_condition(status="True", reason="AllPresent", message="")
        is_true = self._wait_seen(_is_true, n_seen)
        self._object.untaint()
        n_seen = max(n_seen, len(self._watch.seen) - 1)
        return is_true - began, self._wait_seen(_is_untainted, n_seen) - began

    def _run_pod(self, number: int) -> int:
        """Returns how many bytes pass until a container of each image runs."""
        parts = [container(f"c{n}", image, volumeMounts=[]) for n, image in enumerate(self._images)]
        pod = Pod(self._kubelet, *parts, name=f"pod-{number}", owner=False, volumes=[])
        began = time.monotonic()
        pod.start(60)
        n_bytes = self._uplink.carried(began, time.monotonic())
        pod.delete()
        wait_until(lambda: not remove_containers(self._cri, pod.uid), 30, "end of all containers", pause=0.05)
        return n_bytes

    def _remove_images(self) -> None:
        for image in self._images:
            self._cri.remove_image(image)
