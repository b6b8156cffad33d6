# SPDX-License-Identifier: Apache-2.0
"""Proves that the agents of the nodes that a set selects hold its images, without a controller: real API server, runtime and
registry, and several agents, each with a NodeImage of its own.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from fake import api_faults
from fake import registry as fakes
from lab import clock, documents, sanitizers
from lab.documents import split_reference
from lab.image import build_image
from lab.kubeconfig import write_kubeconfig
from lab.layers import random_layer
from lab.node_image import ImageSet, NodeImage
from lab.trouble import problems
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS
SOON = 20 * SLOWLY

@pytest.fixture
def make_node_agent(start_agent, kube, runtime, kubeconfig, node_name) -> Iterator[Callable]:
    """make_node_agent({label: value}, …): an agent and the NodeImage of its node, which no controller makes here."""
    made: list[NodeImage] = []

    def make(labels: dict[str, str], endpoint: str | None = None, access: Path = kubeconfig):
        one = NodeImage(kube, f"{node_name}-{len(made)}")
        one.create(labels=labels)
        made.append(one)
        agent = start_agent(
            endpoint or runtime.endpoint, kubeconfig=access, node_name=one.name, flags=["--register-node"]
        )
        return agent, one

    yield make
    for one in made:
        one.delete()


def wait_gone(node: NodeImage, reference: str) -> None:
    wait_until(lambda: node.tag_status(reference) is None, SOON, lambda: f"end of {reference}: {node.status()}")


def relabel(node: NodeImage, **labels: str | None) -> None:
    node.kube.patch(node.path, {"metadata": {"labels": labels}})


def test_nodes_of_now_and_later(make_node_agent, image_set, runtime, push):
    """A node that the set selects has its images, also one that comes later; the others do not, and all ends with it."""
    image = push(tag="1")
    gpu, gpu_node = make_node_agent({"pool": "gpu"})
    _, cpu_node = make_node_agent({"pool": "cpu"})
    image_set.create_set("pool=gpu", image.reference)
    status = gpu_node.wait_status(image.reference, "Succeeded", SOON)
    name, tag = split_reference(image.reference)
    assert (status["tag"], status["imageID"]) == (tag, f"{name}@{image.image_id}")
    assert gpu_node.counts() == (1, 1, 0, 0, 0)
    assert f"set {image_set.name}" in gpu.ctl("images", "-o", "wide").stdout

    later, later_node = make_node_agent({"pool": "gpu", "zone": "b"})
    later_node.wait_status(image.reference, "Succeeded", SOON)
    second = push(tag="2")
    image_set.request(image.reference, second.reference)
    for node in (gpu_node, later_node):
        node.wait_status(second.reference, "Succeeded", SOON)
    assert cpu_node.tag_status(image.reference) is None

    image_set.delete()
    for node in (gpu_node, later_node):
        wait_gone(node, image.reference)
    assert runtime.image_id(image.reference) == image.image_id, "the image stays, as one of a NodeImage"


def test_other_owners(make_node_agent, image_set, push):
    """An image that the node's own NodeImage requests, too, has one status, and stays when one of them withdraws."""
    image = push(tag="1")
    agent, node = make_node_agent({})
    node.request(image.reference)
    image_set.create_set("", image.reference)
    wait_until(lambda: f"set {image_set.name}" in agent.ctl("images", "-o", "wide").stdout, SOON, "second owner")
    name, _ = split_reference(image.reference)
    node.wait_status(image.reference, "Succeeded", SOON)
    assert len(node.status()["imageStatuses"][name]["tags"]) == 1 and node.counts() == (1, 1, 0, 0, 0)
    node.request()
    wait_until(lambda: "NodeImage" not in agent.ctl("images", "-o", "wide").stdout, SOON, "end of the first owner")
    assert node.tag_status(image.reference)["phase"] == "Succeeded"
    image_set.delete()
    wait_gone(node, image.reference)


def test_removed_image(make_node_agent, image_set, runtime, push):
    """An image of a set that another client of the runtime removes is pulled again."""
    image = push(tag="1")
    _, node = make_node_agent({})
    image_set.create_set("", image.reference)
    node.wait_status(image.reference, "Succeeded", SOON)
    runtime.remove_image(image.reference)
    wait_until(lambda: runtime.image_id(image.reference) == image.image_id, SOON, "image once more")


def test_labels_change(make_node_agent, image_set, push):
    """By the labels of the NodeImage, which its maker keeps like those of the Node."""
    image = push(tag="1")
    _, node = make_node_agent({"pool": "cpu"})
    image_set.create_set("pool in (gpu, tpu)", image.reference)
    relabel(node, pool="tpu")
    node.wait_status(image.reference, "Succeeded", SOON)
    relabel(node, pool=None)
    wait_gone(node, image.reference)


def test_selector_changes_while_a_pull_runs(make_node_agent, image_set, image_name):
    """The node that is not selected any more ends its pull, and the one that is begins."""
    with fakes.FakeRegistry() as registry:
        image = registry.add(image_name, "1", build_image([random_layer(1000, 1)]))
        registry.on("blob", fakes.trickle(10))
        agent, node = make_node_agent({"pool": "a"})
        _, other = make_node_agent({"pool": "b"})
        image_set.create_set("pool=a", image.reference)
        node.wait_status(image.reference, "Pulling", SOON)
        registry.behave()
        image_set.select("pool=b")
        wait_gone(node, image.reference)
        assert image.reference not in agent.ctl("status").stdout
        other.wait_status(image.reference, "Succeeded", SOON)


def test_faulty_sets(make_node_agent, image_set, kube, push):
    """A selector that cannot be read selects no node, and doctor names it while it is there; a faulty tag fails alone."""
    good = push(tag="1")
    agent, node = make_node_agent({"pool": "gpu"})
    image_set.create_set("pool gpu", good.reference)
    wait_until(lambda: image_set.name in problems(agent), SOON, lambda: f"problem: {problems(agent)}")
    assert '"pool gpu" is no label selector' in problems(agent)[image_set.name]
    assert node.tag_status(good.reference) is None
    image_set.select("pool=gpu")
    node.wait_status(good.reference, "Succeeded", SOON)
    assert image_set.name not in problems(agent)
    image_set.select("pool gpu")
    wait_until(lambda: image_set.name in problems(agent), SOON, lambda: f"problem: {problems(agent)}")
    image_set.select(None)
    wait_until(lambda: image_set.name not in problems(agent), SOON, lambda: f"no problem: {problems(agent)}")


def test_agent_that_is_killed(make_node_agent, image_set, push):
    """It serves the set again when it is back, and withdraws what left the set meanwhile."""
    first, second = push(tag="1"), push(tag="2")
    agent, node = make_node_agent({})
    image_set.create_set("", first.reference, second.reference)
    for image in (first, second):
        node.wait_status(image.reference, "Succeeded", SOON)
    agent.kill9()
    image_set.request(second.reference)
    agent.start()
    wait_gone(node, first.reference)
    assert node.tag_status(second.reference)["phase"] == "Succeeded"


def test_restart_repeats_nothing(make_node_agent, image_set, image_name, push):
    """The next run pulls nothing again, and leaves the status as it is, while it learns of the sets."""
    with fakes.FakeRegistry() as registry:
        image = registry.add(image_name, "1", build_image([random_layer(1000, 1)]))
        agent, node = make_node_agent({})
        image_set.create_set("")
        image_set.request(image.reference, policy="Always")
        seen = node.wait_status(image.reference, "Succeeded", SOON)
        agent.wait_status(image.reference, "Succeeded")  # in its own file as well
        before = node.get()
        for _ in range(2):
            agent.kill9()
            agent.start()
        later = push(tag="later")
        image_set.request(image.reference, later.reference, policy="Always")
        for event in node.watch(since=before):
            assert documents.find_tag_status(event["object"], image.reference) == seen, event
            status = documents.find_tag_status(event["object"], later.reference)
            if status is not None and status["phase"] == "Succeeded":
                break
        asked = [one for one in registry.requests("manifest") if one.path.endswith("/1")]
        assert len(asked) == 1


def test_next_run_hears_of_the_sets_late(make_node_agent, image_set, control_plane, folder, api, push):
    """Until the server has shown the sets, the status keeps what they ask for."""
    token = control_plane.agent_token()
    access = write_kubeconfig(folder / "agent.conf", api.url, api.authority, token=token)
    agent, node = make_node_agent({}, access=access)
    missing, own = "127.0.0.1:1/none:1", push(tag="own")
    image_set.create_set("", missing)
    wait_until(lambda: node.tag_status(missing), SOON, "first status")
    before = node.get()
    agent.kill9()
    released = threading.Event()
    api.on("nodeimages.*labelSelector", api_faults.when(released))
    agent.start()
    node.request(own.reference)
    agent.wait_status(own.reference, "Succeeded")
    released.set()
    for event in node.watch(since=before):
        assert documents.find_tag_status(event["object"], missing) is not None, event
        status = documents.find_tag_status(event["object"], own.reference)
        if status is not None and status["phase"] == "Succeeded":
            break


def test_former_set_is_withdrawn(make_node_agent, image_set, kube, push):
    """The next run drops the images of a set that is gone, or does not select the node any more."""
    first, second = push(tag="1"), push(tag="2")
    agent, node = make_node_agent({"pool": "a"})
    other = ImageSet(kube, f"{image_set.name}-other")
    image_set.create_set("pool=a", first.reference)
    other.create_set("pool=a", second.reference)
    for image in (first, second):
        node.wait_status(image.reference, "Succeeded", SOON)
        agent.wait_status(image.reference, "Succeeded")
    agent.kill9()
    image_set.select("pool=b")
    other.delete()
    agent.start()
    for image in (first, second):
        wait_gone(node, image.reference)
        wait_until(lambda: image.reference not in agent.ctl("status").stdout, SOON, "end of the request")


def test_a_nodes_own_object_is_no_set(make_node_agent, kube, push):
    """A Node with that label makes no other node pull: its NodeImage has the label, too, but no selector."""
    image = push(tag="1")
    _, node = make_node_agent({"inplaced.io/set": "x"})
    _, other = make_node_agent({})
    node.request(image.reference)
    node.wait_status(image.reference, "Succeeded", SOON)
    settled = push(tag="settled")
    other.request(settled.reference)
    other.wait_status(settled.reference, "Succeeded", SOON)
    assert other.tag_status(image.reference) is None


# By the command


def listed(inplace) -> dict[str, dict[str, object]]:
    ran = inplace.run("preload", "--sets", "-o", "json")
    assert ran.code == 0, ran.stderr
    return {one["name"]: one for one in json.loads(ran.stdout)["items"]}


def test_the_command(make_node_agent, image_set, inplace, kube, push):
    """It makes a set, changes it, lists it and withdraws it; other commands do not take it for a node."""
    first, second = push(tag="1"), push(tag="2")
    name = image_set.name
    _, node = make_node_agent({"pool": name})
    _, other = make_node_agent({"pool": "cpu"})
    ran = inplace.run("preload", "--set", name, "-l", f"pool={name}", first.reference)
    assert (ran.code, ran.stdout) == (0, f"set {name} created\n"), ran.stderr
    node.wait_status(first.reference, "Succeeded", SOON)
    assert inplace.run("preload", "--set", name, first.reference).stdout == f"set {name} unchanged\n"
    ran = inplace.run("preload", "--set", name, first.reference, second.reference)
    assert ran.stdout == f"set {name} configured\n", ran.stderr
    node.wait_status(second.reference, "Succeeded", SOON)
    assert other.tag_status(first.reference) is None
    assert "parallelism" not in listed(inplace)[name]
    both = (first.reference, second.reference)
    assert inplace.run("preload", "--set", name, "--parallelism", "3", *both).stdout == f"set {name} configured\n"
    assert inplace.run("preload", "--set", name, *both).stdout == f"set {name} unchanged\n"
    assert listed(inplace)[name]["parallelism"] == 3
    assert inplace.run("preload", "--set", name, "--first", "2", *both).stdout == f"set {name} configured\n"
    assert (listed(inplace)[name]["parallelism"], listed(inplace)[name]["first"]) == (3, 2)
    row = next(line for line in inplace.run("preload", "--sets", "-o", "wide").stdout.splitlines() if name in line)
    assert row.split()[-2:] == ["3", "2"]
    assert inplace.run("preload", "--set", name, "--parallelism", "100%", *both).stdout == f"set {name} configured\n"
    found = listed(inplace)[name]
    assert "parallelism" not in found
    assert (found["selector"], found["nodes"], found["ready"], found["failed"]) == (f"pool={name}", 1, 1, 0)
    row = next(line for line in inplace.run("preload", "--sets").stdout.splitlines() if line.startswith(name))
    assert row.split() == [name, f"pool={name}", "2", "1", "1", "0"]

    bare = f"{name}-bare"  # as another client may leave it
    metadata = {"name": bare, "labels": {"inplaced.io/set": ""}, "annotations": {"inplaced.io/node-selector": "a=b"}}
    made = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage", "metadata": metadata}
    kube.create(made)
    try:
        assert listed(inplace)[bare]["images"] == {}
    finally:
        kube.delete(kube.path_of(made))

    assert name not in inplace.run("images").stdout
    third = push(tag="3")
    ran = inplace.run("preload", third.reference, "-o", "name", "--timeout", "60")
    assert name not in {line.rpartition("/")[2] for line in ran.stdout.splitlines()}, ran.stdout
    spec = image_set.find()["spec"]
    for way in ((), ("--withdraw",)):
        ran = inplace.run("preload", third.reference, "--nodes", name, *way)
        assert ran.code == (1 if way else 3), ran.stdout + ran.stderr
        assert way or f"NoNodeImage on node {name}" in ran.stdout, ran.stdout
        assert image_set.find()["spec"] == spec
    assert inplace.run("preload", "--set", name, "--withdraw").stdout == f"set {name} withdrawn\n"
    wait_gone(node, first.reference)
    assert image_set.find() is None


def test_time_of_the_server(image_set, inplace):
    """A set says when its images were requested, whatever the clock of the person's machine says."""
    image = ("preload", "--set", image_set.name, "-l", "pool=none", "registry.test/app:1")
    ran = inplace.run(*image, **clock.environment(clock.HOUR))
    assert ran.code == 0, ran.stderr
    made = image_set.find()
    (tag,) = made["spec"]["images"]["registry.test/app"]["tags"]
    created = [datetime.fromisoformat(text) for text in (made["metadata"]["creationTimestamp"], tag["createdAt"])]
    assert created[1] - created[0] < timedelta(minutes=30)


def test_what_the_command_refuses(make_node_agent, image_set, inplace, kube, push):
    image = push(tag="1")
    _, node = make_node_agent({})

    def refused(*arguments: str) -> str:
        ran = inplace.run("preload", *arguments)
        assert ran.code != 0 and ran.stdout == "" and ran.stderr.count("\n") == 1, ran
        return ran.stderr

    assert f"the NodeImage {node.name} is a node's" in refused("--set", node.name, image.reference)
    assert f"the NodeImage {node.name} is a node's" in refused("--set", node.name, "--withdraw")
    assert node.find() is not None
    assert "is no label selector" in refused("--set", image_set.name, "-l", "pool gpu", image.reference)
    assert image_set.find() is None
    assert f"there is no set {image_set.name}" in refused("--set", image_set.name, "--withdraw")
    assert "give neither --first nor" in refused("--set", image_set.name, "--withdraw", "--first", "3")
    assert "--nodes has no effect" in refused("--set", image_set.name, "--nodes", "a", image.reference)
    for number in ("10%", "1001"):
        told = refused("--set", image_set.name, "--parallelism", number, image.reference)
        assert "--parallelism is a number of nodes up to 1000" in told
    assert "--first is a number of nodes" in refused("--set", image_set.name, "--first", "1001", image.reference)
    assert "--first needs an image set" in refused("--first", "1", image.reference)
    assert "too few arguments" in refused("--set", image_set.name)
    assert "neither --set nor images" in refused("--sets", image.reference)
    ran = inplace.run("preload", "--set", image_set.name, image.reference, "--dry-run=server")
    assert ran.stdout == f"set {image_set.name} created (server dry run)\n" and image_set.find() is None
