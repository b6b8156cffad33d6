# SPDX-License-Identifier: Apache-2.0
"""Proves that deleting what users apply deletes no object of theirs, and that the page about it finds workloads that
need the agents.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lab.built import find_built
from lab.clients import MANIFESTS, run_client
from lab.control_plane import ControlPlane
from lab.kube import Object
from lab.stubs import REPOSITORY

_KRUISE = "apps.kruise.io/v1beta1"
_OVERLAYS = ("standalone", "openkruise", "k3s", "microk8s", "kubelet-identity", "updates")


def about(name: str, namespace: str | None = None) -> Object:
    return {"name": name} | ({"namespace": namespace} if namespace else {})


# Objects of the users; the namespace `monitoring` is theirs too.
_OBJECTS: list[Object] = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": about("monitoring")},
    {"apiVersion": "v1", "kind": "Namespace", "metadata": about("kruise-daemon-config")},
    {"apiVersion": "v1", "kind": "Secret", "metadata": about("hub", "inplaced")},
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about("graphs", "monitoring")},
    {"apiVersion": _KRUISE, "kind": "NodeImage", "metadata": about("one"), "spec": {"images": {}}},
    {
        "apiVersion": _KRUISE,
        "kind": "ContainerRecreateRequest",
        "metadata": about("restart", "default"),
        "spec": {"podName": "web-0", "containers": [{"name": "main"}]},
    },
    {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "NodePodProbe",
        "metadata": about("one"),
        "spec": {"podProbes": []},
    },
]


@pytest.fixture(scope="module")
def control_plane(session_folder) -> Iterator[ControlPlane]:
    with ControlPlane(session_folder / "removal") as made:
        for folder in ("namespace", "crds"):
            kubectl(made, "apply", "-k", MANIFESTS / folder)
        kubectl(made, "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
        for document in _OBJECTS:
            made.admin.create(document)
        yield made


def kubectl(control_plane: ControlPlane, *arguments: str | Path) -> str:
    return run_client("kubectl", *arguments, kubeconfig=control_plane.admin_kubeconfig)


def identities(control_plane: ControlPlane) -> list[str]:
    """An object that was deleted and made again is another one; one that is being deleted is none."""
    admin = control_plane.admin
    found = [(admin.find(admin.path_of(one)) or {}).get("metadata", {}) for one in _OBJECTS]
    return ["" if "deletionTimestamp" in one else one.get("uid", "") for one in found]


@pytest.mark.parametrize("namespace", [None, "monitoring"])
@pytest.mark.parametrize("overlay", _OVERLAYS)
def test_users_keep_their_objects(control_plane, folder, overlay, namespace):
    before = identities(control_plane)
    assert all(before)
    upwards = Path("../" * (len(folder.path.resolve().parts) - 1))
    kustomization: Object = {"resources": [f"{upwards}{MANIFESTS}/overlays/{overlay}"]}
    if namespace is not None:
        kustomization["namespace"] = namespace
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    applied = kubectl(control_plane, "apply", "-k", folder.path)
    assert "clusterrole" in applied
    deleted = kubectl(control_plane, "delete", "-k", folder.path)
    assert deleted.count("deleted") == len(applied.splitlines())
    assert identities(control_plane) == before


def workload(kind: str, name: str, *gates: str) -> Object:
    labels = {"app": name}
    pod = {"containers": [{"name": "main", "image": "x"}], "readinessGates": [{"conditionType": one} for one in gates]}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": about(name, "default"), "spec": spec}


def test_the_page_finds_the_readiness_gate(control_plane):
    """Pods with the gate are never ready without agents: the command lists each workload that has it, and no other."""
    workloads = [
        workload("Deployment", "alone", "inplaced.io/Ready"),
        workload("StatefulSet", "second", "example.org/other", "inplaced.io/Ready"),
        workload("DaemonSet", "first", "inplaced.io/Ready", "example.org/other"),
        workload("Deployment", "other", "example.org/other"),
        workload("DaemonSet", "none"),
    ]
    for one in workloads:
        control_plane.admin.create(one)
    page = (REPOSITORY / "docs" / "OPERATING.md").read_text()
    (command,) = [one for one in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "readinessGates" in one]
    environment = {
        "PATH": f"{find_built('clients')}:{os.environ['PATH']}",
        "KUBECONFIG": str(control_plane.admin_kubeconfig),
        "HOME": str(control_plane.folder),
    }
    argv = "bash", "-euc", command
    ran = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    found = [line.split()[:3] for line in ran.stdout.splitlines()]
    assert found == [
        ["Deployment", "default", "alone"],
        ["StatefulSet", "default", "second"],
        ["DaemonSet", "default", "first"],
    ]
