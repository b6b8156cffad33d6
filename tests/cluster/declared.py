# SPDX-License-Identifier: Apache-2.0
"""The controller of updates in place that workloads declare, and such workloads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from rollouts import *  # noqa: F403
from lab.clients import MANIFESTS
from lab.inplace import Inplace
from lab.process import Child
from lab.wait import wait_until

UPDATE, HELD, STATUS = "inplaced.io/update", "inplaced.io/held", "inplaced.io/update-status"
POLICY = "inplaced-hold"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/inplaced-controller"
KINDS_OF_CONTROLLERS = ["deployment", "statefulset", "daemonset"]
ARGUMENTS = ("controller", "-A", "--policy", POLICY)
RUNS = 60 * SLOWLY


@pytest.fixture(scope="module")
def policy(cluster) -> None:
    cluster.kubectl("apply", "--server-side", "-f", MANIFESTS / "components/updates/policy.yaml")


@pytest.fixture
def robot(cluster, folder) -> Inplace:
    """The controller's command line, as a user of its own."""
    certificate = cluster.control_plane.authority.issue("robot", "/O=system:masters/CN=robot")
    path = cluster.control_plane.write_kubeconfig(folder / "robot.conf", certificate=certificate)
    return Inplace(path, folder)


@contextmanager
def leading(cluster, inplace: Inplace, *arguments: str, **environment: str) -> Iterator[Child]:
    """A controller that has bound its policy."""
    cluster.admin.delete(LEASE)
    with inplace.running(*ARGUMENTS, *arguments, **environment) as child:
        wait_until(lambda: is_bound(cluster) or child.poll() is not None, RUNS, "the binding", 0.05)
        assert child.poll() is None, child.communicate()
        wait_until(lambda: probe_policy(cluster), RUNS, "the policy in force", 0.1)
        yield child


@pytest.fixture
def controller(cluster, policy, robot) -> Iterator[Child]:
    with leading(cluster, robot) as child:
        yield child


def is_bound(cluster) -> bool:
    return any(one["metadata"]["name"] == POLICY for one in cluster.admin.list(BINDINGS))


def probe_policy(cluster) -> bool:
    """Whether the API server has taken notice of the binding: it does so a moment later."""
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    labels = {"app": "probe"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "a"}]}}
    probe = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "probe", "annotations": {UPDATE: "InPlaceIfPossible"}},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod},
    }
    if cluster.admin.find(f"{deployments}/probe") is None:
        cluster.admin.create(probe)
    changed = cluster.admin.patch(f"{deployments}/probe", set_template("b"), "strategic", dryRun="All")
    return changed["spec"].get("paused", False)


def annotations_of(workload: Workload) -> dict[str, str]:
    return workload.get()["metadata"].get("annotations", {})


def declare(workload: Workload, value: str = "InPlaceIfPossible") -> None:
    workload.patch({"metadata": {"annotations": {UPDATE: value}}})


def is_held(workload: Workload) -> bool:
    return HELD in annotations_of(workload)


def wait_updated(workload: Workload, image: str) -> None:
    """Until the workload runs the image and its own controller has it back."""

    def is_updated() -> bool:
        return not is_held(workload) and [image_of(pod) for pod in workload.ready()] == [image] * workload.n_pods

    wait_until(is_updated, RUNS, f"{workload.name} with {image}", 0.05)
    workload.assert_runs(image)
    assert STATUS not in annotations_of(workload)


def events(workload: Workload) -> list[str]:
    found = workload.kube.list("/api/v1/namespaces/default/events")
    return [one["reason"] for one in found if one["involvedObject"].get("name") == workload.app
            and one["reason"].startswith("InPlaceUpdate")]


def manifest(workload: Workload, image: str, **container: Any) -> str:
    """As a repository has it: without what servers add, and with a strategy of its own; `container`: more of main."""
    whole = workload.get()
    template = whole["spec"]["template"]
    kept = ("replicas", "selector", "serviceName", "minReadySeconds")
    spec = {key: whole["spec"][key] for key in kept if key in whole["spec"]}
    containers = [{**one, "image": image, **container} for one in template["spec"]["containers"]]
    spec["strategy" if workload.kind == "deployment" else "updateStrategy"] = {"type": "RollingUpdate"}
    return yaml.safe_dump({
        "apiVersion": "apps/v1",
        "kind": whole["kind"],
        "metadata": {"name": workload.app, "namespace": "default", "annotations": {UPDATE: "InPlaceIfPossible"}},
        "spec": {**spec, "template": {"metadata": {"labels": template["metadata"]["labels"]},
                                      "spec": {**template["spec"], "containers": containers}}},
    })


def write(folder, workload: Workload, image: str) -> str:
    path = folder / f"{workload.app}.yaml"
    path.write_text(manifest(workload, image))
    return str(path)


