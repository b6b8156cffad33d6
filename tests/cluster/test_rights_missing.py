# SPDX-License-Identifier: Apache-2.0
"""Proves that each right which our roles grant is needed, one by one: without it the agent names the missing
right, and continues all other work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab import sanitizers
from lab.agent import Agent
from lab.clients import MANIFESTS
from lab.control_plane import ControlPlane, read_documents
from lab.kube import Kube, Object
from lab.node_image import NodeImage
from lab.node_pod_probe import NodePodProbe, probe, probes_of
from lab.pod import OPT_IN, container, from_annotations
from lab.recreate_request import RecreateRequest
from lab.trouble import problems
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(120 * SLOWLY)]

_RBAC = "rbac.authorization.k8s.io"
_ACCOUNT = {"kind": "ServiceAccount", "name": "poor", "namespace": "inplaced"}
_FILES = (
    MANIFESTS / "base" / "rbac.yaml",
    MANIFESTS / "components" / "registration" / "rbac.yaml",
)

# Rights used too rarely to test here, and the reason.
_SELDOM = {
    ("nodeimages", "list"): "where the server does not stream lists",
    ("containerrecreaterequests", "list"): "the same",
    ("nodepodprobes", "list"): "the same",
    ("pods", "list"): "the same",
    ("nodeimages", "get"): "after a conflict that no watch explains",
    ("nodepodprobes", "get"): "the same",
    ("containerrecreaterequests", "get"): "at a start after a request has gone",
    ("events", "patch"): "for an event that happens again",
    ("leases", "get"): "where the kubelet has no health port; unknown counts as alive",
    ("nodeimages", "patch"): "see test_rights.py::test_right_to_register",
}


def read_rules() -> list[Object]:
    """The rules of all roles, one for each resource and verb."""
    documents = [document for path in _FILES for document in read_documents(path)]
    return [
        {"apiGroups": rule["apiGroups"], "resources": [resource], "verbs": [verb]}
        for document in documents
        for rule in document.get("rules", [])
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


def right_of(rule: Object) -> tuple[str, str]:
    return rule["resources"][0], rule["verbs"][0]


_RIGHTS = sorted({right_of(rule) for rule in read_rules()} - set(_SELDOM))


@pytest.fixture
def kubeconfig_without(
    kube: Kube, control_plane: ControlPlane, folder
) -> Iterator[Callable[[tuple[str, str]], Path]]:
    """kubeconfig_without((resource, verb)): of an account that has all rights but this one."""
    made: list[Object] = []

    def create(document: Object) -> None:
        made.append(kube.create(document))

    def make(right: tuple[str, str]) -> Path:
        account = {"name": _ACCOUNT["name"], "namespace": _ACCOUNT["namespace"]}
        create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        about = {"apiVersion": f"{_RBAC}/v1", "metadata": {"name": "poor"}}
        rules = [rule for rule in read_rules() if right_of(rule) != right]
        create({**about, "kind": "ClusterRole", "rules": rules})
        role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "poor"}
        create({**about, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [_ACCOUNT]})
        token = control_plane.service_account_token("inplaced", "poor")
        client = control_plane.client(token)
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        resource, _, subresource = right[0].partition("/")

        def may(verb: str, resource: str, group: str, subresource: str = "") -> bool:
            asked = {"verb": verb, "group": group, "resource": resource, "namespace": "default"}
            asked["subresource"] = subresource
            review = {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": asked},
            }
            return client.post(path, review)["status"]["allowed"]

        has_other = ("watch", "nodeimages") if right != ("nodeimages", "watch") else ("get", "nodeimages")
        wait_until(lambda: may(*has_other, "apps.kruise.io"), 10 * SLOWLY, "rights")
        for group in ("", "apps.kruise.io"):
            assert not may(right[1], resource, group, subresource)
        client.close()
        return control_plane.write_kubeconfig(folder / "poor.conf", token=token)

    yield make
    for document in reversed(made):
        kube.delete(kube.path_of(document))


def reports(agent: Agent, node_image: NodeImage, right: tuple[str, str]) -> bool:
    """Whether the log, doctor, or the status of an image has the server's refusal."""
    resource, verb = right
    words = f'cannot {verb} resource \\"{resource}\\"', f'cannot {verb} resource "{resource}"'
    found = node_image.find() or {}
    texts = [agent.log_text(), *problems(agent).values(), str(found.get("status", {}))]
    return any(word in text for word in words for text in texts)


@pytest.mark.parametrize("right", _RIGHTS, ids=lambda right: " ".join(reversed(right)))
def test_a_right_is_missing(
    right, kubeconfig_without, kube, node, start_node_agent, make_pod, tools, auth_registry,
    pull_secret, registry,
):
    resource, verb = right
    node_image = NodeImage(kube, node.name)
    is_start = resource == "nodes" or right == ("nodeimages", "create")
    if is_start:
        node_image.delete()
    pod = probes = None
    if resource in ("pods", "pods/status") or resource.startswith("containerrecreaterequests"):
        main = container("main", tools, env=from_annotations(COLOUR="colour"))
        pod = make_pod(main, annotations={OPT_IN: "true", "colour": "red"}, owner=False)
    if resource.startswith("nodepodprobes"):
        probed = make_pod(container("main", tools), owner=False)
        probes = NodePodProbe(kube, node.name)
        probes.request(probes_of(probed, probe("m#true", exec={"command": ["true"]})))
    agent = start_node_agent(kubeconfig=kubeconfig_without(right), flags=("--register-node",))
    request = None
    try:
        if pod is not None and resource.startswith("containerrecreaterequests"):
            request = RecreateRequest(pod, "main", keep_seconds=0).create()
        elif pod is not None:
            if verb == "get":
                pod.wait_meta()
            pod.change(annotations={"colour": "blue"})
        if resource == "secrets":
            secret = pull_secret(auth_registry)
            private = auth_registry.push_image("t/rights", "1", [1000]).reference
            node_image.request(private, secrets=[secret])
        elif not is_start and resource in ("nodeimages/status", "events"):
            number = str(_RIGHTS.index(right))
            node_image.request(registry.push_image("t/rights", number, [1000]).reference)
        wait_until(
            lambda: reports(agent, node_image, right),
            30 * SLOWLY,
            lambda: f"complaint; {problems(agent)}\n{agent.log_text()[-3000:]}",
            0.1,
        )
        local = registry.push_image("t/rights", "local", [1000]).reference
        assert agent.ctl("pull", local).returncode == 0
    finally:
        if request is not None:
            request.delete()
        if probes is not None:
            probes.delete()
        if is_start:
            node_image.delete()
            node_image.create()
        else:
            node_image.set_spec({"images": {}})


def test_the_seldom_ones_are_granted():
    """The roles grant each exception; otherwise it would not be one."""
    assert set(_SELDOM) <= {right_of(rule) for rule in read_rules()}
