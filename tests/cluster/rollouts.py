# SPDX-License-Identifier: Apache-2.0
"""Workloads that `kubectl inplace` updates, watchers of their pods, and disturbances."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from fake import api_faults
from fake.api_proxy import ApiProxy, Behaviour, Exchange
from lab import documents, sanitizers
from lab.cluster import Cluster
from lab.inplace import Inplace, Ran
from lab.kube import Object
from lab.kubeconfig import write_kubeconfig
from lab.kubelet import is_ready
from lab.pod import until_term
from lab.registry import Registry
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS
RECORD = "inplaced.io/rollout"
PODS = "/api/v1/namespaces/default/pods"
GATE = "inplaced.io/Ready"
KINDS = {
    "deployment": ("Deployment", "deployments"),
    "statefulset": ("StatefulSet", "statefulsets"),
    "daemonset": ("DaemonSet", "daemonsets"),
    "replicaset": ("ReplicaSet", "replicasets"),
}
_numbers = itertools.count(1)


class Workload:
    """A workload with a container "main", all of whose pods are ready; there is one node for a DaemonSet."""

    def __init__(self, cluster: Cluster, kind: str, image: str, replicas: int = 2, **spec: Any) -> None:
        self.cluster = cluster
        self.kube = cluster.admin
        self.kind = kind
        self.app = f"{kind}-{next(_numbers)}"
        self.name = f"{kind}/{self.app}"
        self.n_pods = 1 if kind == "daemonset" else replicas
        self.path = f"/apis/apps/v1/namespaces/default/{KINDS[kind][1]}/{self.app}"
        template = {
            "metadata": {
                "labels": {"app": self.app, **spec.pop("labels", {})},
                "annotations": spec.pop("annotations", {}),
            },
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": False,
                "containers": [
                    {
                        "name": "main",
                        "image": image,
                        "imagePullPolicy": "IfNotPresent",
                        "command": until_term(),
                    }
                ],
                **spec.pop("pod", {}),
            },
        }
        whole = {"selector": {"matchLabels": {"app": self.app}}, "template": template, **spec}
        if kind != "daemonset":
            whole["replicas"] = replicas
        if kind == "statefulset":
            whole["serviceName"] = self.app
        made = {"apiVersion": "apps/v1", "kind": KINDS[kind][0], "metadata": {"name": self.app}}
        self.kube.create({**made, "spec": whole})
        selector = {"labelSelector": f"app={self.app}"}
        self.kube.wait_until(
            lambda: len(self.ready()) == self.n_pods, (PODS, selector), 60 * SLOWLY, f"pods of {self.name}"
        )

    def get(self) -> Object:
        return self.kube.get(self.path)

    def record(self) -> Object | None:
        text = self.get()["metadata"].get("annotations", {}).get(RECORD)
        return json.loads(text) if text is not None else None

    def patch(self, body: Object, kind: str = "strategic") -> Object:
        return self.kube.patch(self.path, body, kind)

    def pods(self) -> list[Object]:
        """The workload's pods without those that have ended, or will."""
        found = self.kube.list(PODS, labelSelector=f"app={self.app}")
        return [
            pod
            for pod in found
            if "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] != "Failed"
        ]

    def ready(self) -> list[Object]:
        return [pod for pod in self.pods() if is_ready(pod)]

    def uids(self) -> set[str]:
        return {pod["metadata"]["uid"] for pod in self.pods()}

    def strategy(self) -> Any:
        spec = self.get()["spec"]
        return spec.get("paused", False), spec.get("updateStrategy")

    def assert_runs(self, image: str) -> None:
        """Template and pods have the image, all are ready, and the controller has nothing left to do."""
        assert image_of(self.get()["spec"]["template"]) == image
        pods = self.pods()
        assert [image_of(pod) for pod in pods] == [image] * self.n_pods
        for pod in pods:
            (status,) = pod["status"]["containerStatuses"]
            assert (status["image"], status["ready"]) == (image, True)
        assert not rollout_is_open(self)
        if self.kind != "replicaset":
            self.cluster.kubectl("rollout", "status", self.name, "--timeout=20s")

    def delete(self) -> None:
        self.kube.delete(self.path, propagationPolicy="Background")


def image_of(owner: Object) -> str:
    return owner["spec"]["containers"][0]["image"]


def rollout_is_open(workload: Workload) -> bool:
    record = workload.record()
    return record is not None and record["state"] in ("forward", "undo")


@pytest.fixture(scope="module")
def cluster(session_folder, registry) -> Iterator[Cluster]:
    # Each file of tests has a cluster of its own, also where one process runs several files.
    with Cluster(session_folder / f"rollout-{next(_numbers)}", registry) as made:
        yield made


@pytest.fixture(scope="module")
def images(registry) -> list[str]:
    """Three images that share their first layer alone; and one that does not exist."""
    made = [registry.push_image("t/rollout", str(n), [1000 + n], busybox=True) for n in (1, 2, 3)]
    return [one.reference for one in made] + [made[0].reference.rpartition(":")[0] + ":none"]


@pytest.fixture
def inplace(cluster, folder) -> Inplace:
    return Inplace(cluster.control_plane.admin_kubeconfig, folder)


@pytest.fixture
def make(cluster, images) -> Iterator[Callable[..., Workload]]:
    made: list[Workload] = []

    def make_one(kind: str, *arguments: Any, **spec: Any) -> Workload:
        made.append(Workload(cluster, kind, images[0], *arguments, **spec))
        return made[-1]

    yield make_one
    for one in made:
        one.delete()


@pytest.fixture
def agent(cluster, start_agent, folder):
    """The agent of the node, as a service."""
    cluster.control_plane.install()
    path = cluster.control_plane.write_agent_kubeconfig(folder / "agent.conf", node=cluster.node.name)
    return start_agent(
        cluster.node.runtime.endpoint,
        kubeconfig=path,
        node_name=cluster.node.name,
        flags=[f"--kubelet-health-address={cluster.node.health_address}"],
    )


@pytest.fixture
def proxy(cluster, folder) -> Iterator[ApiProxy]:
    authority = cluster.control_plane.authority.certificate
    with ApiProxy(folder / "proxy", cluster.control_plane.url, authority) as made:
        yield made


@pytest.fixture
def by_proxy(cluster, proxy, folder) -> Inplace:
    """The command line of the same person, through the proxy."""
    path = write_kubeconfig(folder / "proxy.conf", proxy.url, proxy.authority, token="lab-admin")
    return Inplace(path, folder)


@contextmanager
def none_replaced(*workloads: Workload) -> Iterator[None]:
    """Checks that no pod and no ReplicaSet of these is made or deleted inside, nor in the ten seconds after it, when
    controllers act, and no ControllerRevision is deleted. A ReplicaSet without pods may be: it is history.
    """
    kube, label = workloads[0].kube, f"app in ({','.join(one.app for one in workloads)})"
    kube.wait_until(
        lambda: all("deletionTimestamp" not in pod["metadata"] for pod in kube.list(PODS, labelSelector=label)),
        (PODS, {"labelSelector": label}),
        60 * SLOWLY,
        f"end of the pods of {label} that were deleted before",
    )
    apps = "/apis/apps/v1/namespaces/default"
    paths = [PODS, f"{apps}/replicasets", f"{apps}/controllerrevisions"]
    versions = [kube.get(path)["metadata"]["resourceVersion"] for path in paths]
    yield

    def check(path: str, version: str) -> None:
        query = {"labelSelector": label, "resourceVersion": version, "timeoutSeconds": "10"}
        for event in kube.watch(path, 60 * SLOWLY, **query):
            one = event["object"]
            is_kept = event["type"] == "MODIFIED" and "deletionTimestamp" not in one["metadata"]
            is_new = event["type"] == "ADDED" and one["kind"] == "ControllerRevision"
            is_history = one["kind"] == "ReplicaSet" and one["spec"]["replicas"] == 0
            assert is_kept or is_new or is_history, event

    with ThreadPoolExecutor() as pool:
        list(pool.map(check, paths, versions))


def assert_done(ran: Ran) -> Ran:
    assert ran.code == 0, ran.stdout + ran.stderr
    return ran


def is_write(request_path: str) -> bool:
    return "dryRun" not in request_path


WRITES = "^(PATCH |POST /apis/apps/v1/namespaces/default/replicasets)"


def stop_after(proxy: ApiProxy, n: int, pattern: str = WRITES) -> threading.Event:
    """Lets the server do the n-th write, of requests like the pattern, but answers neither that nor any later one."""
    reached, counter = threading.Event(), itertools.count(1)

    async def behave(exchange: Exchange) -> None:
        number = next(counter) if is_write(exchange.request.path) else 0
        if number < n:
            await api_faults.behave_well(exchange)
            return
        if number == n:
            await (await exchange.ask()).read()
            reached.set()
        await exchange.wait_over()

    proxy.on(pattern, behave)
    return reached


def hold_write(
    proxy: ApiProxy, n: int, until: Callable[[threading.Event], Behaviour], pattern: str = "^PATCH "
) -> tuple[threading.Event, threading.Event]:
    """Holds the n-th write, of requests like the pattern, `until` the second of the events is set; the first says that
    the write has come.
    """
    reached, released, counter = threading.Event(), threading.Event(), itertools.count(1)

    async def behave(exchange: Exchange) -> None:
        if not is_write(exchange.request.path) or next(counter) != n:
            await api_faults.behave_well(exchange)
            return
        reached.set()
        await until(released)(exchange)

    proxy.on(pattern, behave)
    return reached, released


def interrupted(
    by_proxy: Inplace, proxy: ApiProxy, workload: Workload, image: str, n: int, pattern: str = WRITES
) -> None:
    """Begins an update and kills its program after so many writes, of requests like the pattern."""
    reached = stop_after(proxy, n, pattern)
    with by_proxy.start("set", "image", workload.name, f"main={image}") as child:
        wait_until(reached.is_set, 60 * SLOWLY, "the write")
        child.kill()
    proxy.behave()


def forget_history(workload: Workload) -> None:
    """Deletes the ReplicaSets without pods, as if no update had been before."""
    path = "/apis/apps/v1/namespaces/default/replicasets"
    for one in workload.kube.list(path, labelSelector=f"app={workload.app}"):
        if one["spec"]["replicas"] == 0:
            workload.kube.delete(f"{path}/{one['metadata']['name']}")


def set_template(image: str, **more: Any) -> Object:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image, **more}]}}}}


def wait_observed(workload: Workload) -> None:
    workload.kube.wait_for(
        workload.path,
        lambda one: one["status"]["observedGeneration"] == one["metadata"]["generation"],
        30 * SLOWLY,
    )


def make_budget(cluster: Cluster, workload: Workload, **spec: Any) -> str:
    """Makes a budget of the workload's pods, waits until its controller has counted them, and returns the path."""
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": workload.app},
        "spec": {"selector": {"matchLabels": {"app": workload.app}}, **spec},
    }
    path = cluster.admin.path_of(cluster.admin.create(budget))
    cluster.admin.wait_for(
        path,
        lambda one: one.get("status", {}).get("currentHealthy") == workload.n_pods,
        30 * SLOWLY,
    )
    return path


@contextmanager
def admission(
    cluster: Cluster, resource: str, image: str, other: str, operation: str = "UPDATE", field: str = "image"
) -> Iterator[None]:
    """Has the API server write the other into the first container with that image, in updates, or in creations."""
    path = "/spec/containers/0" if resource == "pods" else "/spec/template/spec/containers/0"
    at = "object" + path.replace("/0", "[0]").replace("/", ".")
    with mutation(cluster, resource, f"{at}.image == '{image}'", f"{path}/{field}", f"'{other}'", operation):
        yield


@contextmanager
def mutation(
    cluster: Cluster, resource: str, condition: str, path: str, value: str, operation: str = "UPDATE"
) -> Iterator[None]:
    """Has the API server replace what is at that path, in objects for which the condition holds."""
    names = {"name": f"changes-of-{resource}"}
    version = {"apiVersion": "admissionregistration.k8s.io/v1beta1"}
    rule = {"apiGroups": ["", "apps"], "apiVersions": ["v1"], "operations": [operation], "resources": [resource]}
    change = f"[JSONPatch{{op: 'replace', path: '{path}', value: {value}}}]"
    policy = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "chosen", "expression": condition}],
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": change}}],
    }
    made = [
        cluster.admin.create({**version, "kind": f"MutatingAdmissionPolicy{kind}", "metadata": names, "spec": spec})
        for kind, spec in (("", policy), ("Binding", {"policyName": names["name"]}))
    ]
    try:
        yield
    finally:
        for one in made:
            cluster.admin.delete(cluster.admin.path_of(one))


@contextmanager
def pull_secret(cluster: Cluster, registry: Registry) -> Iterator[str]:
    """Makes a secret that the registry accepts, and lets agents read secrets; yields the secret's name."""
    assert registry.credentials is not None
    secret = cluster.admin.create(documents.pull_secret("login", "default", registry.host, registry.credentials))
    cluster.kubectl(
        *("create", "rolebinding", "inplaced-secrets", "--clusterrole=inplaced-secrets"),
        "--serviceaccount=inplaced:inplaced",
    )
    try:
        yield secret["metadata"]["name"]
    finally:
        cluster.kubectl("delete", "rolebinding/inplaced-secrets", "secret/login")


@contextmanager
def mirror(cluster: Cluster, image: str) -> Iterator[str]:
    """Has the API server put a mirror's name of the image into new pods alone; yields that name."""
    mirrored = image.replace("127.0.0.1", "localhost")
    spec = {"containers": [{"name": "main", "image": image}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "rehearsed"}, "spec": spec}
    with admission(cluster, "pods", image, mirrored, "CREATE"):
        wait_until(
            lambda: mirrored in json.dumps(cluster.admin.post(PODS, pod, dryRun="All")),
            60 * SLOWLY,
            "the admission policy",
            0.2,
        )
        yield mirrored


@contextmanager
def in_the_middle(
    by_proxy: Inplace, proxy: ApiProxy, *arguments: str, n: int = 3, is_lost: bool = False
) -> Iterator[Middle]:
    """Begins an update whose n-th write waits until the test lets it go on, and is then lost or not."""
    lose = partial(api_faults.when, then=api_faults.lose_request)
    reached, released = hold_write(proxy, n, lose if is_lost else api_faults.answer_when)
    with by_proxy.running(*arguments) as child:
        wait_until(
            lambda: reached.is_set() or child.poll() is not None, 60 * SLOWLY, "the write"
        )
        assert reached.is_set(), child.communicate()
        yield Middle(child, released)


@dataclass(frozen=True)
class Middle:
    child: subprocess.Popen[str]
    released: threading.Event

    def end(self) -> Ran:
        """Lets the write go on, and the command to its end."""
        self.released.set()
        output, errors = self.child.communicate(timeout=120 * SLOWLY)
        return Ran(self.child.returncode, output, errors)
