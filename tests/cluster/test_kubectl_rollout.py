# SPDX-License-Identifier: Apache-2.0
"""Proves that `kubectl inplace set image` updates workloads in a real cluster without replacing a pod, that an
update which is interrupted anywhere goes on or back, and that the workloads are as usable afterwards as before.
"""

from __future__ import annotations

import itertools
import json
import re
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from fake import api_faults
from fake.api_proxy import ApiProxy, Exchange
from lab import sanitizers
from lab.clients import MANIFESTS
from lab.cluster import Cluster
from lab.documents import write_whole
from lab.inplace import Inplace, Ran
from lab.kube import KubeError, Object
from lab.kubeconfig import write_kubeconfig
from lab.kubelet import Kubelet, is_ready
from lab.node_image import NodeImage
from lab.pod import VERIFIED, until_term
from lab.terminal import screen
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(300 * SLOWLY)]

RECORD = "inplaced.io/rollout"
GATE = "inplaced.io/Ready"
RBAC = "rbac.authorization.k8s.io"
PODS = "/api/v1/namespaces/default/pods"

KINDS = {
    "deployment": ("Deployment", "deployments"),
    "statefulset": ("StatefulSet", "statefulsets"),
    "daemonset": ("DaemonSet", "daemonsets"),
    "replicaset": ("ReplicaSet", "replicasets"),
}

_numbers = itertools.count(1)


class Workload:
    """One with a container "main", all of whose pods are ready; there is one node for a DaemonSet."""

    def __init__(self, cluster: Cluster, kind: str, image: str, replicas: int = 2, **spec: Any) -> None:
        self.cluster = cluster
        self.kube = cluster.admin
        self.kind = kind
        self.app = f"{kind}-{next(_numbers)}"
        self.name = f"{kind}/{self.app}"
        self.n_pods = 1 if kind == "daemonset" else replicas
        self.path = f"/apis/apps/v1/namespaces/default/{KINDS[kind][1]}/{self.app}"
        template = {
            "metadata": {"labels": {"app": self.app, **spec.pop("labels", {})}},
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
        wait_until(lambda: len(self.ready()) == self.n_pods, 60 * SLOWLY, f"pods of {self.name}", 0.05)

    def get(self) -> Object:
        return self.kube.get(self.path)

    def record(self) -> Object | None:
        text = self.get()["metadata"].get("annotations", {}).get(RECORD)
        return json.loads(text) if text is not None else None

    def patch(self, body: Object, kind: str = "strategic") -> Object:
        return self.kube.patch(self.path, body, kind)

    def pods(self) -> list[Object]:
        """Without those that have ended, or will."""
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
    with Cluster(session_folder / "rollout", registry) as made:
        yield made


@pytest.fixture(scope="module")
def images(registry) -> list[str]:
    """Three that have nothing but their first layer in common; one that does not exist."""
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
def proxy(cluster, folder) -> Iterator[ApiProxy]:
    authority = cluster.control_plane.authority.certificate
    with ApiProxy(folder / "proxy", cluster.control_plane.url, authority) as made:
        yield made


@pytest.fixture
def by_proxy(cluster, proxy, folder) -> Inplace:
    """The same person, through the proxy."""
    path = write_kubeconfig(folder / "proxy.conf", proxy.url, proxy.authority, token="lab-admin")
    return Inplace(path, folder)


@contextmanager
def none_replaced(workload: Workload) -> Iterator[None]:
    """No pod and no ReplicaSet is made or deleted inside, nor in the seconds after it, when controllers act."""
    kube, label = workload.kube, f"app={workload.app}"
    paths = [PODS, "/apis/apps/v1/namespaces/default/replicasets"]
    versions = [kube.get(path)["metadata"]["resourceVersion"] for path in paths]
    yield
    for path, version in zip(paths, versions, strict=True):
        query = {"labelSelector": label, "resourceVersion": version, "timeoutSeconds": "4"}
        for event in kube.watch(path, 60 * SLOWLY, **query):
            metadata = event["object"]["metadata"]
            assert event["type"] == "MODIFIED" and "deletionTimestamp" not in metadata, event


def assert_done(ran: Ran) -> Ran:
    assert ran.code == 0, ran.stdout + ran.stderr
    return ran


@pytest.mark.parametrize("kind", KINDS)
def test_update_and_undo(make, inplace, images, kind):
    """Pods, addresses and the strategy stay; kubectl's own commands work as before."""
    workload = make(kind)
    before, strategy = workload.uids(), workload.strategy()
    addresses = {pod["status"]["podIP"] for pod in workload.pods()}
    assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}", "--dry-run=server"))
    assert workload.record() is None and image_of(workload.pods()[0]) == images[0]

    with none_replaced(workload):
        ran = assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}"))
        assert f"/{workload.app} image updated" in ran.stdout
        workload.assert_runs(images[1])
        again = assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}"))
        assert "already" in again.stdout
        assert_done(inplace.run("rollout", workload.name, "--undo"))
        workload.assert_runs(images[0])
        assert_done(inplace.run("set", "image", workload.name, f"main={images[2]}"))
    workload.assert_runs(images[2])
    assert workload.uids() == before and workload.strategy() == strategy
    assert {pod["status"]["podIP"] for pod in workload.pods()} == addresses


@pytest.mark.parametrize("kind", ["deployment", "statefulset", "daemonset"])
def test_kubectl_afterwards(cluster, make, inplace, images, kind):
    """Also the way back to the template whose hash the name of the ReplicaSet has."""
    workload = make(kind)
    assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}"))
    before = workload.uids()
    cluster.kubectl("set", "image", workload.name, f"main={images[0]}")
    cluster.kubectl("rollout", "status", workload.name, "--timeout=60s")
    wait_until(lambda: len(workload.ready()) == workload.n_pods, 60 * SLOWLY, "pods")
    workload.assert_runs(images[0])
    assert not workload.uids() & before
    cluster.kubectl("rollout", "undo", workload.name)
    cluster.kubectl("rollout", "status", workload.name, "--timeout=60s")
    workload.assert_runs(images[1])
    cluster.kubectl("rollout", "restart", workload.name)
    cluster.kubectl("rollout", "status", workload.name, "--timeout=60s")
    before = workload.uids()
    assert_done(inplace.run("set", "image", workload.name, f"main={images[2]}"))
    workload.assert_runs(images[2])
    assert workload.uids() == before


def rolled_out(cluster: Cluster, workload: Workload, image: str) -> None:
    """By its controller, as ever."""
    cluster.kubectl("set", "image", workload.name, f"main={image}")
    cluster.kubectl("rollout", "status", workload.name, "--timeout=60s")
    label = f"app={workload.app}"
    wait_until(
        lambda: len(workload.kube.list(PODS, labelSelector=label)) == workload.n_pods,
        60 * SLOWLY,
        "the end of the pods before",
    )


@pytest.mark.parametrize("way", ["set-image", "rollout"])
def test_an_image_of_an_older_replica_set(cluster, make, inplace, images, way):
    """The controller finds that ReplicaSet again, and must not take it for the new one."""
    workload = make("deployment")
    rolled_out(cluster, workload, images[1])
    if way == "rollout":
        workload.patch({"spec": {"paused": True}})
        workload.patch(set_template(images[0]))
        wait_observed(workload)
    with none_replaced(workload):
        if way == "rollout":
            assert_done(inplace.run("rollout", workload.name))
            workload.patch({"spec": {"paused": False}})
        else:
            assert_done(inplace.run("set", "image", workload.name, f"main={images[0]}"))
        workload.assert_runs(images[0])
    with none_replaced(workload):
        assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}"))
        workload.assert_runs(images[1])
        assert_done(inplace.run("rollout", workload.name, "--undo"))
        workload.assert_runs(images[0])
    cluster.kubectl("rollout", "undo", workload.name)
    cluster.kubectl("rollout", "status", workload.name, "--timeout=60s")
    workload.assert_runs(images[1])


def crashing(registry: Any, images: list[str]) -> tuple[str, Object]:
    """An image that works for four seconds, and a pod that runs as well with the others."""
    bad = registry.push_image("t/rollout", "crash", [1000], busybox=True, env={"FAULT": "yes"})
    script = until_term()[-1]
    command = [*until_term()[:-1], f'[ -z "$FAULT" ] || {{ sleep 4; exit 7; }}\n{script}']
    return bad.reference, {"containers": [{"name": "main", "image": images[0], "command": command}]}


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_min_ready_seconds(make, inplace, registry, images, kind):
    """A pod counts when it has been ready for that long: one that dies before is the only one."""
    bad, pod = crashing(registry, images)
    workload = make(kind, 3, minReadySeconds=8, pod=pod)
    with none_replaced(workload):
        ran = inplace.run("set", "image", workload.name, f"main={bad}", timeout=90 * SLOWLY)
    assert ran.code == 3, ran.stdout + ran.stderr
    assert sorted(image_of(pod) for pod in workload.pods()) == sorted([images[0], images[0], bad])
    with none_replaced(workload):
        assert_done(inplace.run("rollout", workload.name, "--undo", timeout=120 * SLOWLY))
    workload.assert_runs(images[0])


def is_write(request_path: str) -> bool:
    return "dryRun" not in request_path


def stop_after(proxy: ApiProxy, n: int) -> threading.Event:
    """The server does the n-th write, which is never answered; nor is anything after it."""
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

    proxy.on("^PATCH ", behave)
    return reached


@pytest.mark.parametrize("kind", ["deployment", "statefulset", "daemonset"])
@pytest.mark.parametrize("way", ["on", "back"])
def test_killed_after_each_write(make, inplace, by_proxy, proxy, images, kind, way):
    """The same command, or --undo, from elsewhere ends it well: no pod is replaced."""
    workload = make(kind)
    uids, strategy = workload.uids(), workload.strategy()
    now, other = images[:2]
    for n in itertools.count(1):
        proxy.behave()
        reached = stop_after(proxy, n)
        child = by_proxy.start("set", "image", workload.name, f"main={other}")
        with child:
            wait_until(
                lambda child=child, reached=reached: reached.is_set() or child.poll() is not None,
                60 * SLOWLY,
                "the write",
            )
            child.kill()
        if not reached.is_set():
            break
        if way == "on":
            assert_done(inplace.run("set", "image", workload.name, f"main={other}"))
            now, other = other, now
        else:
            assert_done(inplace.run("rollout", workload.name, "--undo"))
        workload.assert_runs(now)
        assert workload.uids() == uids and workload.strategy() == strategy
    # Taken over, pods, handed back; the template of a ReplicaSet is apart.
    assert n == workload.n_pods + (4 if kind == "deployment" else 3)


def hold_after(proxy: ApiProxy, n: int) -> tuple[threading.Event, threading.Event]:
    """The n-th write is answered when the second of the events is set; the first says that it has come."""
    reached, released, counter = threading.Event(), threading.Event(), itertools.count(1)

    async def behave(exchange: Exchange) -> None:
        if not is_write(exchange.request.path) or next(counter) != n:
            await api_faults.behave_well(exchange)
            return
        reached.set()
        await api_faults.answer_when(released)(exchange)

    proxy.on("^PATCH ", behave)
    return reached, released


def interrupted(by_proxy: Inplace, proxy: ApiProxy, workload: Workload, image: str, n: int) -> None:
    """An update whose program was killed after so many writes."""
    reached = stop_after(proxy, n)
    with by_proxy.start("set", "image", workload.name, f"main={image}") as child:
        wait_until(reached.is_set, 60 * SLOWLY, "the write")
        child.kill()
    proxy.behave()


def test_an_image_that_does_not_exist(make, inplace, images):
    """The first pod stops the update, with the reason; the others go on serving."""
    workload = make("deployment", 3)
    ran = inplace.run("set", "image", workload.name, f"main={images[3]}", timeout=90 * SLOWLY)
    assert ran.code == 3
    assert images[3] in ran.stderr and "--undo" in ran.stderr
    (failed,) = (pod for pod in workload.pods() if image_of(pod) == images[3])
    assert f'pod "{failed["metadata"]["name"]}"' in ran.stderr
    assert len(workload.ready()) == 2
    again = inplace.run("set", "image", workload.name, f"main={images[3]}")
    assert again.code == 3 and images[3] in again.stderr
    # A pod that is made meanwhile, after a drain say, gets the image that works.
    other = next(pod["metadata"] for pod in workload.ready())
    workload.kube.delete(f"{PODS}/{other['name']}")
    wait_until(lambda: len(workload.ready()) == 2, 60 * SLOWLY, "the pod that comes instead")
    assert {image_of(pod) for pod in workload.ready()} == {images[0]}
    before = workload.uids()
    assert_done(inplace.run("rollout", workload.name, "--undo"))
    workload.assert_runs(images[0])
    assert workload.uids() == before


def test_a_refused_attempt(make, inplace, images):
    """It has changed nothing, and --undo does not take an older update for it; it says what it undoes."""
    workload = make("deployment")
    update, undo = ("set", "image", workload.name), ("rollout", workload.name, "--undo")
    assert_done(inplace.run(*update, f"main={images[1]}"))
    back = f'by "lab-admin": main from {images[1]} back to {images[0]}'
    for dry_run in ["--dry-run=server"], []:
        refused = inplace.run(*update, f"main={images[2]}", "--partition=1")
        assert refused.code == 1
        assert f"nothing has changed; the pods keep main={images[1]}" in refused.stderr
        with none_replaced(workload):
            ran = inplace.run(*undo, *dry_run)
            assert ran.code == 1 and "nothing to undo" in ran.stderr and back in ran.stderr
        workload.assert_runs(images[1])
        assert_done(inplace.run(*update, f"main={images[1]}"))
    rehearsed = assert_done(inplace.run(*undo, "--dry-run=server")).stdout
    assert back in rehearsed and "image update undone (server dry run)" in rehearsed
    with none_replaced(workload):
        ran = assert_done(inplace.run(*undo))
    assert back in ran.stdout.splitlines()[0]
    assert ran.stdout.endswith(f"/{workload.app} image update undone\n")
    workload.assert_runs(images[0])


@pytest.fixture
def bob(cluster, folder) -> Inplace:
    """Another person, with all rights."""
    certificate = cluster.control_plane.authority.issue("bob", "/O=system:masters/CN=bob")
    path = cluster.control_plane.write_kubeconfig(folder / "bob.conf", certificate=certificate)
    return Inplace(path, folder)


@pytest.mark.parametrize("kind", ["deployment", "statefulset", "daemonset"])
@pytest.mark.parametrize("way", ["set-image", "rollout", "undo"])
def test_take_over(make, by_proxy, proxy, bob, images, kind, way):
    """Another person is refused, and told who, since when, how far and the way: then goes on, or back."""
    workload = make(kind)
    arguments = {
        "set-image": ["set", "image", workload.name, f"main={images[1]}"],
        "rollout": ["rollout", workload.name],
        "undo": ["rollout", workload.name, "--undo"],
    }[way]
    with none_replaced(workload):
        interrupted(by_proxy, proxy, workload, images[1], 2)
        record = workload.record()
        ran = bob.run(*arguments)
        assert ran.code == 1 and 'by "lab-admin" since ' in ran.stderr, ran.stderr
        assert f"of {workload.n_pods} pods updated" in ran.stderr
        assert f"/{workload.app} --take-over -n default" in ran.stderr
        assert workload.record() == record
        assert_done(bob.run(*arguments, "--take-over"))
        workload.assert_runs(images[0 if way == "undo" else 1])
    assert workload.record()["by"] == "bob"


def test_taken_over_meanwhile(make, by_proxy, proxy, bob, images):
    """The run that began it leaves it to the other one."""
    workload = make("deployment", 3)
    with none_replaced(workload):
        with in_the_middle(by_proxy, proxy, "set", "image", workload.name, f"main={images[1]}") as middle:
            assert_done(bob.run("rollout", workload.name, "--undo", "--take-over"))
            ran = middle.end()
        assert ran.code == 3 and '"bob" has taken the update over' in ran.stderr, ran.stderr
        workload.assert_runs(images[0])


@pytest.mark.parametrize("kind", ["deployment", "statefulset", "daemonset"])
def test_release(make, by_proxy, proxy, inplace, bob, images, kind):
    """Hands the workload back as it is; of a Deployment no pod is replaced, in any state of its update."""
    workload = make(kind)
    strategy, before = workload.strategy(), workload.uids()
    assert inplace.run("rollout", workload.name, "--release").code == 1
    for n in range(1, workload.n_pods + 3):
        interrupted(by_proxy, proxy, workload, images[1], n)
        assert bob.run("rollout", workload.name, "--release").code == 1 and rollout_is_open(workload)
        ran = assert_done(inplace.run("rollout", workload.name, "--release"))
        assert f"/{workload.app} handed back: " in ran.stdout
        assert workload.strategy() == strategy and not rollout_is_open(workload)
        if kind != "deployment":
            break
        with none_replaced(workload):
            workload.cluster.kubectl("rollout", "status", workload.name, "--timeout=20s")
            assert_done(inplace.run("set", "image", workload.name, f"main={images[0]}"))
        workload.assert_runs(images[0])
    if kind == "deployment":
        assert workload.uids() == before
    else:
        workload.cluster.kubectl("rollout", "status", workload.name, "--timeout=90s")
        workload.assert_runs(image_of(workload.get()["spec"]["template"]))


def test_open_updates(make, by_proxy, proxy, inplace, images):
    """Are shown by status and doctor: whose, since when, how far."""
    workload = make("deployment")
    interrupted(by_proxy, proxy, workload, images[1], 2)
    line = f'deployment.apps/{workload.app}: update to main={images[1]} by "lab-admin"'
    for arguments in [], [workload.name], ["-A"]:
        ran = inplace.run("status", *arguments)
        assert line in ran.stdout and "has not ended: " in ran.stdout and " of 2 pods updated" in ran.stdout
        assert f"rollout deployment.apps/{workload.app} -n default" in ran.stderr
        found = json.loads(inplace.run("status", *arguments, "-o", "json").stdout)["rollouts"]
        (shown,) = (one for one in found if one["name"] == workload.app)
        assert shown["kind"] == "deployment.apps"
        assert (shown["by"], shown["state"], shown["after"]) == ("lab-admin", "forward", {"main": images[1]})
        assert shown["pods"] == 2 and shown["updated"] in (0, 1)
    doctor = inplace.run("doctor")
    assert doctor.code == 3 and f"problem: deployment.apps/{workload.app}: " in doctor.stdout
    assert 'by "lab-admin"' in doctor.stdout and " of 2 pods updated" in doctor.stdout
    assert_done(inplace.run("rollout", workload.name, "--undo"))
    assert json.loads(inplace.run("status", workload.name, "-o", "json").stdout).get("rollouts", []) == []
    assert f"deployment.apps/{workload.app}" not in inplace.run("doctor").stdout


def test_documents(make, inplace, images):
    """-o json and yaml: one document at the end; name: the workload. Nothing else is on stdout."""
    workload = make("statefulset")
    command = ["set", "image", workload.name, f"main={images[1]}"]
    change = [{"container": "main", "before": images[0], "after": images[1]}]

    def told(*arguments: str) -> Object:
        ran = assert_done(inplace.run(*arguments, "-o", "yaml"))
        document = yaml.safe_load(ran.stdout)
        assert document["kind"] == "statefulset.apps" and document["name"] == workload.app
        return document

    dry = told(*command, "--dry-run=server")
    assert (dry["outcome"], dry["images"]) == ("checked", change)
    assert [pod["images"] for pod in dry["pods"]] == [{"main": images[0]}] * 2
    done = told(*command)
    assert (done["outcome"], done["images"]) == ("updated", change)
    pods = {pod["name"]: (pod["phase"], pod["images"]) for pod in done["pods"]}
    assert pods == {f"{workload.app}-{n}": ("updated", {"main": images[1]}) for n in range(2)}
    same = told(*command)
    assert (same["outcome"], same["images"]) == ("unchanged", [{**change[0], "before": images[1]}])
    ran = assert_done(inplace.run("rollout", workload.name, "--undo", "-o", "name"))
    assert ran.stdout == f"statefulset.apps/{workload.app}\n"

    with inplace.start(*command, "-o", "json") as child:
        wait_until(lambda: rollout_is_open(workload), 30 * SLOWLY, "take-over")
        child.send_signal(signal.SIGINT)
        output, _ = child.communicate(timeout=30 * SLOWLY)
    assert child.returncode == 130
    assert json.loads(output)["outcome"] == "unfinished"
    back = told("rollout", workload.name, "--undo")
    assert (back["outcome"], back["images"][0]["after"]) == ("undone", images[0])
    assert {pod["phase"] for pod in back["pods"]} == {"updated"}


def test_on_a_terminal(make, inplace, images):
    """One table, which is drawn again in place."""
    workload = make("statefulset")
    terminal = inplace.on_terminal("set", "image", workload.name, f"main={images[1]}")
    try:
        assert terminal.wait_end(120 * SLOWLY) == 0, terminal.text
    finally:
        terminal.child.kill()
    assert "1 of 2 pods updated; waiting for pod" in terminal.text
    assert "\r\x1b[4A\x1b[J" in terminal.text  # what is typed has moved the cursor
    heading, *pods, total, end, rest = screen(terminal.text)
    assert heading.split() == ["POD", "NODE", "PHASE", "IMAGE", "SINCE"]
    rows = sorted(line.split()[:4] for line in pods)
    node = workload.cluster.node.name
    short = images[1].rpartition("/")[2]
    assert rows == [[f"{workload.app}-{n}", node, "updated", short] for n in range(2)]
    assert (total, rest) == ("2 of 2 pods updated", "")
    assert end.endswith(f"/{workload.app} image updated")


def test_signal(make, inplace, folder, images):
    """Ctrl-C leaves it where it is; the command that is offered goes on when it is copied."""
    workload = make("statefulset")
    elsewhere = yaml.safe_load(inplace.kubeconfig.read_text())
    elsewhere["contexts"][0]["context"]["namespace"] = "kube-system"
    write_whole(folder / "config", yaml.safe_dump(elsewhere))
    flags = ["--kubeconfig", str(folder / "config"), "-n", "default"]
    with inplace.start("set", "image", workload.name, f"main={images[1]}", *flags) as child:
        assert "updating" in child.stdout.readline()
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=30 * SLOWLY)
    assert child.returncode == 130
    onward, back = (shlex.split(line) for line in errors.splitlines() if line.startswith("  "))
    assert onward[:2] == back[:2] == ["kubectl", "inplace"]
    assert "--undo" in back and "--undo" not in onward
    assert_done(inplace.run(*onward[2:]))
    workload.assert_runs(images[1])


@pytest.mark.parametrize("kind", ["deployment", "statefulset", "daemonset"])
def test_a_template_that_is_there(make, inplace, images, kind):
    """A strategy that leaves the pods alone stays as it is."""
    workload = make(kind)
    held = {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}
    workload.patch({"spec": {"paused": True} if kind == "deployment" else held})
    wait_observed(workload)
    before, strategy = workload.uids(), workload.strategy()
    ran = inplace.run("rollout", workload.name)
    assert ran.code == 0 and "already" in ran.stdout
    workload.patch(set_template(images[1]))
    wait_observed(workload)
    assert_done(inplace.run("rollout", workload.name))
    assert [image_of(pod) for pod in workload.ready()] == [images[1]] * workload.n_pods
    assert workload.uids() == before and workload.strategy() == strategy
    refused = inplace.run("rollout", workload.name, "--undo")
    assert refused.code == 1
    assert f"/{workload.app} main={images[0]}" in refused.stderr and "kubectl set image" in refused.stderr
    workload.patch(set_template(images[0]))
    wait_observed(workload)
    assert_done(inplace.run("rollout", workload.name, "--undo"))
    assert [image_of(pod) for pod in workload.ready()] == [images[0]] * workload.n_pods
    assert workload.uids() == before and workload.strategy() == strategy
    workload.patch(set_template(images[1]))
    wait_observed(workload)
    assert_done(inplace.run("rollout", workload.name))
    # A Deployment that is paused goes on without replacing a pod.
    if kind == "deployment":
        workload.patch({"spec": {"paused": False}})
        workload.assert_runs(images[1])
        assert workload.uids() == before


def set_template(image: str, **more: Any) -> Object:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image, **more}]}}}}


def wait_observed(workload: Workload) -> None:
    workload.kube.wait_for(
        workload.path,
        lambda one: one["status"]["observedGeneration"] == one["metadata"]["generation"],
        30 * SLOWLY,
    )


@pytest.mark.parametrize("kind", ["deployment", "statefulset", "daemonset"])
def test_edited_meanwhile(cluster, make, by_proxy, proxy, inplace, images, kind):
    """Another client's template wins: the workload goes back to its controller, which brings the pods there."""
    workload = make(kind)
    strategy = workload.strategy()
    interrupted(by_proxy, proxy, workload, images[1], 2)
    workload.patch(set_template(images[2], env=[{"name": "A", "value": "b"}]))
    ran = inplace.run("rollout", workload.name)
    assert ran.code == 3
    assert "another client has changed its template in spec.containers[0].env" in ran.stderr
    assert workload.strategy() == strategy
    cluster.kubectl("rollout", "status", workload.name, "--timeout=90s")
    wait_until(lambda: len(workload.ready()) == workload.n_pods, 60 * SLOWLY, "pods")
    workload.assert_runs(images[2])


@pytest.mark.parametrize("kind", ["statefulset", "daemonset"])
@pytest.mark.parametrize("way", ["set-image", "undo"])
def test_reverted_meanwhile(cluster, make, by_proxy, proxy, images, kind, way):
    """Another client puts the image before back: that is a change as any other, and is never overwritten."""
    workload = make(kind)
    strategy = workload.strategy()
    with in_the_middle(by_proxy, proxy, "set", "image", workload.name, f"main={images[1]}", n=2) as middle:
        if way == "undo":
            cluster.kubectl("rollout", "undo", workload.name)
        else:
            cluster.kubectl("set", "image", workload.name, f"main={images[0]}")
        version = workload.get()["metadata"]["resourceVersion"]
        ran = middle.end()
    assert ran.code == 3 and "another client has changed its template" in ran.stderr, ran.stderr
    cluster.kubectl("rollout", "status", workload.name, "--timeout=90s")
    wait_until(lambda: len(workload.ready()) == workload.n_pods, 60 * SLOWLY, "pods")
    workload.assert_runs(images[0])
    assert workload.strategy() == strategy
    query = {"fieldSelector": f"metadata.name={workload.app}", "resourceVersion": version, "timeoutSeconds": "2"}
    for event in workload.kube.watch(workload.path.rpartition("/")[0], 60 * SLOWLY, **query):
        assert image_of(event["object"]["spec"]["template"]) == images[0]


def test_resumed_meanwhile(cluster, make, by_proxy, proxy, inplace, images):
    """Who resumes a Deployment gives it back to its controller."""
    workload = make("deployment")
    interrupted(by_proxy, proxy, workload, images[1], 3)
    cluster.kubectl("rollout", "resume", workload.name)
    ran = inplace.run("rollout", workload.name)
    assert ran.code == 3 and "let its controller go on" in ran.stderr
    cluster.kubectl("rollout", "status", workload.name, "--timeout=90s")
    wait_until(lambda: len(workload.ready()) == workload.n_pods, 60 * SLOWLY, "pods")
    workload.assert_runs(images[0])


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_record_removed_meanwhile(cluster, make, by_proxy, proxy, images, kind):
    """By a repository that has it not, say: nothing is left held that no program knows of."""
    workload = make(kind)
    strategy = workload.strategy()
    reached, released = hold_after(proxy, 2)
    with by_proxy.start("set", "image", workload.name, f"main={images[1]}") as child:
        wait_until(reached.is_set, 60 * SLOWLY, "the write")
        workload.patch({"metadata": {"annotations": {RECORD: None}}}, "merge")
        released.set()
        _, errors = child.communicate(timeout=60 * SLOWLY)
    assert child.returncode == 3 and "has removed the annotation" in errors, errors
    assert workload.strategy() == strategy and not rollout_is_open(workload)
    cluster.kubectl("rollout", "status", workload.name, "--timeout=90s")


def test_two_at_once(make, by_proxy, proxy, inplace, images):
    """The one that writes second is refused, and the record of the first stays as it is."""
    workload = make("deployment")
    uids, strategy = workload.uids(), workload.strategy()
    reached, released = threading.Event(), threading.Event()

    async def hold(exchange: Exchange) -> None:
        if is_write(exchange.request.path):
            reached.set()
            await api_faults.when(released)(exchange)
        else:
            await api_faults.behave_well(exchange)

    proxy.on("^PATCH ", hold)
    with by_proxy.start("set", "image", workload.name, f"main={images[2]}") as second:
        wait_until(reached.is_set, 60 * SLOWLY, "the write")
        with inplace.start("set", "image", workload.name, f"main={images[1]}") as first:
            wait_until(lambda: rollout_is_open(workload), 60 * SLOWLY, "the record of the first")
            first.kill()
        released.set()
        _, errors = second.communicate(timeout=60 * SLOWLY)
    assert second.returncode == 1 and "has begun an update" in errors, errors
    assert_done(inplace.run("rollout", workload.name))
    workload.assert_runs(images[1])
    assert workload.uids() == uids and workload.strategy() == strategy


def test_conflict_at_the_beginning(make, by_proxy, proxy, images):
    """Another client writes to the workload just before it is taken over: that is no reason to end."""
    workload = make("deployment")
    for n, command in enumerate((["set", "image", workload.name, f"main={images[1]}"], ["rollout", workload.name])):
        first = threading.Event()

        async def behave(exchange: Exchange, first: threading.Event = first, n: int = n) -> None:
            if is_write(exchange.request.path) and not first.is_set():
                first.set()
                workload.patch({"metadata": {"labels": {"touched": str(n)}}})
            await api_faults.behave_well(exchange)

        proxy.on("^PATCH ", behave)
        assert_done(by_proxy.run(*command, *(["--undo"] if n else [])))
        assert first.is_set() and workload.get()["metadata"]["labels"]["touched"] == str(n)
        workload.assert_runs(images[1 - n])


def test_lost_answers(make, by_proxy, proxy, images):
    """Every write is done, and the answer to every second one is lost: also to the one that takes over."""
    workload = make("deployment")
    uids, strategy = workload.uids(), workload.strategy()
    for n, image in enumerate((images[1], images[0])):
        counter = itertools.count(n)

        async def behave(exchange: Exchange, counter: itertools.count[int] = counter) -> None:
            is_lost = is_write(exchange.request.path) and next(counter) % 2 == 0
            await (api_faults.lose_reply if is_lost else api_faults.behave_well)(exchange)

        proxy.on("^PATCH ", behave)
        assert_done(by_proxy.run("set", "image", workload.name, f"main={image}"))
        workload.assert_runs(image)
    assert workload.uids() == uids and workload.strategy() == strategy


def test_refused_in_the_middle(make, by_proxy, proxy, images):
    """What the server answers with 5xx is tried again ever more slowly, and said; nothing is read anew."""
    workload = make("deployment")
    counter, tries, is_well = itertools.count(1), [], threading.Event()

    async def behave(exchange: Exchange) -> None:
        if not is_write(exchange.request.path) or next(counter) < 3 or is_well.is_set():
            await api_faults.behave_well(exchange)
            return
        tries.append(len(proxy.requests("^GET ")))
        await api_faults.refuse(500, "a webhook is down")(exchange)

    proxy.on("^PATCH ", behave)
    with by_proxy.running("set", "image", workload.name, f"main={images[1]}", "--timeout=90s") as child:
        while "waiting for the API server" not in (line := child.stdout.readline()):
            assert line, child.communicate()
        assert "a webhook is down" in line
        is_well.set()
        _, errors = child.communicate(timeout=90 * SLOWLY)
    assert child.returncode == 0, errors
    assert 4 <= len(tries) <= 7, tries
    assert tries[-1] == tries[0]
    workload.assert_runs(images[1])


def test_away_in_the_middle(cluster, make, inplace, images):
    """An API server that does not come back is said to be awaited."""
    workload = make("deployment")
    apiserver = cluster.control_plane.apiserver
    with inplace.running("set", "image", workload.name, f"main={images[1]}", "--timeout=90s") as child:
        assert "updating" in child.stdout.readline()
        apiserver.kill9()
        try:
            while "waiting for the API server" not in (line := child.stdout.readline()):
                assert line, child.communicate()
        finally:
            apiserver.start()
        _, errors = child.communicate(timeout=120 * SLOWLY)
    assert child.returncode == 0, errors
    workload.assert_runs(images[1])


@contextmanager
def admission(cluster: Cluster, resource: str, image: str, other: str) -> Iterator[None]:
    """The API server itself makes the other image of one, in the first container, of what is updated."""
    names = {"name": f"images-of-{resource}"}
    version = {"apiVersion": "admissionregistration.k8s.io/v1beta1"}
    path = "/spec/containers/0" if resource == "pods" else "/spec/template/spec/containers/0"
    at = "object" + path.replace("/0", "[0]").replace("/", ".")
    rule = {"apiGroups": ["", "apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": [resource]}
    change = f"[JSONPatch{{op: 'replace', path: '{path}/image', value: '{other}'}}]"
    policy = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "image", "expression": f"{at}.image == '{image}'"}],
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


@pytest.mark.parametrize(
    "kind, resource",
    [("deployment", "pods"), ("deployment", "replicasets"), ("statefulset", "statefulsets")],
)
def test_admission_of_other_images(cluster, make, inplace, images, kind, resource):
    """Nothing has changed when it is found."""
    workload = make(kind)
    pod = workload.pods()[0]["metadata"]
    path = {
        "pods": f"{PODS}/{pod['name']}",
        "replicasets": f"/apis/apps/v1/namespaces/default/replicasets/{pod['ownerReferences'][0]['name']}",
        "statefulsets": workload.path,
    }[resource]
    spec = {"containers": [{"name": "main", "image": images[1]}]}
    patch = {"spec": spec if resource == "pods" else {"template": {"spec": spec}}}
    with admission(cluster, resource, images[1], images[2]):
        wait_until(
            lambda: images[2] in json.dumps(workload.kube.patch(path, patch, "strategic", dryRun="All")),
            60 * SLOWLY,
            "the admission policy",
            0.2,
        )
        generation = workload.kube.get(path)["metadata"]["generation"]
        with none_replaced(workload):
            ran = inplace.run("set", "image", workload.name, f"main={images[1]}", "--timeout=20s")
        assert ran.code == 1, ran.stdout + ran.stderr
        assert f'admission makes "{images[2]}" of the image "{images[1]}"' in ran.stderr
        assert workload.record() is None
        assert workload.kube.get(path)["metadata"]["generation"] == generation
        assert_done(inplace.run("set", "image", workload.name, f"main={images[2]}"))
    workload.assert_runs(images[2])


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_scaled_and_deleted_meanwhile(cluster, make, by_proxy, proxy, inplace, images, kind):
    """As by a HorizontalPodAutoscaler and an eviction: the pods that come have the new image in the end."""
    workload = make(kind)
    interrupted(by_proxy, proxy, workload, images[1], 3)
    cluster.kubectl("scale", workload.name, "--replicas=3")
    gone, kept = sorted(pod["metadata"]["name"] for pod in workload.pods())[:2]
    uid = workload.kube.get(f"{PODS}/{kept}")["metadata"]["uid"]
    workload.kube.delete(f"{PODS}/{gone}")
    workload.n_pods = 3
    assert_done(inplace.run("rollout", workload.name))
    wait_until(lambda: len(workload.ready()) == 3, 60 * SLOWLY, "pods")
    workload.assert_runs(images[1])
    assert uid in workload.uids()


def test_disruption_budget(cluster, make, inplace, by_proxy, proxy, images):
    """One that never allows a pod is found before; one that does not now is waited for."""
    workload = make("deployment")
    path = make_budget(cluster, workload, minAvailable=2)
    command = "set", "image", workload.name, f"main={images[1]}"
    ran = inplace.run(*command)
    assert ran.code == 1 and f'PodDisruptionBudget "{workload.app}" never lets a pod go' in ran.stderr
    assert workload.record() is None and workload.strategy() == (False, None)
    cluster.admin.patch(path, {"spec": {"minAvailable": 1}})
    cluster.admin.wait_for(path, lambda one: one["status"]["disruptionsAllowed"] == 1, 30 * SLOWLY)
    with in_the_middle(by_proxy, proxy, *command, "--timeout=12s") as middle:
        cluster.admin.patch(path, {"spec": {"minAvailable": 2}})
        cluster.admin.wait_for(
            path, lambda one: one["status"]["disruptionsAllowed"] == 0, 30 * SLOWLY
        )
        ran = middle.end()
    assert ran.code == 124 and f'PodDisruptionBudget "{workload.app}"' in ran.stdout
    assert "timed out waiting until the PodDisruptionBudget" in ran.stderr
    assert [image_of(pod) for pod in workload.pods()].count(images[0]) == 1
    cluster.admin.patch(path, {"spec": {"minAvailable": 1}})
    assert_done(inplace.run("rollout", workload.name))
    workload.assert_runs(images[1])
    cluster.admin.delete(path)


def make_budget(cluster: Cluster, workload: Workload, **spec: Any) -> str:
    """Of its pods, and its controller has counted them; returns the path."""
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


def test_budget_of_one(cluster, make, inplace, images):
    """One pod at a time is out of service, however many the command may take."""
    workload = make("deployment", 3)
    path = make_budget(cluster, workload, maxUnavailable=1)
    version = cluster.admin.get(PODS)["metadata"]["resourceVersion"]
    assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}", "--max-unavailable=3"))
    workload.assert_runs(images[1])
    ready, updated = dict.fromkeys(workload.uids(), True), set()
    query = {"labelSelector": f"app={workload.app}", "resourceVersion": version}
    for event in cluster.admin.watch(PODS, 60 * SLOWLY, **query):
        pod = event["object"]
        uid = pod["metadata"]["uid"]
        ready[uid] = is_ready(pod)
        assert list(ready.values()).count(False) <= 1
        if ready[uid] and pod["status"]["containerStatuses"][0]["image"] == images[1]:
            updated.add(uid)
        if len(updated) == workload.n_pods:
            break
    cluster.admin.delete(path)


@contextmanager
def in_the_middle(
    by_proxy: Inplace, proxy: ApiProxy, *arguments: str, n: int = 3, is_lost: bool = False
) -> Iterator[Middle]:
    """An update whose n-th write waits until the test lets it go on, and is then lost or not."""
    reached, released, counter = threading.Event(), threading.Event(), itertools.count(1)

    async def behave(exchange: Exchange) -> None:
        if is_write(exchange.request.path) and next(counter) == n:
            reached.set()
            end = api_faults.when(released, api_faults.lose_request)
            await (end if is_lost else api_faults.answer_when(released))(exchange)
        else:
            await api_faults.behave_well(exchange)

    proxy.on("^PATCH ", behave)
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
        """Lets it go on, to its end."""
        self.released.set()
        output, errors = self.child.communicate(timeout=120 * SLOWLY)
        return Ran(self.child.returncode, output, errors)


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_autoscaler(cluster, make, by_proxy, proxy, images, kind):
    """It adds pods in the middle of an update, and takes some away in the middle of the next one."""
    workload = make(kind)
    strategy, before = workload.strategy(), workload.uids()
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": workload.app},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": KINDS[kind][0], "name": workload.app},
            "minReplicas": 2,
            "maxReplicas": 5,
        },
    }
    path = cluster.admin.path_of(cluster.admin.create(scaler))

    def scale(replicas: int, **bounds: int) -> None:
        cluster.admin.patch(path, {"spec": bounds})
        workload.kube.wait_for(
            workload.path, lambda one: one["spec"]["replicas"] == replicas, 60 * SLOWLY
        )
        wait_until(lambda: len(workload.pods()) == replicas, 60 * SLOWLY, "pods")
        workload.n_pods = replicas

    update = ["set", "image", workload.name]
    with in_the_middle(by_proxy, proxy, *update, f"main={images[1]}") as middle:
        scale(4, minReplicas=4)
        added = [pod for pod in workload.pods() if pod["metadata"]["uid"] not in before]
        if kind == "deployment":
            assert {image_of(pod) for pod in added} == {images[1]}
        assert_done(middle.end())
    wait_until(lambda: len(workload.ready()) == 4, 60 * SLOWLY, "pods")
    workload.assert_runs(images[1])
    assert workload.strategy() == strategy and before < workload.uids()

    before = workload.uids()
    with in_the_middle(by_proxy, proxy, *update, f"main={images[2]}") as middle:
        scale(2, minReplicas=1, maxReplicas=2)
        assert_done(middle.end())
    workload.assert_runs(images[2])
    assert workload.strategy() == strategy and workload.uids() < before
    cluster.admin.delete(path)


def test_restarts_after_it_counted(cluster, make, by_proxy, proxy, images):
    """A pod that was updated does not keep running: no further one is begun."""
    workload = make("deployment", 3)
    command = "set", "image", workload.name, f"main={images[1]}"
    with in_the_middle(by_proxy, proxy, *command, n=4) as middle:
        first = next(pod for pod in workload.ready() if restarts(pod) == 1)["metadata"]["name"]
        with suppress(RuntimeError):  # the command ends with the container
            cluster.kubectl("exec", first, "--", "/bin/sh", "-c", "kill 1")
        cluster.admin.wait_for(
            f"{PODS}/{first}", lambda pod: restarts(pod) == 2 and is_ready(pod), 90 * SLOWLY
        )
        ran = middle.end()
    assert ran.code == 3 and f'pod "{first}": a container has restarted' in ran.stderr, ran.stderr
    assert [image_of(pod) for pod in workload.pods()].count(images[0]) == 1


def restarts(pod: Object) -> int:
    return pod["status"]["containerStatuses"][0]["restartCount"]


def evict(cluster: Cluster, name: str) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    cluster.admin.post(f"{PODS}/{name}/eviction", eviction)


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_evicted_meanwhile(cluster, make, by_proxy, proxy, images, kind):
    """The pod that comes instead has the new image in the end; a budget refuses the one after it."""
    workload = make(kind, 3)
    strategy, before = workload.strategy(), workload.uids()
    path = make_budget(cluster, workload, maxUnavailable=1)
    with in_the_middle(by_proxy, proxy, "set", "image", workload.name, f"main={images[1]}") as middle:
        first, second = sorted(workload.pods(), key=lambda pod: image_of(pod) != images[0])[:2]
        wait_until(lambda: len(workload.ready()) == 3, 60 * SLOWLY, "pods")
        cluster.admin.wait_for(
            path, lambda one: one["status"]["disruptionsAllowed"] == 1, 30 * SLOWLY
        )
        evict(cluster, first["metadata"]["name"])
        with pytest.raises(KubeError, match="disruption budget"):
            evict(cluster, second["metadata"]["name"])
        assert_done(middle.end())
    wait_until(lambda: len(workload.ready()) == 3, 60 * SLOWLY, "pods")
    workload.assert_runs(images[1])
    assert workload.strategy() == strategy
    assert before - workload.uids() == {first["metadata"]["uid"]}
    cluster.admin.delete(path)


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_drained_meanwhile(cluster, make, by_proxy, proxy, images, kind):
    """The pods that come instead have no node until it is uncordoned."""
    workload = make(kind)
    strategy, before = workload.strategy(), workload.uids()
    node = cluster.node.name
    with in_the_middle(by_proxy, proxy, "set", "image", workload.name, f"main={images[1]}") as middle:
        cluster.kubectl("drain", node, f"--pod-selector=app={workload.app}", "--timeout=60s")
        cluster.kubectl("uncordon", node)
        assert_done(middle.end())
    wait_until(lambda: len(workload.ready()) == workload.n_pods, 60 * SLOWLY, "pods")
    workload.assert_runs(images[1])
    assert workload.strategy() == strategy and not workload.uids() & before


def test_ended_pod(cluster, make, inplace, images):
    """As after an eviction by the kubelet, it is left behind beside the one that came instead."""
    workload = make("deployment")
    ended = workload.pods()[0]["metadata"]["name"]
    cluster.admin.patch(f"{PODS}/{ended}", {"spec": {"activeDeadlineSeconds": 1}})
    cluster.admin.wait_for(
        f"{PODS}/{ended}", lambda pod: pod["status"]["phase"] == "Failed", 60 * SLOWLY
    )
    wait_until(lambda: len(workload.ready()) == 2, 60 * SLOWLY, "pods")
    assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}"))
    workload.assert_runs(images[1])
    assert image_of(cluster.admin.get(f"{PODS}/{ended}")) == images[0]


@pytest.mark.parametrize("kind", KINDS)
def test_deleted_meanwhile(make, by_proxy, proxy, images, kind):
    """The workload, and with it its pods."""
    workload = make(kind)
    with in_the_middle(by_proxy, proxy, "set", "image", workload.name, f"main={images[1]}", n=2) as middle:
        workload.delete()
        workload.kube.wait_gone(workload.path, 30 * SLOWLY)
        ran = middle.end()
    assert ran.code == 3 and f"/{workload.app}: it is gone" in ran.stderr
    assert "go on with" not in ran.stderr


def test_deleted_unseen(make, by_proxy, proxy, images):
    """No watch shows it: it is missing when all is read anew."""
    workload = make("statefulset")
    command = "set", "image", workload.name, f"main={images[1]}"
    with in_the_middle(by_proxy, proxy, *command, n=2, is_lost=True) as middle:
        for watch in proxy.watches():
            watch.silence()
        workload.delete()
        workload.kube.wait_gone(workload.path, 30 * SLOWLY)
        ran = middle.end()
    assert ran.code == 3 and f"/{workload.app}: it is gone" in ran.stderr


@pytest.mark.parametrize("kind", ["deployment", "statefulset", "daemonset"])
def test_restarted_meanwhile(cluster, make, by_proxy, proxy, images, kind):
    """By kubectl, which refuses that of a Deployment that is paused; others go back to their controller."""
    workload = make(kind)
    strategy, before = workload.strategy(), workload.uids()
    command = "set", "image", workload.name, f"main={images[1]}"
    with in_the_middle(by_proxy, proxy, *command, n=3 if kind == "deployment" else 2) as middle:
        if kind == "deployment":
            with pytest.raises(RuntimeError, match="paused"):
                cluster.kubectl("rollout", "restart", workload.name)
            assert_done(middle.end())
        else:
            cluster.kubectl("rollout", "restart", workload.name)
            ran = middle.end()
            assert ran.code == 3
            assert "another client has changed its template in metadata.annotations" in ran.stderr
            cluster.kubectl("rollout", "status", workload.name, "--timeout=90s")
    wait_until(lambda: len(workload.ready()) == workload.n_pods, 60 * SLOWLY, "pods")
    workload.assert_runs(images[1])
    assert workload.strategy() == strategy
    assert (workload.uids() == before) == (kind == "deployment")


def with_rights(cluster: Cluster, folder: Any, name: str, *patches: tuple[str, str]) -> Inplace:
    """A user who may read workloads, pods and budgets, and patch these (group, resource)."""
    names = {"name": name}
    rules = [{"apiGroups": ["apps", "policy", ""], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    rules += [{"apiGroups": [group], "resources": [what], "verbs": ["patch"]} for group, what in patches]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": names, "rules": rules}
    subject = {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
    binding = {**role, "kind": "RoleBinding", "subjects": [subject]}
    binding["roleRef"] = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", **names}
    del binding["rules"]
    cluster.admin.create(role)
    cluster.admin.create(binding)
    certificate = cluster.control_plane.authority.issue(name, f"/CN={name}")
    path = cluster.control_plane.write_kubeconfig(folder / f"{name}.conf", certificate=certificate)
    return Inplace(path, folder)


def test_missing_rights(cluster, agent, make, images, folder):
    """Are found before anything has changed, and named at once."""
    gated = {"readinessGates": [{"conditionType": GATE}]}
    for others, pod, said in (
        ((), {}, "lacks rights in namespace default: patch pods; patch replicasets.apps; patch pods/status"),
        ((("apps", "*"), ("", "pods")), gated, 'cannot patch resource "pods/status"'),
    ):
        workload = make("deployment", pod=pod)
        user = with_rights(cluster, folder, workload.app, ("apps", "deployments"), *others)
        ran = user.run("set", "image", workload.name, f"main={images[1]}")
        assert ran.code == 1 and said in ran.stderr
        assert pod or f"--clusterrole=inplaced-user --user={workload.app}" in ran.stderr
        assert workload.record() is None and workload.strategy() == (False, None)


def test_lost_node(cluster, make, inplace, images):
    """Its pod gets the image, and is left to its kubelet; the DaemonSet is handed back, forward and back."""
    workload = make("daemonset")
    strategy = workload.strategy()
    lost = cluster.admin.create(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"lost-{workload.app}"}}
    )
    room = {"pods": "9", "cpu": "1", "memory": "1Gi"}
    status = {"capacity": room, "allocatable": room}
    cluster.admin.patch(f"{cluster.admin.path_of(lost)}/status", {"status": status}, "strategic")

    def find() -> list[str]:
        node = lost["metadata"]["name"]
        return [pod["metadata"]["name"] for pod in workload.pods() if pod["spec"].get("nodeName") == node]

    (name,) = wait_until(find, 60 * SLOWLY, "the pod of that node")
    status = {"name": "main", "image": images[0], "imageID": "x", "ready": True, "restartCount": 0}
    status["containerID"] = "containerd://0"
    status["state"] = {"running": {}}
    conditions = [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}]
    patch = {"status": {"phase": "Running", "conditions": conditions, "containerStatuses": [status]}}
    cluster.admin.patch(f"{PODS}/{name}/status", patch, "strategic")
    try:
        for image, command in (
            (images[1], ["set", "image", workload.name, f"main={images[1]}"]),
            (images[0], ["rollout", workload.name, "--undo"]),
        ):
            with none_replaced(workload):
                ran = inplace.run(*command, timeout=150 * SLOWLY)
            assert ran.code == 3, ran.stdout + ran.stderr
            assert f'pod "{name}": its node "{lost["metadata"]["name"]}" does not answer' in ran.stderr
            assert {image_of(pod) for pod in workload.pods()} == {image}
            assert workload.strategy() == strategy and not rollout_is_open(workload)
    finally:
        cluster.admin.delete(cluster.admin.path_of(lost))


def test_tainted_node(cluster, make, inplace, images):
    """The pod stays where none should be by now, and its DaemonSet's status does not count it."""
    workload = make("daemonset")
    cluster.kubectl("taint", "node", cluster.node.name, "maint=true:NoSchedule")
    try:
        strategy = workload.strategy()
        with none_replaced(workload):
            assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}"))
        assert workload.get()["status"]["numberMisscheduled"] == 1
        assert workload.strategy() == strategy and not rollout_is_open(workload)
    finally:
        cluster.kubectl("taint", "node", cluster.node.name, "maint-")


def test_api_server_restarts_meanwhile(cluster, make, inplace, images):
    workload = make("deployment", 3)
    before = workload.uids()
    with inplace.start("set", "image", workload.name, f"main={images[1]}") as child:
        assert "updating" in child.stdout.readline()
        cluster.control_plane.apiserver.kill9()
        cluster.control_plane.apiserver.start()
        _, errors = child.communicate(timeout=120 * SLOWLY)
    assert child.returncode == 0, errors
    workload.assert_runs(images[1])
    assert workload.uids() == before


def test_partition(make, inplace, images):
    """Lower ordinals keep their image, also when they are made again; a second command updates them."""
    workload = make("statefulset", 3)
    before = workload.uids()
    assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}", "--partition=2"))
    assert [image_of(pod) for pod in sorted(workload.ready(), key=lambda pod: pod["metadata"]["name"])] == [
        images[0],
        images[0],
        images[1],
    ]
    assert workload.strategy()[1]["rollingUpdate"]["partition"] == 2
    assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}", "--partition=0"))
    workload.assert_runs(images[1])
    assert workload.uids() == before


def test_partition_undone(make, inplace, images):
    """It is as it was, whether the update had ended or not, and who goes on may not ask for another one."""
    workload = make("statefulset", 3)
    strategy, update = workload.strategy(), ["set", "image", workload.name]
    with none_replaced(workload):
        ran = inplace.run(*update, f"main={images[3]}", "--partition=2", timeout=90 * SLOWLY)
        assert ran.code == 3
        ran = inplace.run(*update, f"main={images[3]}", "--partition=1")
        assert ran.code == 1 and "has another partition" in ran.stderr, ran.stderr
        assert_done(inplace.run("rollout", workload.name, "--undo"))
        workload.assert_runs(images[0])
        assert workload.strategy() == strategy

        assert_done(inplace.run(*update, f"main={images[1]}", "--partition=2"))
        again = assert_done(inplace.run(*update, f"main={images[1]}")).stdout
        assert "pods with ordinals below 2 keep theirs, --partition=0 updates them" in again
        assert_done(inplace.run("rollout", workload.name, "--undo"))
        workload.assert_runs(images[0])
        assert workload.strategy() == strategy


@pytest.mark.parametrize("way", ["set-image", "rollout"])
def test_pods_that_lag(cluster, make, inplace, images, way):
    """The template has the images and the pods do not: of a ReplicaSet, and where one pod was patched by hand."""
    workload = make("replicaset")
    cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
    wait_observed(workload)
    set_image = ["set", "image", workload.name, f"main={images[1]}"]
    command = set_image if way == "set-image" else ["rollout", workload.name]
    with none_replaced(workload):
        assert_done(inplace.run(*command))
        workload.assert_runs(images[1])
        assert "already" in assert_done(inplace.run(*command)).stdout
    if way == "rollout":
        return
    workload = make("deployment")
    pod = workload.pods()[0]["metadata"]["name"]
    with none_replaced(workload):
        changed = {"spec": {"containers": [{"name": "main", "image": images[1]}]}}
        cluster.admin.patch(f"{PODS}/{pod}", changed, "strategic")
        cluster.admin.wait_for(
            f"{PODS}/{pod}",
            lambda one: one["status"]["containerStatuses"][0]["image"] == images[1] and is_ready(one),
            60 * SLOWLY,
        )
        assert_done(inplace.run("set", "image", workload.name, f"main={images[0]}"))
        workload.assert_runs(images[0])


def test_several_containers(make, inplace, images):
    """Sidecars too, of which * stands for all; one that ends before the others is not updated in place."""
    sidecar = {"name": "proxy", "image": images[0], "restartPolicy": "Always", "command": until_term()}
    workload = make("deployment", pod={"initContainers": [sidecar]})
    before = workload.uids()
    assert_done(inplace.run("set", "image", workload.name, f"*={images[1]}"))
    workload.assert_runs(images[1])
    for pod in workload.pods():
        (status,) = pod["status"]["initContainerStatuses"]
        assert (status["image"], status["restartCount"]) == (images[1], 1)
    assert "already" in assert_done(inplace.run("set", "image", workload.name, f"*={images[1]}")).stdout
    both = [f"proxy={images[2]}", f"main={images[0]}"]
    assert_done(inplace.run("set", "image", workload.name, *both))
    workload.assert_runs(images[0])
    assert {pod["spec"]["initContainers"][0]["image"] for pod in workload.pods()} == {images[2]}
    assert workload.uids() == before

    ended = {"name": "once", "image": images[0], "command": ["/bin/true"]}
    workload = make("statefulset", pod={"initContainers": [ended]})
    ran = inplace.run("set", "image", workload.name, f"*={images[1]}")
    assert ran.code == 1 and 'container "once" is an init container that has ended' in ran.stderr
    ran = inplace.run("set", "image", workload.name, f"none={images[1]}")
    assert ran.code == 1 and 'there is no container "none"' in ran.stderr
    assert workload.record() is None


def test_no_pods(make, inplace, images):
    workload = make("deployment", 0)
    assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}"))
    workload.n_pods = 1
    workload.patch({"spec": {"replicas": 1}})
    wait_until(lambda: len(workload.ready()) == 1, 60 * SLOWLY, "pod")
    workload.assert_runs(images[1])


def test_pod_without_a_node(make, inplace, images):
    """Is given the image; why it does not run is said while it is awaited."""
    workload = make("deployment")
    workload.patch({"spec": {"replicas": 0}})
    wait_until(lambda: not workload.pods(), 60 * SLOWLY, "end of the pods")
    nowhere = {"spec": {"nodeSelector": {"there-is": "none"}}}
    workload.patch({"spec": {"replicas": 1, "template": nowhere}})
    wait_until(
        lambda: any("conditions" in pod["status"] for pod in workload.pods()), 60 * SLOWLY, "pod"
    )
    wait_observed(workload)
    with inplace.running("set", "image", workload.name, f"main={images[1]}") as child:
        while "nodes are available" not in (line := child.stdout.readline()):
            assert line, child.communicate()
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=30 * SLOWLY)
    assert child.returncode == 130 and "--undo" in errors
    assert {image_of(pod) for pod in workload.pods()} == {images[1]}


def test_refusals_name_the_way(cluster, make, inplace, images):
    """Each in one line, before anything has changed."""
    workload = make("deployment")
    before = workload.get()["spec"]
    image = f"main={images[1]}"
    for arguments, code, words in (
        (["set", "image", workload.name, f"man={images[1]}"], 1, 'no container "man"; there is main'),
        (["set", "image", workload.name, "main=A:1"], 2, "image"),
        (["set", "image", workload.name, image, "-n", "shpo"], 1, 'namespaces "shpo" not found'),
        (["set", "image", "deployment/wbe", image], 1, 'deployments.apps "wbe" not found'),
        (["rollout", workload.name], 1, "no update is under way"),
    ):
        ran = inplace.run(*arguments)
        assert ran.code == code and words in ran.stderr, ran.stderr
        assert ran.stderr.count("\n") == 1
    assert workload.get()["spec"] == before
    workload.patch({"spec": {"paused": True, "replicas": 0}})
    wait_observed(workload)
    made = workload.get()
    spec = {**made["spec"], "replicas": 1}
    fresh = {"metadata": {"name": "never-ran"}, "apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
    cluster.admin.create(fresh)
    path = cluster.admin.path_of({**fresh, "metadata": {"name": "never-ran", "namespace": "default"}})
    cluster.admin.wait_for(path, lambda found: "observedGeneration" in found.get("status", {}), 60 * SLOWLY)
    ran = inplace.run("set", "image", "deployment/never-ran", image)
    assert ran.code == 1 and 'by "kubectl set image", and resume it' in ran.stderr
    cluster.admin.delete(path)


def test_what_comes_after(cluster, make, inplace, images, folder):
    """A manifest with other images would replace the pods; a grace period without the gate is none."""
    workload = make("deployment", 1)
    text = json.dumps({"spec": {"template": workload.get()["spec"]["template"]}})
    applied = {"kubectl.kubernetes.io/last-applied-configuration": text}
    workload.patch({"metadata": {"annotations": applied}})
    ran = assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}", "--grace=1s"))
    assert "its manifest has other images" in ran.stderr and "--grace has no effect" in ran.stderr
    ran = assert_done(inplace.run("set", "image", workload.name, f"main={images[0]}"))
    assert "manifest" not in ran.stderr


def test_pod_that_has_ended(cluster, inplace, images):
    """Its containers are not started again, so there is nothing to update."""
    cluster.node.run_pod("ended", images[0], until_term())
    path = f"{PODS}/ended"
    cluster.admin.patch(path, {"spec": {"activeDeadlineSeconds": 1}})
    cluster.admin.wait_for(path, lambda pod: pod["status"]["phase"] == "Failed", 60 * SLOWLY)
    ran = inplace.run("set", "image", "pod/ended", f"main={images[1]}")
    assert ran.code == 1 and "it has ended" in ran.stderr
    cluster.admin.delete(path)


def test_bare_pod(cluster, make, inplace, images):
    for kind in ("deployment", "statefulset"):
        workload = make(kind)
        owned = workload.pods()[0]["metadata"]["name"]
        ran = inplace.run("set", "image", f"pod/{owned}", f"main={images[1]}")
        assert ran.code == 1 and f"{kind}.apps/{workload.app} owns it: update that" in ran.stderr
    cluster.node.run_pod("bare", images[0], until_term())
    before = cluster.admin.get(f"{PODS}/bare")["metadata"]["uid"]
    assert_done(inplace.run("set", "image", "pod/bare", f"main={images[1]}"))
    assert_done(inplace.run("rollout", "pod/bare", "--undo"))
    pod = cluster.admin.get(f"{PODS}/bare")
    assert (pod["metadata"]["uid"], image_of(pod)) == (before, images[0])
    assert pod["status"]["containerStatuses"][0]["image"] == images[0]
    cluster.admin.delete(f"{PODS}/bare")


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


def condition(pod: Object, kind: str) -> Object:
    found = pod["status"].get("conditions", [])
    return next((one for one in found if one["type"] == kind), {})


def test_readiness_gate(cluster, agent, make, inplace, by_proxy, proxy, images):
    """A pod is out of service before its container ends, and returns when its agent has verified what runs."""
    workload = make("deployment", pod={"readinessGates": [{"conditionType": GATE}]})
    uids = workload.uids()
    interrupted(by_proxy, proxy, workload, images[1], 2)
    (closed,) = (pod for pod in workload.pods() if condition(pod, GATE)["status"] == "False")
    assert image_of(closed) == images[0]
    assert_done(inplace.run("rollout", workload.name, "--undo"))
    workload.assert_runs(images[0])
    assert {pod["status"]["containerStatuses"][0]["restartCount"] for pod in workload.pods()} == {0}
    # A kubelet that is behind would make it ready again when its gate has been closed for the next update.
    wait_until(lambda: len(workload.ready()) == 2, 60 * SLOWLY, "pods")

    version = cluster.admin.get(PODS)["metadata"]["resourceVersion"]
    assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}", "--grace=1"))
    workload.assert_runs(images[1])
    assert workload.uids() == uids
    assert {condition(pod, VERIFIED).get("status") for pod in workload.pods()} == {"True"}
    served = set()
    query = {"labelSelector": f"app={workload.app}", "resourceVersion": version}
    for event in cluster.admin.watch(PODS, 60 * SLOWLY, **query):
        pod = event["object"]
        (status,) = pod["status"]["containerStatuses"]
        if is_ready(pod) and image_of(pod) == images[1]:
            assert status["image"] == images[1] and "running" in status["state"]
            served.add(pod["metadata"]["uid"])
        if served == uids:
            break


def test_preload(cluster, agent, make, inplace, registry, images):
    """The image is on the node before the first container ends; one that does not exist changes nothing."""
    node_image = NodeImage(cluster.admin, cluster.node.name)
    node_image.create()
    workload = make("deployment")
    ran = inplace.run("set", "image", workload.name, f"main={images[3]}", timeout=90 * SLOWLY)
    assert ran.code == 1 and "--no-preload" in ran.stderr
    assert workload.record() is None and workload.strategy() == (False, None)
    fresh = registry.push_image("t/rollout", "preloaded", [1 << 20], busybox=True).reference
    assert_done(inplace.run("set", "image", workload.name, f"main={fresh}", timeout=90 * SLOWLY))
    workload.assert_runs(fresh)
    node_image.wait_status(fresh, "Succeeded")
    events = cluster.admin.list("/api/v1/namespaces/default/events")
    names = {pod["metadata"]["name"] for pod in workload.pods()}
    said = [one["message"] for one in events if one["involvedObject"].get("name") in names]
    assert any(f'"{fresh}" already present' in text for text in said)
    assert not any(f'Pulling image "{fresh}"' in text for text in said)
    node_image.delete()


@pytest.mark.parametrize("way", ["absent", "stopped"])
def test_no_agent_answers(cluster, make, inplace, registry, request, way):
    """After ten seconds the update begins without the images, unless they are required."""
    cluster.control_plane.install()
    agent = request.getfixturevalue("agent") if way == "stopped" else None
    workload = make("deployment")
    fresh = registry.push_image("t/rollout", f"agent-{way}", [1 << 20, len(way)], busybox=True).reference
    update = ("set", "image", workload.name, f"main={fresh}")
    assert inplace.run(*update, "--require-preload", "--no-preload").code == 1
    ran = inplace.run(*update, "--require-preload")
    assert ran.code == 1 and f"on node {cluster.node.name}: it has no NodeImage" in ran.stderr

    node_image = NodeImage(cluster.admin, cluster.node.name)
    node_image.create()
    if agent:
        agent.process.send(signal.SIGSTOP)
    try:
        ran = inplace.run(*update, "--require-preload")
        assert ran.code == 1, ran.stdout
        assert f"no agent answers on node {cluster.node.name}; nothing has changed" in ran.stderr
        assert workload.record() is None and workload.strategy() == (False, None)
        with none_replaced(workload):
            ran = assert_done(inplace.run(*update, timeout=90 * SLOWLY))
    finally:
        if agent:
            agent.process.send(signal.SIGCONT)
        node_image.delete()
    assert f"no agent answers on node {cluster.node.name}; its images are not pulled before" in ran.stderr
    said = [f"preloading {fresh} on 1 node", f"waiting: no agent has begun on node {cluster.node.name}"]
    assert ran.stdout.splitlines()[:2] == said
    workload.assert_runs(fresh)


def test_interrupted_preload(cluster, make, inplace, images):
    """Says what has changed: nothing; and what goes on."""
    cluster.control_plane.install()
    node_image = NodeImage(cluster.admin, cluster.node.name)
    node_image.create()
    workload = make("deployment")
    try:
        with inplace.running("set", "image", workload.name, f"main={images[1]}") as child:
            assert child.stdout.readline() == f"preloading {images[1]} on 1 node\n"
            child.send_signal(signal.SIGINT)
            _, errors = child.communicate(timeout=20 * SLOWLY)
    finally:
        node_image.delete()
    assert child.returncode == 128 + signal.SIGINT
    assert "nothing has changed; nodes that have begun to pull go on" in errors
    assert workload.record() is None and workload.strategy() == (False, None)


def test_no_right_to_preload(cluster, agent, make, registry, folder):
    """Who may update one workload need not be able to make nodes pull."""
    node_image = NodeImage(cluster.admin, cluster.node.name)
    node_image.create()
    workload = make("deployment")
    fresh = registry.push_image("t/rollout", "not-preloaded", [1 << 20, 5], busybox=True).reference
    user = with_rights(cluster, folder, "dave", ("apps", "*"), ("", "pods"))
    ran = assert_done(user.run("set", "image", workload.name, f"main={fresh}", timeout=90 * SLOWLY))
    assert "the images are not pulled before the update: " in ran.stderr
    assert "nodeimages" in ran.stderr
    workload.assert_runs(fresh)
    node_image.delete()


@pytest.fixture
def plain(cluster, registry, folder) -> Iterator[Kubelet]:
    """A second node, without an agent."""
    node = Kubelet(folder / "plain", cluster.control_plane, registry, "plain")
    try:
        node.start()
        yield node
    finally:
        node.close()
        cluster.admin.delete(node.path)


def test_nodes_of_two_kinds(cluster, agent, plain, make, inplace, registry, images):
    """What is not done on the one without an agent is said; an update verifies its pod by what is shown of it."""
    node_image = NodeImage(cluster.admin, cluster.node.name)
    node_image.create()
    fresh = registry.push_image("t/rollout", "two-kinds", [1 << 20, 4], busybox=True).reference
    nodes = f"--nodes={cluster.node.name},plain"
    ran = inplace.run("preload", fresh, nodes, timeout=90 * SLOWLY)
    assert ran.code == 3 and "plain" in ran.stdout + ran.stderr
    assert_done(inplace.run("preload", fresh, timeout=90 * SLOWLY))  # of all that have a NodeImage
    node_image.wait_status(fresh, "Succeeded")

    apart = {"labelSelector": {"matchLabels": {"apart": "yes"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    workload = make("deployment", labels={"apart": "yes"}, pod={"affinity": affinity})
    before = workload.uids()
    assert {pod["spec"]["nodeName"] for pod in workload.pods()} == {cluster.node.name, "plain"}
    assert_done(inplace.run("set", "image", workload.name, f"main={fresh}", timeout=90 * SLOWLY))
    workload.assert_runs(fresh)
    assert workload.uids() == before
    shown = json.loads(inplace.run("status", workload.name, "-o", "json").stdout)["items"]
    by_node = {one["node"]: (one.get("verdict"), one.get("agent")) for one in shown}
    assert by_node[cluster.node.name] == ("Verified", "yes")
    assert by_node["plain"] in {(None, None), ("", ""), ("-", "-")}
    doctor = inplace.run("doctor")
    assert doctor.code == 3 and "problem: 1 node (plain): there is no agent" in doctor.stdout
    assert "2, 1 with an agent, 1 of unknown version" in doctor.stdout
    node_image.delete()


VERBS = {"PATCH": "patch", "POST": "create", "DELETE": "delete"}


def used_rights(proxy: ApiProxy) -> set[tuple[str, str]]:
    """(verb, resource) of all requests. A watch that shows what is there stands for a list, as on older servers."""
    used = set()
    for request in proxy.requests():
        path, _, query = request.path.partition("?")
        _, _, rest = path.partition("/namespaces/default/")
        resource, _, name = rest.partition("/")
        name, _, subresource = name.partition("/")
        resource += f"/{subresource}" if subresource else ""
        if request.method != "GET":
            used.add((VERBS[request.method], resource))
        elif name:
            used.add(("get", resource))
        else:
            used.add(("watch" if "watch=" in query else "list", resource))
            if "sendInitialEvents" in query:
                used.add(("list", resource))
    return used


@pytest.fixture
def role(cluster) -> Iterator[Object]:
    """The ClusterRole of the manifests for people."""
    cluster.control_plane.apply_files(MANIFESTS / "users" / "rbac.yaml")
    path = f"/apis/{RBAC}/v1/clusterroles/inplaced-user"
    yield cluster.admin.get(path)
    cluster.admin.delete(path)


@pytest.fixture
def user(cluster, proxy, role, folder) -> Iterator[Inplace]:
    """Somebody to whom it is bound in one namespace, through the proxy."""
    account = {"kind": "ServiceAccount", "metadata": {"name": "erin", "namespace": "default"}}
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "erin", "namespace": "default"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [{"kind": "ServiceAccount", **account["metadata"]}],
    }
    made = [cluster.admin.create({"apiVersion": "v1", **account}), cluster.admin.create(binding)]
    token = cluster.control_plane.service_account_token("default", "erin")
    path = write_kubeconfig(folder / "erin.conf", proxy.url, proxy.authority, token=token)
    yield Inplace(path, folder)
    for one in made:
        cluster.admin.delete(cluster.admin.path_of(one))


def granted_rights(role: Object) -> set[tuple[str, str]]:
    return {
        (verb, resource)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_role_for_users(cluster, agent, make, images, proxy, role, user):
    """Who has it in one namespace can do everything there, and needs all of it."""
    for kind in KINDS:
        workload = make(kind, pod={"readinessGates": [{"conditionType": GATE}]} if kind == "deployment" else {})
        assert_done(user.run("set", "image", workload.name, f"main={images[1]}", timeout=90 * SLOWLY))
        workload.assert_runs(images[1])
        assert_done(user.run("rollout", workload.name, "--undo", timeout=90 * SLOWLY))
        workload.assert_runs(images[0])
        assert_done(user.run("status", workload.name))
    workload = make("deployment")
    workload.patch({"spec": {"paused": True}})
    workload.patch(set_template(images[1]))
    wait_observed(workload)
    assert_done(user.run("rollout", workload.name, timeout=90 * SLOWLY))
    assert_done(user.run("restart", workload.name, "--request", timeout=90 * SLOWLY))

    template = workload.get()["spec"]["template"]
    alone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone", "namespace": "default"}}
    cluster.admin.create({**alone, "spec": template["spec"]})
    cluster.admin.wait_for(f"{PODS}/alone", is_ready, 60 * SLOWLY)
    assert_done(user.run("set", "image", "pod/alone", f"main={images[0]}", timeout=90 * SLOWLY))
    cluster.admin.delete(f"{PODS}/alone")
    assert granted_rights(role) - used_rights(proxy) == set()

    doctor = json.loads(user.run("doctor", "-o", "json").stdout)
    assert [one for one in doctor["problems"] if "lacks" in one["message"]] == []


def test_each_right_of_the_role(cluster, role, user):
    """Doctor names each one that is missing."""
    cluster.control_plane.install()
    path = cluster.admin.path_of(role)
    for number, rule in enumerate(role["rules"]):
        rules = [one for k, one in enumerate(role["rules"]) if k != number]
        cluster.admin.patch(path, {"rules": rules})
        missing = [f"{', '.join(rule['verbs'])} {resource}" for resource in rule["resources"]]

        def is_named(missing=missing) -> bool:
            said = user.run("doctor").stdout
            return all(re.search(rf"lacks (.*; )?{re.escape(one)}\b", said) for one in missing)

        wait_until(is_named, 20 * SLOWLY, lambda: f"{missing}: {user.run('doctor').stdout}")
    cluster.admin.patch(path, {"rules": role["rules"]})
