# SPDX-License-Identifier: Apache-2.0
"""Proves what the kubelet's verification of pull credentials (KEP-2535) does with private images that the agent preloaded."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from lab import sanitizers
from lab.kubelet import is_ready
from lab.node_image import NodeImage
from lab.pod import Pod, container

SLOWLY = sanitizers.SLOWNESS

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(240 * SLOWLY)]

_REFUSED = ("ErrImagePull", "ImagePullBackOff")


@pytest.fixture
def start(make_node, start_agent, control_plane, kube, auth_registry, pull_secret, folder, inplace):
    """start(policy, said): a node whose agent has preloaded a private image, and about which `kubectl inplace doctor` says
    that; returns a function that creates pods of it.
    """
    pods: list[Pod] = []
    image = auth_registry.push_image("t/private", "1", [1000], busybox=True)
    secret = pull_secret(auth_registry, "default")

    def begin(policy: str | None, said: str) -> Callable[..., Pod]:
        gates = {"featureGates": {"KubeletEnsureSecretPulledImages": True}}
        own = {"imagePullCredentialsVerificationPolicy": policy} if policy else {}
        node = make_node(config={**gates, **own})
        node_image = NodeImage(kube, node.name)
        node_image.create()
        node_image.request(image.reference, secrets=[pull_secret(auth_registry)])
        kubeconfig = control_plane.write_agent_kubeconfig(folder / "agent.conf", node=node.name)
        start_agent(node.runtime.endpoint, kubeconfig=kubeconfig, node_name=node.name)
        node_image.wait_status(image.reference, "Succeeded")
        assert re.search(rf"(?m)^preloaded private images +{re.escape(said)}: ", inplace.run("doctor").stdout)

        def create(has_secret: bool, policy: str = "IfNotPresent") -> Pod:
            secrets = {"imagePullSecrets": [{"name": secret["name"]}]} if has_secret else {}
            main = {**container("main", image.reference), "imagePullPolicy": policy}
            pods.append(Pod(node, main, owner=False, **secrets))
            return pods[-1].create()

        return create

    yield begin
    for pod in pods:
        pod.delete()


def wait_reason(pod: Pod, *reasons: str) -> None:
    def is_waiting(document: dict) -> bool:
        statuses = document["status"].get("containerStatuses", [])
        return any(one["state"].get("waiting", {}).get("reason") in reasons for one in statuses)

    pod.wait(is_waiting, 30 * SLOWLY)


def pulls(pod: Pod) -> int:
    return len(pod.events("Pulling", from_kubelet=True))


def test_preloaded_images_are_not_verified(start):
    """The kubelet's default: it did not pull the image itself, so pods without credentials may run it."""
    create = start(None, "any pod may run them")
    for policy in "IfNotPresent", "Never":
        pod = create(has_secret=False, policy=policy)
        pod.wait(is_ready, 30 * SLOWLY)
        assert pulls(pod) == 0


def test_a_user_who_may_not_ask_kubelets(start, kube, inplace):
    """doctor names the right, and this is no problem."""
    rules = [{"apiGroups": ["", "apps.kruise.io"], "resources": ["nodes", "nodeimages", "pods"], "verbs": ["list"]}]
    rbac, name = "rbac.authorization.k8s.io", {"name": "lists-nodes"}
    subject = {"apiGroup": rbac, "kind": "User", "name": "jane"}
    kube.apply({"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": name, "rules": rules})
    kube.apply({"apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding", "metadata": name, "subjects": [subject],
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", **name}})
    start(None, "any pod may run them")
    said = inplace.run("doctor", "--as=jane").stdout
    assert re.search(r'(?m)^preloaded private images +.*cannot get resource "nodes/proxy"', said), said


def test_all_images_are_verified(start):
    """A pod without the credentials is refused, and one that may not pull, until the kubelet has verified the image."""
    create = start("AlwaysVerify", "a pod needs pull credentials of its own (AlwaysVerify)")
    wait_reason(create(has_secret=False), *_REFUSED)
    wait_reason(create(has_secret=True, policy="Never"), "ErrImageNeverPull")
    pod = create(has_secret=True)
    pod.wait(is_ready, 30 * SLOWLY)
    assert pulls(pod) == 1
    for policy in "IfNotPresent", "Never":
        pod = create(has_secret=True, policy=policy)
        pod.wait(is_ready, 30 * SLOWLY)
        assert pulls(pod) == 0
    wait_reason(create(has_secret=False), *_REFUSED)
