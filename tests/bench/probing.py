# SPDX-License-Identifier: Apache-2.0
"""What the agent spends on probes that run every second, and what it writes about them."""

from __future__ import annotations

import socket
import time

from lab.node_pod_probe import NodePodProbe, probe, probes_of
from lab.pod import Pod, container, shell
from lab.wait import wait_until

from node import Node
from pods import PodNode
from resting import measure_cost
from table import Limit, Row

_PORT = 8080
_COUNTS = (10, 100, 500)
_QUICK_SECONDS, _SECONDS = 5, 60
_LIMIT = Limit(3, "< 3 % for 500")

_SERVES = shell(
    f"mkdir /w; >/w/page; httpd -p {_PORT} -h /w; trap exit TERM; while :; do sleep 3600 & wait; done"
)
_HANDLERS = {
    "tcpSocket": {"tcpSocket": {"port": _PORT}},
    "httpGet": {"httpGet": {"port": _PORT, "path": "/page"}},
}


def measure(node: Node) -> list[Row]:
    with PodNode(node) as lab:
        main = container("main", lab.image, command=_SERVES, volumeMounts=[])
        pod = Pod(lab.kubelet, main, name="probed", owner=False, volumes=[]).start()
        requested = NodePodProbe(lab.kube, lab.kubelet.name)
        floor = _measure_floor(pod)
        rows = [row for kind in _HANDLERS for n in _COUNTS for row in _measure(lab, pod, requested, kind, n, floor)]
        rows += _measure_transition(lab, pod, requested)
        requested.request()
        return rows


def _measure_floor(pod: Pod) -> float:
    """Percent of a core for one connection a second, made and closed by a loop that does nothing else."""
    address = (pod.get()["status"]["podIP"], _PORT)
    n, began = 500, time.process_time()
    for _ in range(n):
        socket.create_connection(address).close()
    return (time.process_time() - began) / n * 100


def _measure(
    lab: PodNode, pod: Pod, requested: NodePodProbe, kind: str, n: int, floor: float
) -> list[Row]:
    names = [f"{kind}#{i}" for i in range(n)]
    requested.request(probes_of(pod, *(probe(name, **_HANDLERS[kind]) for name in names)))
    _wait_succeeded(lab, n)
    metrics = lab.agent.metrics
    writes, runs = _writes(lab), metrics().total("inplaced_probe_runs_total")
    began = time.monotonic()
    cost = measure_cost(lab.agent.process.pid, _QUICK_SECONDS if lab.quick else _SECONDS)
    rate = (metrics().total("inplaced_probe_runs_total") - runs) / (time.monotonic() - began)
    return [
        Row(f"{n} {kind} probes: CPU of one core", cost.cpu / 600, floor * n, "%", _LIMIT, digits=2),
        Row(f"{n} {kind} probes: runs", rate, None, "/s"),
        Row(f"{n} {kind} probes: resident memory", cost.rss, None, "MB"),
        Row(f"{n} {kind} probes: writes meanwhile", _writes(lab) - writes, None, "", Limit(0, "0")),
    ]


def _measure_transition(lab: PodNode, pod: Pod, requested: NodePodProbe) -> list[Row]:
    """A server that goes."""
    one = probe("one#tcp", **_HANDLERS["tcpSocket"])
    requested.request(probes_of(pod, one))
    _wait_succeeded(lab, 1)
    lab.audit.begin()
    lab.cri.execute(lab.cri.pod_containers(pod.uid)[0].id, "killall", "httpd")
    requested.wait_state(pod, "one#tcp", "Failed")
    wait_until(lambda: lab.audit.created_events("KruiseProbeFailed"), 10, "event")
    return [
        Row("one probe fails: patches", lab.audit.probe_patches(), None, "", Limit(1, "1")),
        Row("one probe fails: events", lab.audit.created_events("KruiseProbe"), None, "", Limit(1, "1")),
    ]


def _wait_succeeded(lab: PodNode, n: int) -> None:
    metrics = lab.agent.metrics

    def is_done() -> bool:
        found = metrics()
        return found.total("inplaced_probes", state="succeeded") == n and not found.total(
            "inplaced_probes", state="failed"
        )

    wait_until(is_done, 60, f"success of {n} probes", pause=0.1)


def _writes(lab: PodNode) -> float:
    return lab.agent.metrics().total("inplaced_probe_writes_total")
