# SPDX-License-Identifier: Apache-2.0
"""Proves that an agent notices whether the API server limits it to its node, and changes nothing by that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab import sanitizers
from lab.agent import Agent
from lab.clients import MANIFESTS
from lab.control_plane import ControlPlane, read_documents
from lab.kube import Object
from lab.metrics import fetch_metrics
from lab.node_image import NodeImage
from lab.trouble import complaints, problems
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180 * SLOWLY)]

COMPONENTS = ("components/images-ready", "components/pull-slots")
_LIMITED = "inplaced_writes_limited"
_REQUESTS = "inplaced_api_server_requests_total"


@pytest.fixture
def control_plane(folder) -> Iterator[ControlPlane]:
    with ControlPlane(folder / "cp") as made:
        made.install()
        made.admin.delete(
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/lab-no-dry-runs"
        )
        yield made


def make_account(control_plane: ControlPlane, name: str) -> None:
    """With the rights of the agent and another name, which the policies do not know."""
    account = {"name": name, "namespace": "default"}
    admin = control_plane.admin
    admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    for folder in ("base", *COMPONENTS):
        for document in read_documents(MANIFESTS / folder / "rbac.yaml"):
            if "namespace" in document["metadata"]:
                document["metadata"]["namespace"] = "default"
            if document["kind"].endswith("Binding"):
                document["metadata"]["name"] += f"-{name}"
                document["subjects"] = [{"kind": "ServiceAccount", **account}]
            if document["kind"] in ("ClusterRoleBinding", "Role", "RoleBinding"):
                admin.create(document)


def make_node(control_plane: ControlPlane, name: str) -> list[str]:
    """A Node with a NodeImage and a pod; the paths of these two."""
    admin = control_plane.admin
    admin.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    NodeImage(admin, name).create()
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-of-{name}", "labels": {"app": "web"}},
        "spec": {"nodeName": name, "containers": [{"name": "main", "image": "none"}]},
    }
    made = admin.create(pod)
    return [admin.path_of(made), f"/apis/apps.kruise.io/v1beta1/nodeimages/{name}"]


def verdicts(agent: Agent) -> list[float] | None:
    """The verdicts on each kind; None: not all is known yet."""
    metrics = fetch_metrics(agent.metrics_address)
    try:
        return [metrics.get_value(_LIMITED, kind=kind) for kind in ("pods", "nodeimages", "nodes", "leases")]
    except KeyError:
        return None


def test_limits_are_checked(control_plane, start_agent, runtime, folder):
    """A minute after their start one agent finds that it is limited, and another one that it is not."""
    admin = control_plane.admin
    for component in COMPONENTS:
        control_plane.apply_files(*(MANIFESTS / component / name for name in ("rbac.yaml", "policy.yaml")))
    paths = [path for node in ("one", "two") for path in make_node(control_plane, node)]
    make_account(control_plane, "preloader")
    # Each in the namespace where it has the right to write Leases, so that a policy has to refuse that.
    accounts = (
        ("one", "inplaced", control_plane.agent_token("one")),
        ("two", "default", control_plane.service_account_token("default", "preloader", node="two")),
    )
    limited, free = (
        start_agent(
            runtime.endpoint,
            kubeconfig=control_plane.write_kubeconfig(folder / f"{node}.conf", token=token, namespace=namespace),
            node_name=node,
        )
        for node, namespace, token in accounts
    )
    for agent, expected in ((limited, [1] * 4), (free, [0] * 4)):
        wait_until(
            lambda agent=agent: verdicts(agent),
            90 * SLOWLY,
            lambda agent=agent: f"verdicts: {agent.log_text()}",
            0.5,
        )
        assert verdicts(agent) == expected

    assert "limits" not in problems(limited)
    assert complaints(limited, "must not") == []
    # The alert about missing rights is not for these refusals.
    assert fetch_metrics(limited.metrics_address).total(_REQUESTS, code="403") == 0
    said = "change labels of pods, and NodeImages of other nodes, and labels of its Node, and Leases of any name"
    assert said in problems(free)["limits"]
    assert complaints(free, "lets the agent change labels of pods") != []

    for verb, codes in (("patch", [200] * 3 + [403] * 3), ("create", [201, 403])):
        tried = [entry for entry in control_plane.audit(verb=verb) if "dryRun" in entry["requestURI"]]
        assert sorted(entry["responseStatus"]["code"] for entry in tried) == codes
    for _, namespace, _ in accounts:
        assert admin.list(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases") == []
    for path in paths:
        metadata = admin.get(path)["metadata"]
        assert "inplaced.io/write-check" not in metadata.get("labels", {})
        written_by = str(metadata.get("managedFields", []))
        assert "write-check" not in written_by
