# SPDX-License-Identifier: Apache-2.0
"""Updates of workloads with many pods, of which the controller runs up to 32 at a time in little memory."""

from __future__ import annotations

from typing import Any

from lab import sanitizers
from lab.inplace import Inplace
from lab.kube import Object

N_PODS = 400
KIBIBYTES = 40_000
LABELS = {"app": "many", "pod-template-hash": "x"}


def make_container(name: str) -> Object:
    return {
        "name": name,
        "image": "registry.example/app:1",
        "env": [{"name": f"VARIABLE_{n}", "value": "a value"} for n in range(12)],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }


def make_status(name: str) -> Object:
    return {
        "name": name,
        "image": "registry.example/app:1",
        "imageID": f"registry.example/app@sha256:{'a' * 64}",
        "containerID": f"containerd://{'b' * 64}",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    }


def metadata(name: str, owner: Object | None = None) -> Object:
    made: dict[str, Any] = {"name": name, "namespace": "many", "labels": LABELS}
    if owner:
        about = {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": True}
        made["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": owner["kind"], **about}]
    return made


def test_memory_of_an_update(control_plane, folder):
    """Pods as an API server shows them, of which each takes ten times as much when it is kept as a whole."""
    kube = control_plane.admin
    names = ["main", "sidecar"]
    spec = {"containers": [make_container(name) for name in names], "volumes": [{"name": "data", "emptyDir": {}}]}
    template = {"metadata": {"labels": LABELS}, "spec": spec}
    whole = {"replicas": N_PODS, "selector": {"matchLabels": LABELS}, "template": template}
    kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "many"}})
    kube.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "many"}})
    apps = {"apiVersion": "apps/v1"}
    paused = {**whole, "paused": True}
    deployment = kube.create({**apps, "kind": "Deployment", "metadata": metadata("many"), "spec": paused})
    replica_set = kube.create({**apps, "kind": "ReplicaSet", "metadata": metadata("many-x", deployment), "spec": whole})
    conditions = [{"type": name, "status": "True"} for name in ("Initialized", "Ready", "PodScheduled")]
    status = {"phase": "Running", "conditions": conditions, "containerStatuses": [make_status(name) for name in names]}
    for n in range(N_PODS):
        about = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata(f"many-{n}", replica_set)}
        pod = kube.create({**about, "spec": {**spec, "nodeName": "a"}})
        kube.patch(f"{kube.path_of(pod)}/status", {"status": status})
    kube.patch(f"{kube.path_of(deployment)}/status", {"status": {"observedGeneration": 1}})
    inplace = Inplace(control_plane.admin_kubeconfig, folder)
    ran, peak = inplace.measure("rollout", "deployment/many", "--namespace", "many", "--no-preload", "--dry-run=server")
    kube.request("DELETE", "/api/v1/namespaces/many/pods?gracePeriodSeconds=0")
    kube.delete(kube.path_of(deployment))
    assert (ran.code, ran.stdout) == (0, "deployment.apps/many has these images already\n"), ran
    if not sanitizers.NAME:
        assert peak < KIBIBYTES
