# SPDX-License-Identifier: Apache-2.0
"""Proves that the agent serves a NodeImage as controllers expect: on a real API server, with a real
runtime and real registries.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest

from lab import sanitizers
from lab.documents import split_reference
from lab.kube import KubeError
from lab.node_image import NodeImage
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

_OWNERS = [("ImagePullJob", "default", "job"), ("Pod", "kruise-daemon-config", "pod")]


def owner_references() -> list[dict[str, str]]:
    return [
        {"apiVersion": "v1", "kind": kind, "namespace": space, "name": name, "uid": f"uid-{name}"}
        for kind, space, name in _OWNERS
    ]


def job_spec(reference: str, **more: object) -> dict:
    """As the controller of ImagePullJobs writes it; `more` is of the image's entry."""
    name, tag = split_reference(reference)
    wish = {
        "tag": tag,
        "createdAt": "2026-01-02T03:04:05Z",
        "version": 3,
        "imagePullPolicy": "Always",
        "ownerReferences": owner_references(),
        "pullPolicy": {"timeoutSeconds": 60, "backoffLimit": 0, "ttlSecondsAfterFinished": 300},
    }
    return {"images": {name: {"tags": [wish], **more}}}


def status_writes(control_plane, name: str) -> list[dict]:
    """The bodies of the agent's patches of the NodeImage's status, oldest first."""
    return [
        entry["requestObject"]
        for entry in control_plane.audit(verb="patch")
        if entry["objectRef"].get("subresource") == "status"
        and entry["objectRef"]["name"] == name
        and entry.get("responseStatus", {}).get("code") == 200
    ]


def event_writes(control_plane, name: str) -> list[dict]:
    """What the agent has asked for about events of the NodeImage."""
    return [
        entry
        for entry in control_plane.audit()
        if entry["objectRef"]["resource"] == "events" and name in json.dumps(entry)
    ]


def wait_events(node_image, n: int) -> list[dict]:
    return wait_until(
        lambda: found if len(found := node_image.events()) >= n else None,
        10 * SLOWLY,
        lambda: f"{n} events, only {node_image.events()}",
    )


def assert_time(text: str) -> datetime:
    """RFC 3339, UTC, whole seconds; returns it."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)


def counts(status: dict) -> tuple[int, ...]:
    keys = ("desired", "succeeded", "failed", "pulling", "waiting")
    return tuple(status[key] for key in keys)


def wait_counts(node_image, *wanted: int) -> dict:
    def reached() -> dict | None:
        status = node_image.status()
        return status if status and counts(status) == wanted else None

    return wait_until(reached, 15 * SLOWLY, lambda: f"{wanted}, only {node_image.status()}")


def settle(node_image, push) -> str:
    """Pulls one more image: what was under way before has been written when it is done."""
    reference = push(tag="settled").reference
    name, tag = split_reference(reference)
    node_image.kube.patch(node_image.path, {"spec": {"images": {name: {"tags": [{"tag": tag}]}}}})
    node_image.wait_status(reference, "Succeeded")
    return reference


# One image


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
def test_pull_job(
    cluster_agent, kube, node_image, auth_registry, containerd, image_name, pull_secret, version
):
    """With a pull secret, in either version of the object."""
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
    held = containerd.image_status(image.reference)
    assert held.id == image.image_id
    started, completed = assert_time(seen.pop("startTime")), assert_time(seen.pop("completionTime"))
    assert began <= started <= completed <= datetime.now(timezone.utc)
    assert seen == {
        "tag": "1",
        "phase": "Succeeded",
        "progress": 100,
        "version": 3,
        "imageID": f"{name}@{held.id}",
    }
    assert counts(written.status()) == (1, 1, 0, 0, 0)
    containerd.remove_image(image.reference)


def test_acknowledged_at_once(
    start_agent, containerd, kubeconfig, node_name, node_image, gate, push
):
    """Controllers give a task up that nobody has taken; each one is shown before it is done."""
    start_agent(
        containerd.endpoint, kubeconfig=kubeconfig, node_name=node_name, max_parallel_pulls=1
    )
    second = push()
    wait_counts(node_image, 0, 0, 0, 0, 0)
    node_image.want(gate.reference)
    node_image.wait_status(gate.reference, "Pulling", 1 * SLOWLY)
    node_image.want(gate.reference, second.reference)
    waiting = node_image.wait_status(second.reference, "Waiting", 2 * SLOWLY)
    assert not waiting.keys() & {"startTime", "completionTime", "imageID"}
    assert counts(node_image.status()) == (2, 0, 0, 1, 1)
    gate.open()
    phases = []
    for event in node_image.watch():
        status = event["object"]["status"]
        phases.append(counts(status))
        if status["succeeded"] == 2:
            break
    assert phases[0][1] == 0, "the watch began before the end of the pull"


def test_new_version_repeats_it(cluster_agent, node_image, push):
    """A tag that has moved is another image."""
    first = push(labels={"round": "one"})
    node_image.want(first.reference, policy="Always")
    assert node_image.wait_status(first.reference, "Succeeded")["imageID"].endswith(first.image_id)
    moved = push(labels={"round": "two"})
    assert (moved.reference, moved.image_id != first.image_id) == (first.reference, True)
    node_image.want(first.reference, policy="Always", version=1)
    seen = wait_until(
        lambda: found
        if (found := node_image.tag_status(first.reference) or {}).get("version") == 1
        and found["phase"] == "Succeeded"
        else None,
        15 * SLOWLY,
        lambda: f"version 1, only {node_image.status()}",
    )
    assert seen["imageID"].endswith(moved.image_id)
    assert counts(node_image.status()) == (1, 1, 0, 0, 0)
    assert len(wait_events(node_image, 2)) == 2


def test_removal_stops_the_pull(cluster_agent, containerd, node_image, gate):
    node_image.want(gate.reference)
    node_image.wait_status(gate.reference, "Pulling")
    wait_until(containerd.cri.ingests, 10 * SLOWLY, "ingest")
    node_image.set_spec({"images": {}})
    status = wait_counts(node_image, 0, 0, 0, 0, 0)
    assert not status.get("imageStatuses")
    wait_until(lambda: not containerd.cri.ingests(), 10 * SLOWLY, "end of the ingest")
    assert containerd.image_status(gate.reference) is None
    assert node_image.events() == []


def test_one_of_two_is_removed(cluster_agent, node_image, push):
    images = push(tag="a"), push(tag="b")
    node_image.want(*(image.reference for image in images))
    wait_counts(node_image, 2, 2, 0, 0, 0)
    node_image.want(images[1].reference)
    wait_counts(node_image, 1, 1, 0, 0, 0)
    assert node_image.tag_status(images[0].reference) is None
    assert node_image.tag_status(images[1].reference)["phase"] == "Succeeded"


def test_digest(cluster_agent, node_image, push, containerd):
    image = push()
    node_image.want(image.digest_reference)
    seen = node_image.wait_status(image.digest_reference, "Succeeded")
    name, digest = split_reference(image.digest_reference)
    assert seen["tag"] == digest
    assert seen["imageID"] == f"{name}@{image.image_id}"
    assert containerd.image_status(image.digest_reference).id == image.image_id


@pytest.mark.parametrize("name", ["docker.io/library/nginx", "nginx", "index.docker.io/nginx"])
def test_spelling_is_kept(cluster_agent, node_image, name):
    """Controllers look for what they wrote, even if the image cannot be had."""
    node_image.want(f"{name}:none", backoffLimit=0, timeoutSeconds=1)
    node_image.wait_status(f"{name}:none", "Failed")
    assert list(node_image.status()["imageStatuses"]) == [name]


# What others write


def test_controllers_verdict_stays(cluster_agent, containerd, node_image, gate, push):
    """What a controller has failed is stopped, and neither told otherwise nor told again."""
    first_sync = {"syncAt": "2026-01-02T03:04:05Z", "status": "Succeeded", "message": "other"}
    node_image.want(gate.reference)
    node_image.wait_status(gate.reference, "Pulling")
    wait_until(containerd.cri.ingests, 10 * SLOWLY, "ingest")
    name, tag = split_reference(gate.reference)
    verdict = {
        "tag": tag,
        "phase": "Failed",
        "message": "gave up",
        "completionTime": "2026-01-02T03:04:05Z",
    }
    status = {"imageStatuses": {name: {"tags": [verdict]}}, "firstSyncStatus": first_sync}
    node_image.patch_status(status)
    wait_until(lambda: not containerd.cri.ingests(), 10 * SLOWLY, "end of the ingest")
    wait_counts(node_image, 1, 0, 1, 0, 0)
    gate.open()
    other = settle(node_image, push)
    status = wait_counts(node_image, 2, 1, 1, 0, 0)
    assert node_image.tag_status(gate.reference) == verdict
    assert status["firstSyncStatus"] == first_sync
    events = wait_events(node_image, 1)
    assert [event["reason"] for event in events] == ["PullImageSucceed"]
    assert other in events[0]["message"]


def test_fields_of_others_stay(cluster_agent, node_image, push, kube):
    """Also where the object is written at the same time."""
    first_sync = {"syncAt": "2026-01-02T03:04:05Z", "status": "Failed", "message": "other"}
    node_image.patch_status({**dict.fromkeys(_COUNTS, 0), "firstSyncStatus": first_sync})
    kube.patch(node_image.path, {"metadata": {"annotations": {"theirs": "1"}}})
    image = push()
    node_image.want(image.reference)
    node_image.wait_status(image.reference, "Succeeded")
    node_image.set_spec({"images": {}})
    status = wait_counts(node_image, 0, 0, 0, 0, 0)
    assert status["firstSyncStatus"] == first_sync
    assert node_image.get()["metadata"]["annotations"] == {"theirs": "1"}


def test_made_again(cluster_agent, node_image, fake_registry, gate, image_name):
    """A new object is another one: what is finished in the old one is to be done for it."""
    node_image.want(gate.reference, policy="Always")
    gate.open()
    node_image.wait_status(gate.reference, "Succeeded")
    n_before = len(fake_registry.requests("manifest", image_name))
    node_image.delete()
    node_image.create(gate.reference, policy="Always")
    phases = []
    for event in node_image.watch():
        tags = (event["object"].get("status", {}).get("imageStatuses") or {}).values()
        phases += [tag["phase"] for image in tags for tag in image["tags"]]
        if "Succeeded" in phases:
            break
    assert phases[0] in ("Waiting", "Pulling", "Succeeded")
    assert len(fake_registry.requests("manifest", image_name)) > n_before
    assert len(wait_events(node_image, 2)) == 2


def test_made_again_and_again(cluster_agent, node_image, push):
    """A status is about the object that it is in, however fast they come and go."""
    images = [push(tag=f"round{number}") for number in range(6)]
    for image in images:
        node_image.delete()
        uid = node_image.create(image.reference)["metadata"]["uid"]
        for event in node_image.watch():
            about = event["object"]
            assert about["metadata"]["uid"] == uid
            seen = about.get("status", {}).get("imageStatuses") or {}
            tags = [tag for entry in seen.values() for tag in entry["tags"]]
            assert [tag["tag"] for tag in tags] in ([], [image.reference.rpartition(":")[2]])
            if tags and tags[0]["phase"] == "Succeeded":
                break


# What is written


_COUNTS = ("desired", "succeeded", "failed", "pulling", "waiting")


def test_few_writes(cluster_agent, control_plane, node_image, push):
    """Two patches and one event for an image, and the patches hold what has changed."""
    wait_counts(node_image, 0, 0, 0, 0, 0)
    n_before = len(status_writes(control_plane, node_image.name))
    image = push([1 << 20])
    node_image.want(image.reference)
    node_image.wait_status(image.reference, "Succeeded")
    wait_events(node_image, 1)
    settle(node_image, push)
    writes = status_writes(control_plane, node_image.name)[n_before:]
    about = [write for write in writes if '"tag":"1"' in json.dumps(write, separators=(",", ":"))]
    assert 1 <= len(about) <= 2, writes
    for write in about:
        assert write.keys() - {"metadata"} == {"status"}
        assert write["status"].keys() <= {*_COUNTS, "imageStatuses"}
    assert len(event_writes(control_plane, node_image.name)) <= 2


def test_writes_do_not_grow(
    start_agent, containerd, kubeconfig, control_plane, node_name, node_image, push
):
    """An image among two hundred costs as few bytes as one alone."""
    names = [f"registry.example/image-{number:03}" for number in range(200)]
    tag = {"tag": "1", "phase": "Succeeded", "progress": 100, "imageID": "x@sha256:0a"}
    tag |= {"startTime": "2026-01-02T03:04:05Z", "completionTime": "2026-01-02T03:04:05Z"}
    alone, among = push(tag="alone"), push(tag="among")
    start_agent(containerd.endpoint, kubeconfig=kubeconfig, node_name=node_name)
    node_image.want(alone.reference)
    node_image.wait_status(alone.reference, "Succeeded")
    n_before = len(status_writes(control_plane, node_name))
    sizes = [len(json.dumps(write)) for write in status_writes(control_plane, node_name)]

    statuses = {name: {"tags": [tag]} for name in names}
    node_image.patch_status({"desired": 201, "succeeded": 201, "imageStatuses": statuses})
    node_image.want(alone.reference, *(f"{name}:1" for name in names))
    wait_counts(node_image, 201, 201, 0, 0, 0)
    node_image.kube.patch(
        node_image.path, {"spec": {"images": {f"{among.reference.rpartition(':')[0]}": {
            "tags": [{"tag": "alone"}, {"tag": "among"}]}}}}
    )
    node_image.wait_status(among.reference, "Succeeded")
    writes = status_writes(control_plane, node_name)[n_before:]
    sizes_among = [len(json.dumps(write)) for write in writes]
    assert sizes and sizes_among
    assert max(sizes_among) < 3 * max(sizes), writes


# Events


def test_event_of_success(cluster_agent, node_image, push):
    image = push()
    node_image.want(image.reference)
    (event,) = wait_events(node_image, 1)
    assert (event["type"], event["reason"]) == ("Normal", "PullImageSucceed")
    assert event["message"].startswith(f"Image {image.reference}, elapsedTime ")
    assert event["involvedObject"]["uid"] == node_image.get()["metadata"]["uid"]
    assert event["involvedObject"]["apiVersion"] == "apps.kruise.io/v1beta1"
    assert event["source"] == {"component": "inplaced", "host": node_image.name}
    assert event["count"] == 1


def test_events_of_failure(cluster_agent, node_image, registry, image_name, kube):
    """On the NodeImage, and for each owner where that lives."""
    reference = f"{registry.host}/{image_name}:none"
    node_image.set_spec(job_spec(reference))
    seen = node_image.wait_status(reference, "Failed")
    assert seen["message"]
    assert counts(node_image.status()) == (1, 0, 1, 0, 0)
    (event,) = wait_events(node_image, 1)
    assert (event["type"], event["reason"]) == ("Warning", "PullImageFailed")
    assert event["message"].startswith(f"Image {reference} ")
    for kind, namespace, name in _OWNERS:
        about = f"involvedObject.uid=uid-{name}"
        path = f"/api/v1/namespaces/{namespace}/events"
        (found,) = wait_until(
            lambda p=path, a=about: [
                e for e in kube.list(p, fieldSelector=a) if image_name in e["message"]
            ],
            10 * SLOWLY,
            f"event of {name}",
        )
        assert found["involvedObject"]["kind"] == kind
        assert (found["reason"], found["message"]) == ("PullImageFailed", event["message"])


# What it costs


def test_one_connection(cluster_agent, control_plane, node_image, push):
    """The watch, the writes and the events share it."""
    image = push()
    node_image.want(image.reference)
    node_image.wait_status(image.reference, "Succeeded")
    wait_events(node_image, 1)
    assert len(connections(cluster_agent.process.pid, control_plane.port)) == 1


def connections(pid: int, port: int) -> list[str]:
    """The established TCP connections of a process to a port of the loopback address."""
    import subprocess

    argv = ["ss", "-Htnp", "state", "established", f"dst 127.0.0.1:{port}"]
    lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in lines if f"pid={pid}," in line]


def test_somebody_elses_object(cluster_agent, node_image, kube, push):
    """Only the node's own object is of interest."""
    other = NodeImage(kube, f"{node_image.name}-other")
    image = push(tag="other")
    other.create(image.reference)
    settle(node_image, push)
    assert other.status() == {}
    with pytest.raises(KubeError):
        other.set_spec({"images": {"x": {}}})
    other.delete()
