# SPDX-License-Identifier: Apache-2.0
"""Proves that the agent's pods come to clusters that admit pods with a priority class of the system only where a
quota says so. GKE configures its API servers in this way, and so does this one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lab import sanitizers
from lab.clients import HELMS, MANIFESTS, render, run_client
from lab.control_plane import ControlPlane
from lab.kube import Object
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

pytestmark = pytest.mark.timeout(180 * SLOWLY)

_LIMITED = {
    "resource": "pods",
    "matchScopes": [
        {
            "scopeName": "PriorityClass",
            "operator": "In",
            "values": ["system-node-critical", "system-cluster-critical"],
        }
    ],
}


@pytest.fixture(scope="module")
def control_plane(session_folder) -> Iterator[ControlPlane]:
    """With controllers, and a Node on which nothing runs."""
    folder = session_folder / "quota"
    folder.mkdir()
    quota = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "ResourceQuotaConfiguration",
        "limitedResources": [_LIMITED],
    }
    admission = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": "ResourceQuota", "configuration": quota}],
    }
    path = folder / "admission.json"
    path.write_text(json.dumps(admission))
    flags = [f"--admission-control-config-file={path}"]
    with ControlPlane(folder / "cp", controllers=True, apiserver_flags=flags) as made:
        metadata = {"name": "worker-1", "labels": {"kubernetes.io/os": "linux"}}
        made.admin.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        yield made


def pods(control_plane: ControlPlane, namespace: str) -> list[Object]:
    return control_plane.admin.list(f"/api/v1/namespaces/{namespace}/pods")


def refusals(control_plane: ControlPlane, namespace: str) -> list[str]:
    events = control_plane.admin.list(f"/api/v1/namespaces/{namespace}/events")
    return [event["message"] for event in events if event["reason"] == "FailedCreate"]


def apply(control_plane: ControlPlane, *arguments: str | Path) -> str:
    return run_client("kubectl", "apply", *arguments, kubeconfig=control_plane.admin_kubeconfig)


def test_without_a_quota(control_plane):
    """The server refuses every pod, with the words that users of GKE see; with the quota they come."""
    admin = control_plane.admin
    documents = yaml.safe_load_all(render(MANIFESTS / "overlays" / "standalone"))
    found = {document["kind"]: document for document in documents}
    admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bare"}})
    for kind in ("DaemonSet", "ResourceQuota"):
        found[kind]["metadata"]["namespace"] = "bare"
    found["DaemonSet"]["spec"]["template"]["spec"]["serviceAccountName"] = "default"
    admin.apply(found["DaemonSet"])
    (message, *_) = wait_until(lambda: refusals(control_plane, "bare"), 60 * SLOWLY, "refusal")
    print(message)
    assert "insufficient quota to match these scopes" in message and "system-node-critical" in message
    assert pods(control_plane, "bare") == []
    admin.apply(found["ResourceQuota"])
    wait_until(lambda: pods(control_plane, "bare"), 60 * SLOWLY, "pod")


@pytest.mark.parametrize("overlay", ["standalone", "openkruise"])
def test_with_our_manifests(control_plane, overlay):
    """The overlays bring what the pods need; applied again, nothing of them is changed."""
    for name in ("inplaced", "kruise-daemon-config"):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        control_plane.admin.apply(namespace)
    apply(control_plane, "-k", MANIFESTS / "overlays" / overlay)
    (pod,) = wait_until(lambda: pods(control_plane, "inplaced"), 60 * SLOWLY, "pod of the agent")
    assert pod["spec"]["priorityClassName"] == "system-node-critical"
    again = apply(control_plane, "-k", MANIFESTS / "overlays" / overlay).splitlines()
    print("\n".join(again))
    assert [line for line in again if not line.endswith(" unchanged")] == []


@pytest.mark.parametrize("helm", HELMS)
def test_with_the_chart(control_plane, helm):
    kubeconfig = control_plane.admin_kubeconfig
    secrets = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kruise-daemon-config"}}
    control_plane.admin.apply(secrets)
    before = ("delete", "--ignore-not-found", "-k", MANIFESTS / "overlays" / "openkruise")
    run_client("kubectl", *before, kubeconfig=kubeconfig)
    namespace = f"of-{helm}"
    options = ("--namespace", namespace, "--create-namespace", "--skip-crds", "--set", "openKruise=true")
    run_client(helm, "install", "inplaced", MANIFESTS / "chart", *options, kubeconfig=kubeconfig)
    wait_until(lambda: pods(control_plane, namespace), 60 * SLOWLY, "pod of the agent")
    run_client(helm, "uninstall", "inplaced", "--namespace", namespace, kubeconfig=kubeconfig)
