# SPDX-License-Identifier: Apache-2.0
"""Proves that a NodeImage can pin an image, and that a real kubelet keeps pinned images when its disk fills up."""

from __future__ import annotations

import pytest

from lab import disk, sanitizers
from lab.containerd import Containerd
from lab.documents import node_image as document
from lab.kubelet import Kubelet
from lab.node_image import NodeImage
from lab.runtimes import NAME
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS


def spec(*references, pin=True):
    made = document(references)["spec"]
    for image in made["images"].values():
        if pin:
            image["sandboxConfig"] = {"annotations": {"inplaced.io/pin": "true"}}
    return made


def is_pinned(runtime, image):
    found = runtime.image_status(image.reference)
    return found is not None and found.pinned


def test_annotation(start_agent, kubeconfig, node_image, folder, registry, image_name):
    """The API server would drop a member; without the annotation the pin is gone, and the image stays."""
    image = registry.push_image(image_name, "1", [1000])
    with Containerd(folder / "containerd", release="2") as containerd:
        agent = start_agent(containerd.endpoint, kubeconfig=kubeconfig, node_name=node_image.name)
        node_image.set_spec(spec(image.reference))
        assert "message" not in node_image.wait_status(image.reference, "Succeeded", 20 * SLOWLY)
        wait_until(lambda: is_pinned(containerd, image), 15 * SLOWLY, "pin")
        agent.kill9()
        (agent.state_dir / "nodeimage.json").unlink()
        agent.start()
        wait_until(lambda: "is pulled" in agent.log_text() or agent.tag_status(image.reference), 20 * SLOWLY, "status")
        assert is_pinned(containerd, image) and "Unpinned" not in agent.log_text()
        node_image.set_spec(spec(image.reference, pin=False))
        wait_until(lambda: not is_pinned(containerd, image), 15 * SLOWLY, "end of the pin")


@pytest.mark.skipif(NAME != "containerd-1.6", reason="other releases pin")
def test_message(cluster_agent, node_image, push):
    """The status says that the runtime does not report the pin, and that the image is there all the same."""
    image = push()
    node_image.set_spec(spec(image.reference))
    node_image.wait_status(image.reference, "Succeeded", 20 * SLOWLY)
    message = lambda: node_image.tag_status(image.reference).get("message", "")  # noqa: E731
    wait_until(message, 20 * SLOWLY, "message")
    assert message().startswith("not pinned: containerd 1.6") and "update containerd" in message()


@pytest.mark.slow
@pytest.mark.containers
@pytest.mark.timeout(120 * SLOWLY)
def test_garbage_collection(control_plane, kube, registry, folder, start_agent, image_name):
    """The kubelet removes one image after the other while its disk is full, also at its next start, but no pinned one."""
    config = {
        "evictionHard": {"memory.available": "10Mi", "imagefs.available": "64Mi"},
        "evictionPressureTransitionPeriod": "1s",
        "imageMinimumGCAge": "1s",
        "imageMaximumGCAge": "2s",
    }
    node = Kubelet(
        folder / "node", control_plane, registry, "collecting", config=config, runtime="containerd-2", root_megabytes=200
    )
    with node:
        node.start()
        path = control_plane.write_agent_kubeconfig(folder / "collecting.conf", node=node.name)
        start_agent(node.runtime.endpoint, kubeconfig=path, node_name=node.name)
        node_image = NodeImage(kube, node.name)
        node_image.create()
        kept = registry.push_image(image_name, "kept", [1 << 20])
        node_image.set_spec(spec(kept.reference))
        wait_until(lambda: is_pinned(node.runtime, kept), 30 * SLOWLY, "pin")
        filler = disk.fill(node.runtime, 32 << 20)
        for number in range(2):
            other = registry.push_image(image_name, f"other-{number}", [1 << 20], seed=number + 1)
            node.runtime.pull(other.reference)
            if number == 1:
                node.kubelet.stop()
                node.kubelet.start()
            gone = lambda: node.runtime.image_status(other.reference) is None  # noqa: B023, E731
            wait_until(gone, 60 * SLOWLY, f"removal of {other.reference}", 0.1)
            assert is_pinned(node.runtime, kept)
        filler.unlink()
        node_image.delete()
    kube.delete(node.path)
