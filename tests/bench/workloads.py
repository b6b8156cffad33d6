# SPDX-License-Identifier: Apache-2.0
"""The cost of an update of a workload: in place, and by its controller, which replaces the pods."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, fields
from itertools import count, pairwise
from statistics import median
from typing import Any

from lab.cleanup import Closing
from lab.clients import run_client
from lab.control_plane import ControlPlane
from lab.inplace import Inplace
from lab.kube import Object
from lab.kubelet import Kubelet, is_ready
from lab.metrics import Metrics, parse_metrics
from lab.node_image import NodeImage
from lab.pod import until_term
from lab.wait import wait_until

from cluster import Cluster
from node import Node
from object_watch import ObjectWatch
from pods import remove_containers
from table import Row, estimate
from uplink import Uplink

# Each pod has a node of its own, which fetches the image itself.
_N_PODS = 5

# In all 300 MB, in as many layers as are fetched side by side.
_LAYERS = [100 * 10**6] * 3
_BYTES_PER_SECOND = 50e6
_QUICK = 10  # times less of both

_MIN_READY_SECONDS = 10
_UNDO_AFTER = 30  # seconds

_PODS = "/api/v1/namespaces/default/pods"
_PLURALS = {"Deployment": "deployments", "StatefulSet": "statefulsets"}

# Resources that are written by the clock, not for the update.
_BY_CLOCK = ("leases", "nodes")
_WRITES = ("POST", "PUT", "PATCH", "APPLY", "DELETE")

_TIMEOUT = 600


def measure(node: Node) -> list[Row]:
    with _Fleet(node) as fleet:
        n_rounds = 1 if node.quick else 3
        rows = [row for kind in _PLURALS for row in _measure_kind(fleet, kind, 0, n_rounds)]
        rows += _measure_kind(fleet, "Deployment", _MIN_READY_SECONDS, n_rounds)
        return [*rows, *(_measure_bad_image(fleet, kind, n_rounds) for kind in _PLURALS)]


def _measure_kind(fleet: _Fleet, kind: str, min_ready_seconds: int, n_rounds: int) -> list[Row]:
    """Both ways once per round, in turn."""
    ways: dict[str, Callable[[str, str], None]] = {
        "in place": fleet.set_image_in_place,
        "rolling": fleet.set_image,
    }
    costs: dict[str, list[_Cost]] = {way: [] for way in ways}
    order = list(ways)
    for _ in range(n_rounds):
        for way in order:
            costs[way].append(_Update(fleet, kind, min_ready_seconds).run(ways[way]))
        order.reverse()
    megabytes = (round(value / 1e6) for value in (sum(fleet.layers), fleet.uplink.bytes_per_second))
    about = "{}, {} pods, {} MB at {} MB/s".format(kind, _N_PODS, *megabytes)
    if min_ready_seconds:
        about += f", minReadySeconds {min_ready_seconds}"
    shown = {
        "seconds": ("command → all run the new image", "s", 1),
        "not_ready": ("not ready, per pod", "s", 2),
        "pulled": ("pulled while a pod is missing", "MB", 0),
        "requests": ("requests to the API server", "", 0),
        "writes": ("writes among them", "", 0),
    }
    assert list(shown) == [field.name for field in fields(_Cost)]
    return [
        _row(f"{about}: {what}", costs, name, unit, digits)
        for name, (what, unit, digits) in shown.items()
    ]


def _measure_bad_image(fleet: _Fleet, kind: str, n_rounds: int) -> Row:
    """An image that does not start, until it is undone some time later, in both ways by one command."""
    ways = {
        "in place": (fleet.set_bad_image_in_place, fleet.undo_in_place),
        "rolling": (fleet.set_image, fleet.undo),
    }
    missing: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(n_rounds):
        for way, commands in ways.items():
            missing[way].append(_Update(fleet, kind, 0).run_bad(*commands))
    ours, base = missing.values()
    title = f"{kind}, {_N_PODS} pods, bad image undone after {_UNDO_AFTER} s: not ready, per pod"
    return Row(title, median(ours), median(base), "s", digits=2)


def _row(
    title: str, costs: dict[str, list[_Cost]], name: str, unit: str, digits: int
) -> Row:
    ours, base = ([getattr(cost, name) for cost in costs[way]] for way in ("in place", "rolling"))
    ratio = estimate(a / b for a, b in zip(ours, base)) if len(ours) > 1 and all(base) else None
    return Row(title, median(ours), median(base), unit, ratio=ratio, digits=digits)


@dataclass(frozen=True)
class _Cost:
    """The cost of one update, from the command on.

    `not_ready` is for how long fewer pods than requested were ready, in seconds times pods that were
    missing, by the number of pods; `pulled` is what the registry sent in that time, in MB.
    `requests` are those of all programs in the cluster, until nothing more happens to its pods; without
    watches and what is written by the clock.
    """

    seconds: float
    not_ready: float
    pulled: float
    requests: float
    writes: float


class _Fleet(Closing):
    """A cluster with as many real nodes as pods, each with an agent, until closed."""

    path = _PODS

    def __init__(self, node: Node) -> None:
        self.node = node
        self._stack = ExitStack()

    def start(self) -> None:
        folder, registry = self.node.folder, self.node.registry
        part = 1 / _QUICK if self.node.quick else 1
        with ExitStack() as stack:
            enter = stack.enter_context
            self.control_plane = enter(
                ControlPlane(folder / "control-plane", controllers=True, scheduler=True)
            )
            self.control_plane.install()
            self.kube = self.control_plane.admin
            self.nodes = [self._add_node(stack, f"n{i}") for i in range(_N_PODS)]
            self.uplink = enter(Uplink(("127.0.0.1", registry.port), _BYTES_PER_SECOND * part))
            self._stack = stack.pop_all()
        self.inplace = Inplace(self.control_plane.admin_kubeconfig, folder / "home", self.node.build_dir)
        self.old = registry.push_image("bench/workload", "old", busybox=True).reference
        self.layers = [round(size * part) for size in _LAYERS]
        self.new = registry.push_image("bench/workload", "new", self.layers, busybox=True)
        self.new_reference = self.new.reference.replace(registry.host, f"127.0.0.1:{self.uplink.port}")
        self.bad = registry.push_image("bench/workload", "bad").reference  # without the program
        self._watch: ObjectWatch | None = None

    def close(self) -> None:
        self._stack.close()

    def _add_node(self, stack: ExitStack, name: str) -> Kubelet:
        folder, registry = self.node.folder, self.node.registry
        made = stack.enter_context(Kubelet(folder / name, self.control_plane, registry, name))
        cluster = Cluster(self.node, self.control_plane)
        cluster.make_node_image(name)
        flags = [f"--kubelet-health-address={made.health_address}"]
        stack.enter_context(cluster.make_agent(name, made.runtime.endpoint, flags=flags))
        return made

    def watch(self, timeout: float) -> Iterator[Object]:
        """All pods, see object_watch.Watched."""
        return self.kube.watch(self.path, timeout)

    def watch_pods(self) -> ObjectWatch:
        """The same one every time. At first there has to be a pod."""
        if self._watch is None:
            self._watch = ObjectWatch(self)
        return self._watch

    # The ways

    def set_image_in_place(self, workload: str, image: str) -> None:
        ran = self.inplace.run("set", "image", workload, f"main={image}", timeout=_TIMEOUT)
        if ran.code != 0:
            raise RuntimeError(f"{workload} was not updated: {ran.stdout}{ran.stderr}")

    def set_bad_image_in_place(self, workload: str, image: str) -> None:
        ran = self.inplace.run("set", "image", workload, f"main={image}", timeout=_TIMEOUT)
        if ran.code != 3:
            raise RuntimeError(f"{workload} was not stopped: {ran.stdout}{ran.stderr}")

    def undo_in_place(self, workload: str) -> None:
        ran = self.inplace.run("rollout", workload, "--undo", timeout=_TIMEOUT)
        if ran.code != 0:
            raise RuntimeError(f"{workload} was not undone: {ran.stdout}{ran.stderr}")

    def set_image(self, workload: str, image: str) -> None:
        self._kubectl("set", "image", workload, f"main={image}")

    def undo(self, workload: str) -> None:
        """A StatefulSet replaces no pod that is stuck: a person deletes it, as the page on StatefulSets says."""
        self._kubectl("rollout", "undo", workload)
        name = workload.partition("/")[2]
        stuck = [
            pod
            for pod in self.kube.list(_PODS, labelSelector=f"app={name}")
            if workload.startswith("statefulset/") and not is_ready(pod)
        ]
        for pod in stuck:
            self.kube.delete(f"{_PODS}/{pod['metadata']['name']}")

    def _kubectl(self, *arguments: str) -> None:
        run_client("kubectl", *arguments, kubeconfig=self.control_plane.admin_kubeconfig)

    # Before and after

    def metrics(self) -> Metrics:
        """The API server's metrics about requests."""
        text = self.kube.request("GET", "/metrics")
        name = "apiserver_request_total"
        return parse_metrics("\n".join(line for line in text.splitlines() if line.startswith(name)))

    def forget_image(self) -> None:
        """No node has it, or has it requested."""
        for node in self.nodes:
            node_image = NodeImage(self.kube, node.name)
            node_image.set_spec({})
            node_image.wait_counts(0, 0, 0, 0, 0)
            node.runtime.remove_image(self.new_reference)


class _Update:
    """An update of a workload that is made for it."""

    _numbers = count(1)

    def __init__(self, fleet: _Fleet, kind: str, min_ready_seconds: int) -> None:
        self._fleet = fleet
        self._kube = fleet.kube
        self._name = f"web-{next(self._numbers)}"
        self._workload = f"{kind.lower()}/{self._name}"
        self._path = f"/apis/apps/v1/namespaces/default/{_PLURALS[kind]}/{self._name}"
        document = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": self._name}}
        spec = _make_spec(kind, self._name, fleet.old) | {"minReadySeconds": min_ready_seconds}
        self._kube.create({**document, "spec": spec})
        wait_until(self._is_spread, 120, f"ready pods of {self._workload}, one per node", pause=0.4)
        self._old_uids = {pod["metadata"]["uid"] for pod in self._pods()}

    def run(self, way: Callable[[str, str], None]) -> _Cost:
        fleet = self._fleet
        watch = fleet.watch_pods()
        fleet.forget_image()
        self._settle(watch)
        before, n_seen, began = fleet.metrics(), len(watch.seen), time.monotonic()
        way(self._workload, fleet.new_reference)
        updated_at = watch.wait_for(self._make_condition(), n_seen, timeout=_TIMEOUT)
        wait_until(lambda: len(self._pods()) == _N_PODS, 120, "end of the pods that were replaced", pause=0.4)
        self._settle(watch)
        ended, after = time.monotonic(), fleet.metrics()
        pulled = fleet.uplink.carried(began, ended)
        if pulled < _N_PODS * fleet.new.size * 0.9:
            raise RuntimeError(f"only {pulled} bytes of {fleet.new_reference} were pulled")
        kept = [pod for pod in self._pods() if pod["metadata"]["uid"] in self._old_uids]
        if any(len(self._started_containers(pod)) < 2 for pod in kept):
            raise RuntimeError(f"the runtime has forgotten how long {self._workload} was down")
        not_ready, pulled_meanwhile = self._missing(watch, began, ended)
        self._delete()
        return _Cost(
            updated_at - began,
            not_ready / _N_PODS,
            pulled_meanwhile / 1e6,
            _count_requests(after) - _count_requests(before),
            sum(_count_requests(after, verb) - _count_requests(before, verb) for verb in _WRITES),
        )

    def run_bad(self, way: Callable[[str, str], None], undo: Callable[[str], None]) -> float:
        """How long each pod was not ready, on average, until as many as before run the old image again."""
        fleet = self._fleet
        watch = fleet.watch_pods()
        self._settle(watch)
        began = time.monotonic()
        way(self._workload, fleet.bad)
        time.sleep(max(began + _UNDO_AFTER - time.monotonic(), 0))
        undo(self._workload)
        wait_until(self._is_back, _TIMEOUT, f"old image of {self._workload}", pause=0.4)
        self._settle(watch)
        not_ready, _ = self._missing(watch, began, time.monotonic())
        self._delete()
        return not_ready / _N_PODS

    def _is_back(self) -> bool:
        running = [pod for pod in self._pods() if "deletionTimestamp" not in pod["metadata"]]
        return len(running) == _N_PODS and all(
            is_ready(pod) and pod["spec"]["containers"][0]["image"] == self._fleet.old for pod in running
        )

    def _make_condition(self) -> Callable[[Object], bool]:
        """As many pods as requested run the new image, and are ready; for ObjectWatch."""
        updated: set[str] = set()

        def is_done(pod: Object) -> bool:
            (updated.add if self._is_updated(pod) else updated.discard)(pod["metadata"]["uid"])
            return len(updated) == _N_PODS

        return is_done

    def _is_updated(self, pod: Object) -> bool:
        if not self._serves(pod):
            return False
        (status,) = pod["status"]["containerStatuses"]
        image_is_new = status["image"] == self._fleet.new_reference
        return image_is_new and status["ready"] and "running" in status["state"]

    def _serves(self, pod: Object) -> bool:
        """As far as the API server knows; then endpoints have it."""
        metadata = pod["metadata"]
        is_ours = metadata["labels"].get("app") == self._name
        return is_ours and "deletionTimestamp" not in metadata and is_ready(pod)

    def _missing(self, watch: ObjectWatch, began: float, ended: float) -> tuple[float, float]:
        """Seconds times pods that were missing, and the bytes that were pulled meanwhile.

        A pod is ready while the API server says so and its container runs: for a moment that is not
        the same.
        """
        gaps = {pod["metadata"]["uid"]: self._gaps(pod) for pod in self._pods()}
        seen = [(at, pod["metadata"]["uid"], self._serves(pod)) for at, pod in watch.seen]
        ends = [end for pair in gaps.values() for gap in pair for end in gap]
        times = sorted({began, ended, *(at for at, _, _ in seen), *ends})
        serving: dict[str, bool] = {}
        position, missing, pulled = 0, 0.0, 0.0
        for since, until in pairwise(times):
            while position < len(seen) and seen[position][0] <= since:
                _, uid, serving_now = seen[position]
                serving[uid] = serving_now
                position += 1
            if since < began or until > ended:
                continue
            n = sum(
                ready and not any(low <= since < high for low, high in gaps.get(uid, []))
                for uid, ready in serving.items()
            )
            if n < _N_PODS:
                missing += (_N_PODS - n) * (until - since)
                pulled += self._fleet.uplink.carried(since, until)
        return missing, pulled

    def _gaps(self, pod: Object) -> list[tuple[float, float]]:
        """From the end of a container of the pod to the start of the next, of time.monotonic()."""
        offset = time.monotonic() - time.time()
        return [
            (before.finished_at / 1e9 + offset, after.started_at / 1e9 + offset)
            for before, after in pairwise(self._started_containers(pod))
        ]

    def _started_containers(self, pod: Object) -> list[Any]:
        """The containers of the pod that the runtime knows, the oldest first."""
        (node,) = (one for one in self._fleet.nodes if one.name == pod["spec"]["nodeName"])
        cri = node.runtime.cri
        found = [cri.container_status(one.id)[0] for one in cri.pod_containers(pod["metadata"]["uid"])]
        return sorted((one for one in found if one.started_at), key=lambda one: one.started_at)

    @staticmethod
    def _settle(watch: ObjectWatch) -> None:
        """Until nothing happens to any pod for a while."""
        n = -1
        while n != len(watch.seen):
            n = len(watch.seen)
            Cluster.be_quiet()

    def _pods(self) -> list[Object]:
        return self._kube.list(_PODS, labelSelector=f"app={self._name}")

    def _is_spread(self) -> bool:
        return len({pod["spec"]["nodeName"] for pod in self._pods() if is_ready(pod)}) == _N_PODS

    def _delete(self) -> None:
        """Returns when neither the pods nor their containers are there."""
        uids = [pod["metadata"]["uid"] for pod in self._pods()]
        self._kube.delete(self._path, propagationPolicy="Foreground")
        self._kube.wait_gone(self._path, 60)
        cris = [node.runtime.cri for node in self._fleet.nodes]
        wait_until(
            lambda: not any([remove_containers(cri, uid) for cri in cris for uid in uids]),
            60,
            f"end of all containers of {self._workload}",
            pause=0.05,
        )


def _make_spec(kind: str, app: str, image: str) -> Object:
    """Makes a workload with the default strategy, in which a Deployment of five pods may miss one of them."""
    main = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": until_term(),
    }
    spread: Object = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    if kind == "Deployment":
        spread["matchLabelKeys"] = ["pod-template-hash"]  # new pods come before the old ones go
    pod: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "topologySpreadConstraints": [spread],
        "containers": [main],
    }
    spec: Object = {
        "replicas": _N_PODS,
        "selector": {"matchLabels": {"app": app}},
        "template": {"metadata": {"labels": {"app": app}}, "spec": pod},
    }
    return {**spec, "serviceName": app} if kind == "StatefulSet" else spec


def _count_requests(metrics: Metrics, verb: str | None = None) -> float:
    """Counts requests, without watches and without those that are made by the clock."""

    def count_of(**labels: str) -> float:
        return metrics.total("apiserver_request_total", **labels)

    if verb is not None:
        return count_of(verb=verb) - sum(count_of(verb=verb, resource=one) for one in _BY_CLOCK)
    verbs = {dict(labels)["verb"] for _, labels in metrics}
    return sum(_count_requests(metrics, one) for one in verbs - {"WATCH"})
