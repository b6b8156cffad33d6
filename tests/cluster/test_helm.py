# SPDX-License-Identifier: Apache-2.0
"""Declared updates in place of workloads that Helm installs and upgrades."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from declared import *  # noqa: F403
from lab.clients import HELMS, run_client
from lab.wait import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(300 * SLOWLY)]

IMAGE = "{{ .Values.image }}"


class Release:
    """A release with workloads whose image is a value; `helm` is one of HELMS."""

    def __init__(self, cluster: Cluster, helm: str, folder: Path, workloads: list[Workload], image: str) -> None:
        self.workloads = workloads
        self._kubeconfig = cluster.control_plane.admin_kubeconfig
        self._helm = helm
        self._name = f"web-{workloads[0].app}"
        self._chart = folder / "chart"
        (self._chart / "templates").mkdir(parents=True)
        (self._chart / "Chart.yaml").write_text("apiVersion: v2\nname: web\nversion: 1.0.0\n")
        documents = "---\n".join(manifest(one, IMAGE) for one in workloads)
        (self._chart / "templates" / "workloads.yaml").write_text(documents)
        for one in workloads:
            one.delete()
        wait_until(lambda: not any(one.uids() for one in workloads), RUNS, "end of the first pods")
        self.run("install", self._name, self._chart, f"--set=image={image}", "--wait", "--timeout=60s")

    def run(self, *arguments: str | Path) -> str:
        return run_client(self._helm, *arguments, kubeconfig=self._kubeconfig)

    def upgrade(self, image: str, *flags: str) -> str:
        return self.run("upgrade", self._name, self._chart, f"--set=image={image}", "--timeout=120s", *flags)

    def rollback(self, *flags: str) -> str:
        return self.run("rollback", self._name, "--timeout=120s", *flags)

    def status(self) -> str:
        return json.loads(self.run("status", self._name, "--output=json"))["info"]["status"]

    def close(self) -> None:
        self.run("uninstall", self._name)


@pytest.fixture(params=HELMS)
def install(request, cluster, controller, make, images, folder) -> Iterator[Callable[..., Release]]:
    """install(KIND, …): a release with a workload of each kind."""
    made = []

    def install(*kinds: str) -> Release:
        workloads = [make(kind, 2, minReadySeconds=2) for kind in kinds]
        made.append(Release(cluster, request.param, folder, workloads, images[0]))
        return made[0]

    yield install
    for one in made:
        one.close()


def wait_as_documented(cluster: Cluster, workload: Workload) -> None:
    """With kubectl alone, as docs/GITOPS.md has it: until the controller of the kind has the workload back."""
    back = {
        "deployment": "condition=Progressing",
        "statefulset": "jsonpath={.spec.updateStrategy.rollingUpdate.partition}=0",
        "daemonset": "jsonpath={.spec.updateStrategy.type}=RollingUpdate",
    }
    cluster.kubectl("wait", f"--for={back[workload.kind]}", workload.name, "--timeout=120s")


def test_upgrade_and_rollback(cluster, install, images):
    """No pod is replaced. Helm takes a held workload for ready, so that kubectl waits for the end."""
    release = install(*KINDS_OF_CONTROLLERS)
    with none_replaced(*release.workloads):
        for change, image in ((lambda: release.upgrade(images[1], "--wait"), images[1]),
                              (lambda: release.rollback("--wait"), images[0])):
            change()
            assert release.status() == "deployed"
            for one in release.workloads:
                wait_as_documented(cluster, one)
                assert [image_of(pod) for pod in one.ready()] == [image] * one.n_pods
                one.assert_runs(image)


def test_bad_image(cluster, install, images):
    """It stops after one pod, of which Helm knows nothing; the next upgrade heals the workload."""
    release = install("deployment")
    (workload,) = release.workloads
    with none_replaced(workload):
        release.upgrade(images[3], "--wait")
        assert release.status() == "deployed"
        with pytest.raises(RuntimeError, match="exceeded its progress deadline"):
            cluster.kubectl("rollout", "status", workload.name, "--timeout=120s")
        assert sorted(image_of(pod) for pod in workload.pods()) == sorted([images[0], images[3]])
        release.upgrade(images[1], "--wait")
        wait_as_documented(cluster, workload)
        wait_updated(workload, images[1])
