# SPDX-License-Identifier: Apache-2.0
"""Proves that the status reports what is there now: images are removed from a real containerd."""

from __future__ import annotations

import os
import re

import pytest

from fake import behaviours
from fake import registry as fakes
from lab import sanitizers
from lab.image import build_image
from lab.layers import random_layer
from lab.trouble import complaints, the_complaint
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS


def n_missing(agent) -> float:
    return agent.metrics().get_value("inplaced_images_wanted", phase="missing")


def n_removed(agent) -> float:
    return agent.metrics().get_value("inplaced_images_removed_total")


def remove(agent, runtime, *references: str) -> None:
    """Takes the names away, which the agent finds a minute later where the runtime has no events."""
    for reference in references:
        runtime.untag(reference)
    notice(agent, runtime)


def notice(agent, runtime) -> None:
    """A reload has the agent verify images whose removal it is not notified of."""
    if not runtime.has_own_api:
        agent.reload()


def hurry(agent, file: str = "wanted.yaml") -> None:
    """Ends the pause before the next pull, as an operator would."""
    os.utime(agent.images_dir / file)


def test_removed_image(agent, runtime, push):
    """Each place says that it is missing, and why; it is pulled again after a pause."""
    image = push()
    agent.request(image.reference)
    done = agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)
    remove(agent, runtime, image.reference)
    status = agent.wait_status(image.reference, "Missing", 20 * SLOWLY)
    assert status["message"].startswith("Removed: removed by something else than inplaced")
    assert "it is pulled again" in status["message"] and status["nextAttemptTime"]
    assert "completionTime" not in status and agent.status()["status"]["missing"] == 1
    assert (n_missing(agent), n_removed(agent)) == (1, 1)
    shown = agent.ctl("status").stdout
    assert "Missing" in shown and "Removed" in shown
    assert status["lastTransitionTime"] and re.search(r" Missing +- +\d+s ", shown)
    assert the_complaint(agent).startswith(f'Missing "{image.reference}": Removed: ')

    again = agent.wait_status(image.reference, "Succeeded", 60 * SLOWLY)
    assert again["imageID"] == done["imageID"] and "message" not in again
    assert "lastTransitionTime" not in again
    assert runtime.image_id(image.reference) == image.image_id
    assert (n_missing(agent), n_removed(agent)) == (0, 1)
    assert len(complaints(agent)) == 1


@pytest.mark.slow
def test_removed_without_a_hint(agent, runtime, push):
    """Nothing but the agent's own means: an event, or a list of the images within a minute."""
    image = push()
    agent.request(image.reference)
    agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)
    runtime.untag(image.reference)
    agent.wait_status(image.reference, "Missing", 90 * SLOWLY)


def test_removed_by_digest(agent, runtime, push):
    """An image that is requested by its digest is verified as well."""
    image = push()
    agent.request(image.digest_reference)
    agent.wait_status(image.digest_reference, "Succeeded", 20 * SLOWLY)
    runtime.remove_image(image.image_id)
    notice(agent, runtime)
    agent.wait_status(image.digest_reference, "Missing", 20 * SLOWLY)
    hurry(agent)
    agent.wait_status(image.digest_reference, "Succeeded", 20 * SLOWLY)


def test_removed_again_and_again(agent, runtime, push):
    """The reason says who probably removes it, and each pause is longer."""
    image = push()
    agent.request(image.reference)
    messages = []
    for _ in range(3):
        agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)
        runtime.remove_image(image.image_id)
        notice(agent, runtime)
        messages.append(agent.wait_status(image.reference, "Missing", 20 * SLOWLY)["message"])
        hurry(agent)
    agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)
    assert "garbage collector for" not in messages[0]
    assert "removed 2 times by something else than inplaced" in messages[1]
    assert "removed 3 times" in messages[2] and "kubelet's garbage collector" in messages[2]
    assert n_removed(agent) == 3


def test_many_removed_at_a_time(agent, runtime, push):
    """A collector removes many: all are noticed, by a few lists, and others stay as they are."""
    images = [push(tag=str(n)) for n in range(20)]
    agent.request(*(image.reference for image in images))
    for image in images:
        agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)
    before = agent.metrics().total("inplaced_cri_requests_total", method="ListImages")
    remove(agent, runtime, *(image.reference for image in images[5:]))
    for image in images[5:]:
        wait_until(lambda: n_removed(agent) == 15, 30 * SLOWLY, lambda: f"15, {n_removed(agent)}")
    lists = agent.metrics().total("inplaced_cri_requests_total", method="ListImages") - before
    assert 1 <= lists <= 5
    for image in images[:5]:
        assert agent.tag_status(image.reference)["phase"] == "Succeeded"


def test_local_request(agent, runtime, push):
    """An image that was requested through the socket is reported, and pulled again only if asked for again."""
    image = push()
    assert agent.ctl("pull", image.reference).returncode == 0
    remove(agent, runtime, image.reference)
    status = agent.wait_status(image.reference, "Missing", 20 * SLOWLY)
    assert "nextAttemptTime" not in status
    advice = agent.ctl("doctor").stdout
    assert "try: inplacectl pull" in advice and "tries again" not in advice
    assert agent.ctl("pull", image.reference).returncode == 0
    agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)
    assert runtime.image_id(image.reference) == image.image_id


def test_failure_of_another_request(agent, runtime, fake_registry, image_name):
    """A request that fails for good takes nothing from the images folder: what was pulled for that stays, and comes back."""
    built = build_image([random_layer(1000)], labels={"test": image_name})
    image = fake_registry.add(image_name, "1", built)
    agent.request(image.reference)
    done = agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)
    fake_registry.on("manifest", fakes.refuse(404))
    failed = agent.ctl("pull", "--pull-policy=Always", "--attempts=1", image.reference)
    assert failed.returncode != 0 and "NotFound" in failed.stdout, failed
    fake_registry.behave()
    assert agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY) == done
    remove(agent, runtime, image.reference)
    agent.wait_status(image.reference, "Missing", 20 * SLOWLY)
    hurry(agent)
    agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)
    assert runtime.image_id(image.reference) == image.image_id
    runtime.remove_image(image.reference)


def test_comes_back_by_itself(agent, runtime, push):
    """The kubelet may pull it as well: a reload verifies, and so the status is right."""
    image = push()
    assert agent.ctl("pull", image.reference).returncode == 0
    remove(agent, runtime, image.reference)
    agent.wait_status(image.reference, "Missing", 20 * SLOWLY)
    runtime.pull(image.reference)
    agent.reload()
    assert "message" not in agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)


def test_another_image_of_the_name(agent, runtime, push):
    """A tag that is pulled anew by something else has another ID: a reload shows it."""
    image = push()
    agent.request(image.reference)
    agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)
    other = push([2000])
    runtime.pull(image.reference)
    agent.reload()
    is_other = lambda: agent.tag_status(image.reference)["imageID"].endswith(  # noqa: E731
        other.image_id
    )
    wait_until(is_other, 20 * SLOWLY, "new ID")
    assert n_removed(agent) == 0


def test_removed_while_the_agent_was_away(agent, runtime, push):
    """At its start the agent verifies the images in the state of the previous run."""
    image = push()
    agent.request(image.reference)
    agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)
    agent.terminate()
    runtime.untag(image.reference)
    agent.start()
    agent.wait_status(image.reference, "Missing", 20 * SLOWLY)
    hurry(agent)
    agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)


def test_removed_while_the_runtime_was_away(start_agent, fake_runtime):
    """A runtime without events is asked when it is back; the names of Docker Hub are no obstacle."""
    agent = start_agent(fake_runtime.endpoint)
    agent.request("nginx:1", "reg.example/app:2")
    for reference in ("nginx:1", "reg.example/app:2"):
        agent.wait_status(reference, "Succeeded", 20 * SLOWLY)
    fake_runtime.front.vanish()
    wait_until(lambda: not_ready(agent), 20 * SLOWLY, "end of the connection")
    del fake_runtime.images["reg.example/app:2"]
    fake_runtime.front.listen()
    agent.wait_status("reg.example/app:2", "Missing", 20 * SLOWLY)
    assert agent.tag_status("nginx:1")["phase"] == "Succeeded"


def test_one_image_is_damaged(start_agent, fake_runtime):
    """A runtime that cannot tell about one image, since a layer of it is lost, still tells about the others."""
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/a:1", "demo/b:1", "demo/c:1")
    for reference in ("demo/a:1", "demo/b:1", "demo/c:1"):
        agent.wait_status(reference, "Succeeded", 20 * SLOWLY)
    fake_runtime.on("ImageStatus", behaviours.fail("UNKNOWN", "layer not known"), image="demo/b:1")
    fake_runtime.images.clear()
    agent.reload()
    wait_until(lambda: n_removed(agent) == 2, 20 * SLOWLY, lambda: f"2, {n_removed(agent)}")


def not_ready(agent) -> bool:
    return agent.metrics().get_value("inplaced_runtime_ready") == 0


def test_all_subscribers_get_each_event(make_agent, runtime, push):
    """containerd's image events are a broadcast: one agent takes none from another, or the kubelet."""
    image = push()
    agents = [make_agent(runtime.endpoint) for _ in range(3)]
    for agent in agents:
        agent.start()
        agent.request(image.reference)
        agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)
    runtime.untag(image.reference)
    for agent in agents:
        wait_until(lambda: n_removed(agent) == 1, 20 * SLOWLY, "event")  # noqa: B023


def test_full_disk_comes_first(start_agent, new_runtime, registry, image_name):
    """An image that the garbage collector has removed from a full disk is not pulled before there is room."""
    image = registry.push_image(image_name, "1", [1000])
    with new_runtime("small", root_megabytes=96) as small:
        agent = start_agent(small.endpoint, min_free_disk="30MB")
        agent.request(image.reference)
        agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)
        filler = small.root / "filler"
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 80_000_000)
        small.remove_image(image.image_id)
        notice(agent, small)
        agent.wait_status(image.reference, "Missing", 20 * SLOWLY)
        hurry(agent)

        def waits() -> bool:
            return agent.tag_status(image.reference)["message"].startswith("DiskPressure: ")

        wait_until(waits, 20 * SLOWLY, "DiskPressure")
        assert agent.tag_status(image.reference)["phase"] == "Missing"
        filler.unlink()
        agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)


def test_idle_agent_does_not_list(agent, push):
    """With containerd's events, nothing is asked while nothing is removed."""
    image = push()
    agent.request(image.reference)
    agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)
    agent.reload()
    listed = lambda: agent.metrics().total(  # noqa: E731
        "inplaced_cri_requests_total", method="ListImages"
    )
    wait_until(lambda: listed() == 1, 20 * SLOWLY, "list for the reload")
    agent.reload()
    wait_until(lambda: listed() == 2, 20 * SLOWLY, "list for the second reload")
