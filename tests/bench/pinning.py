# SPDX-License-Identifier: Apache-2.0
"""Whether pins hold: what a real kubelet leaves on a disk that is full again and again."""

from __future__ import annotations

from statistics import median

from lab import collecting
from lab.control_plane import ControlPlane

from cluster import Cluster
from node import Node
from table import Limit, Row

_NAME = "collecting"
_N_PINNED = 20
_NONE = Limit(0, "none")


def measure(node: Node) -> list[Row]:
    n_rounds = 2 if node.quick else 20
    with ControlPlane(node.folder / "control-plane") as control_plane:
        control_plane.install()
        with collecting.make_node(node.folder / "k", control_plane, node.registry, _NAME) as kubelet:
            kubelet.start()
            return _measure_node(node, Cluster(node, control_plane), kubelet, n_rounds)


def _measure_node(node: Node, cluster: Cluster, kubelet: collecting.Kubelet, n_rounds: int) -> list[Row]:
    cluster.make_node_image(_NAME)
    with cluster.make_agent(_NAME, kubelet.runtime.endpoint) as agent:
        collection = collecting.Collection(kubelet, node.registry, agent, "bench", _N_PINNED)
        rounds, pauses = [], []
        for number in range(n_rounds):
            rounds.append(collection.run_round(number))
            pauses.append(collection.disturb(number))
        left = collection.remove_pins()
        last = collection.collect_pinned()
    lost = {reference for one in rounds for reference in one.lost}
    others, stayed = (sum(each) for each in zip(*((one.n_others, len(one.stayed)) for one in rounds), strict=True))
    return [
        Row(f"of {_N_PINNED} pinned images, lost in {n_rounds} collections (containerd 2)", len(lost), None, "", _NONE, digits=0),
        Row(f"of {others} other images, left by these collections", stayed, None, "", _NONE, digits=0),
        Row("disk full → the kubelet has removed the others", median(one.seconds for one in rounds), None, "s"),
        Row("containerd restarts, two tags move → all are pinned again", median(pauses), None, "s"),
        Row("pins left by --remove-pins", len(left), None, "", _NONE, digits=0),
        Row(f"of {last.n_others} other images then, left by a collection", len(last.stayed), None, "", _NONE, digits=0),
    ]
