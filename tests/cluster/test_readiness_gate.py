# SPDX-License-Identifier: Apache-2.0
"""Proves that a pod with the readiness gate inplaced.io/Ready serves while its images are those that it
asks for: the node's agent opens the gate, and a program that updates the pod closes it before.
"""

from __future__ import annotations

import json

import pytest

from lab import sanitizers
from lab.control_plane import ControlPlane
from lab.kubelet import Kubelet, is_ready
from lab.node_image import NodeImage
from lab.pod import VERIFIED, Pod, condition, container, until_term
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

pytestmark = [pytest.mark.containers, pytest.mark.timeout(120 * SLOWLY)]

READY = "inplaced.io/Ready"
GATED = {"owner": False, "readinessGates": [{"conditionType": READY}]}


@pytest.fixture
def images(registry, node, image_name):
    """Pushes two images of the same name."""
    made = [
        registry.push_image(image_name, tag, busybox=True, labels={"test": image_name, "tag": tag})
        for tag in ("1", "2")
    ]
    yield made
    for one in made:
        node.runtime.remove_image(one.image_id)


def close_gate(pod, image: str, by: str = "a test") -> None:
    """As a program that is about to update the pod."""
    message = json.dumps({"by": by, "images": {"main": image}})
    closed = {"type": READY, "status": "False", "reason": "InPlaceUpdate", "message": message}
    pod.kube.patch(f"{pod.path}/status", {"status": {"conditions": [closed]}}, "strategic")


def wait_ready(pod, expected: bool) -> dict:
    return pod.wait(lambda state: is_ready(state) == expected, 30 * SLOWLY)


def test_opens_when_the_containers_run(make_pod, start_node_agent, tools, control_plane):
    """Also of a pod that is older than the agent; and of other pods it writes nothing."""
    gated = make_pod(container("main", tools), must_wait=False, **GATED)
    plain = make_pod(container("main", tools), owner=False)
    state = gated.wait(lambda pod: condition(pod, "ContainersReady").get("status") == "True")
    assert not is_ready(state) and condition(state, READY) == {}
    start_node_agent()
    state = wait_ready(gated, True)
    opened = condition(state, READY)
    assert (opened["status"], opened["reason"]) == ("True", "Started")
    assert opened["lastTransitionTime"]

    later = make_pod(container("main", tools), **GATED)
    assert condition(later.get(), READY)["reason"] == "Started"

    def patches(pod) -> int:
        return sum(
            entry.get("objectRef", {}).get("name") == pod.name
            and entry["user"]["username"].startswith("system:serviceaccount:inplaced:")
            for entry in control_plane.audit(verb="patch")
        )

    wait_until(lambda: patches(later) > 0, 10 * SLOWLY, "the server's log", 0.05)
    assert [patches(pod) for pod in (gated, later, plain)] == [1, 1, 0]


def test_stays_closed_until_the_new_image_runs(make_pod, node_agent, images):
    """From the moment it is closed, no state of the pod has it open with the old container in it."""
    first, second = (one.reference for one in images)
    # The old container takes its time to end.
    command = until_term("while [ ! -e /data/go ]; do sleep 0.1; done")
    more = {**GATED, "terminationGracePeriodSeconds": 60}
    pod = make_pod(container("main", first, command=command), **more)
    old = pod.container_id("main")
    close_gate(pod, second)
    version = wait_ready(pod, False)["metadata"]["resourceVersion"]

    pod.change(images={"main": second})
    pod.wait_condition(VERIFIED, "False", 20 * SLOWLY)
    pod.file("go").touch()
    query = {"fieldSelector": f"metadata.name={pod.name}", "resourceVersion": version}
    for event in pod.kube.watch("/api/v1/namespaces/default/pods", 60 * SLOWLY, **query):
        state = event["object"]
        gate = condition(state, READY)
        if gate["status"] == "True":
            break
        assert not is_ready(state)

    status = state["status"]["containerStatuses"][0]
    assert status["containerID"] != old and "running" in status["state"]
    assert status["image"].endswith(":2")
    assert gate["reason"] == "Updated" and condition(state, VERIFIED)["status"] == "True"
    wait_ready(pod, True)


def test_an_update_that_is_given_up(make_pod, node_agent, settle, images):
    """It is closed again, for the image that the pod has."""
    first, second = (one.reference for one in images)
    pod = make_pod(container("main", first), **GATED)
    close_gate(pod, second)
    wait_ready(pod, False)
    settle()
    assert pod.condition(READY)["status"] == "False"
    close_gate(pod, first, by="another one")
    assert pod.wait_condition(READY, "True", 10 * SLOWLY)["reason"] == "Updated"
    wait_ready(pod, True)
    assert pod.restarts() == {"main": 0}


def test_what_another_one_has_closed(make_pod, node_agent, settle, tools):
    pod = make_pod(container("main", tools), **GATED)
    pod.set_condition(READY, "False")
    wait_ready(pod, False)
    settle()
    assert pod.condition(READY)["status"] == "False"


def test_the_agent_is_started_again_meanwhile(make_pod, start_node_agent, images):
    """Closed while one agent ran, patched while there was none, opened by the next one."""
    first, second = (one.reference for one in images)
    agent = start_node_agent()
    pod = make_pod(container("main", first), **GATED)
    close_gate(pod, second)
    wait_ready(pod, False)
    agent.terminate()
    pod.change(images={"main": second})
    pod.wait_restarted("main", timeout=60 * SLOWLY)
    assert pod.condition(READY)["status"] == "False"
    agent.start()
    wait_ready(pod, True)
    assert pod.condition(READY)["reason"] == "Updated"


def test_two_tags_of_one_image(make_pod, start_node_agent, registry, node, image_name, tools):
    """The agent is started while the old container ends, which runs the image that the pod asks for."""
    first, second = (registry.push_image(image_name, tag, busybox=True) for tag in ("1", "2"))
    assert first.image_id == second.image_id
    agent = start_node_agent()
    command = until_term("while [ ! -e /data/go ]; do sleep 0.1; done")
    more = {**GATED, "terminationGracePeriodSeconds": 60}
    main = container("main", first.reference, command=command)
    # The second container shows what the kubelet hashes, since this runtime keeps no references.
    pod = make_pod(main, container("other", tools), **more)
    old = pod.container_id("main")
    node.runtime.pull(second.reference)
    close_gate(pod, second.reference)
    wait_ready(pod, False)
    agent.terminate()
    pod.change(images={"main": second.reference})
    agent.start()
    pod.wait_condition(VERIFIED, "True", 20 * SLOWLY)
    assert pod.condition(READY)["status"] == "False" and pod.container_id("main") == old
    pod.file("go").touch()
    wait_ready(pod, True)
    assert pod.condition(READY)["reason"] == "Updated" and pod.container_id("main") != old
    node.runtime.remove_image(first.image_id)


@pytest.mark.slow
def test_endpoints(folder, registry, start_agent, tools):
    """With the real controller: a service has the pod while its gate is open, and only then."""
    with ControlPlane(folder / "cp", controllers=True) as control_plane:
        control_plane.install()
        admin = control_plane.admin
        NodeImage(admin, "gated").create()
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        wait_until(lambda: admin.find(account), 30 * SLOWLY, "account of pods")
        with Kubelet(folder / "node", control_plane, registry, "gated") as node:
            service = {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "web"},
                "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
            }
            admin.create(service)
            pod = Pod(node, container("main", tools), labels={"app": "web"}, **GATED).create()

            def wait_endpoint(is_ready: bool) -> None:
                path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"

                def states() -> list[bool]:
                    label = "kubernetes.io/service-name=web"
                    slices = admin.list(path, labelSelector=label)
                    return [
                        one["conditions"]["ready"]
                        for found in slices
                        for one in found.get("endpoints") or []
                    ]

                wait_until(lambda: states() == [is_ready], 30 * SLOWLY, states, 0.1)

            wait_endpoint(False)
            pod.wait(lambda state: condition(state, "ContainersReady").get("status") == "True")
            start_agent(
                node.runtime.endpoint,
                kubeconfig=control_plane.write_agent_kubeconfig(folder / "a.conf", node="gated"),
                node_name="gated",
            )
            wait_endpoint(True)
            close_gate(pod, "no.such/image:1")
            wait_endpoint(False)
            close_gate(pod, tools)
            wait_endpoint(True)
