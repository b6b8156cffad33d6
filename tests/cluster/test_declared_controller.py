# SPDX-License-Identifier: Apache-2.0
"""The controller of declared updates: killed, frozen, two of them, removed, and with many workloads."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from declared import *  # noqa: F403
from rollouts import *  # noqa: F403
from fake import api_faults
from fake.api_proxy import Exchange
from lab import clock, sanitizers
from lab.kube import Object
from lab.wait import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(300 * SLOWLY)]


# The writes of a Deployment's update are its record, its ReplicaSets, pods and status, and the end of the hold.
# The model of updates kills before and after each of them, with all kinds; these are real ones.
KILLED = [("deployment", n) for n in (1, 3, 5, 7, 8)] + [("statefulset", 1), ("statefulset", 4), ("daemonset", 2)]


@pytest.mark.parametrize(("kind", "n"), KILLED)
def test_killed_after_each_write(cluster, policy, make, images, by_proxy, proxy, kind, n):
    """The next controller goes on where one was killed."""
    workload = make(kind, 2)
    declare(workload)
    with none_replaced(workload):
        with leading(cluster, by_proxy) as child:
            reached = stop_after(proxy, n, f"^PATCH .*({workload.app}|replicasets)")
            cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
            wait_until(lambda: reached.is_set() or not is_held(workload), RUNS, "the write", 0.02)
            child.kill()
            proxy.behave()
        with leading(cluster, by_proxy):
            wait_updated(workload, images[1])


def test_two_controllers(cluster, controller, make, images, robot):
    """A frozen controller and the one that takes over do each other no harm."""
    workload = make("deployment", 3)
    declare(workload)
    with none_replaced(workload):
        controller.send_signal(signal.SIGSTOP)
        with leading(cluster, robot) as other:
            cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
            wait_until(lambda: rollout_is_open(workload), RUNS, "the update", 0.02)
            lease = cluster.admin.get(LEASE)
            controller.send_signal(signal.SIGCONT)
            wait_updated(workload, images[1])
            wait_until(lambda: controller.poll() is not None, RUNS, "the end of the one that was frozen")
            assert other.poll() is None
            assert holders_since(cluster, lease) <= {lease["spec"]["holderIdentity"]}
    assert "another controller leads now" in controller.communicate()[1]


def test_with_another_account(cluster, policy, make, images, robot, inplace):
    """A controller that was moved to another namespace goes on with what it has begun there."""
    workload = make("deployment")
    declare(workload)
    with none_replaced(workload):
        with leading(cluster, robot) as child:
            cluster.kubectl("set", "image", workload.name, f"main={images[3]}")
            wait_until(lambda: STATUS in annotations_of(workload), RUNS, "the failure")
            child.kill()
        assert rollout_is_open(workload)
        with leading(cluster, inplace):
            cluster.kubectl("set", "image", workload.name, f"main={images[0]}")
            wait_updated(workload, images[0])


def holders_since(cluster, lease: Object) -> set[str]:
    """All holders that the Lease has had since it was read, with "" for none."""
    query = {"fieldSelector": f"metadata.name={lease['metadata']['name']}", "timeoutSeconds": "2",
             "resourceVersion": lease["metadata"]["resourceVersion"]}
    seen = cluster.admin.watch(LEASE.rpartition("/")[0], RUNS, **query)
    return {event["object"]["spec"].get("holderIdentity", "") for event in seen}


@pytest.mark.parametrize("kind", KINDS_OF_CONTROLLERS)
def test_no_longer_declared(cluster, policy, make, images, robot, kind):
    """Without its annotation, a workload that is held goes back to its controller."""
    workload = make(kind)
    declare(workload)
    before = workload.strategy()
    with leading(cluster, robot) as child:
        child.send_signal(signal.SIGSTOP)
        cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
        assert is_held(workload)
        cluster.kubectl("annotate", workload.name, f"{UPDATE}-")
        child.send_signal(signal.SIGCONT)
        wait_until(lambda: not is_held(workload), RUNS, "the end of the hold")
    assert workload.strategy() == before


@pytest.mark.parametrize("kind", KINDS_OF_CONTROLLERS)
def test_a_person_while_the_controller_is_away(cluster, controller, make, images, inplace, kind):
    """`rollout` brings the pods to the template and ends the hold; `rollout --release` only ends it."""
    workload = make(kind)
    declare(workload)
    strategy = workload.strategy()
    controller.send_signal(signal.SIGSTOP)
    with none_replaced(workload):
        cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
        assert is_held(workload)
        assert_done(inplace.run("rollout", workload.name))
        assert workload.strategy() == strategy
        wait_updated(workload, images[1])
    cluster.kubectl("set", "image", workload.name, f"main={images[2]}")
    assert is_held(workload)
    for arguments in ["--dry-run=server"], []:
        assert is_held(workload)
        ran = assert_done(inplace.run("rollout", workload.name, "--release", *arguments))
    assert "handed back: its controller brings its pods to its template" in ran.stdout
    assert workload.strategy() == strategy
    wait_updated(workload, images[2])


def test_partition_up_and_down_while_pods_drain(cluster, controller, agent, make, images, inplace):
    """A pod that has returned, as the partition was raised, leaves its service once more when that is lowered."""
    workload = make("statefulset", pod={"readinessGates": [{"conditionType": GATE}]})
    declare(workload)
    controller.send_signal(signal.SIGSTOP)

    def gates() -> list[str]:
        found = sorted(workload.pods(), key=lambda pod: pod["metadata"]["name"])
        return [one["status"] for pod in found for one in pod["status"]["conditions"] if one["type"] == GATE]

    with none_replaced(workload):
        cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
        with inplace.running("rollout", workload.name, "--max-unavailable=2", "--grace=600") as child:
            for n, expected in ((0, ["False", "False"]), (1, ["True", "False"]), (0, ["False", "False"])):
                workload.patch({"spec": {"updateStrategy": {"rollingUpdate": {"partition": n}}}})
                wait_until(lambda expected=expected: gates() == expected or child.poll() is not None, RUNS, f"{expected}", 0.1)
                assert child.poll() is None, child.communicate()
            child.send_signal(signal.SIGINT)
            child.communicate(timeout=RUNS)
        wait_until(lambda: len(workload.ready()) == 2, RUNS, "pods")
        assert_done(inplace.run("rollout", workload.name))
        wait_updated(workload, images[1])


def test_set_image_while_the_controller_is_away(cluster, controller, make, images, inplace):
    """Admission does not take the end of an update for the beginning of another one."""
    workload = make("deployment")
    declare(workload)
    controller.send_signal(signal.SIGSTOP)
    with none_replaced(workload):
        for image in (images[1], images[0]):
            assert_done(inplace.run("set", "image", workload.name, f"main={image}"))
            assert not is_held(workload)
            workload.assert_runs(image)


@pytest.mark.parametrize("code", [403, 404])
def test_lists_that_are_refused(make, images, by_proxy, proxy, code):
    """Without the lists nothing says that the update is none in place: it has failed, and is tried again."""
    workload = make("statefulset")
    declare(workload)
    held = {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}
    workload.patch({"spec": {**held, **set_template(images[1])["spec"]}})
    wait_observed(workload)
    proxy.on("^GET .*/controllerrevisions", api_faults.refuse(code))
    with none_replaced(workload):
        ran = by_proxy.run("__carry-out", workload.name)
    assert (ran.code, json.loads(ran.stdout)["outcome"]) == (0, "failed"), ran.stdout + ran.stderr
    proxy.behave()
    ran = assert_done(by_proxy.run("__carry-out", workload.name, timeout=90 * SLOWLY))
    assert json.loads(ran.stdout)["outcome"] == "updated"


def test_clock_of_the_server_is_set_back(cluster, policy, make, images, by_proxy, proxy):
    """An update that has failed is tried again after as long as ever."""
    workload = make("statefulset")
    declare(workload)
    proxy.on("^GET .*/controllerrevisions", api_faults.refuse(403))
    with none_replaced(workload), leading(cluster, by_proxy):
        cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
        wait_until(lambda: "InPlaceUpdateFailed" in events(workload), RUNS, "the failure", 0.05)
        proxy.behave()
        proxy.on("/leases/inplaced-controller$", api_faults.set_clock(-3600))
        wait_updated(workload, images[1])


def test_binding_is_deleted(cluster, policy, make, robot, folder):
    """Without it pods are replaced: log and doctor say so. It comes back when a removal of the controller has ended,
    after minutes that pass in a moment here.
    """
    workload = make("deployment", 0)
    declare(workload)
    jump = folder / "jump"
    complaint = "problem: declared updates: their policy has no binding"

    def pass_seconds(seconds: int) -> None:
        (folder / "next").write_text(str(seconds))
        (folder / "next").rename(jump)

    def wake() -> None:
        """The timers of the controller wait for the time that was passed over, watches do not."""
        workload.patch({"metadata": {"annotations": {"woken": str(time.monotonic())}}})

    with leading(cluster, robot, **clock.environment(clock.jumps_when_there(jump))) as child:
        lines = iter(child.stderr.readline, "")
        assert any("Carrying out declared updates" in line for line in lines)  # it makes a binding once
        assert complaint not in robot.run("doctor").stdout
        cluster.admin.delete(f"{BINDINGS}/{POLICY}")
        assert complaint in robot.run("doctor").stdout
        pass_seconds(70)
        wake()
        assert any("is made anew in 5 minutes" in line for line in lines)
        assert not is_bound(cluster)
        pass_seconds(140)
        wake()
        time.sleep(2)  # it must not be made in this time
        assert not is_bound(cluster)
        pass_seconds(450)
        wait_until(lambda: wake() or is_bound(cluster), RUNS, "the binding", 0.5)
        assert any("was made anew" in line for line in lines)
        assert child.poll() is None
    assert complaint not in robot.run("doctor").stdout


def test_api_server_is_upgraded(cluster, policy, make, by_proxy, proxy):
    """An API server without policies, and a minute later one that has them: they are bound then, by the same controller."""
    declare(make("deployment", 0))
    for path in (LEASE, f"{BINDINGS}/{POLICY}"):
        cluster.admin.delete(path)
    proxy.on(f"^POST {BINDINGS}", api_faults.refuse(404, "the server could not find the requested resource"))
    with by_proxy.running(*ARGUMENTS) as child:
        lines = iter(child.stderr.readline, "")
        assert any("which needs Kubernetes 1.36" in line for line in lines)
        assert not is_bound(cluster)
        proxy.behave()
        wait_until(lambda: is_bound(cluster), 60 + RUNS, "the binding", 0.1)
        assert any("has MutatingAdmissionPolicy now" in line for line in lines)


def test_release_by_a_person(cluster, controller, make, images, inplace):
    """The controller does not begin anew what a person has ended."""
    workload = make("deployment")
    declare(workload)
    uids = workload.uids()
    cluster.kubectl("set", "image", workload.name, f"main={images[3]}")
    wait_until(lambda: STATUS in annotations_of(workload), RUNS, "the failure")
    ran = assert_done(inplace.run("rollout", workload.name, "--release", "--take-over"))
    assert "handed back: 0 of 2 pods updated; its controller brings the others to its template" in ran.stdout
    wait_until(lambda: workload.uids() - uids, RUNS, "a pod of the ordinary update")
    assert not is_held(workload) and not rollout_is_open(workload) and STATUS not in annotations_of(workload)


def test_undo_by_a_person(cluster, controller, make, images, inplace):
    """The template would lead the pods forward again: the command names the way, which the controller goes."""
    workload = make("deployment")
    declare(workload)
    with none_replaced(workload):
        cluster.kubectl("set", "image", workload.name, f"main={images[3]}")
        wait_until(lambda: STATUS in annotations_of(workload), RUNS, "the failure")
        ran = inplace.run("rollout", workload.name, "--undo", "--take-over")
        assert ran.code == 1 and f"its template has main={images[3]}" in ran.stderr
        assert f"kubectl set image deployment.apps/{workload.app} main={images[0]}" in ran.stderr
        assert workload.record()["by"] == "inplaced-controller"
        cluster.kubectl("set", "image", workload.name, f"main={images[0]}")
        wait_updated(workload, images[0])


def test_undo_while_the_controller_is_away(cluster, controller, make, images, inplace):
    """A person goes back with an update of their own, and learns that the template leads forward again."""
    workload = make("deployment")
    declare(workload)
    controller.send_signal(signal.SIGSTOP)
    with none_replaced(workload):
        cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
        assert_done(inplace.run("rollout", workload.name, "--first=1"))
        ran = assert_done(inplace.run("rollout", workload.name, "--undo"))
        assert f"its template has main={images[1]}" in ran.stderr and is_held(workload)
        assert {image_of(pod) for pod in workload.pods()} == {images[0]}
        controller.send_signal(signal.SIGCONT)
        wait_updated(workload, images[1])


@pytest.mark.parametrize("kind", KINDS_OF_CONTROLLERS)
def test_release_all(cluster, policy, make, images, robot, kind):
    """The removal of the controller leaves no held workload, no annotation and no binding."""
    held, updated, failing = make(kind), make(kind), make(kind)
    for one in (held, updated, failing):
        declare(one)
    before = held.strategy()
    with leading(cluster, robot) as child:
        cluster.kubectl("set", "image", updated.name, f"main={images[1]}")
        wait_updated(updated, images[1])
        cluster.kubectl("set", "image", failing.name, f"main={images[3]}")
        wait_until(lambda: STATUS in annotations_of(failing), RUNS, "the failure")
        child.kill()
    cluster.kubectl("set", "image", held.name, f"main={images[1]}")
    assert is_held(held)
    assert f"/{held.app}: it is held for an update in place that has not begun" in robot.run("doctor").stdout
    assert_done(robot.run(*ARGUMENTS, "--release-all"))
    assert not is_bound(cluster)
    for one in (held, updated, failing):
        left = [key for key in annotations_of(one) if key.startswith("inplaced.io/") and key != UPDATE]
        assert (left, one.strategy()) == ([], before)
    put_back(failing, images[0])


def test_release_all_beside_a_controller_without_policy(cluster, make, images, robot):
    """The controller, which would say again why a workload that its manifest holds does not go on, leads no more."""
    workload = make("deployment", 1)
    declare(workload)
    workload.patch({"spec": {"paused": True}})
    for path in (LEASE, f"{BINDINGS}/{POLICY}"):
        cluster.admin.delete(path)
    with none_replaced(workload), robot.running("controller", "-A") as child:
        workload.patch(set_template(images[1], env=[{"name": "A", "value": "1"}]))
        wait_until(lambda: STATUS in annotations_of(workload), RUNS, "the reason")
        assert_done(robot.run(*ARGUMENTS, "--release-all"))
        wait_until(lambda: child.poll() is not None, RUNS, "the end of the controller")
        left = [key for key in annotations_of(workload) if key.startswith("inplaced.io/") and key != UPDATE]
    assert (left, workload.strategy()) == ([], (True, None))


def test_writes_during_release_all(cluster, policy, make, images, robot):
    """An API server goes by the policy for a moment after the removal of its binding: what it holds then is let go, too."""
    workload = make("deployment", 0)
    declare(workload)
    with leading(cluster, robot) as child:
        child.kill()
    with robot.running(*ARGUMENTS, "--release-all") as removal:
        wait_until(lambda: not is_bound(cluster), RUNS, "the removal of the binding", 0.01)
        for image in itertools.cycle(images[1:3]):
            workload.patch(set_template(image))
            if not probe_policy(cluster):
                break
        assert removal.wait(RUNS) == 0
    assert not is_held(workload) and workload.strategy()[0] is False


@pytest.mark.parametrize("kind", KINDS_OF_CONTROLLERS)
def test_release_all_before_the_failure_is_noted(cluster, policy, make, images, robot, by_proxy, proxy, kind):
    """A pod that does not start gets its old image first, also where the controller was killed before it could say so."""
    workload = make(kind)
    declare(workload)
    noted = threading.Event()

    async def behave(exchange: Exchange) -> None:
        if STATUS.encode() not in exchange.request.body:
            await api_faults.behave_well(exchange)
            return
        noted.set()
        await exchange.wait_over()

    proxy.on(f"^PATCH .*{workload.app}", behave)
    with leading(cluster, by_proxy) as child:
        cluster.kubectl("set", "image", workload.name, f"main={images[3]}")
        wait_until(noted.is_set, RUNS, "the write of the failure")
        child.kill()
    assert STATUS not in annotations_of(workload)
    (bad,) = (pod["metadata"]["uid"] for pod in workload.pods() if image_of(pod) == images[3])
    version = workload.kube.get(PODS)["metadata"]["resourceVersion"]
    assert_done(robot.run(*ARGUMENTS, "--release-all"))
    for event in workload.kube.watch(PODS, RUNS, labelSelector=f"app={workload.app}", resourceVersion=version):
        if event["object"]["metadata"]["uid"] == bad:
            assert event["type"] == "MODIFIED"
            if image_of(event["object"]) == images[0]:
                break
    put_back(workload, images[0])


def put_back(workload: Workload, image: str) -> None:
    """Deletes the pods of a StatefulSet that do not start: its controller waits for them, whatever its template has by then."""
    workload.patch(set_template(image))

    def is_back() -> bool:
        for pod in workload.pods():
            if image_of(pod) != image and workload.kind == "statefulset":
                workload.cluster.kubectl("delete", "pod", pod["metadata"]["name"], "--ignore-not-found", "--wait=false")
        return [image_of(pod) for pod in workload.ready()] == [image] * workload.n_pods

    wait_until(is_back, RUNS, "the old image")


def test_template_comes_back_during_a_run(cluster, policy, make, images, by_proxy, proxy):
    """The run has followed the template to another one in between, which its pods have now."""
    workload = make("deployment", 1)
    declare(workload)
    begins, may_begin, ends, may_end = (threading.Event() for _ in range(4))

    async def hold(exchange: Exchange) -> None:
        if not begins.is_set():
            begins.set()
            await asyncio.to_thread(may_begin.wait, RUNS)
        reply = await exchange.ask()
        body = await reply.read()
        is_last = is_write(exchange.request.path) and reply.code == 200 and b"done" in exchange.request.body
        if is_last and not ends.is_set():
            ends.set()
            await asyncio.to_thread(may_end.wait, RUNS)
        await exchange.send_whole(reply.code, body, reply.headers)

    async def show(exchange: Exchange) -> None:
        async def look(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
            async for piece in pieces:
                yield piece
                if ends.is_set() and images[1].encode() in piece:
                    may_end.set()

        reply = await exchange.ask()
        await exchange.pass_on(replace(reply, pieces=look(reply.pieces)))

    proxy.on(f"^PATCH .*/{workload.app}", hold)
    proxy.on("^GET .*/deployments.*watch", show)
    with none_replaced(workload), leading(cluster, by_proxy):
        cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
        assert begins.wait(RUNS)
        cluster.kubectl("set", "image", workload.name, f"main={images[2]}")
        may_begin.set()
        assert ends.wait(RUNS)
        workload.assert_runs(images[2])
        cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
        wait_updated(workload, images[1])
    assert may_end.is_set()


def test_deleted_during_a_run(cluster, controller, make, images):
    """The end of its run is no failure that an event tells."""
    deleted, other = make("deployment", 1, minReadySeconds=30), make("deployment", 1)
    for one in (deleted, other):
        declare(one)
    cluster.kubectl("set", "image", deleted.name, f"main={images[1]}")
    wait_until(lambda: [image_of(pod) for pod in deleted.pods()] == [images[1]], RUNS, "the update of the pod")
    deleted.delete()
    cluster.kubectl("set", "image", other.name, f"main={images[1]}")
    wait_updated(other, images[1])
    assert events(deleted) == ["InPlaceUpdateStarted"]


def test_made_anew_during_a_run(cluster, policy, make, images, by_proxy, proxy):
    """The end of the run for the former workload is no failure of the one that has come in its place."""
    workload = make("deployment", 1, minReadySeconds=30)
    declare(workload)
    may_see = threading.Event()

    async def hide(exchange: Exchange) -> None:
        async def look(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
            async for piece in pieces:
                if b'"DELETED"' in piece:
                    await asyncio.to_thread(may_see.wait, RUNS)
                yield piece

        reply = await exchange.ask()
        await exchange.pass_on(replace(reply, pieces=look(reply.pieces)))

    proxy.on(r"^GET .*/deployments\?.*metadata\.name", hide)
    with leading(cluster, by_proxy):
        cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
        wait_until(lambda: [image_of(pod) for pod in workload.pods()] == [images[1]], RUNS, "the update of the pod")
        spec, former = workload.get()["spec"], workload.uids()
        workload.delete()
        wait_until(lambda: workload.kube.find(workload.path) is None, RUNS, "the removal")
        metadata = {"name": workload.app, "annotations": {UPDATE: "InPlaceIfPossible"}}
        made = workload.kube.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
                                     "spec": {**spec, "paused": False, "minReadySeconds": 0}})
        wait_until(lambda: len(workload.ready()) == 1 and not workload.uids() & former, RUNS, "the new pod")
        may_see.set()
        cluster.kubectl("set", "image", workload.name, f"main={images[2]}")
        wait_updated(workload, images[2])
    uid = made["metadata"]["uid"]
    found = cluster.admin.list("/api/v1/namespaces/default/events")
    reasons = {one["reason"] for one in found if one["involvedObject"].get("uid") == uid}
    assert "InPlaceUpdateStarted" in reasons and "InPlaceUpdateFailed" not in reasons


def test_the_api_server_restarts(cluster, controller, make, images):
    """An update goes on when the API server answers again. A watch of the observer would not outlive it."""
    workload = make("statefulset", 3, minReadySeconds=1)
    declare(workload)
    uids = workload.uids()
    cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
    wait_until(lambda: rollout_is_open(workload), RUNS, "the update", 0.02)
    cluster.control_plane.apiserver.kill9()
    cluster.control_plane.apiserver.start()
    wait_updated(workload, images[1])
    assert (workload.uids(), controller.poll()) == (uids, None)


def test_an_object_that_is_large_in_json(cluster, policy, make, images, robot):
    """The API server escapes "<" by six bytes: such a Deployment of another user keeps no update from its end."""
    large = make_hollow("large", images[0])
    large["metadata"].pop("annotations")
    large["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "<" * 1_400_000}]
    cluster.admin.create(large)
    workload = make("deployment", 2)
    declare(workload)
    with none_replaced(workload), leading(cluster, robot):
        cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
        wait_updated(workload, images[1])
    cluster.admin.delete("/apis/apps/v1/namespaces/default/deployments/large")


N_MANY = 500
N_IDLE_SEC = 20


def test_many_workloads(cluster, policy, images, by_proxy, proxy):
    """500 workloads take little memory, and no request while none changes."""
    for number in range(N_MANY):
        cluster.admin.create(make_hollow(f"many-{number}", images[0]))
    with leading(cluster, by_proxy) as child:
        wait_until(lambda: proxy.requests("^POST .*policybindings"), RUNS, "the binding")
        before = len(proxy.requests())
        time.sleep(N_IDLE_SEC)  # nothing may happen in this time
        sent = [one.name for one in proxy.requests()[before:] if "/leases/" not in one.name]
        resident, anonymous = memory(child.pid)
        print(f"{N_MANY} workloads: {resident} KiB resident, {anonymous} KiB of it anonymous")
    for number in range(N_MANY):
        cluster.admin.delete(f"/apis/apps/v1/namespaces/default/deployments/many-{number}")
    assert not sent
    assert anonymous < 6000 * SLOWLY or sanitizers.SLOWNESS > 1


def make_hollow(name: str, image: str) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "annotations": {UPDATE: "InPlaceIfPossible"}},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }


def memory(pid: int) -> tuple[int, int]:
    """Resident memory, and the anonymous part of it, in KiB."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(lines["VmRSS"].split()[0]), int(lines["RssAnon"].split()[0])
