# SPDX-License-Identifier: Apache-2.0
"""How soon the agent reports the outcome of images to a cluster, and how much it says for that."""

from __future__ import annotations

import time
from itertools import cycle
from statistics import mean

from fake import behaviours
from fake.runtime import FakeRuntime
from lab.documents import has_succeeded, split_reference
from lab.node_image import NodeImage

from audit import Audit, size_of
from cluster import Cluster
from node import Node
from object_watch import ObjectWatch
from pulls import Rounds, Way
from table import Estimate, Limit, Row

# With as many pulls at a time as is the default, a crowd takes a minute. Pulls differ, so that
# they do not end all at once.
_CROWD = 200
_PARALLEL = 5
_IN_TURN = range(101, 111)
_PULL_SECONDS = [1.0, 2.0, 1.3, 1.75, 1.1, 1.9, 1.2, 1.6]


def measure_single(cluster: Cluster) -> list[Row]:
    """Images each of which is requested by itself, and for the first time.

    Beside the least that a program can do: a PATCH that requests the image, a PullImage call, a
    PATCH that reports it.
    """
    desired, by_hand = cluster.make_node_image("single"), cluster.make_node_image("by-hand")
    audit = Audit(cluster.control_plane, "single")
    n = 5 if cluster.node.quick else 20
    with cluster.make_agent("single"):
        watch = ObjectWatch(desired)
        ways: dict[str, Way] = {
            "agent": lambda reference: _time_agent(desired, watch, reference),
            "bare": lambda reference: _time_by_hand(by_hand, cluster.node, reference),
        }
        _run_rounds(cluster, ways, range(1))  # not counted
        cluster.be_quiet()
        audit.begin()
        rounds = _run_rounds(cluster, ways, range(1, n + 1))
        cluster.be_quiet()
        n_patches, n_events = len(audit.patches()), len(audit.events())
    return [
        Row(
            "cluster: 1 MB image, PATCH → Succeeded on a watch",
            rounds.median("agent") * 1e3,
            rounds.median("bare") * 1e3,
            "ms",
            Limit(60, "≤ 60 ms more", "excess"),
            ratio=rounds.ratio("agent"),
            excess=rounds.excess("agent").scale(1e3),
        ),
        Row("cluster: status patches per image", n_patches / n, None, "", Limit(2, "≤ 2")),
        Row("cluster: events per image", n_events / n, None, "", Limit(1, "≤ 1")),
    ]


def measure_in_turn(cluster: Cluster) -> list[Row]:
    """Requests images one after the other, each as soon as the one before is reported."""
    desired = cluster.make_node_image("in-turn")
    by_hand = cluster.make_node_image("in-turn-by-hand")
    with cluster.make_agent("in-turn"):
        watch = ObjectWatch(desired)
        ways: dict[str, Way] = {
            "agent": lambda reference: _time_agent(desired, watch, reference),
            "bare": lambda reference: _time_by_hand(by_hand, cluster.node, reference),
        }
        _run_rounds(cluster, ways, range(100, 101))  # not counted
        references = {way: [cluster.push_fresh(way, n) for n in _IN_TURN] for way in ways}
        cluster.be_quiet()
        # Ways do not take turns here: the agent would be given time to rest.
        rounds = Rounds({way: [ways[way](each) for each in references[way]] for way in ways})
    worst = {way: max(rounds.seconds[way]) for way in ways}
    name = f"cluster: {len(_IN_TURN)} images in turn, PATCH → Succeeded"
    limit = Limit(60, "≤ 60 ms more", "excess")
    return [
        Row(
            f"{name}, median",
            rounds.median("agent") * 1e3,
            rounds.median("bare") * 1e3,
            "ms",
            limit,
            excess=rounds.excess("agent").scale(1e3),
        ),
        Row(
            f"{name}, worst",
            worst["agent"] * 1e3,
            worst["bare"] * 1e3,
            "ms",
            limit,
            excess=Estimate((worst["agent"] - worst["bare"]) * 1e3),
        ),
    ]


def _run_rounds(cluster: Cluster, ways: dict[str, Way], numbers: range) -> Rounds:
    """Every way once per round, after a time of quiet, in an order that goes round."""
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    order = list(ways)
    for number in numbers:
        for way in order:
            reference = cluster.push_fresh(way, number)
            cluster.be_quiet()
            seconds[way].append(ways[way](reference))
        order.append(order.pop(0))
    return Rounds(seconds)


def _time_agent(node_image: NodeImage, watch: ObjectWatch, reference: str) -> float:
    """Seconds from the request to the state of the object that says that it succeeded."""
    n_seen = len(watch.seen)
    began = time.monotonic()
    node_image.request(reference)
    return watch.wait_for(lambda document: has_succeeded(document, reference), n_seen) - began


def _time_by_hand(node_image: NodeImage, node: Node, reference: str) -> float:
    name, tag = split_reference(reference)
    began = time.monotonic()
    node_image.request(reference)
    image_id = node.runtime.pull(reference).image_id
    status = {"tag": tag, "phase": "Succeeded", "progress": 100, "imageID": image_id}
    counts = {"desired": 1, "succeeded": 1, "failed": 0, "pulling": 0, "waiting": 0}
    node_image.patch_status({**counts, "imageStatuses": {name: {"tags": [status]}}})
    return time.monotonic() - began


def measure_crowd(cluster: Cluster) -> list[Row]:
    """Many images at once, and one more when they are there.

    The runtime is made up, since it is the reporting that is measured: it knows best when a pull
    ended, and leaves the processor to the others meanwhile.
    """
    n = 40 if cluster.node.quick else _CROWD
    references = [_reference(f"app-{number:03}") for number in range(n)]
    node_image = cluster.make_node_image("crowd")
    audit = Audit(cluster.control_plane, "crowd")
    with FakeRuntime(cluster.node.folder / "crowd") as runtime:
        for one, takes in zip(references, cycle(_PULL_SECONDS)):
            runtime.on("PullImage", behaviours.slow(takes), image=one)
        with cluster.make_agent("crowd", runtime.endpoint, max_parallel_pulls=_PARALLEL):
            watch = ObjectWatch(node_image)

            def take(*requested: str) -> float:
                """How long it takes until all are there, in quiet before and after."""
                cluster.be_quiet()
                audit.begin()
                began = time.monotonic()
                node_image.request(*requested)
                ended = watch.wait_for(
                    lambda document: all(has_succeeded(document, one) for one in requested)
                )
                cluster.be_quiet()
                return ended - began

            take(_reference("one-000"))
            alone = _largest_patch(audit, "one-000")
            seconds = take(*references)
            n_patches, n_events = len(audit.patches()), len(audit.events())
            ended_at = {call.image: call.ended_at or 0 for call in runtime.calls("PullImage")}
            age = max(_seen_at(watch, one) - ended_at[one] for one in references)
            take(*references, _reference("one-001"))
            among_others = _largest_patch(audit, "one-001")
    ideal = n * mean(_PULL_SECONDS) / _PARALLEL
    return [
        Row(f"cluster: {n} images, PATCH → all Succeeded", seconds, ideal, "s"),
        Row(f"cluster: {n} images, oldest status", age, None, "s", Limit(1, "≤ 1 s"), digits=2),
        Row(
            f"cluster: {n} images, status patches",
            n_patches / seconds,
            None,
            "/s",
            Limit(1, "< 1 /s"),
            digits=2,
        ),
        Row(f"cluster: {n} images, events per image", n_events / n, None, "", Limit(1, "≤ 1")),
        Row(
            f"cluster: largest patch of 1 image, {n} others",
            among_others,
            alone,
            "bytes",
            Limit(1.05, "≤ 5 % more", "ratio"),
            digits=0,
        ),
    ]


def _reference(name: str) -> str:
    return f"registry.test/bench/{name}:1.0"


def _largest_patch(audit: Audit, about: str) -> int:
    return max(size_of(patch) for patch in audit.patches(about))


def _seen_at(watch: ObjectWatch, reference: str) -> float:
    return watch.wait_for(lambda document: has_succeeded(document, reference), timeout=0)
