# SPDX-License-Identifier: Apache-2.0
"""`inplacectl pulls` on a real node: the kubelet's pulls, with the pods that wait for them."""

from __future__ import annotations

import time

import pytest

from fake.registry import Line
from lab.kubelet import is_ready
from lab.pod import container
from lab.pulls import Pulls
from lab.sanitizers import SLOWNESS
from lab.wait import stretch, wait_until

_MEGABYTE = 1 << 20
_RATE = 20 * _MEGABYTE  # bytes per second of the node's line to the registry

pytestmark = pytest.mark.containers


@pytest.fixture
def line(fake_registry) -> Line:
    made = Line(_RATE / stretch(1))  # the agent looks as often at each pull on a busy machine
    fake_registry.on("layer", made.behave)
    return made


@pytest.fixture
def pulls(node_agent):
    """Followed by a caller who has the first event."""
    with Pulls(node_agent) as made:
        wait_until(lambda: made.events, 20, "first event")
        yield made


def is_downloading(pull) -> bool:
    return pull.bytes_done > _MEGABYTE


def test_pull_of_the_kubelet(node_agent, pulls, make_pod, line, add_image, fake_registry):
    """Shown within a second, with pod, bytes and total, until it has ended."""
    image, name = add_image("web", 15, 15)
    pod = make_pod(container("main", image.reference), must_wait=False)
    wait_until(lambda: fake_registry.requests(kind="manifest"), 20 * SLOWNESS, "pull by the kubelet")
    began = time.monotonic()
    pulls.wait(image.reference, is_downloading)
    shown = node_agent.ctl("pulls").stdout
    assert f"default/{pod.name}"[-8:] in shown and " downloading " in shown
    pod.wait(is_ready, 60 * SLOWNESS)
    pulls.wait_none()
    assert pulls.since(image.reference) - began < stretch(SLOWNESS)
    seen = [pull for pull in pulls.of(name) if pull.bytes_total]
    assert {(pull.image, *pull.pods, pull.digest) for pull in seen} == {
        (image.reference, f"default/{pod.name}", image.manifest_digest)
    }
    assert all(pull.bytes_total == pytest.approx(line.n_sent(name), rel=0.02) for pull in seen)
    assert set(pulls.steps(name)) <= {"WAITING_FOR_KUBELET", "DOWNLOADING", "UNPACKING"}


def test_two_images_of_one_repository(pulls, make_pod, line, add_image):
    """Two tags are distinguished: by the time, and then because the first one has been pulled."""
    (first, name), (second, _) = (add_image("web", 10, 10, tag=tag) for tag in ("1", "2"))
    pods = [make_pod(container("main", first.reference), must_wait=False)]
    pulls.wait(first.reference, is_downloading)
    wait_until(lambda: time.monotonic() - pulls.since(first.reference) > 1.2, 5, "time between the pods")
    pods.append(make_pod(container("main", second.reference), must_wait=False))
    for pod, image in zip(pods, (first, second)):
        pull = pulls.wait(image.reference, is_downloading)
        assert (list(pull.pods), pull.digest) == ([f"default/{pod.name}"], image.manifest_digest)
    pods[1].wait(is_ready, 60 * SLOWNESS)
    pulls.wait_none()
    wrong = {(first.reference, second.manifest_digest), (second.reference, first.manifest_digest)}
    assert not wrong & {(pull.image, pull.digest) for pull in pulls.of(name)}


def test_two_tags_at_once(pulls, make_pod, line, add_image):
    """Where nothing tells which of two tags is pulled, the digest is shown instead of a tag."""
    images = [add_image("web", 10, 5, tag=tag)[0] for tag in ("1", "2")]
    pods = [make_pod(container("main", image.reference), must_wait=False) for image in images]
    repository = images[0].reference.removesuffix(":1")
    for image in images:
        pulls.wait(repository, lambda pull, image=image: pull.digest == image.manifest_digest and is_downloading(pull))
    for pod in pods:
        pod.wait(is_ready, 60 * SLOWNESS)
    pulls.wait_none()
    for pull in pulls.of(repository):
        right = {image.reference: image.manifest_digest for image in images}.get(pull.image)
        assert pull.digest in ("", right) if right else pull.image == f"{repository}@{pull.digest}", pull


def test_pod_that_is_deleted(pulls, make_pod, line, add_image):
    """The kubelet goes on, so the pull stays, without a pod that waits for it."""
    image, name = add_image("web", 20, 20)
    pod = make_pod(container("main", image.reference), must_wait=False)
    pulls.wait(image.reference, is_downloading)
    pod.delete()
    host = image.digest_reference.partition(":")[0]
    pull = pulls.wait(f"{host}/{name}@{image.manifest_digest}")
    pulls.wait_none()
    assert not pull.pods and pull.bytes_total == pytest.approx(line.n_sent(name), rel=0.02)


def test_digest_and_tag_of_one_repository(pulls, make_pod, line, add_image):
    """An image that is named by its digest is known at once."""
    (tagged, name), (pinned, _) = (add_image("web", 10, 5, tag=tag) for tag in ("1", "2"))
    references = [pinned.digest_reference, tagged.reference]
    pods = [make_pod(container("main", reference), must_wait=False) for reference in references]
    for pod, reference in zip(pods, references):
        pull = pulls.wait(reference, is_downloading)
        assert list(pull.pods) == [f"default/{pod.name}"]
    for pod in pods:
        pod.wait(is_ready, 60 * SLOWNESS)
    pulls.wait_none()
    assert {pull.image for pull in pulls.of(name)} == set(references)
