# SPDX-License-Identifier: Apache-2.0
"""How soon a container whose environment is made from labels is restarted, and how soon many are.

A container that ends twice within ten minutes is kept down for a while by the kubelet. So each is
restarted once, and every round has new ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from lab.cri import Cri
from lab.kube import Kube, Object
from lab.pod import Pod
from lab.wait import wait_until

from cluster import Cluster
from node import Node
from pods import Pace, PodNode
from pulls import Rounds
from table import Limit, Row

_CROWD = 110
_N_WORKERS = 8
_GRACE_SECONDS = 2


@dataclass(frozen=True)
class Restarted:
    """The end of a container, and the start of its successor; seconds since 1970."""

    stopped_at: float
    running_at: float


def measure(node: Node) -> list[Row]:
    with PodNode(node) as lab:
        return [*_measure_single(lab), *_measure_crowd(lab)]


def _measure_single(lab: PodNode) -> list[Row]:
    """Beside the least that a program can do: a PATCH and a StopContainer call.

    "Runs again" is counted from the PATCH for the agent, and from that call by hand. It depends on
    the kubelet's clock, so both are begun at the same phase of it in each round.
    """
    n = 3 if lab.quick else 15
    changed = [lab.create_pod(f"changed-{i}") for i in range(n + 1)]
    by_hand = [lab.create_pod(f"by-hand-{i}", takes_part=False) for i in range(n + 1)]
    lab.wait_ready([*changed, *by_hand])
    lab.wait_known(changed)
    Cluster.be_quiet()
    _restart_one(lab, changed[n], _change)  # not counted
    _restart_one(lab, by_hand[n], _stop)
    lab.wait_known(changed)
    lab.audit.begin()
    stopped, running = _run_rounds(lab, list(zip(changed[:n], by_hand)))
    lab.wait_known(changed)
    Cluster.be_quiet()
    patches = lab.audit.pod_patches()
    lab.delete_all([*changed, *by_hand])
    return [
        _time_row("restart: label PATCH → stopped", stopped, Limit(100, "≤ 100 ms")),
        _time_row(
            "restart: label PATCH → runs again", running, Limit(150, "≤ 150 ms more", "excess")
        ),
        _patches_row("restart: most patches of a pod", patches),
    ]


def _run_rounds(lab: PodNode, pairs: list[tuple[Pod, Pod]]) -> tuple[Rounds, Rounds]:
    """Seconds until it had ended, and until it ran again."""
    stopped: dict[str, list[float]] = {"agent": [], "bare": []}
    running: dict[str, list[float]] = {"agent": [], "bare": []}
    pace = Pace(lab)
    order = [("agent", _change), ("bare", _stop)]
    for pair in pairs:
        pods = dict(zip(("agent", "bare"), pair))
        pace.begin_round()
        for way, restart in order:
            pace.wait_turn()
            patched, began, restarted = _restart_one(lab, pods[way], restart)
            stopped[way].append(restarted.stopped_at - patched)
            running[way].append(restarted.running_at - began)
        order.reverse()
    return Rounds(stopped), Rounds(running)


Restart = Callable[[PodNode, Pod, str], tuple[float, float]]


def _restart_one(lab: PodNode, pod: Pod, restart: Restart) -> tuple[float, float, Restarted]:
    before = running_containers(lab.cri)[pod.uid]
    patched, began = restart(lab, pod, before)
    return patched, began, wait_restarted(lab.cri, {pod.uid: before})[pod.uid]


def _change(lab: PodNode, pod: Pod, container_id: str) -> tuple[float, float]:
    """When the PATCH was sent, which is also when the restart began."""
    began = time.time()
    pod.change(labels={"round": "two"})
    return began, began


def _stop(lab: PodNode, pod: Pod, container_id: str) -> tuple[float, float]:
    """When the PATCH was sent, and when the call."""
    patched = time.time()
    pod.change(labels={"round": "two"})
    began = time.time()
    stop_container(lab.cri, container_id)
    return patched, began


def _measure_crowd(lab: PodNode) -> list[Row]:
    """Many pods that are changed at once. By hand, a container is stopped in each of them that the
    agent has nothing to do with, all at once: the fewer at a time, the more of them wait while the
    kubelet is busy with those that have ended."""
    n = 10 if lab.quick else _CROWD
    began = time.monotonic()
    pods = [lab.create_pod(f"crowd-{i:03}", also=["other"]) for i in range(n)]
    lab.wait_ready(pods, timeout=180)
    created = time.monotonic() - began
    lab.wait_known(pods)
    others = running_containers(lab.cri, "other")
    by_hand = _restart_all(lab, lambda: _stop_all(lab, others), "other")
    lab.wait_known(pods)
    with closing(_Workers(lab)) as workers:
        Cluster.be_quiet()
        alone = workers.change(pods, annotations={"round": "two"})
        Cluster.be_quiet()
        lab.audit.begin()
        changed = _restart_all(lab, lambda: workers.change(pods, labels={"round": "two"}), "main")
    lab.wait_known(pods)
    Cluster.be_quiet()
    return [
        Row(f"{n} pods: created → ready, for comparison", created, None, "s"),
        Row(f"{n} pods: label PATCHes sent, by {_N_WORKERS} workers", changed[0], alone, "s", digits=2),
        Row(
            f"{n} pods: first PATCH → all stopped",
            changed[1],
            by_hand[1],
            "s",
            Limit(3, "≤ 3 s"),
            digits=2,
        ),
        Row(
            f"{n} pods: last PATCH → all stopped",
            changed[1] - changed[0],
            by_hand[1],
            "s",
            digits=2,
        ),
        Row(f"{n} pods: first PATCH → all run again", changed[2], by_hand[2], "s", digits=2),
        _patches_row(f"{n} pods: most patches of a pod", lab.audit.pod_patches()),
    ]


def _restart_all(
    lab: PodNode, begin: Callable[[], float], name: str
) -> tuple[float, float, float]:
    """Seconds that it takes to ask for it, until all had ended, and until all ran again."""
    before = running_containers(lab.cri, name)
    began = time.time()
    asked = begin()
    restarted = wait_restarted(lab.cri, before, name, timeout=90).values()
    stopped_at = max(one.stopped_at for one in restarted)
    return asked, stopped_at - began, max(one.running_at for one in restarted) - began


class _Workers:
    """They change many pods at once, as those of a controller do, each over its own connection."""

    def __init__(self, lab: PodNode) -> None:
        self._clients = [lab.control_plane.make_admin() for _ in range(_N_WORKERS)]
        for client in self._clients:
            client.request("GET", "/readyz")  # connects
        self._pool = ThreadPoolExecutor(_N_WORKERS)

    def close(self) -> None:
        self._pool.shutdown()
        for client in self._clients:
            client.close()

    def change(self, pods: list[Pod], **metadata: Mapping[str, str]) -> float:
        """Returns how many seconds it took."""
        began = time.monotonic()
        shares = [(client, pods[i::_N_WORKERS]) for i, client in enumerate(self._clients)]
        list(self._pool.map(lambda share: _change_share(*share, {"metadata": metadata}), shares))
        return time.monotonic() - began


def _change_share(kube: Kube, pods: list[Pod], patch: Object) -> None:
    for pod in pods:
        kube.patch(pod.path, patch, "strategic")


def _stop_all(lab: PodNode, container_ids: Mapping[str, str]) -> float:
    began = time.monotonic()
    with ThreadPoolExecutor(_CROWD) as pool:
        list(pool.map(lambda one: stop_container(lab.cri, one), container_ids.values()))
    return time.monotonic() - began


# Answers of the runtime


def stop_container(cri: Cri, container_id: str) -> None:
    request = cri.messages.StopContainerRequest(container_id=container_id, timeout=_GRACE_SECONDS)
    cri.runtime.StopContainer(request, timeout=cri.timeout)


def running_containers(cri: Cri, name: str = "main") -> dict[str, str]:
    """IDs of all containers of that name, by their pod's UID."""
    messages = cri.messages
    state = messages.ContainerStateValue(state=messages.CONTAINER_RUNNING)
    labels = {"io.kubernetes.container.name": name}
    filter = messages.ContainerFilter(state=state, label_selector=labels)
    request = messages.ListContainersRequest(filter=filter)
    found = cri.runtime.ListContainers(request, timeout=cri.timeout).containers
    return {one.labels["io.kubernetes.pod.uid"]: one.id for one in found}


def wait_restarted(
    cri: Cri, before: Mapping[str, str], name: str = "main", timeout: float = 20
) -> dict[str, Restarted]:
    """By UID, as `before`. The times are the runtime's own."""
    stopped: dict[str, float] = {}
    running: dict[str, float] = {}

    def is_done() -> bool:
        now = running_containers(cri, name)
        for uid, old in before.items():
            new = now.get(uid)
            if new != old and uid not in stopped:  # the kubelet does not keep it for long
                stopped[uid] = _status(cri, old).finished_at / 1e9
            if new not in (None, old) and uid not in running:
                running[uid] = _status(cri, new).started_at / 1e9
        return len(running) == len(before)

    def describe() -> str:
        return f"restart of more than {len(running)} of {len(before)} containers"

    wait_until(is_done, timeout, describe, pause=0.05 if len(before) == 1 else 0.5)
    return {uid: Restarted(stopped[uid], running[uid]) for uid in before}


def _status(cri: Cri, container_id: str) -> Any:
    return cri.container_status(container_id)[0]


def _time_row(name: str, rounds: Rounds, limit: Limit) -> Row:
    return Row(
        name,
        rounds.median("agent") * 1e3,
        rounds.median("bare") * 1e3,
        "ms",
        limit,
        ratio=rounds.ratio("agent"),
        excess=rounds.excess("agent").scale(1e3),
    )


def _patches_row(name: str, patches: Mapping[str, int]) -> Row:
    return Row(name, max(patches.values(), default=0), None, "", Limit(2, "≤ 2"), digits=0)
