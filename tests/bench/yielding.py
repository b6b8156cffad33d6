# SPDX-License-Identifier: Apache-2.0
"""How much later a pod starts because the agent pulls other images meanwhile."""

from __future__ import annotations

import time
from contextlib import ExitStack
from itertools import count
from statistics import median

from lab.kube import Object
from lab.kubelet import is_ready
from lab.node_image import NodeImage
from lab.pod import Pod
from lab.wait import wait_until

from node import Node
from object_watch import ObjectWatch
from pods import Pace, PodNode
from pulls import Rounds
from table import Limit, Row
from uplink import Uplink

_BYTES_PER_SECOND = 50e6
_POD_LAYERS = [50 * 10**6] * 2
_PRELOAD = [[250 * 10**6] * 4] * 5  # layers of each image: 5 GB in all
_QUICK = 10  # times less of all that
_UNDER_WAY = 1.0  # seconds of the uplink's time that the preload has had when the pod is created


def measure(node: Node) -> list[Row]:
    with ExitStack() as stack:
        lab = stack.enter_context(PodNode(node))
        starts = _Starts(lab, stack)
        rounds = starts.run_rounds()
    ratio = rounds.ratio("yields")
    preload, size = sum(map(sum, starts.preload_layers)) / 1e9, sum(starts.pod_layers) / 1e6
    name = f"pod of a {size:g} MB image, created → ready: during a preload of {preload:g} GB, or without"
    base = rounds.median("bare")
    return [
        Row(name, rounds.median("yields"), base, "s", Limit(1.1, "≤ 1.1 ×", "ratio"), ratio=ratio, digits=2),
        Row("the same with yieldToPodsSeconds: 0", rounds.median("shares"), base, "s", digits=2),
        Row("bytes of the preload that arrive meanwhile", median(starts.others["yields"]) / 1e6, None, "MB"),
        Row("the same with yieldToPodsSeconds: 0", median(starts.others["shares"]) / 1e6, None, "MB"),
    ]


class _Starts:
    """Creates a pod whose image is not there, again and again.

    The preload does not end: what it has fetched is dropped when its request is withdrawn.
    """

    def __init__(self, lab: PodNode, stack: ExitStack) -> None:
        part = 1 / _QUICK if lab.quick else 1
        self.pod_layers = [round(size * part) for size in _POD_LAYERS]
        self.preload_layers = [[round(size * part) for size in layers] for layers in _PRELOAD]
        self.others: dict[str, list[float]] = {"bare": [], "yields": [], "shares": []}
        self._lab = lab
        self._n_rounds = 2 if lab.quick else 5
        self._pace = Pace(lab)
        registry = lab.node.registry
        self._uplink = stack.enter_context(Uplink(("127.0.0.1", registry.port), _BYTES_PER_SECOND * part))
        self._host = registry.host, f"127.0.0.1:{self._uplink.port}"
        pushed = [
            registry.push_image("bench/preload", f"{i}", layers, seed=100 * (i + 1)).reference
            for i, layers in enumerate(self.preload_layers)
        ]
        self._preload = [reference.replace(*self._host) for reference in pushed]
        self._image = lab.push_version("fresh", self.pod_layers).replace(*self._host)
        self._node_image = NodeImage(lab.kube, lab.kubelet.name)
        lab.wait_ready([lab.create_pod("resident", takes_part=False)])  # a watch needs an object
        self._watch = ObjectWatch(lab)
        self._numbers = count(1)

    def run_rounds(self) -> Rounds:
        """Every way once per round, in an order that goes round; the very first is not counted."""
        seconds: dict[str, list[float]] = {way: [] for way in self.others}
        order = list(seconds)
        for number in range(-1, self._n_rounds):
            for way in order:
                self._lab.agent.reload({"yieldToPodsSeconds": 0 if way == "shares" else 600})
                taken, n_others = self._start_pod(way != "bare")
                if number >= 0:
                    seconds[way].append(taken)
                    self.others[way].append(n_others)
            order.append(order.pop(0))
        return Rounds(seconds)

    def _start_pod(self, has_preload: bool) -> tuple[float, float]:
        """The seconds, and the bytes that came beside those of the pod's image."""
        self._pace.begin_round()
        if has_preload:
            self._request(*self._preload)
        self._pace.wait_turn()
        began, n_seen = time.monotonic(), len(self._watch.seen)
        pod = self._lab.create_pod(f"fresh-{next(self._numbers)}", takes_part=False, image=self._image)

        def is_started(seen: Object) -> bool:
            return seen["metadata"]["name"] == pod.name and is_ready(seen)

        ended = self._watch.wait_for(is_started, n_seen, timeout=120)
        n_others = self._uplink.carried(began, ended) - sum(self.pod_layers)
        self._forget(pod)
        return ended - began, n_others

    def _request(self, *references: str) -> None:
        before = time.monotonic()
        enough = _UNDER_WAY * self._uplink.bytes_per_second
        self._node_image.request(*references)
        wait_until(lambda: self._uplink.carried(before, time.monotonic()) > enough, 60, "bytes of the preload")

    def _forget(self, pod: Pod) -> None:
        self._node_image.set_spec({"images": {}})
        self._lab.delete_all([pod])
        self._lab.cri.remove_image(self._image)

        def is_quiet() -> bool:
            before = time.monotonic()
            time.sleep(0.3)
            return self._uplink.carried(before, time.monotonic()) == 0

        wait_until(is_quiet, 60, "end of the preload")
