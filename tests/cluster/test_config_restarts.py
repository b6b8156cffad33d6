# SPDX-License-Identifier: Apache-2.0
"""Containers restart in place when a ConfigMap or Secret that made their environment changes."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from declared import *  # noqa: F403
from fake import api_faults
from fake.api_proxy import ApiProxy, Exchange
from fake.tcp_proxy import TcpProxy
from rollouts import *  # noqa: F403
from lab.hollow_pods import HollowPods
from lab.inplace import Inplace
from lab.kube import Object
from lab.kubeconfig import write_kubeconfig
from lab.kubelet import Kubelet
from lab.pod import shell
from lab.process import Child
from lab.wait import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(300 * SLOWLY)]

ASKED = "inplaced.io/restart-on-config-change"
CORE = "/api/v1/namespaces/default"
LEDGER = f"{CORE}/secrets/inplaced-config-versions"
VALUE = "hunter2"  # is shown nowhere
# Shows its environment, and does not run with the value "bad".
COMMAND = shell('trap exit TERM; echo "$VALUE"; [ "$VALUE" != bad ] && while :; do sleep 3600 & wait; done')


def make_config(cluster, name: str, kind: str = "ConfigMap", **values: str) -> str:
    """Makes an object that was not there before, or with other values, and returns its path. To the controller the latter is a
    change, and a pod that starts soon after it may have the values before.
    """
    field = "stringData" if kind == "Secret" else "data"
    path = f"{CORE}/{kind.lower()}s/{name}"
    cluster.admin.delete(path)
    cluster.admin.create({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, field: values})
    return path


def change(cluster, path: str, **values: str | None) -> None:
    cluster.admin.patch(path, {"stringData" if "/secrets/" in path else "data": values})


def from_key(name: str, key: str, **more: object) -> list[Object]:
    return [{"name": "VALUE", "valueFrom": {"configMapKeyRef": {"name": name, "key": key, **more}}}]


@contextmanager
def restarting(cluster, robot: Inplace, delay: int = 2) -> Iterator[Child]:
    """A controller that restarts, and leads."""
    cluster.admin.delete(LEASE)
    with robot.running("controller", "-A", "--restart-on-config-change", "--config-delay", f"{delay}s") as child:
        wait_until(lambda: cluster.admin.find(LEASE) or child.poll() is not None, RUNS, "its Lease", 0.05)
        assert child.poll() is None, child.communicate()
        yield child


@pytest.fixture
def restarter(cluster, robot) -> Iterator[Child]:
    with restarting(cluster, robot) as child:
        yield child


@pytest.fixture
def make_user(cluster, make, images) -> Callable[..., Workload]:
    """Makes a workload whose pods take part, with these members of its container, and waits until the controller knows
    what they use.
    """

    def make_one(
        kind: str = "deployment", replicas: int = 2, pod: Object | None = None, spec: Object | None = None, **container: object
    ) -> Workload:
        main = {"name": "main", "image": images[0], "imagePullPolicy": "IfNotPresent", "command": COMMAND}
        whole = {**(pod or {}), "containers": [{**main, **container}, *(pod or {}).get("containers", [])]}
        return make(kind, replicas, pod=whole, annotations={ASKED: "true"}, **(spec or {}))

    return make_one


def ledger(cluster) -> Object:
    """The controller's ledger: {object: {key: …}}."""
    secret = cluster.admin.find(LEDGER)
    return json.loads(base64.b64decode(secret["data"]["versions"])) if secret else {}


def wait_known(cluster, path: str) -> None:
    name = f"{path.split('/')[-2][:-1]}/default/{path.split('/')[-1]}"
    wait_until(lambda: name in ledger(cluster), RUNS, f"the controller to know {name}", 0.05)


def restarts(workload: Workload, container: str = "main") -> list[int]:
    statuses = [one for pod in workload.pods() for one in pod["status"]["containerStatuses"]]
    return sorted(one["restartCount"] for one in statuses if one["name"] == container)


def wait_restarted(workload: Workload, n: int = 1) -> None:
    wait_until(lambda: restarts(workload) == [n] * workload.n_pods and len(workload.ready()) == workload.n_pods,
               RUNS, f"{n} restarts of {workload.name}", 0.05)


def wait_values(workload: Workload, value: str) -> None:
    """Until all its containers show that they were started with it."""

    def values() -> set[str]:
        names = [pod["metadata"]["name"] for pod in workload.pods()]
        return {workload.cluster.kubectl("logs", name, "-c", "main").strip() for name in names}

    wait_until(lambda: values() == {value}, RUNS, f"{value} in {workload.name}", 0.2)


def wait_old(workload: Workload) -> None:
    """Until its containers are older than the controller's delay; their node has the clock of this machine."""

    def is_old() -> bool:
        statuses = [one for pod in workload.pods() for one in pod["status"]["containerStatuses"]]
        started = max(datetime.fromisoformat(one["state"]["running"]["startedAt"]) for one in statuses)
        return (datetime.now(timezone.utc) - started).total_seconds() > 4

    wait_until(is_old, RUNS, "old containers", 0.2)


def said(workload: Workload) -> list[tuple[str, str]]:
    found = workload.kube.list(f"{CORE}/events")
    return [(one["reason"], one["message"]) for one in found if one["involvedObject"].get("name") == workload.app
            and one["reason"].startswith("InPlaceRestart")]


def wait_said(workload: Workload, *reasons: str) -> None:
    wait_until(lambda: [reason for reason, _ in said(workload)] == list(reasons), RUNS, f"{reasons}", 0.05)


@contextmanager
def none_restarts(*workloads: Workload, seconds: int = 8) -> Iterator[None]:
    """None of their containers restarts inside, nor in that time after it, which is longer than the controller's delay."""
    before = [restarts(one) for one in workloads]
    version = workloads[0].kube.get(PODS)["metadata"]["resourceVersion"]
    yield
    query = {"resourceVersion": version, "timeoutSeconds": str(seconds * SLOWLY)}
    for _ in workloads[0].kube.watch(PODS, 60 * SLOWLY, **query):
        pass
    assert [restarts(one) for one in workloads] == before


@pytest.mark.parametrize("kind", ["deployment", "statefulset", "daemonset"])
def test_changed_key(cluster, restarter, make_user, images, kind):
    """The users of a key restart in place with the new value; other containers and users of other keys do not."""
    name = f"level-{kind}"
    path = make_config(cluster, name, LEVEL="info", OTHER="1")
    side = {"name": "side", "image": images[0], "imagePullPolicy": "IfNotPresent", "command": COMMAND}
    workload = make_user(kind, pod={"containers": [side]}, env=from_key(name, "LEVEL"))
    other = make_user(env=from_key(name, "OTHER"))
    wait_known(cluster, path)
    with none_replaced(workload), none_restarts(other):
        change(cluster, path, LEVEL="debug")
        wait_restarted(workload)
        wait_values(workload, "debug")
    assert restarts(workload) == [1] * workload.n_pods
    assert restarts(workload, "side") == [0] * workload.n_pods
    wait_said(workload, "InPlaceRestartStarted", "InPlaceRestartSucceeded")
    assert all(f'key "LEVEL" of ConfigMap "{name}"' in message for _, message in said(workload))
    assert said(other) == []


def test_secret(cluster, restarter, make_user):
    """All keys of a Secret are variables. Its value is shown nowhere."""
    path = make_config(cluster, "password", "Secret", VALUE="old-" + VALUE)
    workload = make_user(envFrom=[{"secretRef": {"name": "password"}}])
    wait_known(cluster, path)
    change(cluster, path, VALUE=VALUE)
    wait_restarted(workload)
    wait_values(workload, VALUE)
    wait_said(workload, "InPlaceRestartStarted", "InPlaceRestartSucceeded")
    restarter.terminate()
    shown = json.dumps([said(workload), ledger(cluster), workload.pods(), workload.get()])
    shown += "".join(restarter.communicate())
    assert "password" in shown
    for hidden in (VALUE, base64.b64encode(VALUE.encode()).decode()):
        assert hidden not in shown


def test_mounted_file(cluster, restarter, make_user):
    """A file that is mounted by itself is not refreshed, while a whole volume is: by the kubelet, as the container stops."""
    path = make_config(cluster, "files", one="1", two="2")
    stop = "trap 'sleep 2; exit' TERM"
    command = shell(f"{stop}; read VALUE </one; echo $VALUE; while :; do sleep 3600 & wait; done")
    volume = {"name": "files", "configMap": {"name": "files"}}
    mounts = [{"name": "files", "mountPath": "/one", "subPath": "one"}, {"name": "files", "mountPath": "/all"}]
    workload = make_user(pod={"volumes": [volume]}, command=command, volumeMounts=mounts)
    wait_known(cluster, path)
    with none_restarts(workload):
        change(cluster, path, two="3")
    change(cluster, path, one="4")
    # The kubelet may need two attempts to mount a file that has changed.
    wait_until(lambda: 0 not in restarts(workload) and len(workload.ready()) == 2, RUNS, "the restarts")
    wait_values(workload, "4")


def test_deleted_object(cluster, restarter, make_user):
    """Containers that could not start again go on; when it is back, they restart if its value differs."""
    path = make_config(cluster, "gone", VALUE="1")
    workload = make_user(env=from_key("gone", "VALUE"))
    wait_known(cluster, path)
    with none_restarts(workload):
        cluster.admin.delete(path)
    with none_restarts(workload):
        make_config(cluster, "gone", VALUE="1")
    cluster.admin.delete(path)
    make_config(cluster, "gone", VALUE="2")
    wait_restarted(workload)
    wait_values(workload, "2")


def test_optional_key(cluster, restarter, make_user):
    """A key that appears is a change where it need not be there."""
    workload = make_user(env=from_key("later", "VALUE", optional=True))
    wait_known(cluster, f"{CORE}/configmaps/later")
    make_config(cluster, "later", VALUE="1")
    wait_restarted(workload)
    wait_values(workload, "1")


def test_there_and_back(cluster, restarter, make_user):
    """A change that is taken back at once restarts nothing."""
    path = make_config(cluster, "back", VALUE="1")
    workload = make_user(env=from_key("back", "VALUE"))
    wait_known(cluster, path)
    wait_old(workload)
    with none_restarts(workload):
        change(cluster, path, VALUE="2")
        change(cluster, path, VALUE="1")


def test_changed_without_pods(cluster, restarter, make_user):
    """Pods that come back long after the change have the new value, and do not restart for it."""
    path = make_config(cluster, "idle", LEVEL="info")
    workload = make_user(env=from_key("idle", "LEVEL"))
    wait_known(cluster, path)
    cluster.kubectl("scale", workload.name, "--replicas=0")
    wait_until(lambda: not workload.kube.list(PODS, labelSelector=f"app={workload.app}"), RUNS, "no pods")
    change(cluster, path, LEVEL="debug")

    def is_past() -> bool:
        entry = ledger(cluster).get("configmap/default/idle")
        if not entry:  # no pod used it when the controller wrote the next time
            return True
        changed = entry["LEVEL"].get("changed")
        return changed and datetime.now(timezone.utc).timestamp() - changed > 3

    wait_until(is_past, RUNS, "the change to be past", 0.2)
    cluster.kubectl("scale", workload.name, f"--replicas={workload.n_pods}")
    wait_until(lambda: len(workload.ready()) == workload.n_pods, RUNS, "pods")
    with none_restarts(workload):
        wait_values(workload, "debug")
    assert restarts(workload) == [0] * workload.n_pods and said(workload) == []


def test_bad_value(cluster, restarter, make_user):
    """The first pod that fails with it is the last one, also for the next controller; the old value heals it."""
    path = make_config(cluster, "quality", VALUE="good")
    workload = make_user(replicas=3, spec={"minReadySeconds": 5 * SLOWLY}, env=from_key("quality", "VALUE"))
    wait_known(cluster, path)
    wait_old(workload)
    with none_replaced(workload):
        change(cluster, path, VALUE="bad")
        wait_said(workload, "InPlaceRestartStarted", "InPlaceRestartFailed")
        assert restarts(workload)[:2] == [0, 0]
        change(cluster, path, VALUE="good")
        wait_until(lambda: len(workload.ready()) == 3, RUNS, "its pods")
    wait_values(workload, "good")
    assert restarts(workload)[:2] == [0, 0]


def test_value_with_which_a_container_hangs(cluster, restarter, make_user):
    """The next value does not wait until the restart with the one before has failed."""
    path = make_config(cluster, "hanging", VALUE="good")
    asks = {"command": ["/bin/sh", "-c", '[ "$VALUE" != hangs ]']}
    probe = {"exec": asks, "periodSeconds": 1, "timeoutSeconds": 10}
    workload = make_user(replicas=3, env=from_key("hanging", "VALUE"), readinessProbe=probe)
    wait_known(cluster, path)
    wait_old(workload)
    with none_replaced(workload):
        change(cluster, path, VALUE="hangs")
        wait_said(workload, "InPlaceRestartStarted")
        wait_until(lambda: len(workload.ready()) == 2, RUNS, "the pod that hangs")
        wait_old(workload)
        change(cluster, path, VALUE="good")
        wait_until(lambda: len(workload.ready()) == 3, RUNS, "its pods")
    wait_values(workload, "good")
    assert restarts(workload)[:2] == [0, 0]


@contextmanager
def idle_pod(cluster, container: Object, **spec: object) -> Iterator[None]:
    """A pod that takes part, and whose container is never started."""
    main = {"name": "main", "image": "none.example/none:1", **container}
    metadata = {"name": "idle", "namespace": "default", "annotations": {ASKED: "true"}}
    spec = {"schedulerName": "none", "containers": [main], **spec}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    path = cluster.admin.path_of(cluster.admin.create(pod))
    try:
        yield
    finally:
        cluster.admin.request("DELETE", f"{path}?gracePeriodSeconds=0")


def assert_restarts(cluster, make_user, name: str) -> None:
    """Makes a workload that uses an object of this name, and changes that."""
    path = make_config(cluster, name, VALUE="1")
    workload = make_user(env=from_key(name, "VALUE"))
    wait_known(cluster, path)
    wait_old(workload)
    change(cluster, path, VALUE="2")
    wait_restarted(workload)


def test_name_that_no_object_can_have(cluster, restarter, make_user):
    """A pod that mounts such an object keeps no other one from its restart."""
    volumes = [{"name": "a", "secret": {"secretName": "a/b"}}]
    mounts = [{"name": "a", "mountPath": "/a", "subPath": "key"}]
    with idle_pod(cluster, {"volumeMounts": mounts}, volumes=volumes):
        assert_restarts(cluster, make_user, "possible")


def test_object_that_cannot_be_read(cluster, robot, make_user, folder):
    """An object that the server does not show keeps no other one from its restart, and is read when the server shows it."""
    broken = make_config(cluster, "broken", "Secret", VALUE="1")
    server = cluster.control_plane.url, cluster.control_plane.authority.certificate
    with ApiProxy(folder / "broken", *server) as proxy:
        proxy.on(f"^GET {broken}$", api_faults.refuse(500, "cannot decrypt"))
        kubeconfig = write_kubeconfig(folder / "broken.conf", proxy.url, proxy.authority, token="lab-admin")
        used = {"envFrom": [{"secretRef": {"name": "broken"}}]}
        with restarting(cluster, Inplace(kubeconfig, robot.folder)) as child, idle_pod(cluster, used):
            wait_until(lambda: proxy.requests(f"^GET {broken}$"), RUNS, "the first question", 0.05)
            assert_restarts(cluster, make_user, "whole")
            assert "secret/default/broken" not in ledger(cluster)
            proxy.behave()
            wait_known(cluster, broken)
            child.terminate()
            said_by_it = "".join(child.communicate())
    assert said_by_it.count("changes of secret/default/broken for now: ") == 1, said_by_it


def test_pod_that_comes_and_goes(cluster, restarter, make_user):
    """A pod with many names that takes part again and again keeps no other object from being read."""
    names = [{**from_key(f"a-{i:04}", "KEY", optional=True)[0], "name": f"V{i}"} for i in range(1500)]
    is_over = threading.Event()
    other = cluster.control_plane.make_admin()  # a client is not for two threads

    def come_and_go() -> None:
        while not is_over.wait(8):
            for answer in ("false", "true"):
                other.patch(f"{CORE}/pods/idle", {"metadata": {"annotations": {ASKED: answer}}})

    with idle_pod(cluster, {"env": names}):
        thread = threading.Thread(target=come_and_go)
        thread.start()
        try:
            assert_restarts(cluster, make_user, "late")
        finally:
            is_over.set()
            thread.join()
            other.close()


def test_object_with_too_many_keys(cluster, restarter, make_user):
    """An object that the ledger has no room for is named, and keeps no other one from its restart."""
    huge = make_config(cluster, "huge", **{f"k{i}": "" for i in range(30_000)})
    with idle_pod(cluster, {"envFrom": [{"configMapRef": {"name": "huge"}}]}):
        assert_restarts(cluster, make_user, "small")
        assert "configmap/default/huge" not in ledger(cluster)
    cluster.admin.delete(huge)
    restarter.terminate()
    said_by_it = "".join(restarter.communicate())
    assert said_by_it.count("no room for the keys of configmap/default/huge:") == 1, said_by_it


def test_object_that_is_large_in_json(cluster, restarter, make_user):
    """The API server escapes "<" by six bytes: such an object is read as well, and keeps no other one from its restart."""
    large = make_config(cluster, "large", VALUE="<" * 1_000_000)
    with idle_pod(cluster, {"envFrom": [{"configMapRef": {"name": "large"}}]}):
        assert_restarts(cluster, make_user, "plain")
        assert "configmap/default/large" in ledger(cluster)
    cluster.admin.delete(large)


def test_keys_that_come_and_go(cluster, restarter, make_user):
    """The ledger forgets a key when all containers run without it."""
    path = make_config(cluster, "rotated", VALUE="1", key0="")
    workload = make_user(replicas=1, envFrom=[{"configMapRef": {"name": "rotated"}}])
    wait_known(cluster, path)
    wait_old(workload)
    change(cluster, path, key0=None, key1="")
    wait_restarted(workload)
    wait_until(lambda: "key0" not in ledger(cluster)["configmap/default/rotated"], 120 * SLOWLY, "room in the ledger", 1)
    assert "key1" in ledger(cluster)["configmap/default/rotated"]


def test_open_update(cluster, restarter, make_user, images, inplace):
    """An update in place takes a container that another restart has started for one that failed: it ends first."""
    path = make_config(cluster, "meanwhile", LEVEL="info")
    workload = make_user(env=from_key("meanwhile", "LEVEL"))
    wait_known(cluster, path)
    with none_replaced(workload):
        assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}", "--first=1"))
        with none_restarts(workload):
            change(cluster, path, LEVEL="debug")
        assert_done(inplace.run("rollout", workload.name))
        wait_values(workload, "debug")
    assert [reason for reason, _ in said(workload) if reason.endswith("Failed")] == []


def test_update_that_begins_meanwhile(cluster, restarter, make_user, images, inplace):
    """The update of a person ends the restart of a workload that declares none. Its containers get the value from either."""
    path = make_config(cluster, "between", VALUE="1")
    workload = make_user(replicas=3, spec={"minReadySeconds": 10 * SLOWLY}, env=from_key("between", "VALUE"))
    wait_known(cluster, path)
    wait_old(workload)
    children = Path(f"/proc/{restarter.pid}/task/{restarter.pid}/children")
    with none_replaced(workload):
        change(cluster, path, VALUE="2")
        wait_until(lambda: sum(restarts(workload)) == 1 and children.read_text(), RUNS, "the first restart", 0.05)
        with inplace.running("set", "image", workload.name, f"main={images[1]}") as update:
            wait_until(lambda: not children.read_text(), RUNS, "the end of the restart", 0.05)
            assert sum(restarts(workload)) <= 2
            assert update.wait(RUNS) == 0, update.communicate()
        wait_values(workload, "2")
    assert [reason for reason, _ in said(workload) if reason.endswith("Failed")] == []


def test_declared_update_without_a_record(cluster, policy, make_user, images, by_proxy, proxy):
    """It comes first, also while it cannot write its record yet, and its containers get the value."""
    path = make_config(cluster, "declared", VALUE="1")
    workload = make_user(env=from_key("declared", "VALUE"))
    declare(workload)
    may_begin = threading.Event()

    async def hold(exchange: Exchange) -> None:
        await asyncio.to_thread(may_begin.wait, RUNS)
        await exchange.pass_on(await exchange.ask())

    written = f"^PATCH {workload.path}[?]"
    proxy.on(written, hold)
    restarting_too = "--restart-on-config-change", "--config-delay", "2s"
    with none_replaced(workload), leading(cluster, by_proxy, *restarting_too):
        wait_known(cluster, path)
        wait_old(workload)
        cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
        wait_until(lambda: proxy.requests(written), RUNS, "the first write", 0.05)
        with none_restarts(workload):
            change(cluster, path, VALUE="2")
        may_begin.set()
        wait_updated(workload, images[1])
        wait_values(workload, "2")
    assert restarts(workload) == [1] * workload.n_pods


def test_open_update_that_cannot_be_read(cluster, robot, make_user, images, inplace, folder):
    """The server does not tell for now whether an update is open: nothing restarts before it does."""
    path = make_config(cluster, "unread", LEVEL="info")
    workload = make_user(env=from_key("unread", "LEVEL"))
    server = cluster.control_plane.url, cluster.control_plane.authority.certificate
    with ApiProxy(folder / "unread", *server) as proxy:
        kubeconfig = write_kubeconfig(folder / "unread.conf", proxy.url, proxy.authority, token="lab-admin")
        with restarting(cluster, Inplace(kubeconfig, robot.folder)), none_replaced(workload):
            wait_known(cluster, path)
            assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}", "--first=1"))
            asked = f"^GET {workload.path}([?]|$)"
            proxy.on(asked, api_faults.refuse(500, "busy"), times=1)
            with none_restarts(workload):
                change(cluster, path, LEVEL="debug")
                wait_until(lambda: len(proxy.requests(asked)) >= 2, RUNS, "the second question", 0.05)
            assert_done(inplace.run("rollout", workload.name))
            wait_values(workload, "debug")


def test_budget(cluster, restarter, make_user):
    """A PodDisruptionBudget that allows nothing keeps the containers as they are, until it allows one."""
    path = make_config(cluster, "budget", VALUE="1")
    workload = make_user(env=from_key("budget", "VALUE"))
    wait_known(cluster, path)
    budget = make_budget(cluster, workload, minAvailable=2)
    with none_restarts(workload):
        change(cluster, path, VALUE="2")
        wait_said(workload, "InPlaceRestartStarted")
    cluster.admin.patch(budget, {"spec": {"minAvailable": 1}})
    wait_restarted(workload)


def test_next_controller(cluster, robot, make_user):
    """It restarts nothing again, and carries out what has changed meanwhile."""
    path = make_config(cluster, "next", VALUE="1")
    workload = make_user(env=from_key("next", "VALUE"))
    with restarting(cluster, robot):
        wait_known(cluster, path)
        change(cluster, path, VALUE="2")
        wait_restarted(workload)
    with none_restarts(workload), restarting(cluster, robot):
        pass
    with none_restarts(workload):
        change(cluster, path, VALUE="3")
    with restarting(cluster, robot):
        wait_restarted(workload, 2)
        wait_values(workload, "3")


def test_killed_controller(cluster, robot, make_user):
    """The next one goes on where it was killed: each container restarts once."""
    path = make_config(cluster, "killed", VALUE="1")
    workload = make_user("statefulset", replicas=3, env=from_key("killed", "VALUE"))
    with restarting(cluster, robot) as child:
        wait_known(cluster, path)
        change(cluster, path, VALUE="2")
        wait_until(lambda: sum(restarts(workload)) == 1, RUNS, "the first restart", 0.02)
        child.kill()
    with none_replaced(workload), restarting(cluster, robot):
        wait_restarted(workload)
    assert restarts(workload) == [1, 1, 1]


def test_two_controllers(cluster, restarter, robot, make_user):
    """A controller that was frozen does nothing more when another one leads."""
    path = make_config(cluster, "two", VALUE="1")
    workload = make_user(env=from_key("two", "VALUE"))
    wait_known(cluster, path)
    restarter.send_signal(signal.SIGSTOP)
    change(cluster, path, VALUE="2")
    with restarting(cluster, robot), none_replaced(workload):
        wait_restarted(workload)
        restarter.send_signal(signal.SIGCONT)
        wait_until(lambda: restarter.poll() is not None, RUNS, "the end of the one that was frozen")
    assert restarts(workload) == [1, 1]


def test_no_rights(cluster, inplace, folder):
    """Without the right to read Secrets, it says so and ends."""
    certificate = cluster.control_plane.authority.issue("weak", "/CN=weak")
    weak = Inplace(cluster.control_plane.write_kubeconfig(folder / "weak.conf", certificate=certificate), folder)
    ran = weak.run("controller", "-A", "--restart-on-config-change")
    assert ran.code == 1 and "forbidden" in ran.stderr


@pytest.fixture
def hollow(control_plane) -> Iterator[HollowPods]:
    with HollowPods(control_plane, "hollow") as made:
        yield made


def make_hollow(hollow: HollowPods, n_pods: int, n_maps: int, n_sets: int) -> None:
    """Pod i uses the key A of ConfigMap i modulo their number; in turn as a variable, as all variables, and as a file."""
    kube, namespace = hollow.kube, "hollow"
    for i in range(n_maps):
        data = {"A": "1", **({} if i % 3 == 1 else {"B": "1"})}
        kube.create({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
                     "metadata": {"name": f"config-{i}", "namespace": namespace}})
    owners = []
    for i in range(n_sets):
        labels = {"app": f"web-{i}"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web"}]}}
        owners.append(kube.create({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": f"web-{i}", "namespace": namespace},
            "spec": {"serviceName": "web", "selector": {"matchLabels": labels}, "template": template},
        }))
    for i in range(n_pods):
        name, owner = f"config-{i % n_maps}", owners[i % n_sets]
        main: Object = {"name": "main", "image": "registry.example/web:1"}
        way = i % n_maps % 3
        if way == 0:
            main["env"] = from_key(name, "A")
        elif way == 1:
            main["envFrom"] = [{"configMapRef": {"name": name}}]
        else:
            main["volumeMounts"] = [{"name": "files", "mountPath": "/a", "subPath": "A"}]
        reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "controller": True,
                     "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        kube.create({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": f"web-{i % n_sets}-{i // n_sets}", "namespace": namespace,
                         "labels": {"app": f"web-{i % n_sets}"}, "annotations": {ASKED: "true"},
                         "ownerReferences": [reference]},
            "spec": {"nodeName": "none", "containers": [main], "automountServiceAccountToken": False,
                     "volumes": [{"name": "files", "configMap": {"name": name}}]},
        })


def test_many(control_plane, hollow, proxy, folder):
    """With 1,000 pods and 200 ConfigMaps, exactly the users of a changed key restart, once, by one write for each."""
    n_pods, n_maps, n_sets = 1000, 200, 7
    make_hollow(hollow, n_pods, n_maps, n_sets)
    wait_until(lambda: all("containerStatuses" in one["status"] for one in hollow.kube.list(hollow.path)), RUNS, "the pods")
    proxy.lead_to(control_plane.url, control_plane.authority.certificate)
    robot = Inplace(write_kubeconfig(folder / "many.conf", proxy.url, proxy.authority, token="lab-admin"), folder)
    ledger_path = "/api/v1/namespaces/default/secrets/inplaced-config-versions"

    def known() -> int:
        secret = hollow.kube.find(ledger_path)
        return len(json.loads(base64.b64decode(secret["data"]["versions"]))) if secret else 0

    arguments = ("controller", "-A", "--restart-on-config-change", "--config-delay", "2s")
    with robot.running(*arguments) as child:
        wait_until(lambda: known() == n_maps, RUNS, "the ledger", 0.1)
        n_read = len(proxy.requests("^GET .*/configmaps/config-"))
        for way in range(3):
            hollow.kube.patch(f"/api/v1/namespaces/hollow/configmaps/config-{way + 6}", {"data": {"A": "2"}})
        users = {f"web-{i % n_sets}-{i // n_sets}" for i in range(n_pods) if i % n_maps in (6, 7, 8)}
        wait_until(lambda: len(hollow.restarts()) == len(users), RUNS, "the restarts", 0.2)
        hollow.kube.patch("/api/v1/namespaces/hollow/configmaps/config-9", {"data": {"B": "2"}})
        hollow.kube.create({"apiVersion": "v1", "kind": "ConfigMap", "data": {"A": "1"},
                            "metadata": {"name": "unused", "namespace": "hollow"}})
        wait_until(lambda: len(proxy.requests("^GET .*/configmaps/config-")) == n_read + 4, RUNS, "its notice")
        idle(hollow)
        peak = Path(f"/proc/{child.pid}/status").read_text()
        child.kill()
    hollow.kube.delete(LEASE)
    with robot.running(*arguments):
        wait_until(lambda: hollow.kube.find(LEASE), RUNS, "the next controller")
        idle(hollow)
    assert hollow.restarts() == dict.fromkeys(users, 1)
    assert len(proxy.requests("^PATCH .*/pods/")) == len(users)
    assert proxy.requests("/configmaps/unused") == []
    watches = proxy.requests("^GET /api/v1/(configmaps|secrets)[?]")
    assert watches and all("as=PartialObjectMetadata" in (one.headers.find("Accept") or "") for one in watches)
    assert hollow.n_created == n_pods
    (resident,) = [int(line.split()[1]) for line in peak.splitlines() if line.startswith("VmHWM")]
    assert resident < 24 * 1024 * SLOWLY


def idle(hollow: HollowPods) -> None:
    """For longer than the controller's delay."""
    version = hollow.kube.get(hollow.path, limit="1")["metadata"]["resourceVersion"]
    for _ in hollow.kube.watch(hollow.path, 60 * SLOWLY, resourceVersion=version, timeoutSeconds=str(8 * SLOWLY)):
        pass


def test_late_kubelet(cluster, robot, registry, make_user, folder):
    """A container that was started with the value before, as its kubelet did not know the change yet, restarts again."""
    server = urlsplit(cluster.control_plane.url)
    path = make_config(cluster, "late", VALUE="1")
    with TcpProxy((server.hostname, server.port)) as line, Kubelet(
        folder / "late", cluster.control_plane, registry, "late", server=f"https://127.0.0.1:{line.port}"
    ) as node:
        workload = make_user(replicas=1, pod={"nodeName": "late"}, env=from_key("late", "VALUE"))
        with restarting(cluster, robot, delay=20 * SLOWLY):
            wait_known(cluster, path)
            (pod,) = workload.pods()
            containers = lambda: node.runtime.cri.pod_containers(pod["metadata"]["uid"])  # noqa: E731
            line.freeze()
            change(cluster, path, VALUE="2")
            os.kill(node.runtime.cri.container_status(containers()[-1].id)[1]["pid"], signal.SIGKILL)
            wait_until(lambda: len(containers()) == 2, RUNS, "the second container", 0.05)
            assert "VALUE=1\0" in environment(node, containers()[-1].id)
            line.thaw()
            wait_restarted(workload, 2)
            wait_values(workload, "2")
        workload.delete()
        wait_until(lambda: not workload.pods(), RUNS, "the end of its pod")
    cluster.admin.delete(node.path)


def environment(node: Kubelet, container: str) -> str:
    """The environment that its process was started with; the runtime's own process is there for a moment before."""

    def read() -> str | None:
        pid = node.runtime.cri.container_status(container)[1]["pid"]
        text = Path(f"/proc/{pid}/environ").read_text() if pid else ""
        return text if "HOSTNAME=" in text else None

    return wait_until(read, RUNS, "its environment", 0.01)
