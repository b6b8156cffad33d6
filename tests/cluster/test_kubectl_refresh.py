# SPDX-License-Identifier: Apache-2.0
"""Proves that `kubectl inplace refresh` brings workloads in place to what the registry has under their tags now, and to
that alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rollouts import *  # noqa: F403
from fake import api_faults
from lab.kubelet import Kubelet, is_ready
from lab.node_image import NodeImage
from lab.pod import until_term
from lab.registry import PushedImage, Registry

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(300 * SLOWLY)]

Push = Callable[..., PushedImage]


@pytest.fixture
def push(registry: Registry, image_name: str) -> Push:
    """push(content, tag): moves the tag to an image with that content."""

    def move(content: str, tag: str = "stable", to: Registry = registry) -> PushedImage:
        return to.push_image(image_name, tag, [1000], busybox=True, env={"CONTENT": f"{image_name} {content}"})

    return move


@pytest.fixture
def node_image(cluster, agent) -> Iterator[NodeImage]:
    made = NodeImage(cluster.admin, cluster.node.name)
    made.create()
    yield made
    made.delete()


def pinned(image: PushedImage) -> str:
    return f"{image.reference}@{image.manifest_digest}"


def running(workload: Workload, container: str = "main") -> set[str]:
    """The image IDs that the pods' kubelets report."""
    return {
        status["imageID"]
        for pod in workload.ready()
        for status in pod["status"]["containerStatuses"]
        if status["name"] == container
    }


def of(image: str, *others: Any) -> dict[str, Any]:
    main = {"name": "main", "image": image, "imagePullPolicy": "IfNotPresent", "command": until_term()}
    return {"containers": [main, *others]}


def state(workload: Workload) -> list[Any]:
    """All that the command could write; controllers, the kubelet and the agent write status."""
    return [
        workload.record(),
        *((one["metadata"]["generation"], one["spec"]) for one in (workload.get(), *workload.pods())),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_tag_that_moves(make, inplace, node_image, push, kind):
    """Pods stay and run what the registry has; the tag beside the digest is resolved again the next time, and the way
    back leads to the content before, not to the tag.
    """
    first = push("first")
    workload = make(kind, pod=of(first.reference))
    uids = workload.uids()
    assert running(workload) == {first.digest_reference}
    before = state(workload)
    ran = assert_done(inplace.run("refresh", workload.name))
    assert f"/{workload.app} already up to date" in ran.stdout
    assert state(workload) == before

    second = push("second")
    ran = assert_done(inplace.run("refresh", workload.name, "--dry-run", "-o", "json"))
    assert json.loads(ran.stdout)["outcome"] == "checked"
    assert state(workload) == before
    with none_replaced(workload):
        ran = assert_done(inplace.run("refresh", workload.name))
    assert f"main: {pinned(second)}\n" in ran.stdout
    assert running(workload) == {second.digest_reference}
    assert image_of(workload.get()["spec"]["template"]) == pinned(second)
    before = state(workload)
    ran = assert_done(inplace.run("refresh", workload.name, "-o", "json"))
    assert json.loads(ran.stdout)["outcome"] == "unchanged"
    assert state(workload) == before

    with none_replaced(workload):
        assert_done(inplace.run("rollout", workload.name, "--undo"))
    assert running(workload) == {first.digest_reference}
    third = push("third")
    assert_done(inplace.run("refresh", workload.name))
    assert running(workload) == {third.digest_reference} and workload.uids() == uids


def test_a_pod(cluster, inplace, node_image, push):
    """A pod without a controller is updated as well."""
    first = push("first")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone"}, "spec": of(first.reference)}
    path = cluster.admin.path_of(cluster.admin.create(pod))
    cluster.admin.wait_for(path, is_ready, 60 * SLOWLY)
    second = push("second")
    assert_done(inplace.run("refresh", "pod/alone"))
    (status,) = cluster.admin.get(path)["status"]["containerStatuses"]
    assert status["imageID"] == second.digest_reference
    assert_done(inplace.run("rollout", "pod/alone", "--undo"))
    (status,) = cluster.admin.get(path)["status"]["containerStatuses"]
    assert status["imageID"] == first.digest_reference
    cluster.admin.delete(path)


def test_two_containers(make, inplace, node_image, push):
    """A container whose image has a digest alone has nothing to resolve, and goes on."""
    first, fixed = push("first"), push("fixed", "other")
    side = {"name": "side", "image": fixed.digest_reference, "command": until_term()}
    workload = make("deployment", pod=of(first.reference, side))
    second = push("second")
    push("moved", "other")
    ran = assert_done(inplace.run("refresh", workload.name))
    assert "without a tag to resolve: side" in ran.stderr
    assert running(workload) == {second.digest_reference}
    assert running(workload, "side") == {fixed.digest_reference}
    starts = {
        status["name"]: status["restartCount"]
        for pod in workload.pods()
        for status in pod["status"]["containerStatuses"]
    }
    assert starts == {"main": 1, "side": 0}


def test_a_tag_that_moves_meanwhile(make, inplace, by_proxy, proxy, node_image, push):
    """All pods get what was resolved: the next refresh brings what came later."""
    first = push("first")
    workload = make("deployment", pod=of(first.reference))
    second = push("second")
    reached, released = hold_write(proxy, 1, api_faults.answer_when, "^PATCH .*/deployments/")
    with by_proxy.running("refresh", workload.name) as child:
        wait_until(lambda: reached.is_set() or child.poll() is not None, 60 * SLOWLY, "the write")
        third = push("third")
        released.set()
        output, errors = child.communicate(timeout=120 * SLOWLY)
    assert child.returncode == 0, output + errors
    assert running(workload) == {second.digest_reference}
    assert_done(inplace.run("refresh", workload.name))
    assert running(workload) == {third.digest_reference}


@pytest.mark.parametrize("way", ["on", "back"])
def test_an_interrupted_update(make, inplace, by_proxy, proxy, node_image, push, way):
    """The same command goes on, to what the tag is by then; --undo goes back to the content before in all pods."""
    first = push("first")
    workload = make("deployment", pod=of(first.reference))
    uids = workload.uids()
    push("second")
    reached = stop_after(proxy, 4, "^PATCH .*/(deployments|pods)/")
    with by_proxy.start("refresh", workload.name) as child:
        wait_until(reached.is_set, 60 * SLOWLY, "the write")
        child.kill()
    proxy.behave()
    if way == "on":
        expected = push("third")
        assert_done(inplace.run("refresh", workload.name))
    else:
        expected = first
        assert_done(inplace.run("rollout", workload.name, "--undo"))
    assert running(workload) == {expected.digest_reference} and workload.uids() == uids
    assert {image_of(pod) for pod in workload.pods()} == {pinned(expected)}


def test_a_private_image(cluster, make, inplace, node_image, auth_registry, push):
    """The template's pull secret is the nodes' as well."""
    first = push("first", to=auth_registry)
    with pull_secret(cluster, auth_registry) as secret:
        workload = make("deployment", pod={**of(first.reference), "imagePullSecrets": [{"name": secret}]})
        second = push("second", to=auth_registry)
        assert_done(inplace.run("refresh", workload.name))
    assert running(workload) == {second.digest_reference}


def test_a_node_that_cannot_pull(make, inplace, node_image, registry, image_name, push):
    """Nothing is changed, with one line that says where and why."""
    first = push("first")
    workload = make("deployment", pod=of(first.reference))
    before = state(workload)
    registry.delete_image(image_name, first)
    ran = inplace.run("refresh", workload.name, timeout=120 * SLOWLY)
    assert ran.code == 1 and len(ran.stderr.splitlines()) == 1, ran.stderr
    assert "the tags cannot be resolved on 1 of 1 nodes: NotFound on node lab" in ran.stderr
    assert state(workload) == before


def test_a_node_without_an_agent(cluster, make, inplace, node_image, registry, folder, push):
    first = push("first")
    second_node = Kubelet(folder / "plain", cluster.control_plane, registry, "plain")
    try:
        second_node.start()
        apart = {"labelSelector": {"matchLabels": {"apart": "yes"}}, "topologyKey": "kubernetes.io/hostname"}
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
        workload = make("deployment", labels={"apart": "yes"}, pod={**of(first.reference), "affinity": affinity})
        before = state(workload)
        push("second")
        ran = inplace.run("refresh", workload.name, timeout=120 * SLOWLY)
        assert ran.code == 1 and "NoNodeImage on node plain: no agent has registered the node" in ran.stderr
        assert state(workload) == before
        workload.delete()
    finally:
        second_node.close()
        cluster.admin.delete(second_node.path)
