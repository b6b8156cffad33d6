# SPDX-License-Identifier: Apache-2.0
"""Proves that the agent creates a NodeImage that no controller creates, maintains it, and leaves those
of other owners alone.
"""

from __future__ import annotations

import json

import pytest

from lab import sanitizers
from lab.documents import split_reference
from lab.node_image import NodeImage
from lab.trouble import problems
from lab.version import VERSION
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

OURS = {"app.kubernetes.io/managed-by": "inplaced"}
_ANNOTATIONS = {"inplaced.io/agent-version": VERSION}
_LABELS = {"kubernetes.io/hostname": "host", "disk": "ssd"}

# The agent waits so many seconds for a controller to create the object.
_GRACE_SECONDS = 5


@pytest.fixture
def node(kube, node_name):
    """A Node without a kubelet."""
    made = kube.create(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node_name, "labels": _LABELS}}
    )
    yield made
    kube.delete(kube.path_of(made))


@pytest.fixture
def object_of_node(kube, node_name):
    """The NodeImage, which need not be there."""
    found = NodeImage(kube, node_name)
    yield found
    found.delete()


@pytest.fixture
def make_registrar(make_agent, runtime, kubeconfig, node_name):
    """An agent that registers its node; not started."""
    return lambda: make_agent(
        runtime.endpoint,
        kubeconfig=kubeconfig,
        node_name=node_name,
        flags=["--register-node"],
    )


def wait_made(object_of_node) -> dict:
    return wait_until(
        object_of_node.find, (_GRACE_SECONDS + 10) * SLOWLY, f"NodeImage {object_of_node.name}"
    )


def test_makes_and_keeps_it(make_registrar, kube, node, object_of_node, push):
    """The object belongs to the Node and has its labels; the agent serves and tidies it as a controller."""
    agent = make_registrar()
    agent.start()
    made = wait_made(object_of_node)
    assert made["metadata"]["labels"] == {**_LABELS, **OURS}
    assert made["metadata"]["annotations"] == _ANNOTATIONS
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["name"], owner["uid"]) == (
        "v1",
        "Node",
        node["metadata"]["name"],
        node["metadata"]["uid"],
    )
    kept, gone = push(tag="kept"), push(tag="gone")
    name, _ = split_reference(kept.reference)
    tags = [
        {"tag": "gone", "pullPolicy": {"ttlSecondsAfterFinished": 0}},
        {"tag": "kept", "pullPolicy": {"ttlSecondsAfterFinished": 600}},
    ]
    object_of_node.set_spec({"images": {name: {"tags": tags}}})
    object_of_node.wait_status(kept.reference, "Succeeded")
    path = object_of_node.path
    spec = kube.wait_for(path, lambda made: len(made["spec"]["images"][name]["tags"]) == 1)["spec"]
    assert [tag["tag"] for tag in spec["images"][name]["tags"]] == ["kept"]
    kube.wait_for(path, lambda made: made["status"]["desired"] == 1)
    assert object_of_node.tag_status(gone.reference) is None
    assert problems(agent) == {}


def test_labels_are_mirrored_at_start(make_registrar, kube, node, object_of_node):
    object_of_node.create(labels={**OURS, "old": "gone"})
    path = kube.path_of(node)
    kube.patch(path, {"metadata": {"labels": {"disk": None, "zone": "a"}}})
    make_registrar().start()
    labels = {"kubernetes.io/hostname": "host", "zone": "a", **OURS}
    made = kube.wait_for(object_of_node.path, lambda made: made["metadata"]["labels"] == labels)
    assert made["metadata"]["annotations"] == _ANNOTATIONS


def test_version_is_written_once(make_registrar, kube, node, object_of_node, push):
    """After an update of the agent; not by a restart of the same one, nor into an object of a controller."""
    old = {"annotations": {"inplaced.io/agent-version": "0.0.9", "kept": "yes"}}
    object_of_node.create(labels={**_LABELS, **OURS})
    kube.patch(object_of_node.path, {"metadata": old})

    def said(agent) -> int:
        return len([line for line in agent.logs() if "version of its agent" in line["message"]])

    def run_agent(tag: str, is_expected: bool = False) -> int:
        """How often one says that it has written, which has pulled an image since."""
        agent = make_registrar()
        agent.start()
        image = push(tag=tag)
        object_of_node.request(image.reference)
        object_of_node.wait_status(image.reference, "Succeeded")
        if is_expected:
            wait_until(lambda: said(agent), 10 * SLOWLY, "line about the version")
        agent.terminate()
        return said(agent)

    assert run_agent("1", is_expected=True) == 1
    assert object_of_node.get()["metadata"]["annotations"] == {**_ANNOTATIONS, "kept": "yes"}
    assert run_agent("2") == 0
    changed = {"labels": {"app.kubernetes.io/managed-by": "x"}, **old}
    kube.patch(object_of_node.path, {"metadata": changed})
    assert run_agent("3") == 0
    assert object_of_node.get()["metadata"]["annotations"] == old["annotations"]


def test_is_made_again(make_registrar, node, object_of_node):
    """The agent creates the object again after a manual deletion."""
    object_of_node.create(labels=OURS)
    agent = make_registrar()
    agent.start()
    wait_until(object_of_node.status, 10 * SLOWLY, "status")
    uid = object_of_node.get()["metadata"]["uid"]
    object_of_node.delete()
    assert wait_made(object_of_node)["metadata"]["uid"] != uid


def test_waits_for_the_node(make_registrar, node_name, object_of_node, request):
    """Without a Node the agent creates no object, and reports that."""
    agent = make_registrar()
    agent.start()
    reported = wait_until(
        lambda: problems(agent).get("registration of the node"),
        (_GRACE_SECONDS + 10) * SLOWLY,
        lambda: f"problem, only {problems(agent)}",
    )
    assert node_name in reported
    assert object_of_node.find() is None
    request.getfixturevalue("node")
    wait_made(object_of_node)
    wait_until(lambda: problems(agent) == {}, 10 * SLOWLY, lambda: f"end of {problems(agent)}")


def test_others_are_left_alone(make_registrar, control_plane, kube, node, object_of_node, push):
    """An object without our label is a controller's: the agent writes only its status."""
    image = push()
    object_of_node.create(
        image.reference, labels={"theirs": "1"}, version=7, ttlSecondsAfterFinished=0
    )
    before = object_of_node.get()
    make_registrar().start()
    object_of_node.wait_status(image.reference, "Succeeded")
    other = push(tag="other")
    object_of_node.request(image.reference, other.reference, version=7, ttlSecondsAfterFinished=0)
    object_of_node.wait_status(other.reference, "Succeeded")
    after = object_of_node.get()
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert "ownerReferences" not in after["metadata"]
    name, _ = split_reference(image.reference)
    assert len(after["spec"]["images"][name]["tags"]) == 2

    def written() -> list[dict]:
        return [
            entry
            for entry in control_plane.audit()
            if entry["verb"] in ("create", "patch", "update")
            and entry.get("objectRef", {}).get("name") == object_of_node.name
        ]

    # The last write; the server logs what it has done.
    wait_until(
        lambda: any(other.image_id in json.dumps(entry["requestObject"]) for entry in written()),
        10 * SLOWLY,
        lambda: f"the write about it, only {written()}",
    )
    assert {entry["objectRef"].get("subresource") for entry in written()} == {"status"}
