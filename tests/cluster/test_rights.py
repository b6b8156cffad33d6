# SPDX-License-Identifier: Apache-2.0
"""Proves that the agent names a missing right once, and notices when it is granted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab import sanitizers
from lab.agent import Agent
from lab.documents import split_reference
from lab.node_image import NodeImage
from lab.trouble import complaints, problems, wait_logged
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

_RBAC = "rbac.authorization.k8s.io"

# The longest pause after a refusal, with its jitter; the agent retries a missing right each minute.
_RETRY = 18
_REST = 60

Grant = Callable[..., None]


@pytest.fixture
def account(kube, node_name) -> Iterator[str]:
    """A service account that may read what every agent reads, and no more."""
    kube.create(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": node_name, "namespace": "inplaced"},
        }
    )
    yield node_name
    kube.delete(f"/api/v1/namespaces/inplaced/serviceaccounts/{node_name}")


@pytest.fixture
def grant(kube, account) -> Iterator[Grant]:
    """grant(group, resource, verb…) to the account; returns when the server knows of it."""
    made = []

    def may(group: str, resource: str, verb: str) -> bool:
        resource, _, subresource = resource.partition("/")
        attributes = {
            "verb": verb,
            "group": group,
            "resource": resource,
            "subresource": subresource,
            "namespace": "default",
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "metadata": {"name": ""},
            "spec": {
                "user": f"system:serviceaccount:inplaced:{account}",
                "resourceAttributes": attributes,
            },
        }
        return kube.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"][
            "allowed"
        ]

    def grant(group: str, resource: str, *verbs: str) -> None:
        name = f"{account}-{len(made)}"
        about = {"apiVersion": f"{_RBAC}/v1", "metadata": {"name": name}}
        rule = {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
        role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name}
        subject = {"kind": "ServiceAccount", "name": account, "namespace": "inplaced"}
        made.append(kube.create({**about, "kind": "ClusterRole", "rules": [rule]}))
        made.append(
            kube.create(
                {**about, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]}
            )
        )
        for verb in verbs:
            wait_until(
                lambda verb=verb: may(group, resource, verb), 10, f"right to {verb} {resource}"
            )

    grant("apps.kruise.io", "nodeimages", "get", "list", "watch")
    grant("apps.kruise.io", "containerrecreaterequests", "get", "list", "watch")
    grant("apps.kruise.io", "nodepodprobes", "get", "list", "watch")
    grant("", "pods", "get", "list", "watch")
    yield grant
    for document in reversed(made):
        kube.delete(kube.path_of(document))


@pytest.fixture
def member_kubeconfig(control_plane, account, grant, folder) -> Path:
    token = control_plane.service_account_token("inplaced", account)
    return control_plane.write_kubeconfig(folder / "account.conf", token=token)


def count_logged(agent: Agent, text: str) -> int:
    return sum(text in line["message"] for line in agent.logs())


def test_right_to_write_the_status(
    start_agent, runtime, member_kubeconfig, grant, node_name, node_image, push
):
    """The agent logs the missing right once, and its grant once; then it writes the status."""
    agent = start_agent(runtime.endpoint, kubeconfig=member_kubeconfig, node_name=node_name)
    image = push()
    node_image.request(image.reference)
    wait_logged(agent, "Cannot write the status", 15)
    wait_until(
        lambda: "nodeimages/status" in problems(agent).get("status of the NodeImage", ""),
        10 * SLOWLY,
        lambda: f"problem, only {problems(agent)}",
    )
    assert node_image.status() == {}
    grant("apps.kruise.io", "nodeimages/status", "patch")
    node_image.wait_status(image.reference, "Succeeded", _RETRY * SLOWLY)
    wait_until(
        lambda: "status of the NodeImage" not in problems(agent),
        10 * SLOWLY,
        lambda: f"end of {problems(agent)}",
    )
    later = push(tag="later")
    node_image.request(later.reference)
    node_image.wait_status(later.reference, "Succeeded")
    assert len(complaints(agent, "Cannot write the status")) == 1
    assert count_logged(agent, "Writing the status works again") == 1


def test_right_to_write_events(
    start_agent, runtime, member_kubeconfig, grant, node_name, node_image, push
):
    """The agent drops events that are refused for long, logs that once, and writes the next ones."""
    grant("apps.kruise.io", "nodeimages/status", "patch")
    agent = start_agent(runtime.endpoint, kubeconfig=member_kubeconfig, node_name=node_name)
    first, second, third = (push(tag=str(number)).reference for number in range(3))
    node_image.request(first)
    wait_logged(agent, "Dropped the event", 15)
    node_image.request(first, second)
    node_image.wait_status(second, "Succeeded")
    grant("", "events", "create", "patch")
    node_image.request(first, second, third)

    def is_reported() -> bool:
        return any(third in event["message"] for event in node_image.events())

    wait_until(is_reported, _RETRY * SLOWLY, lambda: f"event, only {node_image.events()}")
    assert len(complaints(agent, "Dropped the event")) == 1


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_right_to_register(
    start_agent, runtime, kube, member_kubeconfig, grant, account, node_name, push
):
    """The agent retries each minute without another log line."""
    made = NodeImage(kube, node_name)
    labels = {"kubernetes.io/hostname": "host"}
    node = kube.create(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node_name, "labels": labels}}
    )
    grant("", "nodes", "get")
    grant("apps.kruise.io", "nodeimages/status", "patch")
    agent = start_agent(
        runtime.endpoint,
        kubeconfig=member_kubeconfig,
        node_name=node_name,
        flags=["--register-node"],
    )
    try:
        wait_logged(agent, "the right to create nodeimages.apps.kruise.io is missing", 15)
        advice = "the rights of packaging/kubernetes/components/registration\n"
        wait_until(lambda: advice in agent.ctl("doctor").stdout, 10 * SLOWLY, "advice")
        grant("apps.kruise.io", "nodeimages", "create")
        wait_until(made.find, (_REST + 20) * SLOWLY, "NodeImage")

        # The agent needs another right for the object's labels and tags.
        image = push()
        name, tag = split_reference(image.reference)
        policy = {"ttlSecondsAfterFinished": 0}
        made.set_spec({"images": {name: {"tags": [{"tag": tag, "pullPolicy": policy}]}}})
        wait_logged(agent, "the right to patch nodeimages.apps.kruise.io is missing", 15)
        grant("apps.kruise.io", "nodeimages", "patch")
        wait_until(
            lambda: not made.get()["spec"].get("images"),
            (_REST + 20) * SLOWLY,
            lambda: f"end of the tag in {made.get()}",
        )
        wait_until(
            lambda: problems(agent) == {}, 10 * SLOWLY, lambda: f"end of {problems(agent)}"
        )
        for verb in ("create", "patch"):
            assert len(complaints(agent, f"the right to {verb} nodeimages")) == 1
    finally:
        made.delete()
        kube.delete(kube.path_of(node))
