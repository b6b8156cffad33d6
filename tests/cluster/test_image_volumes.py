# SPDX-License-Identifier: Apache-2.0
"""Proves that images which pods mount as volumes count when the pods are updated in place, and says what runtimes make of
OCI artifacts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rollouts import *  # noqa: F403
from lab.image import Image, build_artifact, build_image
from lab.kubelet import Kubelet
from lab.layers import random_layer
from lab.node_image import NodeImage
from lab.pod import until_term

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(300 * SLOWLY)]


@pytest.fixture
def node(request, cluster, registry, folder) -> Iterator[Kubelet]:
    """A node whose runtime mounts images."""
    made = Kubelet(folder / "mounting", cluster.control_plane, registry, "mounting", runtime=request.param)
    try:
        made.start()
        yield made
    finally:
        made.close()
        cluster.admin.delete(made.path)


@pytest.fixture
def node_image(cluster, node, start_agent, folder) -> Iterator[NodeImage]:
    """The NodeImage of that node, and its agent."""
    cluster.control_plane.install()
    path = cluster.control_plane.write_agent_kubeconfig(folder / "mounting.conf", node=node.name)
    flags = [f"--kubelet-health-address={node.health_address}"]
    start_agent(node.runtime.endpoint, kubeconfig=path, node_name=node.name, flags=flags)
    made = NodeImage(cluster.admin, node.name)
    made.create()
    yield made
    made.delete()


def mounting(reference: str, image: str) -> dict[str, Any]:
    mounts = [{"name": "data", "mountPath": "/data"}]
    main = {"name": "main", "image": image, "command": until_term(), "volumeMounts": mounts}
    volume = {"name": "data", "image": {"reference": reference, "pullPolicy": "IfNotPresent"}}
    return {"nodeName": "mounting", "containers": [main], "volumes": [volume]}


# containerd 2 mounts an empty folder for an artifact, because it unpacks no blob of an unknown type.
@pytest.mark.parametrize(
    ("node", "content", "files"),
    [
        ("containerd-2", build_image([random_layer(1000, 7)]), "data"),
        ("crio", build_image([random_layer(1000, 7)]), "data"),
        ("crio", build_artifact(random_layer(1000, 8), "model.bin"), "model.bin"),
        ("containerd-2", build_artifact(random_layer(1000, 8), "model.bin"), ""),
    ],
    ids=["image-containerd", "image-crio", "artifact-crio", "artifact-containerd"],
    indirect=["node"],
)
def test_a_volume(cluster, make, inplace, registry, images, image_name, node_image, content: Image, files):
    """The image of a volume is pulled before the update, shown, and mounted again; it cannot change in a pod."""
    data = registry.push(image_name, "1", content).reference
    assert_done(inplace.run("preload", data, "--nodes=mounting"))
    workload = make("deployment", 1, pod=mounting(data, images[0]))
    name = workload.pods()[0]["metadata"]["name"]
    assert_done(inplace.run("preload", "--withdraw", data, "--nodes=mounting"))

    ran = assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}"))
    assert f"preloading {images[1]} and 1 more image on 1 node" in ran.stdout
    node_image.wait_status(data, "Succeeded")
    assert set(cluster.kubectl("exec", name, "--", "/bin/ls", "/data").split()) >= set(files.split())
    assert bool(cluster.kubectl("exec", name, "--", "/bin/ls", "/data")) == bool(files)

    short = data.rpartition("/")[2]
    (row,) = inplace.run("status", workload.name).stdout.splitlines()[1:]
    assert row.split()[1].endswith(f",{short}") and row.split()[2].endswith(",-")
    (item,) = json.loads(inplace.run("status", workload.name, "-o", "json").stdout)["items"]
    assert item["imageVolumes"] == [{"name": "data", "image": data}]

    ran = inplace.run("set", "image", workload.name, f"data={data}")
    assert ran.code == 1 and '"data" is a volume' in ran.stderr
    ran = assert_done(inplace.run("refresh", workload.name))
    assert "the images of volumes stay" in ran.stderr and "already up to date" in ran.stdout
    volumes = [{"name": "data", "image": {"reference": f"{data}2"}}]
    workload.patch({"spec": {"paused": True, "template": {"spec": {"volumes": volumes}}}})
    ran = inplace.run("rollout", workload.name)
    assert ran.code == 1 and "spec.volumes[0].image.reference" in ran.stderr


@pytest.mark.parametrize("node", ["crio"], indirect=True)
def test_a_volume_of_a_lost_container(cluster, make, inplace, registry, images, image_name, node_image):
    """The kubelet asks the registry for the image at each start: a container that would not come back is left alone."""
    data = registry.push(image_name, "1", build_image([random_layer(1000, 9)])).reference
    spec = mounting(data, images[0])
    spec["containers"][0]["restartPolicy"] = "Never"
    spec["volumes"][0]["image"]["pullPolicy"] = "Always"
    workload = make("deployment", 1, pod=spec)
    name = workload.pods()[0]["metadata"]["name"]

    ran = inplace.run("set", "image", workload.name, f"main={images[1]}")
    assert ran.code == 1, ran.stdout
    assert f'pod "{name}" would be lost if the image of volume data could not be pulled at once' in ran.stderr
    (pod,) = workload.pods()
    assert image_of(pod) == images[0] and is_ready(pod)
