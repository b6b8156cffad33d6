# SPDX-License-Identifier: Apache-2.0
"""Proves that a restart request reaches the pod of its namespace and name and no other one, whatever
UIDs its author writes into requests and pods.
"""

from __future__ import annotations

import json

import pytest

from lab import sanitizers
from lab.kubelet import is_ready
from lab.pod import Pod, container
from lab.recreate_request import PREFIX, RecreateRequest
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

pytestmark = [pytest.mark.containers, pytest.mark.timeout(120 * SLOWLY)]

_TENANT = "tenant-a"


@pytest.fixture(scope="module")
def tenant(kube):
    """A user who may create pods and requests in one namespace, and nothing else anywhere."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _TENANT}}
    kube.create(namespace)
    return _TENANT


@pytest.fixture
def victim(make_pod, tools):
    pod = make_pod(container("main", tools), namespace="kube-system", owner=False)
    return pod, pod.runtime_container("main").id


@pytest.fixture
def ask():
    """ask(request, …): created with more metadata, and deleted at the end."""
    made = []

    def create(request, **metadata):
        made.append(request)
        return request.create(**metadata)

    yield create
    for one in made:
        one.delete()


def labels_of(victim, **more):
    """The metadata of OpenKruise's webhook, but for another tenant's pod."""
    named = {"node-name": victim.node.name, "pod-uid": victim.uid, "active": "true"}
    return {f"{PREFIX}/{key}": value for key, value in named.items()} | more


def is_untouched(victim) -> bool:
    pod, container_id = victim
    newest = pod.runtime_container("main")
    return newest.id == container_id and pod.is_running("main") and pod.events("Killing") == []


def wait_inspected(request) -> None:
    """Waits until the agent has listed the container, or has ended the request."""

    def is_reported() -> bool:
        found = request.state("main")
        return (
            request.status().get("phase") == "Completed"
            or found.get("message") == "not found container on Node"
            or found.get("isKilled", False)
        )

    wait_until(is_reported, 30 * SLOWLY, lambda: f"report: {request.status()}")


@pytest.mark.parametrize("has_pod", [True, False], ids=["pod", "no-pod"])
@pytest.mark.parametrize("is_managed", [True, False], ids=["managed", "context"])
def test_the_uid_of_another_namespaces_pod(
    node_agent, tenant, victim, make_pod, tools, ask, is_managed, has_pod
):
    """A tenant's request has another tenant's UID in its label, with or without a pod of that name."""
    pod, container_id = victim
    own = Pod(pod.node, container("main", tools), name=pod.name, namespace=tenant, owner=False)
    if has_pod:
        own = make_pod(container("main", tools), name=pod.name, namespace=tenant, owner=False)
    request = RecreateRequest(own, "main")
    labels = labels_of(pod)
    if is_managed:
        labels["inplaced.io/managed"] = "true"
    else:
        context = {"containerID": f"containerd://{container_id}", "restartCount": 0}
        request.spec["containers"][0]["statusContext"] = context
    ask(request, labels=labels)
    wait_inspected(request)
    assert is_untouched(victim)
    assert pod.restarts() == {"main": 0}
    assert not request.state("main").get("isKilled")
    assert "containerStatusSnapshot" not in request.status()

    # A request in the pod's own namespace is still served.
    served = ask(RecreateRequest(pod, "main"))
    served.wait_phase("Completed")
    assert pod.restarts() == {"main": 1}


def test_the_uid_of_another_pod_of_the_namespace(node_agent, make_pod, tools, ask):
    """The agent uses the pod's name in the spec."""
    one, other = (make_pod(container("main", tools), owner=False) for _ in range(2))
    request = RecreateRequest(one, "main")
    ask(request, labels=labels_of(other, **{"inplaced.io/managed": "true"}))
    assert "gone" in request.wait_phase("Completed")["message"]
    assert one.restarts() == other.restarts() == {"main": 0}


@pytest.mark.parametrize("claims_node", [True, False], ids=["node-owns-it", "bare"])
def test_a_pod_that_claims_to_be_another_ones_mirror(
    node_agent, tenant, victim, tools, kube, ask, claims_node
):
    """A pod has the annotation that only the kubelet's copies of static pods have.

    The kubelet never runs such a pod and deletes it, which ends the request.
    """
    pod, _ = victim
    mirror = Pod(pod.node, container("main", tools), namespace=tenant, owner=False)
    metadata = mirror.document["metadata"]
    metadata["annotations"] = {"kubernetes.io/config.mirror": pod.uid}
    if claims_node:
        node = {"apiVersion": "v1", "kind": "Node", "name": pod.node.name, "controller": True}
        node["uid"] = kube.get(pod.node.path)["metadata"]["uid"]
        metadata["annotations"]["kubernetes.io/config.source"] = "file"
        metadata["ownerReferences"] = [node]
    # The request is older than the pod, so that the agent sees the pod before its deletion.
    request = ask(RecreateRequest(mirror, "main"))
    mirror.create()
    try:
        wait_inspected(request)
        assert is_untouched(victim)
        assert not request.state("main").get("isKilled")
    finally:
        mirror.delete()


def test_a_static_pod(make_node, start_agent, control_plane, folder, tools, kube, ask):
    """The agent restarts a static pod, whose UID in the runtime differs from the API's."""
    files = folder / "static"
    files.mkdir()
    node = make_node(config={"staticPodPath": str(files)})
    start_agent(
        node.runtime.endpoint,
        kubeconfig=control_plane.write_agent_kubeconfig(
            folder / "static.conf", node=node.name
        ),
        node_name=node.name,
        flags=[f"--kubelet-health-address={node.health_address}"],
    )
    pod = Pod(node, container("main", tools), name="static", owner=False)
    del pod.document["spec"]["nodeName"]
    (files / "static.json").write_text(json.dumps(pod.document))
    pod.name = f"static-{node.name}"
    pod.path = f"/api/v1/namespaces/default/pods/{pod.name}"
    kube.wait_for(pod.path, is_ready, 40 * SLOWLY)
    before = pod.container_id("main")
    request = ask(RecreateRequest(pod, "main"))
    request.wait_phase("Completed", 60 * SLOWLY)
    assert request.state("main")["phase"] == "Succeeded" and request.state("main")["isKilled"]
    assert pod.container_id("main") != before
