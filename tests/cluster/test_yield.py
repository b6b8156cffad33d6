# SPDX-License-Identifier: Apache-2.0
"""Proves that pulls of the agent yield to those of the kubelet, on a real node with a slow registry."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from fake.registry import Behaviour, Connection, Line, Reply, Request
from lab import sanitizers
from lab.kubelet import is_ready
from lab.node_image import NodeImage
from lab.pod import container
from lab.pulls import Pulls
from lab.wait import stretch, wait_until

SLOWLY = sanitizers.SLOWNESS

_MEGABYTE = 1 << 20
_RATE = 2 * _MEGABYTE  # bytes per second of the node's line to the registry
_LATE = 1  # seconds after which a paused pull sends nothing any more: what is in sockets' buffers is fetched

pytestmark = pytest.mark.containers


def has_failed_to_pull(pod: dict) -> bool:
    statuses = pod.get("status", {}).get("containerStatuses", [])
    reasons = [status.get("state", {}).get("waiting", {}).get("reason") for status in statuses]
    return bool({"ErrImagePull", "ImagePullBackOff"} & set(reasons))


class SlowLine(Line):
    """It is slower on a busy machine, whose agent pauses later: all takes as many times longer."""

    def __init__(self) -> None:
        self.late = stretch(_LATE)
        super().__init__(_RATE * _LATE / self.late)


@pytest.fixture
def line(fake_registry) -> SlowLine:
    made = SlowLine()
    fake_registry.on("layer", made.behave)
    return made


@pytest.fixture
def preload(kube, node, line, add_image):
    """Two images of the NodeImage, which are being pulled once the agent runs."""
    images = [add_image(f"big-{n}", 3, 3, 3) for n in range(2)]
    node_image = NodeImage(kube, node.name)
    node_image.request(*(image.reference for image, _ in images))
    yield node_image, images
    node_image.set_spec({"images": {}})


def wait_under_way(line: Line, *names: str) -> None:
    wait_until(lambda: all(line.n_sent(name) > _MEGABYTE for name in names), 60 * SLOWLY, f"bytes of {names}")


def wait_done(node_image: NodeImage, images) -> None:
    for one, _ in images:
        assert "message" not in node_image.wait_status(one.reference, "Succeeded", 60 * SLOWLY)


def check_fetched_once(line: Line, images) -> None:
    """A pull that is cancelled loses what has not reached containerd's disk: less than a megabyte of each layer."""
    for one, name in images:
        assert line.n_sent(name) < one.size + 3 * _MEGABYTE, name


def check_paused(line, names, pod_name: str, began: float) -> float:
    """No bytes of these images were sent while the pod's image was; returns when the last byte of that was."""
    last = max(at for at, name, _ in line.sent if name == pod_name)
    for name in names:
        assert line.n_sent(name, began + line.late, last) == 0, (name, began, last)
    return last


def paused_seconds(agent) -> float:
    return agent.metrics().get_value("inplaced_pulls_paused_seconds_total")


@pytest.fixture
def blocked() -> Iterator[threading.Event]:
    """Set at the end, so that the kubelet, which pulls one image at a time, can pull those of later tests."""
    ended = threading.Event()
    yield ended
    ended.set()


def unless(ended: threading.Event) -> Behaviour:
    """Sends nothing of a layer, until it breaks the connection."""

    def behave(connection: Connection, request: Request, reply: Reply) -> None:
        connection.send_head(reply)
        ended.wait(300)
        connection.reset()

    return behave


def test_pod_comes_first(start_node_agent, make_pod, line, add_image, preload):
    """While a pod's image is pulled no bytes of the preload are; then it goes on where it was."""
    node_image, images = preload
    agent = start_node_agent()
    wait_under_way(line, *(name for _, name in images))
    image, pod_name = add_image("pod", 4)
    pod = make_pod(container("main", image.reference), must_wait=False)
    wait_until(lambda: line.n_sent(pod_name) > 0, 30 * SLOWLY, "pull of the pod's image")
    began = time.monotonic()

    for one, _ in images:
        status = node_image.wait_status(one.reference, "Waiting")
        assert status["message"].startswith(f"PodWaits: pod default/{pod.name} waits for its image; ")
    assert agent.ctl("status").stdout.count("PodWaits: ") == 2
    pod.wait(is_ready, 60 * SLOWLY)
    last = check_paused(line, (name for _, name in images), pod_name, began)
    assert last - began > line.late

    wait_done(node_image, images)
    check_fetched_once(line, images)
    assert paused_seconds(agent) > last - began - line.late


def test_person_waits_too(start_node_agent, make_pod, line, add_image):
    """A pull of `inplacectl pull` yields as well, and says why."""
    agent = start_node_agent()
    asked, name = add_image("asked", 8)
    with agent.start_ctl("pull", asked.reference) as pull:
        wait_under_way(line, name)
        image, _ = add_image("pod", 3)
        pod = make_pod(container("main", image.reference))
        errors = pull.communicate()[1]
    assert pull.returncode == 0
    assert f"waiting for a pod: PodWaits: pod default/{pod.name} waits for its image; " in errors


def test_same_image_goes_on(start_node_agent, make_pod, line, add_image, preload):
    """A pod may wait for an image that the agent is pulling: that pull goes on, with the pod beside it; the other pauses."""
    node_image, images = preload
    agent = start_node_agent()
    (first, first_name), (_, second_name) = images
    wait_under_way(line, first_name, second_name)
    pod = make_pod(container("main", first.reference), must_wait=False)
    with Pulls(agent) as pulls:
        pull = pulls.wait(first.reference, lambda pull: pull.pods)
    assert list(pull.pods) == [f"default/{pod.name}"] and pull.requested_by
    node_image.wait_status(images[1][0].reference, "Waiting")
    began = time.monotonic()
    pod.wait(is_ready, 60 * SLOWLY)
    check_paused(line, [second_name], first_name, began)
    wait_done(node_image, images)
    check_fetched_once(line, images)


def test_new_image_of_a_running_pod(start_node_agent, make_pod, line, add_image, preload, tools):
    """An image that was changed in place is pulled by the kubelet, too, though the container runs before."""
    node_image, images = preload
    start_node_agent()
    pod = make_pod(container("main", tools))
    wait_under_way(line, *(name for _, name in images))
    image, pod_name = add_image("pod", 4)
    pod.change(images={"main": image.reference})
    wait_until(lambda: line.n_sent(pod_name) > 0, 30 * SLOWLY, "pull of the pod's image")
    began = time.monotonic()
    pod.wait_restarted("main", 1, 60 * SLOWLY)
    check_paused(line, (name for _, name in images), pod_name, began)
    wait_done(node_image, images)


def test_restart_of_the_agent(start_node_agent, make_pod, line, add_image, preload):
    """An agent that dies during a pause pauses again, and fetches nothing twice."""
    node_image, images = preload
    agent = start_node_agent()
    wait_under_way(line, *(name for _, name in images))
    image, pod_name = add_image("pod", 8)
    pod = make_pod(container("main", image.reference), must_wait=False)
    for one, _ in images:
        node_image.wait_status(one.reference, "Waiting")
    agent.kill9()
    agent.start()
    began = time.monotonic()
    pod.wait(is_ready, 60 * SLOWLY)
    last = check_paused(line, (name for _, name in images), pod_name, began)
    assert last - began > line.late
    wait_done(node_image, images)
    check_fetched_once(line, images)


def test_pause_has_a_limit(start_node_agent, make_pod, line, add_image, preload, fake_registry, blocked):
    """Pulls continue though a pod waits for ever."""
    node_image, images = preload
    agent = start_node_agent(flags=(f"--yield-to-pods={round(stretch(2))}",))
    wait_under_way(line, *(name for _, name in images))
    image, pod_name = add_image("pod", 1)
    fake_registry.on("layer", unless(blocked), pod_name)
    make_pod(container("main", image.reference), must_wait=False)
    for one, _ in images:
        node_image.wait_status(one.reference, "Waiting")
    wait_done(node_image, images)
    assert 1.5 < paused_seconds(agent) < stretch(4 * SLOWLY)
    assert "the pause has reached its limit" in agent.log_text()


def test_is_switched_off(start_node_agent, make_pod, line, add_image, preload):
    """With 0 the preload and the pod share the line."""
    node_image, images = preload
    agent = start_node_agent(flags=("--yield-to-pods=0",))
    wait_under_way(line, *(name for _, name in images))
    image, _ = add_image("pod", 1)
    make_pod(container("main", image.reference))
    assert paused_seconds(agent) == 0
    wait_done(node_image, images)


def test_nothing_to_pull_pauses_nothing(start_node_agent, make_pod, line, add_image, preload, fake_registry):
    """A pod of an image that does not exist, and one that waits for a volume, leave the kubelet nothing to pull."""
    node_image, images = preload
    held, _ = add_image("held", 0.1)
    waiting = make_pod(
        container("main", held.reference), must_wait=False, volumes=[{"name": "data", "secret": {"secretName": "no"}}]
    )
    waiting.node.runtime.pull(held.reference)
    broken = make_pod(container("main", f"{fake_registry.host}/no/such:1"), must_wait=False)
    broken.wait(has_failed_to_pull, 60 * SLOWLY)
    agent = start_node_agent()
    wait_done(node_image, images)
    assert paused_seconds(agent) == 0
