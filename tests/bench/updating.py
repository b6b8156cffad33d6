# SPDX-License-Identifier: Apache-2.0
"""How long it takes until a new version is ready: in place, and as a new pod."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from statistics import median

from lab.kube import Object
from lab.kubelet import is_ready
from lab.pod import Pod

from node import Node
from object_watch import ObjectWatch
from pods import Pace, PodNode
from pulls import Rounds
from restarting import running_containers, stop_container
from table import Limit, Row

# In all 300 MB, in as many layers as are fetched side by side.
_LAYERS = [100 * 10**6] * 3

Way = Callable[[], float]


def measure(node: Node) -> list[Row]:
    with PodNode(node, scheduler=True) as lab:
        updates = _Updates(lab)
        metadata = updates.run_rounds(
            {
                "agent": updates.change_label,
                "stop": updates.stop_by_hand,
                "replace": lambda: updates.replace(updates.old),
            }
        )
        image = updates.run_rounds(
            {
                "agent": updates.change_image,
                "warm": lambda: updates.replace(updates.new, is_preloaded=True),
                "replace": lambda: updates.replace(updates.new),
            }
        )
    aim = Limit(0.2, "> 80 % less", "ratio")
    return [
        _row("metadata change → ready: in place, or a new pod", metadata, "replace"),
        _row("metadata change → ready: in place, or a bare StopContainer", metadata, "stop"),
        _row("300 MB image → ready: preloaded and in place, or a new pod", image, "replace", aim),
        _row("300 MB image → ready: the same, or a new pod, preloaded", image, "warm"),
        Row("300 MB image: the preload beforehand", median(updates.preloads), None, "s", digits=2),
    ]


class _Updates:
    """Every way takes a pod that is ready, and returns the seconds from what is asked for until the
    API server tells that the new version is ready.

    A new pod has another name and is asked for together with the end of the old one, so that it
    does not wait for that: nobody who replaces pods can be faster. Images are on a disk, and come
    from a registry on this machine: most are farther away.
    """

    def __init__(self, lab: PodNode) -> None:
        self.preloads: list[float] = []
        self.old = lab.push_version("old")
        layers = [size // 10 for size in _LAYERS] if lab.quick else _LAYERS
        self.new = lab.push_version("new", layers)
        self._lab = lab
        self._n_rounds = 1 if lab.quick else 4
        self._pace = Pace(lab)
        self._numbers = count(1)
        self._users: list[Pod] = []  # of the new image
        # By whether they take part: two of the ways need one that does, four one that does not.
        n = 1 + self._n_rounds
        self._pods = {
            True: [self._create(self.old, True) for _ in range(2 * n)],
            False: [self._create(self.old, False) for _ in range(4 * n)],
        }
        lab.wait_ready(self._pods[True] + self._pods[False])
        lab.wait_known(self._pods[True])
        self._watch = ObjectWatch(lab)

    def run_rounds(self, ways: dict[str, Way]) -> Rounds:
        """Every way once per round, in an order that goes round; the very first is not counted."""
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        order = list(ways)
        for number in range(-1, self._n_rounds):
            self._pace.begin_round()
            for way in order:
                taken = ways[way]()
                if number >= 0:
                    seconds[way].append(taken)
            order.append(order.pop(0))
        return Rounds(seconds)

    # The ways

    def change_label(self) -> float:
        pod = self._pods[True].pop()
        return self._time_in_place(pod, lambda: pod.change(labels={"round": "two"}))

    def stop_by_hand(self) -> float:
        pod = self._pods[False].pop()
        container_id = running_containers(self._lab.cri)[pod.uid]
        return self._time_in_place(pod, lambda: stop_container(self._lab.cri, container_id))

    def change_image(self) -> float:
        self._forget_image()
        self._preload()
        pod = self._pods[True].pop()
        self._users.append(pod)
        return self._time_in_place(pod, lambda: pod.change(images={"main": self.new}))

    def replace(self, image: str, is_preloaded: bool = False) -> float:
        if is_preloaded:
            self._lab.cri.pull(image)
        elif image == self.new:
            self._forget_image()
        pod = self._pods[False].pop()
        self._pace.wait_turn()
        began, n_seen = time.monotonic(), len(self._watch.seen)
        pod.delete(grace=None)
        replacement = self._create(image, takes_part=False)
        self._users += [replacement] if image == self.new else []

        def is_replaced(seen: Object) -> bool:
            return seen["metadata"]["name"] == replacement.name and is_ready(seen)

        return self._watch.wait_for(is_replaced, n_seen, timeout=60) - began

    # What they are made of

    def _time_in_place(self, pod: Pod, change: Callable[[], None]) -> float:
        before = pod.container_id("main")

        def is_changed(seen: Object) -> bool:
            if seen["metadata"]["name"] != pod.name or not is_ready(seen):
                return False
            status = seen["status"]["containerStatuses"][0]
            return status["ready"] and status["containerID"] != before

        self._pace.wait_turn()
        began, n_seen = time.monotonic(), len(self._watch.seen)
        change()
        return self._watch.wait_for(is_changed, n_seen, timeout=60) - began

    def _create(self, image: str, takes_part: bool) -> Pod:
        name = f"update-{next(self._numbers)}"
        make = self._lab.create_pod
        return make(name, image=image, takes_part=takes_part, must_schedule=True)

    def _preload(self) -> None:
        began = time.monotonic()
        pulled = self._lab.agent.ctl("pull", self.new)
        if pulled.returncode != 0:
            raise RuntimeError(f"{self.new} was not preloaded: {pulled.stderr}")
        self.preloads.append(time.monotonic() - began)

    def _forget_image(self) -> None:
        """Layers stay as long as there is a container that was made from them."""
        self._lab.delete_all(self._users)
        self._users.clear()
        self._lab.cri.remove_image(self.new)


def _row(name: str, rounds: Rounds, base: str, limit: Limit | None = None) -> Row:
    pair = Rounds({"agent": rounds.seconds["agent"], "bare": rounds.seconds[base]})
    return Row(
        name,
        pair.median("agent"),
        pair.median("bare"),
        "s",
        limit,
        ratio=pair.ratio("agent"),
        digits=2,
    )
