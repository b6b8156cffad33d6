# SPDX-License-Identifier: Apache-2.0
"""Proves which nodes, agents and rights of the user updates in place need, and what happens without."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest

from rollouts import *  # noqa: F403
from fake import api_faults
from fake.api_proxy import ApiProxy, Exchange
from lab.clients import MANIFESTS
from lab.cluster import Cluster
from lab.inplace import Inplace
from lab.kube import Object
from lab.kubeconfig import write_kubeconfig
from lab.kubelet import Kubelet, is_ready
from lab.node_image import NodeImage
from lab.pod import VERIFIED, condition, until_term
from lab.wait import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(300 * SLOWLY)]


RBAC = "rbac.authorization.k8s.io"


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
    """Missing rights are found before anything has changed, and named at once."""
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


def set_conditions(cluster: Cluster, name: str, **statuses: str) -> None:
    conditions = [{"type": kind, "status": status} for kind, status in statuses.items()]
    cluster.admin.patch(f"{PODS}/{name}/status", {"status": {"conditions": conditions}}, "strategic")


@contextmanager
def lost_node(cluster: Cluster, workload: Workload, image: str) -> Iterator[tuple[str, str]]:
    """Adds a node without a kubelet, and the pod of a DaemonSet on it, which has run there; yields their names."""
    node = f"lost-{workload.app}"
    lost = cluster.admin.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
    room = {"pods": "9", "cpu": "1", "memory": "1Gi"}
    status = {"capacity": room, "allocatable": room}
    cluster.admin.patch(f"{cluster.admin.path_of(lost)}/status", {"status": status}, "strategic")

    def find() -> list[str]:
        return [pod["metadata"]["name"] for pod in workload.pods() if pod["spec"].get("nodeName") == node]

    (name,) = wait_until(find, 60 * SLOWLY, "the pod of that node")
    status = {"name": "main", "image": image, "imageID": "x", "ready": True, "restartCount": 0}
    status["containerID"] = "containerd://0"
    status["state"] = {"running": {}}
    patch = {"status": {"phase": "Running", "containerStatuses": [status]}}
    cluster.admin.patch(f"{PODS}/{name}/status", patch, "strategic")
    set_conditions(cluster, name, Ready="False", ContainersReady="True")
    try:
        yield node, name
    finally:
        cluster.admin.delete(cluster.admin.path_of(lost))


def test_lost_node(cluster, make, inplace, images):
    """The lost node's pod gets the image, and is left to its kubelet; the DaemonSet is handed back, forward
    and back.
    """
    workload = make("daemonset")
    strategy = workload.strategy()
    with lost_node(cluster, workload, images[0]) as (node, name):
        for image, command in (
            (images[1], ["set", "image", workload.name, f"main={images[1]}"]),
            (images[0], ["rollout", workload.name, "--undo"]),
        ):
            with none_replaced(workload):
                ran = inplace.run(*command, timeout=150 * SLOWLY)
            assert ran.code == 3, ran.stdout + ran.stderr
            assert f'pod "{name}": its node "{node}" does not answer' in ran.stderr
            assert {image_of(pod) for pod in workload.pods()} == {image}
            assert workload.strategy() == strategy and not rollout_is_open(workload)


def test_deleted_pod_of_a_lost_node(cluster, make, inplace, images):
    """It keeps its name, so that the StatefulSet cannot have another: the other pod is updated without it."""
    apart = {"labelSelector": {"matchLabels": {"apart": "lost"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    anywhere = {"affinity": affinity, "tolerations": [{"operator": "Exists"}]}
    workload = make("statefulset", 1, labels={"apart": "lost"}, pod=anywhere)
    strategy, uids = workload.strategy(), workload.uids()
    workload.patch({"spec": {"replicas": 2}})
    with lost_node(cluster, workload, images[0]) as (node, name):
        cluster.admin.delete(f"{PODS}/{name}")
        ran = inplace.run("set", "image", workload.name, f"main={images[1]}", timeout=150 * SLOWLY)
        assert ran.code == 3, ran.stdout + ran.stderr
        assert f'pod "{name}": it is deleted, and its node "{node}" does not end it' in ran.stderr
        assert workload.uids() == uids and {image_of(pod) for pod in workload.ready()} == {images[1]}
        assert workload.strategy() == strategy and not rollout_is_open(workload)


@pytest.mark.parametrize("kind", ["statefulset", "daemonset"])
def test_deleted_pod_that_a_finalizer_keeps(cluster, make, inplace, images, kind):
    """A StatefulSet's controller makes no other: the update ends without it, and names the finalizer."""
    workload = make(kind)
    strategy, is_stateful = workload.strategy(), kind == "statefulset"
    path = f"{PODS}/{workload.pods()[0]['metadata']['name']}"
    uid = cluster.admin.patch(path, {"metadata": {"finalizers": ["example.org/wait"]}})["metadata"]["uid"]

    def is_complete() -> bool:
        return uid not in workload.uids() and len(workload.ready()) == workload.n_pods

    try:
        cluster.admin.delete(path)
        if not is_stateful:
            wait_until(is_complete, 60 * SLOWLY, "another pod")
            deleted = datetime.fromisoformat(cluster.admin.get(path)["metadata"]["deletionTimestamp"])
            wait_until(lambda: time.time() > deleted.timestamp() + 61, 90, "a minute", 1)
        ran = inplace.run("set", "image", workload.name, f"main={images[1]}", timeout=150 * SLOWLY)
        said = 'it is deleted, and its finalizer "example.org/wait" keeps it' in ran.stderr
        assert (ran.code, said) == ((3, True) if is_stateful else (0, False)), ran.stdout + ran.stderr
        assert {image_of(pod) for pod in workload.ready()} == {images[1]}
        assert workload.strategy() == strategy and not rollout_is_open(workload)
    finally:
        cluster.admin.patch(path, {"metadata": {"finalizers": None}})
    wait_until(is_complete, 60 * SLOWLY, "all pods")
    workload.assert_runs(images[1])


def test_node_lost_behind_a_closed_gate(cluster, agent, make, inplace, images):
    """The update has taken the pod out of service; it gets the image, and does not keep the others back."""
    workload = make("daemonset", pod={"readinessGates": [{"conditionType": GATE}]})
    strategy = workload.strategy()
    with lost_node(cluster, workload, images[0]) as (node, name):
        set_conditions(cluster, name, **{"Ready": "True", GATE: "True"})
        for image, command in (
            (images[1], ["set", "image", workload.name, f"main={images[1]}"]),
            (images[0], ["rollout", workload.name, "--undo"]),
        ):
            with none_replaced(workload), inplace.running(*command) as child:
                if image == images[1]:
                    is_closed = lambda pod: condition(pod, GATE)["status"] == "False"  # noqa: E731
                    cluster.admin.wait_for(f"{PODS}/{name}", is_closed, 60 * SLOWLY)
                    set_conditions(cluster, name, Ready="False")
                _, errors = child.communicate(timeout=150 * SLOWLY)
            assert child.returncode == 3, errors
            assert f'pod "{name}": its node "{node}" does not answer' in errors
            assert {image_of(pod) for pod in workload.pods()} == {image}
            assert len(workload.ready()) == 1
            assert workload.strategy() == strategy and not rollout_is_open(workload)


def test_undo_of_a_lost_node_is_interrupted(cluster, agent, make, inplace, by_proxy, proxy, images):
    """The next run knows of the pod that the run before has found silent, and hands the workload back."""
    workload = make("daemonset", pod={"readinessGates": [{"conditionType": GATE}]})
    with lost_node(cluster, workload, images[0]) as (node, name):
        path = f"{PODS}/{name}"
        set_conditions(cluster, name, **{"Ready": "True", GATE: "True"})
        with inplace.running("set", "image", workload.name, f"main={images[1]}") as child:
            cluster.admin.wait_for(path, lambda pod: condition(pod, GATE)["status"] == "False", 60 * SLOWLY)
            set_conditions(cluster, name, Ready="False")
            cluster.admin.wait_for(path, lambda pod: image_of(pod) == images[1], 60 * SLOWLY)
        undo = ["rollout", workload.name, "--undo"]
        reached = stop_after(proxy, 1, rf"^PATCH .*/pods/{name}(\?|$)")
        with by_proxy.start(*undo) as child:
            wait_until(reached.is_set, 150 * SLOWLY, "the write")
            child.kill()
        assert rollout_is_open(workload) and image_of(cluster.admin.get(path)) == images[0]
        ran = inplace.run(*undo, timeout=60 * SLOWLY)
        assert ran.code == 3, ran.stdout + ran.stderr
        assert f'pod "{name}": its node "{node}" does not answer' in ran.stderr
        assert not rollout_is_open(workload)


def test_budget_spent_by_a_lost_pod(cluster, make, inplace, images):
    """The error names the pod that the budget keeps back. The workload stays held: its controller would replace that pod,
    whatever the budget says.
    """
    workload = make("daemonset")
    strategy = workload.strategy()
    path = make_budget(cluster, workload, minAvailable=1)
    (well,) = (pod["metadata"]["name"] for pod in workload.pods())
    with lost_node(cluster, workload, images[0]) as (node, name):
        cluster.admin.wait_for(path, lambda one: one["status"]["expectedPods"] == 2, 30 * SLOWLY)
        with none_replaced(workload):
            ran = inplace.run("set", "image", workload.name, f"main={images[1]}", timeout=150 * SLOWLY)
        assert ran.code == 3, ran.stdout + ran.stderr
        assert f'pod "{name}": its node "{node}" does not answer' in ran.stderr
        assert f'pod "{well}": the PodDisruptionBudget "{workload.app}" allows no further pod to be unavailable' in ran.stderr
        assert {pod["metadata"]["name"]: image_of(pod) for pod in workload.pods()} == {
            well: images[0],
            name: images[1],
        }
        assert workload.strategy() != strategy and rollout_is_open(workload)
        cluster.admin.delete(path)
        with none_replaced(workload):
            assert inplace.run("rollout", workload.name, timeout=150 * SLOWLY).code == 3
        assert {image_of(pod) for pod in workload.pods()} == {images[1]}
        assert workload.strategy() == strategy and not rollout_is_open(workload)


def test_first_of_a_daemon_set(cluster, make, inplace, images):
    """A ready pod is updated before one that is not."""
    workload = make("daemonset")
    strategy = workload.strategy()
    with lost_node(cluster, workload, images[0]) as (_, name):
        with none_replaced(workload):
            two = "--max-unavailable=2"
            assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}", "--first=1", two))
            assert [image_of(pod) for pod in workload.ready()] == [images[1]]
            assert image_of(cluster.admin.get(f"{PODS}/{name}")) == images[0]
            assert workload.strategy() != strategy and rollout_is_open(workload)
            assert_done(inplace.run("rollout", workload.name, "--undo", two))
        assert {image_of(pod) for pod in workload.pods()} == {images[0]}
        assert workload.strategy() == strategy


def test_tainted_node(cluster, make, inplace, images):
    """The pod stays on a node that should have none by now, and its DaemonSet's status does not count it."""
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


def test_readiness_gate(cluster, agent, make, inplace, by_proxy, proxy, images):
    """A pod is out of service before its container ends, and returns when its agent has verified its container."""
    once = {"name": "once", "image": images[0], "command": ["/bin/true"]}
    gates = [{"conditionType": GATE}]
    workload = make("deployment", pod={"readinessGates": gates, "initContainers": [once]})
    uids = workload.uids()
    interrupted(by_proxy, proxy, workload, images[1], 2)
    (closed,) = (pod for pod in workload.pods() if condition(pod, GATE)["status"] == "False")
    assert image_of(closed) == images[0]
    # A kubelet that is behind would make it unready because of this gate in the middle of the next update,
    cluster.admin.wait_for(f"{PODS}/{closed['metadata']['name']}", lambda pod: not is_ready(pod), 60 * SLOWLY)
    assert_done(inplace.run("rollout", workload.name, "--undo"))
    workload.assert_runs(images[0])
    assert {pod["status"]["containerStatuses"][0]["restartCount"] for pod in workload.pods()} == {0}
    # or ready again when its gate has been closed for that.
    wait_until(lambda: len(workload.ready()) == 2, 60 * SLOWLY, "pods")

    version = cluster.admin.get(PODS)["metadata"]["resourceVersion"]
    assert_done(inplace.run("set", "image", workload.name, f"*={images[1]}", "--grace=1"))
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


@pytest.mark.parametrize(
    ("flags", "number", "code"),
    [((), signal.SIGINT, 130), ((), signal.SIGHUP, 129), ((f"--timeout={30 * SLOWLY}s",), None, 124)],
    ids=["signal", "terminal", "time-out"],
)
def test_left_while_a_pod_drains(cluster, agent, make, inplace, images, flags, number, code):
    """A pod that the command has taken out of service, and not changed yet, returns when the command ends early."""
    workload = make("deployment", pod={"readinessGates": [{"conditionType": GATE}]})
    update = "set", "image", workload.name, f"main={images[1]}", "--grace=600"
    is_closed = lambda: "False" in {condition(pod, GATE)["status"] for pod in workload.pods()}  # noqa: E731
    ended = Inplace(inplace.kubeconfig, inplace.folder)
    ended.prefix = ["env", "--default-signal=HUP"]  # nohup may have started the tests
    with none_replaced(workload), ended.running(*update, *flags) as child:
        wait_until(is_closed, 25 * SLOWLY, "the closed gate", 0.1)
        if number:
            child.send_signal(number)
        _, errors = child.communicate(timeout=60 * SLOWLY)
        assert child.returncode == code, errors
        assert "the update has not ended; to go on" in errors and "stay out of service" not in errors
        wait_until(lambda: len(workload.ready()) == 2, 60 * SLOWLY, "pods")
    assert {image_of(pod) for pod in workload.pods()} == {images[0]} and rollout_is_open(workload)
    assert_done(inplace.run("rollout", workload.name))
    workload.assert_runs(images[1])


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_deleted_without_its_pods_while_one_drains(cluster, agent, make, by_proxy, proxy, images, kind):
    """The pods stay as they are, and the one that was taken out of service returns: no further run could return it."""
    workload = make(kind, pod={"readinessGates": [{"conditionType": GATE}]})
    uids, reached, released = workload.uids(), threading.Event(), threading.Event()

    async def hold(exchange: Exchange) -> None:
        if "dryRun" in exchange.request.path:
            await api_faults.behave_well(exchange)
            return
        reached.set()
        await api_faults.answer_when(released)(exchange)

    proxy.on("^PATCH .*/pods/.*/status", hold)
    try:
        with by_proxy.running("set", "image", workload.name, f"main={images[1]}") as child:
            wait_until(reached.is_set, 60 * SLOWLY, "the closed gate")
            cluster.kubectl("delete", workload.name, "--cascade=orphan")
            released.set()
            _, errors = child.communicate(timeout=60 * SLOWLY)
        assert child.returncode == 3 and "it is gone" in errors, errors
        wait_until(lambda: len(workload.ready()) == 2, 60 * SLOWLY, "pods")
        assert workload.uids() == uids and {image_of(pod) for pod in workload.pods()} == {images[0]}
        sets = cluster.admin.list("/apis/apps/v1/namespaces/default/replicasets", labelSelector=f"app={workload.app}")
        assert not any(RECORD in one["metadata"].get("annotations", {}) for one in sets)
    finally:
        released.set()
        cluster.kubectl("delete", "replicasets,pods", "-l", f"app={workload.app}", "--wait=false")


def test_template_changes_while_a_pod_drains(cluster, agent, make, inplace, images):
    """The pod is in service while the other image is pulled, and stays so, as that cannot be."""
    node_image = NodeImage(cluster.admin, cluster.node.name)
    node_image.create()
    workload = make("deployment", pod={"readinessGates": [{"conditionType": GATE}]})
    is_closed = lambda: "False" in {condition(pod, GATE)["status"] for pod in workload.pods()}  # noqa: E731
    declared = {"metadata": {"annotations": {"inplaced.io/update": "InPlaceIfPossible"}}}
    workload.patch({**declared, "spec": {"paused": True, **set_template(images[1])["spec"]}})
    with none_replaced(workload), inplace.running("rollout", workload.name, "--grace=600") as child:
        wait_until(is_closed, 25 * SLOWLY, "the closed gate", 0.1)
        workload.patch(set_template(images[3]))
        _, errors = child.communicate(timeout=90 * SLOWLY)
        assert child.returncode == 1 and "--no-preload" in errors, errors
        wait_until(lambda: len(workload.ready()) == 2, 60 * SLOWLY, "pods")
    assert {image_of(pod) for pod in workload.pods()} == {images[0]} and rollout_is_open(workload)
    node_image.delete()


def test_release_of_a_closed_pod(cluster, agent, make, inplace, by_proxy, proxy, images):
    """A pod that was out of service for images which it does not get returns."""
    workload = make("deployment", pod={"readinessGates": [{"conditionType": GATE}]})
    with none_replaced(workload):
        interrupted(by_proxy, proxy, workload, images[1], 2)
        assert "False" in {condition(pod, GATE)["status"] for pod in workload.pods()}
        assert_done(inplace.run("rollout", workload.name, "--release"))
        wait_until(lambda: len(workload.ready()) == 2, 60 * SLOWLY, "pods")
    workload.assert_runs(images[0])


def test_preload(cluster, agent, make, inplace, registry, images):
    """The image is on the node before the first container ends; a missing image changes nothing."""
    node_image = NodeImage(cluster.admin, cluster.node.name)
    node_image.create()
    workload = make("deployment")
    ran = inplace.run("set", "image", workload.name, f"main={images[3]}", timeout=90 * SLOWLY)
    assert ran.code == 1 and "--no-preload" in ran.stderr
    assert workload.record() is None and workload.strategy() == (False, None)
    workload.patch({"spec": {"paused": True, **set_template(images[3])["spec"]}})
    ran = inplace.run("__carry-out", workload.name, timeout=90 * SLOWLY)
    assert "kubectl inplace rollout --no-preload updates without that" in json.loads(ran.stdout)["reason"]
    workload.patch({"spec": {"paused": False, **set_template(images[0])["spec"]}})
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


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_pull_secret_of_a_service_account(cluster, agent, make, inplace, auth_registry, image_name, kind):
    """Admission puts it into the pods, and the template is without it: the nodes pull the new image with it as well."""
    node_image = NodeImage(cluster.admin, cluster.node.name)
    node_image.create()
    first, second = (
        auth_registry.push_image(image_name, tag, [1 << 20], busybox=True, env={"N": image_name + tag}).reference
        for tag in ("1", "2")
    )
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": f"private-{kind}"}}
    main = {"name": "main", "image": first, "command": until_term()}
    with pull_secret(cluster, auth_registry) as secret:
        account = cluster.admin.create({**account, "imagePullSecrets": [{"name": secret}]})
        workload = make(kind, pod={"serviceAccountName": account["metadata"]["name"], "containers": [main]})
        assert "imagePullSecrets" not in workload.get()["spec"]["template"]["spec"]
        assert {pod["spec"]["imagePullSecrets"][0]["name"] for pod in workload.pods()} == {secret}
        update = ("set", "image", workload.name, f"main={second}", "--require-preload")
        with none_replaced(workload):
            assert_done(inplace.run(*update, timeout=90 * SLOWLY))
        workload.assert_runs(second)
        node_image.wait_status(second, "Succeeded")
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
    """The command says that nothing has changed, and what goes on. A note keeps --undo from undoing the
    update before.
    """
    cluster.control_plane.install()
    node_image = NodeImage(cluster.admin, cluster.node.name)
    node_image.create()
    workload = make("deployment")
    update = "set", "image", workload.name
    assert_done(inplace.run(*update, f"main={images[1]}", "--no-preload"))
    try:
        with inplace.running(*update, f"main={images[2]}") as child:
            assert child.stdout.readline() == f"preloading {images[2]} on 1 node\n"
            child.send_signal(signal.SIGINT)
            _, errors = child.communicate(timeout=20 * SLOWLY)
    finally:
        node_image.delete()
    assert child.returncode == 128 + signal.SIGINT
    assert "nothing has changed; nodes that have begun to pull go on" in errors
    assert workload.strategy() == (False, None)
    with none_replaced(workload):
        ran = inplace.run("rollout", workload.name, "--undo")
    assert ran.code == 1 and "ended before it changed anything" in ran.stderr, ran.stdout
    workload.assert_runs(images[1])


def test_no_right_to_preload(cluster, agent, make, registry, folder):
    """A user who may update one workload need not be able to make nodes pull."""
    node_image = NodeImage(cluster.admin, cluster.node.name)
    node_image.create()
    workload = make("deployment")
    fresh = registry.push_image("t/rollout", "not-preloaded", [1 << 20, 5], busybox=True).reference
    user = with_rights(cluster, folder, "dave", ("apps", "*"), ("", "pods"))
    ran = assert_done(user.run("set", "image", workload.name, f"main={fresh}", timeout=90 * SLOWLY))
    assert "the images are not pulled before the update: " in ran.stderr
    assert "nodeimages" in ran.stderr
    assert ran.stderr.count("kubectl rollout undo will go to an older image") == 1
    assert 'cannot create resource "replicasets"' in ran.stderr
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
    """The command says what the node without an agent lacks; an update verifies its pod by the pod's status."""
    node_image = NodeImage(cluster.admin, cluster.node.name)
    node_image.create()
    fresh = registry.push_image("t/rollout", "two-kinds", [1 << 20, 4], busybox=True).reference
    nodes = f"--nodes={cluster.node.name},plain"
    ran = inplace.run("preload", fresh, nodes, timeout=90 * SLOWLY)
    assert ran.code == 3 and "plain" in ran.stdout + ran.stderr
    assert_done(inplace.run("preload", fresh, timeout=90 * SLOWLY))  # pulls on all nodes that have a NodeImage
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
    """The (verb, resource) of all requests. A watch that begins with a list stands for one, as on older servers."""
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
    """A user to whom the role is bound in one namespace, through the proxy."""
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
    """A user with the role in one namespace can do everything there, and needs all of it."""
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
    """doctor names each missing right."""
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
