# SPDX-License-Identifier: Apache-2.0
"""Proves that each tag of a NodeImage is served, refused and reported for itself, whatever stands
beside it and whatever else is pulled: on a real API server, with a real runtime.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fake import api_faults
from fake import registry as fakes
from lab import sanitizers
from lab.documents import split_reference
from lab.kubeconfig import write_kubeconfig
from lab.preload import Preload
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

_STATUS_WRITES = r"^PATCH \S*/nodeimages/\S*/status"


def entry(reference: str, version: int = 0, policy: str = "IfNotPresent", **more: object) -> dict:
    """The spec of one image; `more` belongs to the image, not to its tag."""
    name, tag = split_reference(reference)
    tag_spec = {"tag": tag, "version": version, "imagePullPolicy": policy}
    tag_spec["pullPolicy"] = {"timeoutSeconds": 60, "backoffLimit": 0}
    return {name: {"tags": [tag_spec], **more}}


# Invalid entries


@pytest.mark.parametrize("policy", ["Never", "Sometimes", "ALWAYS"])
def test_unknown_policy_is_always(cluster_agent, node_image, push, policy):
    """An unknown policy, which the webhook of OpenKruise accepts, means Always."""
    old = push(labels={"build": "old"})
    node_image.set_spec({"images": entry(old.reference)})
    node_image.wait_status(old.reference, "Succeeded")
    moved = push(labels={"build": "moved"})
    other = push(tag="other")
    images = entry(moved.reference, 1, policy)
    images[split_reference(other.reference)[0]]["tags"] += entry(other.reference).popitem()[1]["tags"]
    node_image.set_spec({"images": images})
    node_image.wait_counts(2, 2, 0, 0, 0)
    assert node_image.tag_status(moved.reference)["imageID"].endswith(moved.image_id)


_FAULTS = {
    "secret": ({"pullSecrets": [{"namespace": "default"}]}, "pullSecrets[0]: has no name"),
    "annotations": (
        {"sandboxConfig": {"annotations": {f"a{number}": "x" for number in range(257)}}},
        "sandboxConfig.annotations: more than 256 members",
    ),
    "size": (
        {"sandboxConfig": {"annotations": {"a": "x" * 300_000}}, "n_tags": 40},
        "more than 8 MiB",
    ),
}


@pytest.mark.parametrize("fault", _FAULTS)
def test_fault_is_one_of_its_tags(cluster_agent, node_image, push, fault):
    """Each tag of the image fails, with what is wrong; the others are served, and served later."""
    image = push()
    more, message = _FAULTS[fault]
    bad = {"tags": [{"tag": f"t{number:02}", "version": 2} for number in range(more.get("n_tags", 2))]}
    bad |= {key: value for key, value in more.items() if key != "n_tags"}
    n_bad = len(bad["tags"])
    node_image.set_spec({"images": {"a/bad": bad, **entry(image.reference)}})
    node_image.wait_counts(n_bad + 1, 1, n_bad, 0, 0)
    for tag in bad["tags"]:
        seen = node_image.tag_status(f"a/bad:{tag['tag']}")
        assert (seen["phase"], seen["version"]) == ("Failed", 2)
        assert seen["completionTime"] and seen["message"].startswith("InvalidSpec: ")
        assert message in seen["message"]
    later = push(tag="later")
    node_image.set_spec({"images": {"a/bad": bad, **entry(later.reference)}})
    node_image.wait_status(later.reference, "Succeeded")
    corrected = {"tags": [{**tag, "version": 3} for tag in bad["tags"][:1]]}
    corrected["tags"][0]["pullPolicy"] = {"timeoutSeconds": 1, "backoffLimit": 0}
    node_image.set_spec({"images": {"a/bad": corrected}})
    wait_until(
        lambda: (found := node_image.tag_status("a/bad:t00")) and found["version"] == 3,
        10 * SLOWLY,
        lambda: f"version 3, only {node_image.status()}",
    )
    seen = node_image.wait_status("a/bad:t00", "Failed")
    assert not seen["message"].startswith("InvalidSpec")


def test_fault_is_reported_once(
    start_agent, runtime, kubeconfig, node_name, node_image, push
):
    """The agent reports it in one event and one log line, and not again after a restart without state."""
    image = push()
    images = {"a/bad": {"tags": [{"tag": "1"}], "pullSecrets": [{}]}, **entry(image.reference)}
    node_image.set_spec({"images": images})
    for n_agents in range(2):
        agent = start_agent(runtime.endpoint, kubeconfig=kubeconfig, node_name=node_name)
        node_image.wait_counts(2, 1, 1, 0, 0)
        other = push(tag=f"other{n_agents}")
        node_image.set_spec({"images": images | entry(other.reference)})
        images[split_reference(image.reference)[0]] = entry(image.reference).popitem()[1]
        node_image.wait_status(other.reference, "Succeeded")
        node_image.wait_events(2 + n_agents)
        lines = [line for line in agent.logs() if "InvalidSpec" in line["message"]]
        assert len(lines) == 1 - n_agents
        agent.terminate()
        node_image.set_spec({"images": images})
    reasons = [event["reason"] for event in node_image.events() if "a/bad:1" in event["message"]]
    assert reasons == ["PullImageFailed"]


# Two spellings


@pytest.fixture
def hub_image(runtime, registry, image_name) -> Iterator[str]:
    """The name of an image of Docker Hub, without a tag, which the lab's registry stands for."""
    runtime.mirror("docker.io", registry)
    name = image_name.replace("/", "-")[:60].rstrip("-")
    yield name
    runtime.remove_image(f"docker.io/library/{name}:1")


def test_two_spellings_of_one_image(cluster_agent, node_image, registry, hub_image):
    """Each spelling has a status of its own; one may be finished and the other not."""
    short, whole = f"{hub_image}:1", f"docker.io/library/{hub_image}:1"
    node_image.set_spec({"images": entry(whole)})
    failed = node_image.wait_status(whole, "Failed")
    pushed = registry.push_image(f"library/{hub_image}", "1", [1000], labels={"test": hub_image})
    node_image.set_spec({"images": {**entry(whole), **entry(short)}})
    seen = node_image.wait_status(short, "Succeeded")
    assert seen["imageID"] == f"{hub_image}@{pushed.image_id}"
    assert node_image.tag_status(whole) == failed
    assert node_image.counts() == (2, 1, 1, 0, 0)
    node_image.set_spec({"images": {**entry(whole, 1), **entry(short)}})
    again = node_image.wait_status(whole, "Succeeded")
    assert again["imageID"] == f"docker.io/library/{hub_image}@{pushed.image_id}"
    assert node_image.tag_status(short) == seen
    messages = [event["message"] for event in node_image.wait_events(3)]
    assert len([message for message in messages if f"Image {whole} " in f"{message} "]) == 2
    assert len([message for message in messages if message.startswith(f"Image {short},")]) == 1


# Requests of local callers


@pytest.mark.parametrize("is_restarted", [False, True], ids=["at-once", "after-a-restart"])
def test_failure_of_another_is_not_its_own(
    start_agent, runtime, api, control_plane, folder, node_name, node_image, gate, fake_registry,
    is_restarted,
):
    """The NodeImage's pull and the image stay Succeeded when a local caller's later pull fails."""
    token = control_plane.agent_token()
    kubeconfig = write_kubeconfig(folder / "agent.conf", api.url, api.authority, token=token)
    agent = start_agent(runtime.endpoint, kubeconfig=kubeconfig, node_name=node_name)
    node_image.wait_counts(0, 0, 0, 0, 0)
    node_image.set_spec({"images": entry(gate.reference)})
    node_image.wait_status(gate.reference, "Pulling")
    api.on(_STATUS_WRITES, api_faults.refuse(503))
    gate.open()
    agent.wait_status(gate.reference, "Succeeded")
    fake_registry.on("manifest", fakes.refuse(404))
    arguments = ("--attempts=1", "--pull-policy=Always", gate.reference)
    done = agent.ctl("pull", *arguments, timeout=60 * SLOWLY)
    assert done.returncode == 1 and "NotFound" in done.stdout + done.stderr
    if is_restarted:
        agent.terminate()
        agent.start()
    api.behave()
    status = node_image.wait_counts(1, 1, 0, 0, 0, timeout=60 * SLOWLY)
    (tags,) = [image["tags"] for image in status["imageStatuses"].values()]
    assert tags[0]["phase"] == "Succeeded" and "message" not in tags[0]
    assert agent.tag_status(gate.reference)["phase"] == "Succeeded"


def test_own_attempts_beside_a_caller_without_a_limit(cluster_agent, node_image, registry, image_name):
    """A tag fails after its own attempts, by OpenKruise's phases, while the caller's pull goes on."""
    absent = f"{registry.host}/{image_name}:none"
    caller = Preload(cluster_agent, absent)
    caller.wait_step("BACKING_OFF")
    node_image.request(absent, backoffLimit=1)
    shown = {}
    for event in node_image.watch(60 * SLOWLY):
        for image in event["object"].get("status", {}).get("imageStatuses", {}).values():
            shown[image["tags"][0]["phase"]] = image["tags"][0]
        if "Failed" in shown:
            break
    assert set(shown) <= {"Waiting", "Pulling", "Failed"}
    assert shown["Failed"]["message"].startswith("NotFound: ")
    assert "nextAttemptTime" not in shown["Failed"] and "attempt" not in shown["Failed"]
    assert cluster_agent.tag_status(absent)["phase"] in ("BackOff", "Pulling")
    assert "FAILED" not in caller.phases()
    cluster_agent.ctl("retry", absent)
    caller.cancel()
    wait_until(lambda: cluster_agent.tag_status(absent)["phase"] == "Failed", 20, "end of the pull")
    again = cluster_agent.ctl("retry", absent)
    assert again.returncode == 1 and "new version" in again.stderr


def test_doctor_advises_a_new_version(cluster_agent, node_image, registry, image_name):
    """A failed tag of the NodeImage stays so, and `inplacectl retry` refuses it: doctor does not advise that."""
    absent = f"{registry.host}/{image_name}:none"
    node_image.request(absent, backoffLimit=0)
    node_image.wait_status(absent, "Failed")
    assert "; then give its tag in the NodeImage a new version\n" in cluster_agent.ctl("doctor").stdout
    refused = cluster_agent.ctl("retry", absent)
    assert refused.returncode == 1 and "its NodeImage has to request it with a new version" in refused.stderr
