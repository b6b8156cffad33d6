# SPDX-License-Identifier: Apache-2.0
"""Proves that `kubectl inplace set image` sets the template of workloads that OpenKruise updates in place,
after the preload, and reports the outcome truthfully. The test plays OpenKruise's controllers, and the
kubelet.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from fake import api_faults
from lab import sanitizers
from lab.hollow import HollowNodes
from lab.kube import Kube, KubeError, Object
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

pytestmark = pytest.mark.timeout(60 * SLOWLY)

OLD, NEW = "r.io/app:1", "r.io/app:2"
PODS = "/api/v1/namespaces/default/pods"

_numbers = itertools.count(1)


def rolling(**more: Any) -> Object:
    return {"type": "RollingUpdate", "rollingUpdate": more}


# For each kind: its name here, its strategy for updates in place, and its other strategy.
KINDS: dict[str, tuple[str, Object, Object]] = {
    "clonesets": ("CloneSet", {"type": "InPlaceIfPossible"}, {"type": "ReCreate"}),
    "statefulsets": (
        "StatefulSet",
        rolling(podUpdatePolicy="InPlaceOnly"),
        rolling(podUpdatePolicy="ReCreate"),
    ),
    "daemonsets": (
        "DaemonSet",
        rolling(rollingUpdateType="InPlaceIfPossible"),
        rolling(rollingUpdateType="Standard"),
    ),
}


def path_of(resource: str, name: str = "") -> str:
    return f"/apis/apps.kruise.io/v1alpha1/namespaces/default/{resource}/{name}".rstrip("/")


def make_definition(resource: str) -> Object:
    kind = KINDS[resource][0]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource}.apps.kruise.io"},
        "spec": {
            "group": "apps.kruise.io",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": resource, "singular": kind.lower()},
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                    },
                }
            ],
        },
    }


def is_usable(kube: Kube, resource: str) -> bool:
    with suppress(KubeError):
        served = kube.get("/apis/apps.kruise.io/v1alpha1")["resources"]
        return any(one["name"] == resource for one in served) and kube.list(path_of(resource)) == []
    return False


@pytest.fixture(scope="module")
def definitions(kube: Kube) -> Iterator[None]:
    """The server has these kinds."""
    made = [make_definition(resource) for resource in KINDS]
    for definition in made:
        kube.create(definition)
    for resource in KINDS:
        wait_until(lambda resource=resource: is_usable(kube, resource), 30 * SLOWLY, resource)
    yield
    for definition in made:
        kube.delete(kube.path_of(definition))


class Workload:
    """A workload with ready pods; each action of its controller and of a kubelet is a call."""

    def __init__(self, kube: Kube, resource: str, strategy: Object, nodes: list[str]) -> None:
        self.kube = kube
        self.resource = resource
        self.app = f"kruise{next(_numbers)}"
        self.name = f"{KINDS[resource][0].lower()}.apps.kruise.io/{self.app}"
        self.path = path_of(resource, self.app)
        containers = [{"name": "side", "image": "r.io/side:1"}, {"name": "main", "image": OLD}]
        self.template = {"metadata": {"labels": {"app": self.app}}, "spec": {"containers": containers}}
        made = kube.create(
            {
                "apiVersion": "apps.kruise.io/v1alpha1",
                "kind": KINDS[resource][0],
                "metadata": {"name": self.app, "namespace": "default"},
                "spec": {
                    "replicas": len(nodes),
                    "selector": {"matchLabels": {"app": self.app}},
                    "template": self.template,
                    "updateStrategy": strategy,
                },
            }
        )
        owner = {key: made[key] for key in ("apiVersion", "kind")}
        self.owner = {**owner, "name": self.app, "uid": made["metadata"]["uid"], "controller": True}
        self.pods = [f"{self.app}-{n}" for n in range(len(nodes))]
        for pod, node in zip(self.pods, nodes, strict=True):
            self._make_pod(pod, node)
        self.count(len(nodes))

    def _make_pod(self, name: str, node: str) -> None:
        metadata = {
            "name": name,
            "namespace": "default",
            "labels": {"app": self.app},
            "ownerReferences": [self.owner],
        }
        spec = {**self.template["spec"], "nodeName": node}
        self.kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        self.report(name, "a")

    def image(self) -> str:
        return self.kube.get(self.path)["spec"]["template"]["spec"]["containers"][1]["image"]

    def wait_image(self, image: str) -> None:
        wait_until(lambda: self.image() == image, 20 * SLOWLY, "template")

    def change(self, pod: str, image: str) -> None:
        """The controller closes its gate of the pod, and gives it the image."""
        self._patch_status(pod, {"conditions": [{"type": "Ready", "status": "False"}]})
        containers = [{"name": "main", "image": image}]
        self.kube.patch(f"{PODS}/{pod}", {"spec": {"containers": containers}}, "strategic")

    def report(self, pod: str, container_id: str, state: Object | None = None) -> None:
        """Shows the pod's containers as the kubelet; `state` is that of the container that does not run."""
        running = {"running": {"startedAt": "2026-01-02T03:04:05Z"}}
        statuses = [
            {
                "name": name,
                "image": "",
                "imageID": "",
                "ready": name == "side" or state is None,
                "restartCount": 0,
                "containerID": f"containerd://{container_id}",
                "state": running if name == "side" or state is None else state,
            }
            for name in ("side", "main")
        ]
        ready = {"type": "Ready", "status": "True" if state is None else "False"}
        self._patch_status(pod, {"conditions": [ready], "containerStatuses": statuses})

    def _patch_status(self, pod: str, status: Object) -> None:
        self.kube.patch(f"{PODS}/{pod}/status", {"status": status}, "strategic")

    def count(self, n_updated: int) -> None:
        """Lets the controller report that it has seen all of it."""
        seen = self.kube.get(self.path)["metadata"]["generation"]
        status = {
            "observedGeneration": seen,
            "updatedReplicas": n_updated,
            "updatedReadyReplicas": n_updated,
            "updatedNumberScheduled": n_updated,
            "desiredNumberScheduled": len(self.pods),
        }
        self.kube.patch(f"{self.path}/status", {"status": status}, "merge")

    def delete(self) -> None:
        self.kube.delete(self.path)
        for pod in self.pods:
            self.kube.delete(f"{PODS}/{pod}", gracePeriodSeconds="0")


@pytest.fixture
def make(kube: Kube, definitions: None) -> Iterator[Callable[..., Workload]]:
    """make(resource, strategy, nodes): makes a workload of two pods, on no node that has a NodeImage."""
    made: list[Workload] = []

    def make_one(
        resource: str = "clonesets", strategy: Object | None = None, nodes: tuple[str, ...] = ("no-node",) * 2
    ) -> Workload:
        made.append(Workload(kube, resource, strategy or KINDS[resource][1], list(nodes)))
        return made[-1]

    yield make_one
    for one in made:
        one.delete()


def test_without_openkruise(inplace):
    """The first test of the file: the next ones have the server serve the kinds."""
    ran = inplace.run("set", "image", "cloneset/web", f"main={NEW}")
    assert ran.code == 1 and "is OpenKruise installed?" in ran.stderr


@pytest.mark.parametrize("resource", KINDS)
def test_update(make, inplace, kube, resource):
    """The command writes the template, the controller does the rest; it ends when its status and all pods say so."""
    workload = make(resource)
    dry = inplace.run("set", "image", workload.name, f"main={NEW}", "--dry-run=server")
    assert dry.code == 0 and workload.image() == OLD, dry.stderr
    with inplace.running("set", "image", workload.name, f"main={NEW}") as child:
        workload.wait_image(NEW)
        for pod in workload.pods:
            workload.change(pod, NEW)
            assert child.stdout.readline() == f"pod/{pod} updating: it is not ready\n"
            workload.report(pod, "b")
            assert child.stdout.readline() == f"pod/{pod} updated\n"
        assert child.poll() is None
        workload.count(2)
        output, errors = child.communicate(timeout=20 * SLOWLY)
    assert (child.returncode, output) == (0, f"{workload.name} image updated\n"), errors
    template = kube.get(workload.path)["spec"]["template"]
    assert template["spec"]["containers"] == [
        {"name": "side", "image": "r.io/side:1"},
        {"name": "main", "image": NEW},
    ]
    again = inplace.run("set", "image", workload.name, f"main={NEW}")
    assert again.code == 0 and "already" in again.stdout
    status = inplace.run("status", workload.name, "-o", "name")
    assert status.stdout.split() == [f"pod/{pod}" for pod in workload.pods], status.stderr


@pytest.mark.parametrize("resource", KINDS)
def test_pods_would_be_replaced(make, inplace, kube, resource):
    """The default strategy updates by replacing pods, also where it is not written."""
    for strategy in (KINDS[resource][2], {"maxUnavailable": 1}):
        workload = make(resource, strategy)
        ran = inplace.run("set", "image", workload.name, f"main={NEW}")
        assert ran.code == 1
        assert "would replace the pods" in ran.stderr and "InPlaceIfPossible" in ran.stderr
        assert workload.image() == OLD


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("none=x",), 'no container "none"'),
        ((f"main={NEW}", "--partition=1"), "--partition has no effect"),
        ((f"main={NEW}", "--max-unavailable=1"), "spec.updateStrategy"),
    ],
)
def test_refused(make, inplace, flags, said):
    workload = make()
    ran = inplace.run("set", "image", workload.name, *flags)
    assert ran.code == 1 and said in ran.stderr
    assert workload.image() == OLD


def test_paused(make, inplace):
    workload = make(strategy={"type": "InPlaceOnly", "paused": True})
    ran = inplace.run("set", "image", workload.name, f"main={NEW}")
    assert ran.code == 1 and "spec.updateStrategy.paused is true" in ran.stderr
    assert workload.image() == OLD


def test_a_controller_that_hangs(make, inplace):
    """Ctrl-C or the end of the time: the command says the way on and back, and repeating it goes on."""
    workload = make()
    with inplace.running("set", "image", workload.name, f"main={NEW}") as child:
        workload.wait_image(NEW)
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=20 * SLOWLY)
    assert child.returncode == 130
    assert f"  kubectl inplace rollout {workload.name} -n default\n" in errors
    assert f"  kubectl inplace set image {workload.name} main={OLD} -n default\n" in errors
    for command in (["set", "image", workload.name, f"main={NEW}"], ["rollout", workload.name]):
        assert inplace.run(*command, "--timeout=2s").code == 124
    for pod in workload.pods:
        workload.change(pod, NEW)
        workload.report(pod, "b")
    workload.count(2)
    ran = inplace.run("rollout", workload.name)
    assert ran.code == 0, ran.stderr
    ran = inplace.run("rollout", workload.name, "--undo")
    assert ran.code == 1 and "set image" in ran.stderr


def test_a_pod_that_does_not_start(make, inplace):
    """A failed pod is named, with the reason; another image then goes its way."""
    workload = make()
    pod = workload.pods[0]
    with inplace.running("set", "image", workload.name, f"main={NEW}") as child:
        workload.wait_image(NEW)
        workload.change(pod, NEW)
        waiting = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{NEW}"'}
        workload.report(pod, "a", {"waiting": waiting})
        _, errors = child.communicate(timeout=20 * SLOWLY)
    assert child.returncode == 3
    assert f'pod "{pod}": container main: {waiting["message"]}' in errors and f"main={OLD}" in errors
    with inplace.running("set", "image", workload.name, "main=r.io/app:3") as child:
        workload.wait_image("r.io/app:3")
        for one in workload.pods:
            workload.change(one, "r.io/app:3")
            workload.report(one, "c")
        workload.count(2)
        _, errors = child.communicate(timeout=20 * SLOWLY)
    assert child.returncode == 0, errors


def test_changed_meanwhile(make, inplace, kube):
    """If another client changes the template, the command says so, and writes nothing over it."""
    workload = make()
    with inplace.running("set", "image", workload.name, f"main={NEW}") as child:
        workload.wait_image(NEW)
        change = [{"op": "replace", "path": "/spec/template/spec/containers/1/image", "value": "r.io/app:4"}]
        kube.patch(workload.path, change, "json")
        _, errors = child.communicate(timeout=20 * SLOWLY)
    assert child.returncode == 3 and "another client has changed its template" in errors
    assert workload.image() == "r.io/app:4"


def test_preload(control_plane, make, inplace):
    """The images are on the nodes first; if that fails, nothing is written."""
    with HollowNodes(control_plane, f"kruise-node{next(_numbers)}", 2) as nodes:
        workload = make(nodes=tuple(nodes.names))
        nodes.outcome = lambda node, tag: "NotFound: x" if tag == "none" else None
        ran = inplace.run("set", "image", workload.name, "main=r.io/app:none")
        assert ran.code == 1 and "--no-preload" in ran.stderr
        assert workload.image() == OLD
        nodes.hold()
        with inplace.running("set", "image", workload.name, f"main={NEW}") as child:
            wait_until(lambda: len(nodes.tags("r.io/app")) == 2, 20 * SLOWLY, "requests")
            assert workload.image() == OLD
            nodes.release()
            workload.wait_image(NEW)
            child.kill()


@pytest.mark.parametrize("fault, times", [(api_faults.refuse(409), 1), (api_faults.lose_reply, 2)])
def test_a_conflict(behind, make, fault, times):
    """The controller writes to the workload as well: it is read again, and written once more. It is also read where the
    answer was lost, also to the second attempt, and what was written is followed.
    """
    workload = make()
    api, inplace = behind
    api.on("^PATCH [^?]*$", fault, times=times)
    with inplace.running("set", "image", workload.name, f"main={NEW}") as child:
        workload.wait_image(NEW)
        for pod in workload.pods:
            workload.change(pod, NEW)
            workload.report(pod, "b")
        workload.count(len(workload.pods))
        _, errors = child.communicate(timeout=30 * SLOWLY)
    bodies = [request.json() for request in api.requests("^PATCH [^?]*$")]
    assert child.returncode == 0, errors
    assert len(bodies) == 2 and all(body["metadata"]["resourceVersion"] for body in bodies)


@pytest.mark.parametrize("resource", KINDS)
def test_restart_label(make, inplace, resource):
    """The owner that would lose the pod is OpenKruise's, and not the kind of Kubernetes with the same name."""
    workload = make(resource)
    ran = inplace.run("restart", workload.pods[0], "--label=app=other")
    assert ran.code == 1
    assert "--label changes a label by which its controller finds the pod" in ran.stderr, ran.stderr
