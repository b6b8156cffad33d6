# SPDX-License-Identifier: Apache-2.0
"""Declared updates of many workloads at once, beside the same updates by the command of a person; and what the
controller costs while nothing changes.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

from lab.clients import MANIFESTS
from lab.cluster import Cluster
from lab.inplace import Inplace
from lab.kube import Object
from lab.kubelet import is_ready
from lab.pod import until_term
from lab.process import Child
from lab.wait import wait_until

from node import Node
from table import Limit, Row, estimate

_N_WORKLOADS, _N_PODS, _N_HOLLOW = 20, 5, 500
_UPDATE, _POLICY = "inplaced.io/update", "inplaced-hold"
_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
_PODS = "/api/v1/namespaces/default/pods"
_LIMIT = 600


def measure(node: Node) -> list[Row]:
    n_workloads, n_rounds = (4, 1) if node.quick else (_N_WORKLOADS, 3)
    with Cluster(node.folder / "cluster", node.registry) as cluster:
        cluster.kubectl("apply", "--server-side", "-f", MANIFESTS / "components/updates/policy.yaml")
        inplace = Inplace(cluster.control_plane.admin_kubeconfig, node.folder, node.build_dir)
        images = [node.registry.push_image("bench/d", str(n), [1000], busybox=True, seed=n).reference for n in (1, 2)]
        names = [f"web-{n}" for n in range(n_workloads)]
        for name in names:
            cluster.admin.create(_make(name, images[0], _N_PODS))
        _wait(cluster, images[0], n_workloads)
        before = _uids(cluster)
        ways: dict[str, list[float]] = {"declared": [], "command": []}
        with inplace.running("controller", "-A", "--policy", _POLICY) as child:
            _wait_bound(cluster, names[0])
            for n in range(n_rounds):
                for way, image in zip(ways, (images[1], images[0]), strict=True):
                    ways[way].append(_time(cluster, inplace, names, image, way))
            rows = _measure_idle(cluster, child, images[0], 50 if node.quick else _N_HOLLOW)
        assert _uids(cluster) == before, "a pod was replaced"
    title = f"{n_workloads} workloads of {_N_PODS} pods, new image declared → all updated and given back"
    ratio = estimate(a / b for a, b in zip(*ways.values(), strict=True)) if n_rounds > 1 else None
    limit = Limit(1.15, "≤ 1.15 × the command", "ratio")
    return [Row(title, median(ways["declared"]), median(ways["command"]), "s", limit, ratio=ratio, digits=2), *rows]


def _make(name: str, image: str, n_pods: int) -> Object:
    container = {"name": "main", "image": image, "command": until_term()}
    spec = {"terminationGracePeriodSeconds": 1, "automountServiceAccountToken": False, "containers": [container]}
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    whole = {"replicas": n_pods, "selector": {"matchLabels": {"app": name}}, "template": template}
    metadata = {"name": name, "annotations": {_UPDATE: "InPlaceIfPossible"}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": whole}


def _patch(image: str) -> Object:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}


def _pods(cluster: Cluster) -> list[Object]:
    return cluster.admin.list(_PODS)


def _uids(cluster: Cluster) -> set[str]:
    return {pod["metadata"]["uid"] for pod in _pods(cluster)}


def _runs(pod: Object, image: str) -> bool:
    return is_ready(pod) and [one["image"] for one in pod["status"]["containerStatuses"]] == [image]


def _is_over(deployment: Object) -> bool:
    record = deployment["metadata"]["annotations"].get("inplaced.io/rollout", "")
    is_open = '"state":"forward"' in record
    return not deployment["spec"].get("paused", False) and not is_open


def _wait(cluster: Cluster, image: str, n_workloads: int) -> None:
    def is_done() -> bool:
        pods = _pods(cluster)
        deployments = cluster.admin.list(_DEPLOYMENTS)
        return len(pods) == n_workloads * _N_PODS and all(_runs(pod, image) for pod in pods) and all(map(_is_over, deployments))

    wait_until(is_done, _LIMIT, "all pods with the image", 0.1)


def _wait_bound(cluster: Cluster, name: str) -> None:
    """Until the API server enforces the binding that the controller has made."""
    path = f"{_DEPLOYMENTS}/{name}"
    ask = lambda: cluster.admin.patch(path, _patch("probe"), "strategic", dryRun="All")["spec"].get("paused")  # noqa: E731
    wait_until(ask, _LIMIT, "the policy in force", 0.1)


def _time(cluster: Cluster, inplace: Inplace, names: list[str], image: str, way: str) -> float:
    began = time.monotonic()
    if way == "declared":
        for name in names:
            cluster.admin.patch(f"{_DEPLOYMENTS}/{name}", _patch(image), "strategic")
    else:
        programs = [inplace.start("set", "image", f"deployment/{name}", f"main={image}") for name in names]
        for program in programs:
            program.communicate(timeout=_LIMIT)
    _wait(cluster, image, len(names))
    return time.monotonic() - began


def _measure_idle(cluster: Cluster, child: Child, image: str, n_hollow: int) -> list[Row]:
    """Memory with many workloads that declare updates, and have no pods."""
    for n in range(n_hollow):
        cluster.admin.create(_make(f"hollow-{n}", image, 0))
    time.sleep(2)  # the watch shows them
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{child.pid}/status").read_text().splitlines())
    figures = {what: int(lines[key].split()[0]) / 1024 for what, key in (("resident", "VmRSS"), ("of it anonymous", "RssAnon"))}
    return [Row(f"controller, {n_hollow} declared workloads: {what}", value, None, "MB") for what, value in figures.items()]
