# SPDX-License-Identifier: Apache-2.0
"""Declared updates in place, and what comes in their way: autoscalers, drains, quotas, policies, images that crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from declared import *  # noqa: F403
from fake import api_faults
from fake.api_proxy import Exchange
from lab.kube import KubeError
from lab.node_image import NodeImage
from lab.pod import until_term
from lab.wait import stretch, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(300 * SLOWLY)]

ADMISSION = "admissionregistration.k8s.io/v1"


@contextmanager
def in_the_middle(cluster, workload: Workload, image: str) -> Iterator[None]:
    """Inside, at least one pod is updated, and at least one is not; afterwards the update has ended."""
    cluster.kubectl("set", "image", workload.name, f"main={image}")
    wait_until(lambda: image in map(image_of, workload.pods()), RUNS, "the first pod", 0.02)
    yield
    wait_updated(workload, image)


def scale(cluster, workload: Workload, replicas: int) -> None:
    cluster.kubectl("scale", workload.name, f"--replicas={replicas}")
    assert any(image_of(pod) != image_of(workload.get()["spec"]["template"]) for pod in workload.pods())
    workload.n_pods = replicas


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_scaled(cluster, controller, make, images, kind):
    """The pods that come get the new image as well; those that were there stay, but for those that are too many."""
    workload = make(kind, 3, minReadySeconds=2)
    declare(workload)
    before, strategy = workload.uids(), workload.strategy()
    with in_the_middle(cluster, workload, images[1]):
        scale(cluster, workload, 5)
    all_pods = workload.uids()
    assert before < all_pods
    with in_the_middle(cluster, workload, images[2]):
        scale(cluster, workload, 2)
    assert workload.uids() < all_pods and workload.strategy() == strategy


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_drained(cluster, controller, make, images, kind):
    """The successor of an evicted pod gets the new image, as soon as there is a node for it."""
    workload = make(kind, 3, minReadySeconds=2)
    declare(workload)
    before, node = workload.uids(), cluster.node.name
    with in_the_middle(cluster, workload, images[1]):
        (evicted, *_) = (pod["metadata"] for pod in workload.pods() if image_of(pod) == images[0])
        cluster.kubectl("cordon", node)
        try:
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": evicted["name"]}}
            cluster.admin.post(f"{PODS}/{evicted['name']}/eviction", eviction)
            wait_until(lambda: workload.uids() - before, RUNS, "the successor")
        finally:
            cluster.kubectl("uncordon", node)
    assert before - workload.uids() == {evicted["uid"]}


def test_quota_is_full(cluster, controller, make, images):
    """No further pod is needed."""
    workload = make("deployment", 3)
    declare(workload)
    n_pods = len([pod for pod in cluster.admin.list(PODS) if pod["status"]["phase"] not in ("Succeeded", "Failed")])
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "full"},
             "spec": {"hard": {"pods": str(n_pods)}}}
    path = cluster.admin.path_of(cluster.admin.create(quota))
    try:
        cluster.admin.wait_for(path, lambda one: one.get("status", {}).get("used") == {"pods": str(n_pods)}, RUNS)
        with none_replaced(workload):
            cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
            wait_updated(workload, images[1])
    finally:
        cluster.admin.delete(path)


@contextmanager
def refusing(
    cluster, group: str, resource: str, expression: str, message: str, probe: Callable[[], object]
) -> Iterator[None]:
    """A policy that refuses such objects; `probe` sends a request that it refuses."""
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [resource]}
    policy = {
        "apiVersion": ADMISSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "signed"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": expression, "message": message}],
        },
    }
    binding = {"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "signed"},
               "spec": {"policyName": "signed", "validationActions": ["Deny"]}}
    paths = [cluster.admin.path_of(cluster.admin.create(one)) for one in (policy, binding)]

    def is_refused() -> bool:
        try:
            probe()
        except KubeError as error:
            return message in str(error)
        return False

    try:
        wait_until(is_refused, RUNS, "the policy in force", 0.1)
        yield
    finally:
        for path in reversed(paths):
            cluster.admin.delete(path)


@pytest.fixture
def refusal(cluster, images) -> Iterator[str]:
    """The message of a policy that refuses pods with the second image."""
    message = "the second image is not signed"
    expression = f"object.spec.containers.all(c, c.image != '{images[1]}')"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", "namespace": "default"},
           "spec": {"containers": [{"name": "main", "image": images[1]}]}}
    with refusing(cluster, "", "pods", expression, message, lambda: cluster.admin.post(PODS, pod, dryRun="All")):
        yield message


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_policy_refuses_image(cluster, controller, refusal, make, images, kind):
    """No pod is touched, the workload says why, and the next image or the old one heals it."""
    workload = make(kind)
    declare(workload)
    with none_replaced(workload):
        cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
        wait_until(lambda: refusal in annotations_of(workload).get(STATUS, ""), RUNS, "the reason")
        assert {image_of(pod) for pod in workload.pods()} == {images[0]}
        assert "InPlaceUpdateFailed" in events(workload)
        cluster.kubectl("set", "image", workload.name, f"main={images[2]}")
        wait_updated(workload, images[2])


def test_policy_refuses_the_end(cluster, controller, make, images):
    """The workload says why it stays held though its pods run the image, and goes back when that is allowed."""
    workload = make("deployment")
    declare(workload)
    message = "nothing is released today"
    expression = ("(oldObject == null || !has(oldObject.spec.paused) || "
                  "(has(object.spec.paused) && object.spec.paused)) && "
                  "!(has(object.metadata.annotations) && 'probe' in object.metadata.annotations)")

    def probe() -> None:
        cluster.admin.patch(workload.path, {"metadata": {"annotations": {"probe": ""}}}, dryRun="All")

    with none_replaced(workload):
        with refusing(cluster, "apps", "deployments", expression, message, probe):
            cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
            wait_until(lambda: message in annotations_of(workload).get(STATUS, ""), RUNS, "the reason")
            assert is_held(workload) and {image_of(pod) for pod in workload.pods()} == {images[1]}
            wait_until(lambda: "InPlaceUpdateFailed" in events(workload), RUNS, "the event")
        wait_updated(workload, images[1])


def test_reason_that_cannot_be_removed(make, images, by_proxy, proxy):
    """The reason of a failure that is over goes later, where the first attempt to remove it was refused."""
    workload = make("statefulset", 1)
    workload.patch({"metadata": {"annotations": {UPDATE: "InPlaceOnly"}},
                    "spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}})
    refuse = api_faults.refuse(403)

    async def refuse_removal(exchange: Exchange) -> None:
        body = exchange.request.body
        removes = b'update-status":null' in body and b"inplaced.io/held" not in body
        await (refuse if removes else api_faults.behave_well)(exchange)

    with by_proxy.running("controller", "-A"):
        proxy.on("^PATCH .*/pods/", refuse)
        workload.patch(set_template(images[1]))
        wait_until(lambda: STATUS in annotations_of(workload), RUNS, "the reason")
        proxy.behave()
        proxy.on(f"^PATCH .*/{workload.app}", refuse_removal)
        wait_until(lambda: [image_of(pod) for pod in workload.ready()] == [images[1]], RUNS, "the update")
        wait_until(lambda: STATUS not in annotations_of(workload), RUNS, "the removal of the reason")


@pytest.mark.parametrize("kind", KINDS_OF_CONTROLLERS)
def test_admission_of_new_pods(cluster, controller, make, images, kind):
    """A registry mirror is put into new pods alone: its own controller updates the workload."""
    with mirror(cluster, images[0]) as mirrored:
        workload = make(kind)
    uids, strategy = workload.uids(), workload.strategy()
    assert {image_of(pod) for pod in workload.pods()} == {mirrored}
    declare(workload)
    cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
    wait_updated(workload, images[1])
    assert not uids & workload.uids() and workload.strategy() == strategy
    assert events(workload) == ["InPlaceUpdateImpossible"]


@pytest.mark.parametrize("mode", ["InPlaceIfPossible", "InPlaceOnly"])
def test_container_that_would_not_come_back(cluster, controller, make, images, mode):
    """A container whose own restart policy might not start it again: its own controller updates the workload, if it may."""
    main = {"name": "main", "image": images[0], "imagePullPolicy": "Always", "command": until_term()}
    workload = make("deployment", pod={"containers": [{**main, "restartPolicy": "OnFailure"}]})
    uids, strategy = workload.uids(), workload.strategy()
    declare(workload, mode)
    cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
    if mode == "InPlaceOnly":
        said = "would be lost if the image of container main could not be pulled"
        wait_until(lambda: said in annotations_of(workload).get(STATUS, ""), RUNS, "the reason")
        assert workload.uids() == uids and is_held(workload)
        return
    wait_updated(workload, images[1])
    assert not uids & workload.uids() and workload.strategy() == strategy
    assert events(workload) == ["InPlaceUpdateImpossible"]


def test_container_that_would_not_come_back_from_a_third_image(cluster, controller, make, images):
    """The node has pulled the second image when the template gets a third one, for which no agent answers."""
    cluster.control_plane.install()
    name = images[0].rpartition(":")[0]
    node_image = NodeImage(cluster.admin, cluster.node.name, "v1alpha1")
    node_image.create()
    main = {"name": "main", "image": images[0], "imagePullPolicy": "IfNotPresent", "command": until_term()}
    spec = {"containers": [{**main, "restartPolicy": "OnFailure"}]}
    workload = make("deployment", 2, minReadySeconds=round(min(stretch(8), 30)), pod=spec)
    declare(workload)
    with none_replaced(workload):
        workload.patch(set_template(images[1]))
        wait_until(lambda: name in node_image.get().get("spec", {}).get("images", {}), RUNS, "the request")
        (asked,) = node_image.get()["spec"]["images"][name]["tags"]
        outcome = {"phase": "Succeeded", "completionTime": "2026-01-01T00:00:00Z"}
        pulled = {"tag": asked["tag"], "version": asked["version"], **outcome}
        status = {"desired": 1, "succeeded": 1, "failed": 0, "pulling": 0, "imageStatuses": {name: {"tags": [pulled]}}}
        node_image.patch_status(status)
        wait_until(lambda: images[1] in {image_of(pod) for pod in workload.pods()}, RUNS, "the first pod")
        workload.patch(set_template(images[2]))
        said = "would be lost if the image of container main could not be pulled"
        wait_until(lambda: said in annotations_of(workload).get(STATUS, ""), RUNS, "the reason")
        assert images[2] not in {image_of(pod) for pod in workload.pods()}
        workload.patch(set_template(images[0]))
        wait_updated(workload, images[0])
    node_image.delete()


def test_admission_of_new_pods_and_only_in_place(cluster, controller, make, images):
    """No pod is replaced; the workload says why, and goes on when its pods have the names of the template."""
    with mirror(cluster, images[0]) as mirrored:
        workload = make("deployment")
    declare(workload, "InPlaceOnly")
    with none_replaced(workload):
        cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
        wait_until(lambda: "admission makes" in annotations_of(workload).get(STATUS, ""), RUNS, "the reason")
        assert {image_of(pod) for pod in workload.pods()} == {mirrored} and is_held(workload)
        written = set_template(images[0])["spec"]["template"]
        for pod in workload.pods():
            cluster.admin.patch(f"{PODS}/{pod['metadata']['name']}", written, "strategic")
        wait_updated(workload, images[1])


@pytest.mark.parametrize("mode", ["InPlaceIfPossible", "InPlaceOnly"])
def test_admission_that_changes_more(cluster, controller, make, images, inplace, mode):
    """As AlwaysPullImages does in pods that are older: its own controller updates the workload, if it may or is let."""
    workload = make("deployment")
    uids, strategy = workload.uids(), workload.strategy()
    declare(workload, mode)
    written = set_template(images[1])["spec"]["template"]

    def is_refused() -> bool:
        try:
            cluster.admin.patch(f"{PODS}/{workload.pods()[0]['metadata']['name']}", written, "strategic", dryRun="All")
        except KubeError as error:
            return error.code == 422
        return False

    with admission(cluster, "pods", images[1], "Always", field="imagePullPolicy"):
        wait_until(is_refused, RUNS, "the admission policy", 0.2)
        cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
        if mode == "InPlaceOnly":
            said = "only new pods get the image"
            wait_until(lambda: said in annotations_of(workload).get(STATUS, ""), RUNS, "the reason")
            assert is_held(workload) and workload.uids() == uids
            assert_done(inplace.run("rollout", workload.name, "--release"))
        wait_updated(workload, images[1])
    assert not uids & workload.uids() and workload.strategy() == strategy
    assert "InPlaceUpdateImpossible" in events(workload) or mode == "InPlaceOnly"


def children(pid: int) -> list[str]:
    """Runs that are under way."""
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.mark.parametrize("kind", ["deployment", "daemonset"])
def test_crashing_image(cluster, controller, make, registry, images, kind):
    """A single pod gets it, the workload says so, and the old image heals it."""
    crashing = registry.push_image("t/rollout", "crash", [1000], busybox=True, env={"FAULT": "yes"}).reference
    script = until_term()[-1]
    command = [*until_term()[:-1], f'[ -z "$FAULT" ] || exit 7\n{script}']
    pod = {"containers": [{"name": "main", "image": images[0], "command": command}]}
    workload = make(kind, 3, minReadySeconds=round(min(stretch(8), 30)), pod=pod)
    declare(workload)
    with none_replaced(workload):
        cluster.kubectl("set", "image", workload.name, f"main={crashing}")
        wait_until(lambda: STATUS in annotations_of(workload), RUNS, "the reason")
        assert "exit code 7" in annotations_of(workload)[STATUS]
        assert [image_of(pod) for pod in workload.pods()].count(crashing) == 1
        wait_until(lambda: children(controller.pid), RUNS, "the next attempt")
        cluster.kubectl("set", "image", workload.name, f"main={images[0]}")
        wait_until(lambda: STATUS not in annotations_of(workload), RUNS, "the end of the reason", 0.05)
        assert rollout_is_open(workload), "the attempt goes on with the good image, and shows no failure meanwhile"
        wait_updated(workload, images[0])
