# SPDX-License-Identifier: Apache-2.0
"""Proves that a NodeImage can pin an image, and that a real kubelet keeps pinned images when its disk fills up."""

from __future__ import annotations

import pytest

from lab import collecting, sanitizers
from lab.containerd import Containerd
from lab.node_image import NodeImage
from lab.runtimes import NAME
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS


def is_pinned(runtime, image):
    found = runtime.image_status(image.reference)
    return found is not None and found.pinned


def test_annotation(start_agent, kubeconfig, node_image, folder, registry, image_name):
    """The API server would drop a member; without the annotation the pin is gone, and the image stays."""
    image = registry.push_image(image_name, "1", [1000])
    with Containerd(folder / "containerd", release="2") as containerd:
        agent = start_agent(containerd.endpoint, kubeconfig=kubeconfig, node_name=node_image.name)
        node_image.pin(image.reference)
        assert "message" not in node_image.wait_status(image.reference, "Succeeded", 20 * SLOWLY)
        wait_until(lambda: is_pinned(containerd, image), 15 * SLOWLY, "pin")
        agent.kill9()
        (agent.state_dir / "nodeimage.json").unlink()
        agent.start()
        wait_until(lambda: "is pulled" in agent.log_text() or agent.tag_status(image.reference), 20 * SLOWLY, "status")
        assert is_pinned(containerd, image) and "Unpinned" not in agent.log_text()
        node_image.request(image.reference)
        wait_until(lambda: not is_pinned(containerd, image), 15 * SLOWLY, "end of the pin")


@pytest.mark.skipif(NAME != "containerd-1.6", reason="other releases pin")
def test_message(cluster_agent, node_image, push):
    """The status says that the runtime does not report the pin, and that the image is there all the same."""
    image = push()
    node_image.pin(image.reference)
    node_image.wait_status(image.reference, "Succeeded", 20 * SLOWLY)
    message = lambda: node_image.tag_status(image.reference).get("message", "")  # noqa: E731
    wait_until(message, 20 * SLOWLY, "message")
    assert message().startswith("not pinned: containerd 1.6") and "update containerd" in message()


@pytest.mark.slow
@pytest.mark.containers
@pytest.mark.timeout(180 * SLOWLY)
def test_garbage_collection(control_plane, kube, registry, folder, start_agent, image_name):
    """The kubelet removes all images but the pinned ones while its disk is full, whatever happens to tags, containerd
    and itself. `tests/bench/run --only pins` has more rounds, and lets it remove the others in the end."""
    node = collecting.make_node(folder / "node", control_plane, registry, "collecting")
    with node:
        node.start()
        node_image = NodeImage(kube, node.name)
        node_image.create()
        path = control_plane.write_agent_kubeconfig(folder / "collecting.conf", node=node.name)
        agent = start_agent(node.runtime.endpoint, kubeconfig=path, node_name=node.name)
        collection = collecting.Collection(node, registry, agent, image_name, 20)
        first = collection.run_round(0)
        assert (first.lost, first.stayed) == ([], [])
        collection.disturb(0)
        collection.restart_kubelet()
        second = collection.run_round(1)
        assert (second.lost, second.stayed) == ([], [])
        assert collection.remove_pins() == []
        node_image.delete()
    kube.delete(node.path)
