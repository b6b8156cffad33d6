# SPDX-License-Identifier: Apache-2.0
"""Proves what becomes of the images of a NodeImage when something removes them from the runtime."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from fake import api_faults
from lab import sanitizers
from lab.kubeconfig import write_kubeconfig
from lab.node_image import NodeImage
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

_OURS = {"app.kubernetes.io/managed-by": "inplaced"}


def n_removed(agent) -> float:
    return agent.metrics().get_value("inplaced_images_removed_total")


def is_held(runtime, image) -> bool:
    return runtime.image_id(image.reference) == image.image_id


@pytest.fixture
def own_node_image(kube, node_name) -> Iterator[NodeImage]:
    """The NodeImage of a node for which no controller makes one."""
    made = NodeImage(kube, node_name)
    made.create(labels=_OURS)
    yield made
    made.delete()


@pytest.fixture
def served(cluster_agent, node_image, push):
    """An image that was pulled for a controller's NodeImage, and its status since."""
    image = push()
    node_image.request(image.reference)
    return image, node_image.wait_status(image.reference, "Succeeded")


def test_protocol_is_kept(cluster_agent, node_image, runtime, push, served):
    """The NodeImage says what was done, as its controllers expect; the node itself says Missing."""
    image, done = served
    runtime.untag(image.reference)
    status = cluster_agent.wait_status(image.reference, "Missing", 20 * SLOWLY)
    assert "only with keepImages" in status["message"] and "nextAttemptTime" not in status
    assert cluster_agent.metrics().get_value("inplaced_images_wanted", phase="missing") == 1
    assert "Missing" in cluster_agent.ctl("status").stdout
    other = push(tag="other")
    node_image.request(image.reference, other.reference)
    node_image.wait_status(other.reference, "Succeeded")
    assert node_image.tag_status(image.reference) == done
    assert n_removed(cluster_agent) == 1 and not is_held(runtime, image)


def test_images_are_kept(cluster_agent, node_image, runtime, served):
    """With keepImages it is pulled again, also if that is set later; the status stays as it is."""
    image, done = served
    runtime.untag(image.reference)
    cluster_agent.wait_status(image.reference, "Missing", 20 * SLOWLY)
    cluster_agent.reload({"keepImages": True})
    wait_until(lambda: is_held(runtime, image), 60 * SLOWLY, "image")
    cluster_agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)
    assert node_image.tag_status(image.reference) == done
    assert len(node_image.wait_events()) == 1


def test_own_node_image(start_agent, own_node_image, runtime, kubeconfig, node_name, push):
    """Where no controller owns the NodeImage, what it requests stays on the node."""
    image = push()
    agent = start_agent(runtime.endpoint, kubeconfig=kubeconfig, node_name=node_name)
    own_node_image.request(image.reference)
    done = own_node_image.wait_status(image.reference, "Succeeded")
    runtime.untag(image.reference)
    status = agent.wait_status(image.reference, "Missing", 20 * SLOWLY)
    assert "it is pulled again" in status["message"] and "keepImages" not in status["message"]
    wait_until(lambda: is_held(runtime, image), 60 * SLOWLY, "image")
    assert own_node_image.tag_status(image.reference) == done


def test_own_node_image_comes_late(control_plane, start_agent, own_node_image, runtime, folder, node_name, push, api):
    """An agent that starts without the API server learns later that the NodeImage is its own: the image comes back then."""
    image, answers = push(), threading.Event()
    path = write_kubeconfig(folder / "agent.conf", api.url, api.authority, token=control_plane.agent_token())
    agent = start_agent(runtime.endpoint, kubeconfig=path, node_name=node_name)
    own_node_image.request(image.reference)
    done = own_node_image.wait_status(image.reference, "Succeeded")
    agent.wait_status(image.reference, "Succeeded")
    agent.terminate()
    runtime.untag(image.reference)
    api.on("/nodeimages", api_faults.when(answers))
    agent.start()
    status = agent.wait_status(image.reference, "Missing", 20 * SLOWLY)
    assert "only with keepImages" in status["message"] and "nextAttemptTime" not in status
    answers.set()
    wait_until(lambda: is_held(runtime, image), 60 * SLOWLY, "image")
    agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)
    assert own_node_image.tag_status(image.reference) == done


@pytest.mark.parametrize("has_state", [True, False])
def test_restart_of_the_agent(cluster_agent, node_image, runtime, served, has_state):
    """An image that was removed while no agent ran is noticed at its start; the NodeImage stays as it is."""
    image, done = served
    cluster_agent.terminate()
    runtime.untag(image.reference)
    if not has_state:
        (cluster_agent.state_dir / "nodeimage.json").unlink()
    cluster_agent.start()
    cluster_agent.wait_status(image.reference, "Missing", 20 * SLOWLY)
    assert node_image.tag_status(image.reference) == done
    assert not is_held(runtime, image)
