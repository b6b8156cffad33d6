# SPDX-License-Identifier: Apache-2.0
"""Updates in place that a workload declares: its pods stay when any client changes its images."""

from __future__ import annotations

import json
import threading

import pytest

from declared import *  # noqa: F403
from rollouts import *  # noqa: F403
from fake import api_faults
from fake.api_proxy import Exchange
from lab.kube import KubeError
from lab.node_image import NodeImage
from lab.wait import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(300 * SLOWLY)]


# test_hold_policy.py has each client with each kind.
_CLIENTS = [("set image", "deployment"), ("apply", "statefulset"), ("server-side apply", "daemonset"), ("replace", "deployment")]


@pytest.mark.parametrize(("way", "kind"), _CLIENTS)
def test_any_client(cluster, controller, make, images, folder, kind, way):
    """No pod is replaced, whatever command changes the image."""
    workload = make(kind, 3)
    declare(workload)
    before = workload.strategy()
    if way == "apply":
        cluster.kubectl("apply", "-f", write(folder, workload, images[0]))
    with none_replaced(workload):
        if way == "set image":
            cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
        else:
            path = write(folder, workload, images[1])
            words = {"apply": ["apply"], "replace": ["replace"],
                     "server-side apply": ["apply", "--server-side", "--force-conflicts"]}[way]
            cluster.kubectl(*words, "-f", path)
        wait_updated(workload, images[1])
    assert workload.strategy() == before
    assert events(workload) == ["InPlaceUpdateStarted", "InPlaceUpdateSucceeded"]


def test_partition(controller, make, images, cluster):
    """Pods below the partition of a StatefulSet stay as they are."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    workload = make("statefulset", 3, updateStrategy=strategy)
    declare(workload)
    with none_replaced(workload):
        cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
        wait_until(lambda: not is_held(workload) and not rollout_is_open(workload)
                   and workload.record() is not None, RUNS, "the update")
        assert sorted(image_of(pod) for pod in workload.ready()) == sorted([images[0], images[1], images[1]])
    assert workload.strategy()[1]["rollingUpdate"]["partition"] == 1


def test_pod_that_is_missing(controller, make, images, cluster):
    """The next pod of a StatefulSet that has none gets its image in place, too: it is not made twice."""
    workload = make("statefulset", 1)
    declare(workload)
    (pod,) = workload.pods()
    path = f"{PODS}/{pod['metadata']['name']}"
    cluster.admin.patch(path, {"metadata": {"finalizers": ["example.org/wait"]}})
    cluster.admin.delete(path)
    cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
    wait_until(lambda: rollout_is_open(workload), RUNS, "the update")
    cluster.admin.patch(path, {"metadata": {"finalizers": None}})
    cluster.admin.wait_for(path, lambda one: one["metadata"]["uid"] != pod["metadata"]["uid"], RUNS)
    with none_replaced(workload):
        wait_updated(workload, images[1])


def test_before_its_first_pod(controller, make, images):
    """A Deployment that is held before it ever had a pod has nothing to update: it is let go."""
    workload = make("deployment", 0, paused=True)
    declare(workload)
    made = workload.patch({"spec": {**set_template(images[1])["spec"], "paused": False, "replicas": 2}})
    assert HELD in made["metadata"]["annotations"]
    workload.n_pods = 2
    wait_updated(workload, images[1])


def test_without_pods(cluster, controller, make, images):
    """A Deployment at 0 that is held with a template of none of its ReplicaSets has nothing to update: it is let go."""
    workload = make("deployment")
    cluster.kubectl("scale", workload.name, "--replicas=0")
    wait_until(lambda: not workload.pods(), RUNS, "end of the pods")
    workload.patch({"spec": {"paused": True, **set_template(images[0], env=[{"name": "A", "value": "1"}])["spec"]}})
    declared = {"metadata": {"annotations": {UPDATE: "InPlaceIfPossible"}}}
    made = workload.patch({**declared, "spec": {"paused": False, **set_template(images[1])["spec"]}})
    assert HELD in made["metadata"]["annotations"]
    wait_until(lambda: not is_held(workload), RUNS, "the end of the hold")
    cluster.kubectl("scale", workload.name, "--replicas=2")
    wait_updated(workload, images[1])


@pytest.mark.parametrize("kind", KINDS_OF_CONTROLLERS)
def test_more_than_images(cluster, controller, make, images, kind):
    """Another change is the workload's ordinary update."""
    workload = make(kind)
    declare(workload)
    uids = workload.uids()
    workload.patch(set_template(images[1], env=[{"name": "A", "value": "1"}]))
    assert not is_held(workload)
    wait_until(lambda: len(workload.ready()) == workload.n_pods and not uids & workload.uids(), RUNS, "the rollout")


@pytest.mark.parametrize("kind", KINDS_OF_CONTROLLERS)
def test_more_than_images_in_the_middle(cluster, controller, make, images, kind):
    """An update that cannot go on in place is handed to the workload's own controller."""
    workload = make(kind, 3, minReadySeconds=2)
    declare(workload)
    cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
    wait_until(lambda: rollout_is_open(workload), RUNS, "the update")
    uids = workload.uids()
    workload.patch(set_template(images[1], env=[{"name": "A", "value": "1"}]))
    wait_until(lambda: len(workload.ready()) == workload.n_pods and not uids & workload.uids(), RUNS, "the rollout")
    assert not is_held(workload)
    assert "InPlaceUpdateImpossible" in events(workload)


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_bad_image(cluster, controller, make, images, kind):
    """A single pod gets it; the workload says why, and the old image heals it."""
    workload = make(kind)
    declare(workload)
    with none_replaced(workload):
        cluster.kubectl("set", "image", workload.name, f"main={images[3]}")
        wait_until(lambda: STATUS in annotations_of(workload), RUNS, "the failure")
        assert "main" in annotations_of(workload)[STATUS] and workload.app in annotations_of(workload)[STATUS]
        assert len([pod for pod in workload.pods() if image_of(pod) == images[3]]) == 1
        assert "InPlaceUpdateFailed" in events(workload)
        if kind == "deployment":
            with pytest.raises(Exception, match="exceeded its progress deadline"):
                cluster.kubectl("rollout", "status", workload.name, "--timeout=30s")
        cluster.kubectl("set", "image", workload.name, f"main={images[0]}")
        wait_updated(workload, images[0])


def test_watched_failure(cluster, controller, make, images, inplace):
    """status -w prints why an update does not go on, when that is known."""
    workload = make("deployment")
    declare(workload)
    with inplace.running("status", "-w", workload.name) as child:
        lines = iter(child.stdout.readline, "")
        assert next(lines).split()[0] == "POD"
        cluster.kubectl("set", "image", workload.name, f"main={images[3]}")
        assert next(line for line in lines if "it does not go on: " in line)
        cluster.kubectl("set", "image", workload.name, f"main={images[0]}")
        assert next(line for line in lines if line.endswith(": its update has ended\n"))
    wait_updated(workload, images[0])


def declare_in_turn(cluster, workload, *images: str) -> None:
    """Each image as soon as the first pod has the one before; waits until all have the last one."""
    declare(workload)
    with none_replaced(workload):
        for image in images:
            cluster.kubectl("set", "image", workload.name, f"main={image}")
            wait_until(lambda wanted=image: any(image_of(pod) == wanted for pod in workload.pods())
                       and rollout_is_open(workload), RUNS, "the first pod", 0.02)
        wait_updated(workload, images[-1])


@pytest.mark.parametrize("kind", ["deployment", "daemonset"])
def test_changed_meanwhile(cluster, controller, make, images, kind):
    """The repository may go on to another image, and back, before an update has ended."""
    workload = make(kind, 3, minReadySeconds=1)
    declare_in_turn(cluster, workload, images[1], images[2], images[0])


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_same_image_again(cluster, controller, make, images, kind):
    """An image that an update has left, and that comes back before its end, is no failure."""
    workload = make(kind, 3, minReadySeconds=1)
    declare_in_turn(cluster, workload, images[1], images[2], images[1])
    assert events(workload) == ["InPlaceUpdateStarted", "InPlaceUpdateSucceeded"]


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_person_meanwhile(cluster, controller, make, images, inplace, kind):
    """The repository takes back what a person has set by the command line: in place, too."""
    workload = make(kind)
    declare(workload, "InPlaceOnly")
    with none_replaced(workload):
        cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
        wait_updated(workload, images[1])
        applied = {"kubectl.kubernetes.io/last-applied-configuration": images[1]}
        workload.patch({"metadata": {"annotations": applied}})
        ran = assert_done(inplace.run("set", "image", workload.name, f"main={images[2]}"))
        assert "or the next kubectl apply brings the pods back to those" in ran.stderr
        workload.assert_runs(images[2])
        cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
        wait_updated(workload, images[1])


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_self_heal(cluster, controller, make, images, folder, kind):
    """A loop that applies the repository all the time ends in its state."""
    workload = make(kind, 3)
    declare(workload)
    old, new = manifest(workload, images[0]), manifest(workload, images[1])
    path, is_over = folder / "repository.yaml", threading.Event()
    path.write_text(old)

    def apply() -> None:
        while not is_over.is_set():
            cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", path)

    thread = threading.Thread(target=apply)
    with none_replaced(workload):
        thread.start()
        try:
            cluster.kubectl("set", "image", workload.name, f"main={images[2]}")  # by hand: it is put back
            wait_until(lambda: image_of(workload.get()["spec"]["template"]) == images[0], RUNS, "the repository")
            wait_updated(workload, images[0])
            path.write_text(new)
            wait_updated(workload, images[1])
        finally:
            is_over.set()
            thread.join()


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
@pytest.mark.parametrize("arguments", [[], ["--undo"]], ids=["on", "undo"])
def test_person_in_the_middle(cluster, controller, make, images, inplace, kind, arguments):
    """An update that a person has begun goes on to the images that the repository has meanwhile."""
    workload = make(kind)
    declare(workload, "InPlaceOnly")
    with none_replaced(workload):
        assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}", "--first=1"))
        cluster.kubectl("set", "image", workload.name, f"main={images[2]}")
        ran = inplace.run("rollout", workload.name, *arguments, "-o", "json")
        assert ran.code == 3 and "the update goes on to those" in ran.stderr, ran.stderr
        report = json.loads(ran.stdout)
        assert report["outcome"] == "updated"
        assert report["reason"] == "another client has changed the images of its template"
        wait_updated(workload, images[2])


@pytest.mark.parametrize("kind", KINDS_OF_CONTROLLERS)
def test_during_the_run_of_a_person(cluster, controller, make, images, by_proxy, proxy, kind):
    """The same while the person's command runs."""
    workload = make(kind)
    declare(workload)
    with none_replaced(workload):
        with in_the_middle(by_proxy, proxy, "set", "image", workload.name, f"main={images[1]}", n=2) as middle:
            cluster.kubectl("set", "image", workload.name, f"main={images[2]}")
            ran = middle.end()
        assert ran.code == 3 and "the update goes on to those" in ran.stderr, ran.stderr
        wait_updated(workload, images[2])


def test_in_place_only(cluster, controller, make, images):
    """A change that cannot be made in place is refused at once."""
    workload = make("deployment")
    declare(workload, "InPlaceOnly")
    with none_replaced(workload):
        with pytest.raises(KubeError, match="InPlaceOnly"):
            workload.patch(set_template(images[1], env=[{"name": "A", "value": "1"}]))
        cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
        wait_updated(workload, images[1])


@pytest.mark.parametrize("kind", ["deployment", "statefulset", "daemonset"])
def test_held_by_its_manifest(cluster, make, images, robot, kind):
    """Without policies, the manifest holds the workload, and goes on doing so."""
    workload = make(kind, 3)
    hold = {"paused": True} if kind == "deployment" else {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}
    workload.patch({"metadata": {"annotations": {UPDATE: "InPlaceOnly"}}, "spec": hold})
    before = workload.strategy()
    with none_replaced(workload), robot.running("controller", "-A"):
        workload.patch(set_template(images[1]))
        wait_until(lambda: [image_of(pod) for pod in workload.ready()] == [images[1]] * workload.n_pods
                   and not rollout_is_open(workload), RUNS, "the update")
    assert workload.strategy() == before


def test_held_by_its_manifest_for_more_than_images(make, images, robot):
    """The workload says that it waits for its owner, also when a user has removed that, until its owner lets its own
    controller go on.
    """
    workload = make("deployment", 1)
    declare(workload)
    with robot.running("controller", "-A"):
        workload.patch({"spec": {"paused": True}})
        workload.patch(set_template(images[1], env=[{"name": "A", "value": "1"}]))
        wait_until(lambda: STATUS in annotations_of(workload), RUNS, "the reason")
        reason = annotations_of(workload)[STATUS]
        assert "only images of containers change in place" in reason
        for command in ["status", workload.name], ["doctor"]:
            assert f"{workload.app}: {reason}" in robot.run(*command).stdout
        workload.patch({"metadata": {"annotations": {STATUS: None}}})
        wait_until(lambda: annotations_of(workload).get(STATUS) == reason, RUNS, "the reason once more")
        workload.patch({"spec": {"paused": False}})
        wait_until(lambda: STATUS not in annotations_of(workload), RUNS, "the removal of the reason")


def test_pull_secret_of_another_tenant(cluster, agent, controller, make, images):
    """The node has the image's name with the pull secret of another namespace, which fails or may lend it a right: the update
    goes on without a preload, and adds nothing there.
    """
    path = f"/apis/apps.kruise.io/v1alpha1/nodeimages/{cluster.node.name}"
    name = images[0].rpartition(":")[0]
    entry = {"pullSecrets": [{"namespace": "tenant", "name": "regcred"}], "tags": [{"tag": "other", "version": 0}]}
    node_image = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "NodeImage", "metadata": {"name": cluster.node.name}}
    cluster.admin.create({**node_image, "spec": {"images": {name: entry}}})
    workload = make("deployment")
    declare(workload)
    with none_replaced(workload):
        workload.patch(set_template(images[1]))
        wait_updated(workload, images[1])
    assert cluster.admin.get(path)["spec"]["images"][name] == entry
    cluster.admin.delete(path)


def test_another_image_during_the_preload(cluster, controller, make, images):
    """The update waits for the former image no more, and has the new one pulled as well before a container stops."""
    cluster.control_plane.install()
    name, _, former = images[1].rpartition(":")
    node_image = NodeImage(cluster.admin, cluster.node.name, "v1alpha1")
    node_image.create()

    def requested() -> set[str]:
        known = node_image.get().get("spec", {}).get("images", {})
        return {one["tag"] for one in known.get(name, {}).get("tags", [])}

    workload = make("deployment")
    declare(workload)
    with none_replaced(workload):
        workload.patch(set_template(images[1]))
        wait_until(lambda: requested() == {former}, RUNS, "the request, which no agent answers")
        workload.patch(set_template(images[2]))
        wait_updated(workload, images[2])
    assert requested() == {former, images[2].rpartition(":")[2]}
    node_image.delete()


def test_more_pull_secrets_than_one_request_has(cluster, controller, make, images):
    """The update goes on without a preload."""
    cluster.control_plane.install()
    node_image = NodeImage(cluster.admin, cluster.node.name, "v1alpha1")
    node_image.create()
    workload = make("deployment", 1, pod={"imagePullSecrets": [{"name": f"secret-{n}"} for n in range(33)]})
    declare(workload)
    with none_replaced(workload):
        workload.patch(set_template(images[1]))
        wait_updated(workload, images[1])
    assert not node_image.get().get("spec", {}).get("images")
    node_image.delete()


def test_another_image_just_before_it_begins(cluster, policy, make, images, by_proxy, proxy):
    """The record is written for the new image, which the nodes have been asked for."""
    cluster.control_plane.install()
    name, _, tag = images[2].rpartition(":")
    node_image = NodeImage(cluster.admin, cluster.node.name, "v1alpha1")
    workload = make("deployment")
    declare(workload)
    requested: list[bool] = []

    async def behave(exchange: Exchange) -> None:
        if is_write(exchange.request.path) and b"inplaced.io/rollout" in exchange.request.body and len(requested) < 2:
            known = node_image.get().get("spec", {}).get("images", {})
            requested.append(tag in {one["tag"] for one in known.get(name, {}).get("tags", [])})
            if len(requested) == 1:
                workload.patch(set_template(images[2]))
        await api_faults.behave_well(exchange)

    node_image.create()
    proxy.on(f"^PATCH .*/deployments/{workload.app}", behave)
    with none_replaced(workload), leading(cluster, by_proxy):
        workload.patch(set_template(images[1]))
        for n in (1, 2):
            wait_until(lambda wanted=n: len(requested) >= wanted, RUNS, "the record, after a request that no agent answers")
        wait_updated(workload, images[2])
    assert requested == [False, True]
    node_image.delete()


def test_budget(cluster, controller, make, images):
    """A PodDisruptionBudget that allows nothing keeps the pods as they are, until it allows one."""
    workload = make("deployment", 2)
    declare(workload)
    path = make_budget(cluster, workload, minAvailable=2)
    with none_replaced(workload):
        cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
        wait_until(lambda: STATUS in annotations_of(workload), RUNS, "the refusal")
        assert "PodDisruptionBudget" in annotations_of(workload)[STATUS]
        assert {image_of(pod) for pod in workload.pods()} == {images[0]}
        cluster.admin.patch(path, {"spec": {"minAvailable": 1}})
        wait_updated(workload, images[1])
