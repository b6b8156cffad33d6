# SPDX-License-Identifier: Apache-2.0
"""How long it takes until a new version is ready: in place, and as a new pod."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import count
from statistics import median

from lab.kube import Object
from lab.kubelet import is_ready
from lab.pod import GATE, META, Pod, container, expected_meta, from_labels

from node import Node
from object_watch import ObjectWatch
from pods import Pace, PodNode
from pulls import Rounds
from restarting import running_containers, stop_container
from table import Limit, Row

# In all 300 MB, in as many layers as are fetched side by side.
_LAYERS = [100 * 10**6] * 3

# A readiness gate that the agent does not know.
_OTHER_GATE = "example.org/Updated"

Way = Callable[[], float]


def measure(node: Node) -> list[Row]:
    with PodNode(node, scheduler=True) as lab:
        managed, reported = _Managed(lab).run_rounds()
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
        _managed_row("metadata change by OpenKruise: gate shut → new container seen", reported),
        _managed_row("metadata change by OpenKruise: gate shut → ready again", managed),
        _row("metadata change → ready: in place, or a new pod", metadata, "replace"),
        _row("metadata change → ready: in place, or a bare StopContainer", metadata, "stop"),
        _row("300 MB image → ready: preloaded and in place, or a new pod", image, "replace", aim),
        _row("300 MB image → ready: the same, or a new pod, preloaded", image, "warm"),
        Row("300 MB image: the preload beforehand", median(updates.preloads), None, "s", digits=2),
    ]


class _Updates:
    """Every way takes a pod that is ready, and returns the seconds from what is asked for until the
    API server reports that the new version is ready.

    A new pod has another name and is asked for together with the end of the old one, so that it
    does not wait for that: no replacement of pods can be faster. Images are on a disk, and come
    from a registry on this machine: most are farther away.
    """

    def __init__(self, lab: PodNode) -> None:
        self.preloads: list[float] = []
        self.old = lab.push_version("old")
        layers = [size // 10 for size in _LAYERS] if lab.quick else _LAYERS
        self.new = lab.push_version("new", layers)
        self._lab = lab
        self._n_rounds = 2 if lab.quick else 4
        self._pace = Pace(lab)
        self._numbers = count(1)
        self._users: list[Pod] = []  # pods of the new image
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

    # Parts of the measurements

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


class _Managed:
    """The bench plays OpenKruise's manager: it shuts a pod's readiness gate, changes a label, and
    opens the gate once pod and annotation report the same container, with the new value.

    By hand, beside it, is what cannot be less: the gate of a pod that the agent has nothing to do
    with is shut, its label changed, its container stopped as soon as the kubelet has made the pod
    unready, and the gate opened as soon as the status reports another container. That is what is
    left of the kubelet's period when the container ends, and two periods more: for the status, and
    for the gate. It is a third one where the kubelet takes up the news of the container that it has
    started before that of the gate, and always where the pod's metadata is written in between.

    The new container is reported by annotation and condition, or by hand by the pod's status.
    """

    def __init__(self, lab: PodNode) -> None:
        self._lab = lab
        self._n_rounds = 2 if lab.quick else 12
        self._pace = Pace(lab)
        n = self._n_rounds + 1
        self._pods = {
            "agent": [self._create(f"managed-{i}", GATE, True) for i in range(n)],
            "bare": [self._create(f"unmanaged-{i}", _OTHER_GATE, False) for i in range(n)],
        }
        lab.wait_ready([pod for pods in self._pods.values() for pod in pods])
        lab.wait_known(self._pods["agent"])
        self._watch = ObjectWatch(lab)

    def run_rounds(self) -> tuple[Rounds, Rounds]:
        """Until it is ready, and until the new container is reported. In an order that goes round;
        the very first is not counted."""
        ready: dict[str, list[float]] = {"agent": [], "bare": []}
        reported: dict[str, list[float]] = {"agent": [], "bare": []}
        order = list(ready)
        for number in range(-1, self._n_rounds):
            self._pace.begin_round()
            for way in order:
                ready_after, reported_after = self._time(way, self._pods[way][number])
                if number >= 0:
                    ready[way].append(ready_after)
                    reported[way].append(reported_after)
            order.reverse()
        self._lab.delete_all([pod for pods in self._pods.values() for pod in pods])
        return Rounds(ready), Rounds(reported)

    def _create(self, name: str, gate: str, has_owner: bool) -> Pod:
        main = container("main", self._lab.image, env=from_labels(ROUND="round"), volumeMounts=[])
        pod = Pod(
            *(self._lab.kubelet, main),
            **dict(name=name, owner=has_owner, labels={"round": "one"}, volumes=[]),
            readinessGates=[{"conditionType": gate}],
        ).create()
        pod.set_condition(gate, "True")
        return pod

    def _time(self, way: str, pod: Pod) -> tuple[float, float]:
        gate = GATE if way == "agent" else _OTHER_GATE
        before = pod.container_id("main")
        container_id = running_containers(self._lab.cri)[pod.uid]
        self._pace.wait_turn()
        began, n_seen = time.monotonic(), len(self._watch.seen)
        pod.set_condition(gate, "False")
        pod.change(labels={"round": "two"})
        if way == "bare":
            self._wait(pod, lambda seen: not is_ready(seen), n_seen)
            stop_container(self._lab.cri, container_id)

        def is_complete(seen: Object) -> bool:
            status = seen["status"]["containerStatuses"][0]
            if status["containerID"] == before or "running" not in status["state"]:
                return False
            return way == "bare" or _meta_of(seen) == expected_meta(seen)

        def is_reported(seen: Object) -> bool:
            if way == "bare":
                return is_complete(seen)
            return [one["containerID"] for one in _meta_of(seen) or []] != [before]

        self._wait(pod, is_complete, n_seen)
        n_complete = len(self._watch.seen)
        pod.set_condition(gate, "True")
        ready_at = self._wait(pod, is_ready, n_complete)
        return ready_at - began, self._wait(pod, is_reported, n_seen) - began

    def _wait(self, pod: Pod, condition: Callable[[Object], bool], since: int) -> float:
        def is_so(seen: Object) -> bool:
            return seen["metadata"]["name"] == pod.name and condition(seen)

        return self._watch.wait_for(is_so, since, timeout=60)


def _meta_of(pod: Object) -> list[Object] | None:
    return json.loads(pod["metadata"]["annotations"].get(META, "{}")).get("containers")


def _managed_row(name: str, rounds: Rounds) -> Row:
    return Row(
        name,
        rounds.median("agent"),
        rounds.median("bare"),
        "s",
        ratio=rounds.ratio("agent"),
        excess=rounds.excess("agent"),
        digits=2,
    )


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
