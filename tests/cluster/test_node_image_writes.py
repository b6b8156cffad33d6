# SPDX-License-Identifier: Apache-2.0
"""Proves what the agent writes to a real API server for a NodeImage: little, and no more than has
changed; one event for each image; over one connection.
"""

from __future__ import annotations

import json
import subprocess
import time
from statistics import median

import pytest

from lab import sanitizers
from lab.documents import split_reference
from lab.kube import KubeError
from lab.node_image import COUNTS, NodeImage
from lab.wait import stretch, wait_until

SLOWLY = sanitizers.SLOWNESS

_OWNERS = [("ImagePullJob", "default", "job"), ("Pod", "kruise-daemon-config", "pod")]


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
    """The agent's requests for events of the NodeImage."""
    return [
        entry
        for entry in control_plane.audit()
        if entry.get("objectRef", {}).get("resource") == "events" and name in json.dumps(entry)
    ]


def wait_logged(control_plane, node_image, reference: str) -> list[dict]:
    """Waits for the write of the phase Succeeded: the server carries it out, then logs it.

    Returns all writes so far.
    """
    name, tag = split_reference(reference)

    def find() -> list[dict] | None:
        writes = status_writes(control_plane, node_image.name)
        is_written = any(phase_in(write, name, tag) == "Succeeded" for write in writes)
        return writes if is_written else None

    return wait_until(find, 10 * SLOWLY, f"logged write of {reference}")


def phase_in(write: dict, name: str, tag: str) -> str | None:
    image = write["status"].get("imageStatuses", {}).get(name) or {}
    return next((each["phase"] for each in image.get("tags", []) if each["tag"] == tag), None)


# Patches


def test_few_writes(cluster_agent, control_plane, node_image, push):
    """The agent writes one event for an image, and a patch for each phase that lasts; a patch has only
    the changes."""
    node_image.wait_counts(0, 0, 0, 0, 0)
    wait_quiet()
    image = push([1 << 20])
    node_image.request(image.reference)
    node_image.wait_status(image.reference, "Succeeded")
    node_image.wait_events(1)
    wait_quiet()
    node_image.settle(push(tag="settled").reference)
    name, tag = split_reference(image.reference)
    writes = [
        write
        for write in wait_logged(control_plane, node_image, image.reference)
        if tags_of(write, name) == [tag]
    ]
    phases = [phase_in(write, name, tag) for write in writes]
    # The image is Waiting for a moment only, unless the runtime is slow.
    assert phases == [p for p in ("Waiting", "Pulling", "Succeeded") if p in phases], writes
    for write in writes:
        assert write["status"].keys() <= {*COUNTS, "imageStatuses"}
        assert list(write["status"]["imageStatuses"]) == [name]
    for write in writes[1:]:
        assert "desired" not in write["status"], "it had not changed"
    wait_until(
        lambda: len(event_writes(control_plane, node_image.name)) >= 2, 10 * SLOWLY, "both events"
    )
    assert len(event_writes(control_plane, node_image.name)) == 2


def test_images_in_turn(cluster_agent, node_image, push):
    """The agent reports each of several consecutive jobs as soon as it is done."""
    images = [push(tag=str(number)).reference for number in range(10)]
    node_image.wait_counts(0, 0, 0, 0, 0)
    seconds = []
    for image in images:
        began = time.monotonic()
        node_image.request(image)
        node_image.wait_status(image, "Succeeded")
        seconds.append(time.monotonic() - began)
    # The agent delays a combined status by 0.8 s.
    assert median(seconds) < stretch(0.5 * SLOWLY), seconds


def test_race_with_another_writer(cluster_agent, node_image, push):
    """The agent keeps writing the status, more and more rarely, when another writer resets it."""
    image = push().reference
    node_image.request(image)
    node_image.wait_status(image, "Succeeded")
    began = time.monotonic()
    for _ in range(6):
        node_image.patch_status({"succeeded": 0, "pulling": 1, "imageStatuses": None})
        node_image.wait_status(image, "Succeeded")
    # At once, then 0.25, 0.5, 1, 2 and 4 s after the last time.
    assert time.monotonic() - began > 7.5


def tags_of(write: dict, name: str) -> list[str]:
    images = write["status"].get("imageStatuses", {})
    return [tag["tag"] for tag in (images.get(name) or {}).get("tags", [])]


def wait_quiet() -> None:
    """Waits two seconds without a change, after which the agent writes the next one at once."""
    end = time.monotonic() + 2.1
    wait_until(lambda: time.monotonic() > end, 5, "quiet")


def test_writes_do_not_grow(
    start_agent, runtime, kubeconfig, control_plane, node_name, node_image, push
):
    """An image among two hundred costs as few bytes as one alone."""
    done = {"tag": "1", "phase": "Succeeded", "progress": 100, "imageID": "x@sha256:0a"}
    done |= {"startTime": "2026-01-02T03:04:05Z", "completionTime": "2026-01-02T03:04:05Z"}
    names = [f"registry.example/image-{number:03}" for number in range(200)]
    alone, among = push(tag="alone"), push(tag="among")
    agent = start_agent(runtime.endpoint, kubeconfig=kubeconfig, node_name=node_name)
    node_image.request(alone.reference)
    node_image.wait_status(alone.reference, "Succeeded")
    n_alone = len(wait_logged(control_plane, node_image, alone.reference))

    agent.terminate()
    node_image.set_spec({"images": {name: {"tags": [{"tag": "1"}]} for name in names}})
    node_image.patch_status(
        {
            "desired": 200,
            "succeeded": 200,
            "imageStatuses": {split_reference(alone.reference)[0]: None}
            | {name: {"tags": [done]} for name in names},
        }
    )
    agent.start()
    spec = {"images": {split_reference(among.reference)[0]: {"tags": [{"tag": "among"}]}}}
    node_image.kube.patch(node_image.path, {"spec": spec})
    node_image.wait_status(among.reference, "Succeeded")
    writes = wait_logged(control_plane, node_image, among.reference)
    sizes = [len(json.dumps(write)) for write in writes]
    assert max(sizes[n_alone:]) <= max(sizes[:n_alone]) + 100, writes
    assert node_image.counts() == (201, 201, 0, 0, 0)


# Events


def test_event_of_success(cluster_agent, node_image, push):
    image = push()
    node_image.request(image.reference)
    (event,) = node_image.wait_events(1)
    assert (event["type"], event["reason"]) == ("Normal", "PullImageSucceed")
    assert event["message"].startswith(f"Image {image.reference}, elapsedTime ")
    assert event["involvedObject"]["uid"] == node_image.get()["metadata"]["uid"]
    assert event["involvedObject"]["apiVersion"] == "apps.kruise.io/v1beta1"
    assert event["source"] == {"component": "inplaced", "host": node_image.name}
    assert event["count"] == 1


def test_events_of_failure(cluster_agent, node_image, registry, image_name, kube):
    """The agent writes events for the NodeImage, and for each owner in the owner's namespace."""
    reference = f"{registry.host}/{image_name}:none"
    name, tag = split_reference(reference)
    owners = [
        {"apiVersion": "v1", "kind": kind, "namespace": space, "name": name, "uid": f"uid-{name}"}
        for kind, space, name in _OWNERS
    ]
    tag_spec = {"tag": tag, "ownerReferences": owners, "pullPolicy": {"backoffLimit": 0}}
    node_image.set_spec({"images": {name: {"tags": [tag_spec]}}})
    seen = node_image.wait_status(reference, "Failed")
    assert seen["message"]
    assert node_image.counts() == (1, 0, 1, 0, 0)
    (event,) = node_image.wait_events(1)
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


# Connections


def test_one_connection(cluster_agent, control_plane, node_image, push):
    """The watch, the writes and the events share one connection."""
    image = push()
    node_image.request(image.reference)
    node_image.wait_status(image.reference, "Succeeded")
    node_image.wait_events(1)
    assert len(connections(cluster_agent.process.pid, control_plane.port)) == 1


def connections(pid: int, port: int) -> list[str]:
    """The established TCP connections of a process to a port of the loopback address."""
    argv = ["ss", "-Htnp", "state", "established", f"dst 127.0.0.1:{port}"]
    lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in lines if f"pid={pid}," in line]


def test_object_of_another_node(cluster_agent, node_image, kube, push):
    """The agent serves only its own node's object."""
    other = NodeImage(kube, f"{node_image.name}-other")
    image = push(tag="other")
    other.create(image.reference)
    node_image.settle(push(tag="settled").reference)
    assert other.status() == {}
    with pytest.raises(KubeError):
        other.set_spec({"images": {"x": {}}})
    other.delete()
