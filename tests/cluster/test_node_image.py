# SPDX-License-Identifier: Apache-2.0
"""Proves that the agent serves a NodeImage as controllers expect: on a real API server, with a real
runtime and real registries.
"""

from __future__ import annotations

import itertools
import json
import os
from datetime import datetime, timezone

import pytest

from fake import registry as fakes
from lab import sanitizers
from lab.crio import Crio
from lab.documents import split_reference
from lab.image import build_image
from lab.layers import random_layer
from lab.node_image import COUNTS, NodeImage
from lab.stargz import Stargz, push_lazy_image
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

_OWNER = {
    "apiVersion": "apps.kruise.io/v1beta1",
    "kind": "ImagePullJob",
    "namespace": "default",
    "name": "job",
    "uid": "f3a5",
}


def job_spec(reference: str, **more: object) -> dict:
    """The spec as the controller of ImagePullJobs writes it; `more` belongs to the image's entry."""
    name, tag = split_reference(reference)
    tag_spec = {
        "tag": tag,
        "createdAt": "2026-01-02T03:04:05Z",
        "version": 3,
        "imagePullPolicy": "Always",
        "ownerReferences": [_OWNER],
        "pullPolicy": {"timeoutSeconds": 60, "backoffLimit": 0, "ttlSecondsAfterFinished": 300},
    }
    return {"images": {name: {"tags": [tag_spec], **more}}}


def assert_time(text: str) -> datetime:
    """RFC 3339, UTC, whole seconds; returns it."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)


# A single image


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
def test_pull_job(
    cluster_agent, kube, node_image, auth_registry, runtime, image_name, pull_secret, version
):
    """The agent pulls with a pull secret, in either version of the object."""
    image = auth_registry.push_image(image_name, "1", [200_000], labels={"test": image_name})
    secret = {**pull_secret(auth_registry), "mode": "batch"}
    sandbox = {"labels": {"app": "web"}, "annotations": {"note": "x"}}
    written = NodeImage(kube, node_image.name, version)
    if version == "v1alpha1":
        del secret["mode"]
    began = datetime.now(timezone.utc).replace(microsecond=0)
    written.set_spec(job_spec(image.reference, pullSecrets=[secret], sandboxConfig=sandbox))
    seen = written.wait_status(image.reference, "Succeeded")
    name, _ = split_reference(image.reference)
    assert runtime.image_id(image.reference) == image.image_id
    started, completed = assert_time(seen.pop("startTime")), assert_time(seen.pop("completionTime"))
    assert began <= started <= completed <= datetime.now(timezone.utc)
    assert seen == {
        "tag": "1",
        "phase": "Succeeded",
        "progress": 100,
        "version": 3,
        "imageID": f"{name}@{image.image_id}",
    }
    assert written.counts() == (1, 1, 0, 0, 0)
    listed = json.loads(cluster_agent.ctl("images", "-o", "json").stdout)["images"]
    (listed_image,) = [found for found in listed if found["id"] == image.image_id]
    assert listed_image["requestedBy"] == ["job default/job"]
    assert "job default/job" in cluster_agent.ctl("status", "-o", "wide").stdout
    canceled = cluster_agent.ctl("cancel", image.reference)
    assert canceled.returncode == 1
    assert "requested by job default/job; withdraw it in the cluster" in canceled.stderr
    runtime.remove_image(image.reference)


def test_a_name_without_docker_io(start_agent, kubeconfig, node_name, node_image, folder, image_name):
    """OpenKruise leaves "docker.io/" out: on CRI-O, too, the image comes from there, although its search list
    has another registry first."""
    name = f"foo/{image_name}"
    with fakes.FakeRegistry() as hub, fakes.FakeRegistry() as evil, Crio(folder / "crio") as crio:
        right = hub.add(name, "1", build_image([random_layer(1000, 1)]))
        evil.add(name, "1", build_image([random_layer(1000, 2)]))
        crio.short_name_registries = [evil.host]
        crio.mirror("docker.io", hub)
        start_agent(crio.endpoint, kubeconfig=kubeconfig, node_name=node_name)
        node_image.set_spec(job_spec(f"{name}:1"))
        status = node_image.wait_status(f"{name}:1", "Succeeded")
        assert status["imageID"] == f"{name}@{right.image_id}" and "message" not in status
        assert crio.image_status(f"docker.io/{name}:1") is not None and not evil.requests(name=name)


def test_complete(
    start_agent, kubeconfig, node_name, node_image, registry, folder, image_name
):
    """The image with the annotation, of two whose layers are fetched on demand, is there when it is done."""
    sizes = [2_000_000, 1_000_000]
    lazy, whole = (
        push_lazy_image(registry, f"{image_name}-{kind}", sizes, folder / kind)
        for kind in ("lazy", "whole")
    )
    sandbox = {"annotations": {"inplaced.io/complete": "true"}}
    with Stargz(folder / "stargz") as stargz:
        start_agent(stargz.endpoint, kubeconfig=kubeconfig, node_name=node_name)
        node_image.set_spec(
            {
                "images": {
                    **job_spec(lazy)["images"],
                    **job_spec(whole, sandboxConfig=sandbox)["images"],
                }
            }
        )
        message = node_image.wait_status(whole, "Succeeded", 60 * SLOWLY)["message"]
        assert message.startswith("2 of 2 layers are fetched on demand, all ")
        message = node_image.wait_status(lazy, "Succeeded", 60 * SLOWLY)["message"]
        assert message.startswith("2 of 2 layers are fetched on demand, ")


def test_complete_where_nothing_is_fetched(
    start_agent, kubeconfig, node_name, node_image, registry, folder, image_name
):
    """The reason is in the status."""
    lazy = push_lazy_image(registry, image_name, [1_000_000], folder / "converts")
    sandbox = {"annotations": {"inplaced.io/complete": "true"}}
    options = {"no_background_fetch": True}
    with Stargz(folder / "stargz", snapshotter_options=options) as stargz:
        start_agent(stargz.endpoint, kubeconfig=kubeconfig, node_name=node_name, stall_timeout=1)
        node_image.set_spec(job_spec(lazy, sandboxConfig=sandbox))
        assert "NoProgress" in node_image.wait_status(lazy, "Failed", 60 * SLOWLY)["message"]


def test_acknowledged_at_once(
    start_agent, runtime, kubeconfig, node_name, node_image, gate, push
):
    """The agent reports each image before its pull ends: controllers fail tasks without a status."""
    start_agent(
        runtime.endpoint, kubeconfig=kubeconfig, node_name=node_name, max_parallel_pulls=1
    )
    second = push()
    node_image.wait_counts(0, 0, 0, 0, 0)
    node_image.request(gate.reference)
    node_image.wait_status(gate.reference, "Pulling", 5 * SLOWLY)
    node_image.request(gate.reference, second.reference)
    waiting = node_image.wait_status(second.reference, "Waiting", 5 * SLOWLY)
    assert not waiting.keys() & {"startTime", "completionTime", "imageID"}
    assert node_image.counts() == (2, 0, 0, 1, 1)
    watch = node_image.watch()
    first = next(watch)["object"]["status"]
    assert first["succeeded"] == 0, "the watch began before the end of the pull"
    gate.open()
    for event in watch:
        if event["object"]["status"]["succeeded"] == 2:
            break
    watch.close()


def test_new_version_repeats_it(cluster_agent, node_image, push):
    """A new version pulls again a tag that has moved to another image."""
    first = push(labels={"round": "one"})
    node_image.request(first.reference, policy="Always")
    assert node_image.wait_status(first.reference, "Succeeded")["imageID"].endswith(first.image_id)
    moved = push(labels={"round": "two"})
    assert (moved.reference, moved.image_id != first.image_id) == (first.reference, True)
    node_image.request(first.reference, policy="Always", version=1)
    seen = wait_until(
        lambda: found
        if (found := node_image.tag_status(first.reference) or {}).get("version") == 1
        and found["phase"] == "Succeeded"
        else None,
        15 * SLOWLY,
        lambda: f"version 1, only {node_image.status()}",
    )
    assert seen["imageID"].endswith(moved.image_id)
    assert node_image.counts() == (1, 1, 0, 0, 0)
    # Two pulls of the same duration make one event with a count of two.
    wait_until(
        lambda: sum(event["count"] for event in node_image.events()) >= 2,
        10 * SLOWLY,
        lambda: f"second event among {node_image.events()}",
    )
    assert sum(event["count"] for event in node_image.events()) == 2


def test_removal_stops_the_pull(cluster_agent, runtime, node_image, gate):
    node_image.request(gate.reference)
    node_image.wait_status(gate.reference, "Pulling")
    gate.wait_fetched(10 * SLOWLY)
    node_image.set_spec({"images": {}})
    status = node_image.wait_counts(0, 0, 0, 0, 0)
    assert not status.get("imageStatuses")
    gate.wait_left(10 * SLOWLY)
    assert runtime.image_status(gate.reference) is None
    assert node_image.events() == []


def test_one_of_two_is_removed(cluster_agent, node_image, push):
    images = push(tag="a"), push(tag="b")
    node_image.request(*(image.reference for image in images))
    node_image.wait_counts(2, 2, 0, 0, 0)
    node_image.request(images[1].reference)
    node_image.wait_counts(1, 1, 0, 0, 0)
    assert node_image.tag_status(images[0].reference) is None
    assert node_image.tag_status(images[1].reference)["phase"] == "Succeeded"


def test_digest(cluster_agent, node_image, push, runtime):
    image = push()
    node_image.request(image.digest_reference)
    seen = node_image.wait_status(image.digest_reference, "Succeeded")
    name, digest = split_reference(image.digest_reference)
    assert seen["tag"] == digest
    assert seen["imageID"] == f"{name}@{image.image_id}"
    assert runtime.image_id(image.digest_reference) == image.image_id


@pytest.mark.parametrize("name", ["docker.io/library/nginx", "nginx", "index.docker.io/nginx"])
def test_spelling_is_kept(cluster_agent, node_image, name):
    """The status has the reference as the controller wrote it, even if the pull fails."""
    node_image.request(f"{name}:none", backoffLimit=0, timeoutSeconds=1)
    node_image.wait_status(f"{name}:none", "Failed")
    assert list(node_image.status()["imageStatuses"]) == [name]


# Other writers


def test_controllers_verdict_stays(cluster_agent, runtime, node_image, gate, push):
    """The agent stops a pull that a controller has failed, and does not write its status again."""
    first_sync = {"syncAt": "2026-01-02T03:04:05Z", "status": "Succeeded", "message": "other"}
    node_image.request(gate.reference)
    node_image.wait_status(gate.reference, "Pulling")
    gate.wait_fetched(10 * SLOWLY)
    name, tag = split_reference(gate.reference)
    verdict = {
        "tag": tag,
        "phase": "Failed",
        "message": "gave up",
        "completionTime": "2026-01-02T03:04:05Z",
    }
    status = {"imageStatuses": {name: {"tags": [verdict]}}, "firstSyncStatus": first_sync}
    node_image.patch_status(status)
    gate.wait_left(10 * SLOWLY)
    node_image.wait_counts(1, 0, 1, 0, 0)
    gate.open()
    other = push(tag="settled").reference
    node_image.settle(other)
    status = node_image.wait_counts(2, 1, 1, 0, 0)
    assert node_image.tag_status(gate.reference) == verdict
    assert status["firstSyncStatus"] == first_sync
    events = node_image.wait_events(1)
    assert [event["reason"] for event in events] == ["PullImageSucceed"]
    assert other in events[0]["message"]


def test_signed_url(cluster_agent, node_image, fake_registry, image_name):
    """The agent never writes to the cluster the URL to which a registry redirects: it is a credential."""
    image = fake_registry.add(image_name, "1", build_image([random_layer(1000, seed=31)]))
    url = "http://me:PASSWORD@127.0.0.1:1/blob?sig=SIGNATURE"
    fake_registry.on("layer", fakes.refuse(307, Location=url))
    node_image.request(image.reference, backoffLimit=0)
    status = str(node_image.wait_status(image.reference, "Failed"))
    (event,) = node_image.wait_events(1)
    assert event["reason"] == "PullImageFailed"
    for text in (status, event["message"]):
        assert "http://127.0.0.1:1/blob" in text
    for secret in ("PASSWORD", "SIGNATURE", "sig="):
        assert secret not in status + str(event) + cluster_agent.log_text()


def test_fields_of_others_stay(cluster_agent, node_image, push, kube):
    """The agent keeps the fields of other writers."""
    first_sync = {"syncAt": "2026-01-02T03:04:05Z", "status": "Failed", "message": "other"}
    node_image.patch_status({**dict.fromkeys(COUNTS, 0), "firstSyncStatus": first_sync})
    kube.patch(node_image.path, {"metadata": {"annotations": {"theirs": "1"}}})
    image = push()
    node_image.request(image.reference)
    node_image.wait_status(image.reference, "Succeeded")
    node_image.set_spec({"images": {}})
    status = node_image.wait_counts(0, 0, 0, 0, 0)
    assert status["firstSyncStatus"] == first_sync
    assert node_image.get()["metadata"]["annotations"] == {"theirs": "1"}


def test_others_write_all_the_time(cluster_agent, node_image, push, kube):
    """A writer that changes the object without a pause does not block the status."""
    image = push()
    node_image.request(image.reference)
    number = itertools.count()

    def is_reported() -> bool:
        kube.patch(node_image.path, {"metadata": {"annotations": {"theirs": str(next(number))}}})
        return (node_image.tag_status(image.reference) or {}).get("phase") == "Succeeded"

    wait_until(is_reported, 40 * SLOWLY, lambda: f"status, only {node_image.status()}", pause=0.02)


def test_made_again(cluster_agent, node_image, fake_registry, gate, image_name):
    """The agent pulls again for an object that was created again."""
    node_image.request(gate.reference, policy="Always")
    gate.open()
    node_image.wait_status(gate.reference, "Succeeded")
    n_before = len(fake_registry.requests("manifest", image_name))
    node_image.delete()
    made = node_image.create(gate.reference, policy="Always")
    began = assert_time(made["metadata"]["creationTimestamp"])
    for event in node_image.watch(since=made):
        images = event["object"].get("status", {}).get("imageStatuses") or {}
        tags = [tag for image in images.values() for tag in image["tags"]]
        assert all(assert_time(tag["startTime"]) >= began for tag in tags if "startTime" in tag)
        if [tag["phase"] for tag in tags] == ["Succeeded"]:
            break
    assert len(fake_registry.requests("manifest", image_name)) > n_before
    assert len(node_image.wait_events(2)) == 2


def test_made_again_and_again(cluster_agent, node_image, push):
    """Each status belongs to the object that it is in, however fast objects are replaced."""
    images = [push(tag=f"round{number}") for number in range(4)]
    for image in images:
        node_image.delete()
        made = node_image.create(image.reference)
        for event in node_image.watch(since=made):
            about = event["object"]
            assert about["metadata"]["uid"] == made["metadata"]["uid"]
            seen = about.get("status", {}).get("imageStatuses") or {}
            tags = [tag for entry in seen.values() for tag in entry["tags"]]
            assert [tag["tag"] for tag in tags] in ([], [image.reference.rpartition(":")[2]])
            if tags and tags[0]["phase"] == "Succeeded":
                break


def test_disk_pressure(start_agent, kubeconfig, node_image, new_runtime, registry, image_name):
    """A pull that waits for room is `Waiting` as the protocol has it, and its message says why."""
    image = registry.push_image(image_name, "1", [1000])
    with new_runtime("small", root_megabytes=96) as small:
        filler = small.root / "filler"
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 80_000_000)
        start_agent(
            small.endpoint, kubeconfig=kubeconfig, node_name=node_image.name, min_free_disk="30MB"
        )
        node_image.set_spec(job_spec(image.reference))

        def waits():
            status = node_image.tag_status(image.reference) or {}
            return status if "message" in status else None

        status = wait_until(waits, 20 * SLOWLY, "message")
        assert status["phase"] == "Waiting" and "completionTime" not in status
        assert status["message"].startswith("DiskPressure: 2")
        assert "less than minFreeDisk (30 MB)" in status["message"]
        filler.unlink()
        assert "message" not in node_image.wait_status(image.reference, "Succeeded")
