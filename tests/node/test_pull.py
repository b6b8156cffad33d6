# SPDX-License-Identifier: Apache-2.0
"""Pulls: references, policies, limits, retries, turns.

Names of Docker Hub are tried on the fake runtime, since no test reaches the network.
"""

from __future__ import annotations

import threading
import time

import pytest

from fake import behaviours
from fake import registry as fakes
from lab import sanitizers
from lab.documents import node_image, write_whole
from lab.image import build_image
from lab.layers import random_layer
from lab.preload import Preload
from lab.wait import stretch, wait_until


def test_tag_and_digest(agent, runtime, push):
    """An image can be requested by tag and by digest; both names mean the same image afterwards."""
    image = push()
    agent.request(image.digest_reference)
    status = agent.wait_status(image.digest_reference, "Succeeded")
    assert status["tag"] == image.manifest_digest
    assert runtime.image_id(image.digest_reference) == image.image_id
    assert status["imageID"].endswith(f"@{image.image_id}")


@pytest.mark.parametrize(
    "names",
    [
        ("nginx:1", "docker.io/library/nginx:1", "docker.io/nginx:1", "index.docker.io/nginx:1"),
        ("team/app:latest", "docker.io/team/app:latest", "docker.io/team/app"),
    ],
)
def test_names_of_one_image(start_agent, fake_runtime, names):
    """Familiar and fully qualified names mean one image, which is pulled once."""
    agent = start_agent(fake_runtime.endpoint)
    for name in names:
        assert Preload(agent, name).wait_end().phase == agent.messages.PHASE_SUCCEEDED
    assert len(fake_runtime.calls("PullImage")) == 1
    one = lambda: agent.status()["status"]["desired"] == 1  # noqa: E731
    wait_until(one, 10, lambda: f"single name: {agent.status()}")


@pytest.mark.parametrize("name", ["nginx:1", "docker.io/library/nginx:1", "index.docker.io/nginx:1"])
def test_runtime_does_not_choose_the_registry(start_agent, fake_runtime, name):
    """A runtime that searches other registries is asked by the whole name, in each call."""
    fake_runtime.search = "elsewhere.test"
    fake_runtime.hold("elsewhere.test/nginx:1")
    agent = start_agent(fake_runtime.endpoint)
    agent.give_credentials("https://index.docker.io/v1/", "hub", "x")
    agent.give_credentials("elsewhere.test", "other", "x", file="other.json")
    assert not Preload(agent, name).wait_end().was_present
    calls = [call for call in fake_runtime.calls() if call.image]
    assert {call.request.image.image for call in calls} == {"docker.io/library/nginx:1"}
    assert [call.method for call in calls] == ["ImageStatus", "PullImage", "ImageStatus"]
    assert calls[1].request.auth.username == "hub"


@pytest.mark.parametrize("policy", ["IfNotPresent", "Always"])
def test_docker_hubs_images_in_containerd(agent, runtime, registry, image_name, policy):
    """With containerd short and whole names of Docker Hub are the same image."""
    runtime.mirror("docker.io", registry)
    image = registry.push_image(f"library/{image_name[2:]}", "1", [1000], labels={"test": image_name})
    short, whole = f"{image_name[2:]}:1", f"docker.io/library/{image_name[2:]}:1"
    agent.request(short, file="short.yaml", policy=policy)
    assert agent.wait_status(short, "Succeeded")["imageID"] == f"{image_name[2:]}@{image.image_id}"
    assert runtime.image_id(short) == runtime.image_id(whole) == image.image_id
    for name in (short, whole):
        assert Preload(agent, name).wait_end().image_id == image.image_id
    runtime.remove_image(image.image_id)


def test_limits_are_raised_meanwhile(start_agent, fake_runtime):
    """A pull without a last attempt goes on with the limits that its file has now."""
    fake_runtime.on("PullImage", behaviours.slow(2))
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1", timeoutSeconds=1)
    assert "timeoutSeconds" in agent.wait_status("demo/web:1", "BackOff")["message"]
    agent.request("demo/web:1", timeoutSeconds=60)
    agent.wait_status("demo/web:1", "Succeeded")


def test_caller_with_another_policy(start_agent, fake_runtime):
    """A caller gets its answer, although a file has the image tried for ever."""
    fake_runtime.on("PullImage", behaviours.fail("NOT_FOUND", "no such image"))
    agent = start_agent(fake_runtime.endpoint)
    agent.request("bad/one:1")
    agent.wait_status("bad/one:1", "BackOff")
    always = agent.messages.PULL_POLICY_ALWAYS
    end = Preload(agent, "bad/one:1", pull_policy=always, refusal_limit=0).wait_end()
    assert (end.phase, end.reason) == (agent.messages.PHASE_FAILED, "NotFound")


def failing_when(released: threading.Event) -> behaviours.Behaviour:
    broken, wait = behaviours.fail("UNKNOWN", "it is broken"), behaviours.when(released)
    return lambda call, good: wait(call, lambda: broken(call, good))


def test_more_patient_one_joins_a_pull(start_agent, fake_runtime):
    """A caller that would try more often does not fail with the pull that it has joined."""
    released = threading.Event()
    first = failing_when(released)
    fake_runtime.on("PullImage", behaviours.in_turn(first, behaviours.normal()))
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1", backoffLimit=0)
    wait_until(lambda: fake_runtime.calls("PullImage"), 10, "pull")
    patient = Preload(agent, "demo/web:1", backoff_limit=1)
    patient.wait_phase("PULLING")
    released.set()
    assert patient.wait_end().phase == agent.messages.PHASE_SUCCEEDED
    assert "FAILED" not in patient.phases()
    assert len(fake_runtime.calls("PullImage")) == 2


def test_failure_is_shared(start_agent, fake_runtime):
    """A caller that would try no more often than the pull that it has joined fails with it."""
    released = threading.Event()
    fake_runtime.on("PullImage", failing_when(released))
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1", backoffLimit=0)
    wait_until(lambda: fake_runtime.calls("PullImage"), 10, "pull")
    other = Preload(agent, "demo/web:1", backoff_limit=0)
    other.wait_phase("PULLING")
    released.set()
    assert other.wait_end().phase == agent.messages.PHASE_FAILED
    assert len(fake_runtime.calls("PullImage")) == 1


def test_if_not_present(start_agent, fake_runtime):
    """IfNotPresent takes an image that is there, without asking the registry."""
    fake_runtime.hold("demo/web:1")
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1", policy="IfNotPresent")
    agent.wait_status("demo/web:1", "Succeeded")
    assert not fake_runtime.calls("PullImage")


def test_always_sees_a_moved_tag(agent, runtime, push):
    """Always asks the registry, so a tag that was moved meanwhile gives the new image."""
    old = push(labels={"build": "old"})
    agent.request(old.reference, policy="Always", version=1)
    assert agent.wait_status(old.reference, "Succeeded")["imageID"].endswith(old.image_id)
    new = push(labels={"build": "new"})
    assert new.reference == old.reference and new.image_id != old.image_id
    assert agent.ctl("pull", "-q", new.reference).stdout == f"{old.image_id}\n"
    agent.request(new.reference, policy="Always", version=2)
    wait_until(
        lambda: agent.tag_status(new.reference).get("imageID", "").endswith(new.image_id),
        20,
        lambda: f"new image, not {agent.tag_status(new.reference)}",
    )
    assert runtime.image_id(new.reference) == new.image_id
    runtime.remove_image(old.image_id)


@pytest.mark.slow
def test_back_off_between_attempts(start_agent, fake_runtime):
    """backoffLimit counts the retries; each waits longer than the one before it."""
    fake_runtime.on("PullImage", behaviours.fail("UNKNOWN", "it is broken"))
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1", backoffLimit=2)
    status = agent.wait_status("demo/web:1", "Failed")
    assert "it is broken" in status["message"] and "attempt 3 of 3" in status["message"]
    times = [call.began_at for call in fake_runtime.calls("PullImage")]
    first, second = times[1] - times[0], times[2] - times[1]
    assert len(times) == 3
    slack = stretch(1.5 * sanitizers.SLOWNESS)
    assert 0.8 <= first <= 1.2 + slack and 1.6 <= second <= 2.4 + slack


def test_retry_succeeds(start_agent, fake_runtime):
    """After an attempt that failed the next one may succeed; the status forgets the failure."""
    broken = behaviours.fail("UNKNOWN", "it is broken")
    fake_runtime.on("PullImage", behaviours.in_turn(broken, behaviours.normal()))
    agent = start_agent(fake_runtime.endpoint)
    preload = Preload(agent, "demo/web:1")
    backing_off = preload.wait_step("BACKING_OFF")
    assert backing_off.reason == "Unknown" and "it is broken" in backing_off.message
    last = preload.wait_end()
    assert (last.phase, last.attempt) == (agent.messages.PHASE_SUCCEEDED, 2)
    assert (last.reason, last.message) == ("", "")
    assert "message" not in agent.wait_status("demo/web:1", "Succeeded")


@pytest.mark.parametrize(
    ("status", "reason"), [(404, "NotFound"), (401, "Unauthorized"), (403, "Unauthorized")]
)
def test_registry_says_no(start_agent, runtime, fake_registry, image_name, status, reason):
    """A request that allows so many plain refusals ends with the last one, though no number of attempts
    limits it; what a folder requests goes on."""
    fake_registry.on("manifest", fakes.refuse(status))
    image = fake_registry.add(image_name, "1", build_image([random_layer(1000)])).reference
    agent = start_agent(runtime.endpoint)
    alone = Preload(agent, image, refusal_limit=1).wait_end()
    assert (alone.phase, alone.reason) == (agent.messages.PHASE_FAILED, reason)
    assert alone.message.endswith("(attempt 2 of 2)")
    agent.request(image)
    agent.wait_status(image, "BackOff")
    joined = Preload(agent, image, refusal_limit=1).wait_end()
    assert (joined.phase, joined.reason) == (agent.messages.PHASE_FAILED, reason)
    assert agent.wait_status(image, "BackOff")["nextAttemptTime"]


def test_registry_that_does_not_exist(start_agent, fake_runtime):
    """A registry whose name is no host's refuses as plainly as one that says no."""
    text = "dial tcp: lookup registry.invalid on 10.0.0.1:53: no such host"
    fake_runtime.on("PullImage", behaviours.fail("UNKNOWN", text))
    agent = start_agent(fake_runtime.endpoint)
    last = Preload(agent, "registry.invalid/web:1", refusal_limit=0).wait_end()
    assert last.reason == "RegistryUnreachable"
    assert last.message.endswith("(attempt 1 of 1)")


@pytest.mark.parametrize("status", [429, 503])
def test_registry_that_is_in_trouble(start_agent, runtime, fake_registry, image_name, status):
    """An answer that is no plain refusal does not count as one: the request goes on until the image is there."""
    fake_registry.on("manifest", fakes.refuse(status))
    image = fake_registry.add(image_name, "1", build_image([random_layer(1000)])).reference
    agent = start_agent(runtime.endpoint)
    preload = Preload(agent, image, refusal_limit=0)
    preload.wait_event(lambda event: event.attempt == 2, 120)  # CRI-O itself tries again for up to a minute
    fake_registry.behave()
    assert preload.wait_end(120).phase == agent.messages.PHASE_SUCCEEDED


def test_refusal_limit_outlives_the_agent(start_agent, fake_runtime):
    """The limit belongs to the request: one that was left with the agent keeps it over kill -9, and what
    it has ended stays ended."""
    fake_runtime.on("PullImage", behaviours.fail("NOT_FOUND", "no such image"))
    agent = start_agent(fake_runtime.endpoint)
    Preload(agent, "demo/web:1", refusal_limit=1, detach=True).wait_end()
    agent.wait_status("demo/web:1", "BackOff")
    agent.kill9()
    agent.start()
    assert "(attempt 2 of 2)" in agent.wait_status("demo/web:1", "Failed", 30)["message"]
    agent.kill9()
    n_before = len(fake_runtime.calls("PullImage"))
    agent.start()
    agent.wait_runtime()
    assert Preload(agent, "demo/other:1", backoff_limit=0).wait_end()
    assert agent.tag_status("demo/web:1")["phase"] == "Failed"
    calls = [call for call in fake_runtime.calls("PullImage") if "other" not in call.image]
    assert len(calls) == n_before


def test_time_out_of_an_attempt(start_agent, fake_runtime):
    """timeoutSeconds ends one attempt, and the runtime sees the call cancelled."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    began = time.monotonic()
    agent.request("demo/web:1", timeoutSeconds=1, backoffLimit=0)
    status = agent.wait_status("demo/web:1", "Failed")
    assert status["message"].startswith("DeadlineExceeded: ")
    assert "timeoutSeconds" in status["message"]
    (call,) = wait_until(lambda: fake_runtime.calls("PullImage"), 10, "pull")
    assert call.wait_over(60) and call.cancelled
    assert 1 <= call.ended_at - began <= stretch(5 * sanitizers.SLOWNESS)


def test_active_deadline(start_agent, fake_runtime):
    """activeDeadlineSeconds ends all attempts together, in the middle of one."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1", activeDeadlineSeconds=1, timeoutSeconds=100, backoffLimit=9)
    status = agent.wait_status("demo/web:1", "Failed")
    assert "pulling exceeds the activeDeadlineSeconds" in status["message"]
    (call,) = wait_until(lambda: fake_runtime.calls("PullImage"), 10, "pull")
    assert call.wait_over(60) and call.cancelled


def test_waiting_costs_no_time_of_the_deadline(start_agent, fake_runtime):
    """The clock of activeDeadlineSeconds stands still while a pull waits for its turn."""
    released = threading.Event()
    fake_runtime.on("PullImage", behaviours.when(released), image="demo/first:1")
    agent = start_agent(fake_runtime.endpoint, max_parallel_pulls=1)
    agent.request("demo/first:1", file="a.yaml")
    agent.wait_status("demo/first:1", "Pulling")
    preload = Preload(agent, "demo/second:1", active_deadline_seconds=2)
    preload.wait_phase("WAITING")
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 2.2, 5, "time for the deadline to pass")
    assert set(preload.phases()) == {"WAITING"}
    released.set()
    assert preload.wait_end().phase == agent.messages.PHASE_SUCCEEDED


@pytest.mark.parametrize("seconds", [2**63 - 1, 2**64 // 10**6 + 1])
def test_deadline_beyond_the_clock(start_agent, fake_runtime, seconds):
    """A deadline that no clock can count is as good as none."""
    agent = start_agent(fake_runtime.endpoint)
    preload = Preload(agent, "demo/web:1", active_deadline_seconds=seconds)
    assert preload.wait_end().phase == agent.messages.PHASE_SUCCEEDED


def test_sandbox_config(start_agent, fake_runtime):
    """sandboxConfig goes to the runtime with the pull."""
    agent = start_agent(fake_runtime.endpoint)
    document = node_image(("demo/web:1",))
    sandbox = {"labels": {"app": "web"}, "annotations": {"team": "a"}}
    document["spec"]["images"]["demo/web"]["sandboxConfig"] = sandbox
    write_whole(agent.images_dir / "web.yaml", document)
    agent.wait_status("demo/web:1", "Succeeded")
    (call,) = fake_runtime.calls("PullImage")
    assert dict(call.request.sandbox_config.labels) == {"app": "web"}
    assert dict(call.request.sandbox_config.annotations)["team"] == "a"


def test_sandbox_config_is_changed_meanwhile(start_agent, fake_runtime):
    """A pull without a last attempt goes on with what its file has now."""
    failing = behaviours.fail("UNKNOWN", "no profile for it")
    fake_runtime.on("PullImage", behaviours.in_turn(failing, behaviours.normal()))
    agent = start_agent(fake_runtime.endpoint)
    document = node_image(("demo/web:1",))
    for profile, phase in (("wrong", "BackOff"), ("right", "Succeeded")):
        document["spec"]["images"]["demo/web"]["sandboxConfig"] = {"labels": {"profile": profile}}
        write_whole(agent.images_dir / "web.yaml", document)
        agent.wait_status("demo/web:1", phase)
    labels = [call.request.sandbox_config.labels for call in fake_runtime.calls("PullImage")]
    assert [label["profile"] for label in labels] == ["wrong", "right"]


@pytest.mark.parametrize("limit", [1, 3])
def test_limit_of_parallel_pulls(start_agent, fake_runtime, limit):
    """Never more than --max-parallel-pulls run at the same time, and all have their turn."""
    released = threading.Event()
    held = [behaviours.when(released)] * limit
    fake_runtime.on("PullImage", behaviours.in_turn(*held, behaviours.slow(0.02)))
    agent = start_agent(fake_runtime.endpoint, max_parallel_pulls=limit)
    references = [f"demo/web:{number}" for number in range(12)]
    preload = Preload(agent, *references)
    wait_until(lambda: len(fake_runtime.calls("PullImage")) >= limit, 10, "first pulls")
    released.set()
    preload.wait_end()
    calls = fake_runtime.calls("PullImage")
    assert sorted(call.image for call in calls) == sorted(references)
    most = max(
        sum(one.began_at <= call.began_at < one.ended_at for one in calls) for call in calls
    )
    assert most == limit


@pytest.mark.parametrize("limit", [1, 3])
def test_turns_are_fair(start_agent, fake_runtime, limit):
    """A caller that asks for one image need not wait for all the images that another caller asked for."""
    released = threading.Event()
    fake_runtime.on("PullImage", behaviours.when(released))
    agent = start_agent(fake_runtime.endpoint, max_parallel_pulls=limit)
    many = Preload(agent, *(f"demo/many:{number}" for number in range(40)))
    wait_until(lambda: len(fake_runtime.calls("PullImage")) == limit, 5, "first pulls")
    one = Preload(agent, "demo/one:1")
    one.wait_phase("WAITING")
    released.set()
    one.wait_end()
    many.wait_end()
    turns = [call.image for call in fake_runtime.calls("PullImage")]
    assert turns.index("demo/one:1") <= 3 * limit, turns


def wait_owners(agent, reference: str, n: int) -> None:
    wait_until(lambda: len(agent.owners(reference)) == n, 10, lambda: f"{agent.owners(reference)}")


def test_idle_owner_joins_a_pull_that_waits(start_agent, fake_runtime):
    """An image of a busy owner and then of an idle one has its turn with the idle one's."""
    released = threading.Event()
    fake_runtime.on("PullImage", behaviours.when(released))
    agent = start_agent(fake_runtime.endpoint, max_parallel_pulls=1)
    references = [f"demo/many:{number:02}" for number in range(40)]
    many = Preload(agent, *references)
    wait_until(lambda: len(fake_runtime.calls("ImageStatus")) == 40, 10, "status of all")
    one = Preload(agent, references[-1])
    wait_owners(agent, references[-1], 2)
    released.set()
    one.wait_end()
    many.wait_end()
    turns = [call.image for call in fake_runtime.calls("PullImage")]
    assert turns.index(references[-1]) <= 2 and sorted(turns) == references


@pytest.mark.parametrize("n_images", [12, 40], ids=["being-listed", "before-that"])
def test_idle_owner_joins_early(start_agent, fake_runtime, n_images):
    """An owner that joins changes no turns either while the runtime is asked whether it has the images, 16 at
    a time.
    """
    answered, released = threading.Event(), threading.Event()
    fake_runtime.on("ImageStatus", behaviours.when(answered))
    fake_runtime.on("PullImage", behaviours.when(released))
    agent = start_agent(fake_runtime.endpoint, max_parallel_pulls=1)
    references = [f"demo/many:{number:02}" for number in range(n_images)]
    many = Preload(agent, *references)
    n_asked = min(n_images, 16)
    wait_until(lambda: len(fake_runtime.calls("ImageStatus")) == n_asked, 10, "first calls")
    one = Preload(agent, references[-1])
    wait_owners(agent, references[-1], 2)
    answered.set()
    wait_until(lambda: len(fake_runtime.calls("ImageStatus")) == n_images, 10, "status of all")
    released.set()
    one.wait_end()
    many.wait_end()
    turns = [call.image for call in fake_runtime.calls("PullImage")]
    assert turns.index(references[-1]) <= 3 and sorted(turns) == references


def test_joined_pull_keeps_its_slot(start_agent, fake_runtime):
    """A second owner of a pull that runs changes nothing about whose turn comes next."""
    released = threading.Event()
    fake_runtime.on("PullImage", behaviours.when(released))
    agent = start_agent(fake_runtime.endpoint, max_parallel_pulls=1)
    first = Preload(agent, "demo/web:1")
    wait_until(lambda: fake_runtime.calls("PullImage"), 10, "pull")
    next_one = Preload(agent, "demo/next:1")
    wait_until(lambda: fake_runtime.calls("ImageStatus", "demo/next:1"), 10, "status of the next")
    agent.request("demo/web:1")
    wait_owners(agent, "demo/web:1", 2)
    # Would the next one have its turn now, it would be before this one is asked for.
    agent.request("demo/last:1", file="last.yaml")
    wait_until(lambda: fake_runtime.calls("ImageStatus", "demo/last:1"), 10, "status of the last")
    assert [call.image for call in fake_runtime.calls("PullImage")] == ["demo/web:1"]
    released.set()
    for preload in (first, next_one):
        assert preload.wait_end().phase == agent.messages.PHASE_SUCCEEDED
    assert not fake_runtime.calls("PullImage")[0].cancelled


def test_deadline_of_a_pull_that_was_joined_late(start_agent, fake_runtime):
    """A caller that comes when a part of the time is over has the whole of its own."""
    fake_runtime.on("PullImage", behaviours.in_turn(behaviours.hang(), behaviours.normal()))
    agent = start_agent(fake_runtime.endpoint)
    limits = {"backoffLimit": 0, "activeDeadlineSeconds": 2}
    agent.request("demo/web:1", **limits)
    wait_until(lambda: fake_runtime.calls("PullImage"), 10, "pull")
    late = Preload(agent, "demo/web:1", backoff_limit=0, active_deadline_seconds=2)
    assert late.wait_end().phase == agent.messages.PHASE_SUCCEEDED
    assert len(fake_runtime.calls("PullImage")) == 2


def test_deadline_after_a_patient_caller_has_left(start_agent, fake_runtime):
    """A document that has joined the pull of a caller without a deadline keeps its own one."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    patient = Preload(agent, "demo/web:1")
    patient.wait_phase("PULLING")
    agent.request("demo/web:1", activeDeadlineSeconds=2)
    wait_until(lambda: len(agent.owners("demo/web:1")) == 2, 10, "both in the file")
    patient.cancel()
    status = agent.wait_status("demo/web:1", "Failed")
    assert "activeDeadlineSeconds" in status["message"]


def test_deadline_beside_a_patient_caller(start_agent, fake_runtime):
    """A caller's deadline ends its request, while the pull goes on for one without."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    patient = Preload(agent, "demo/web:1")
    patient.wait_phase("PULLING")
    late = Preload(agent, "demo/web:1", active_deadline_seconds=1)
    assert late.wait_end().phase == agent.messages.PHASE_FAILED
    (call,) = wait_until(lambda: fake_runtime.calls("PullImage"), 10, "pull")
    assert not call.cancelled
    patient.cancel()


def test_stalled_pull_ends(start_agent, runtime, fake_registry, gate):
    """When a registry stops to send, the attempt ends, says so, and the next one succeeds."""
    agent = start_agent(runtime.endpoint, stall_timeout=2)
    preload = Preload(agent, gate.reference, backoff_limit=1)
    stalled = preload.wait_step("BACKING_OFF")
    assert stalled.reason == "NoProgress"
    gate.open()
    assert preload.wait_end().phase == agent.messages.PHASE_SUCCEEDED
    layers = fake_registry.requests("layer")
    assert len(layers) >= 2


def test_slow_pull_is_not_stalled(start_agent, runtime, fake_registry, image_name):
    """A pull that gets some bytes now and then goes on, however long it takes in all."""
    # containerd counts what arrived by the megabyte.
    layer = random_layer(8 << 20, seed=77)
    image = fake_registry.add(image_name, "1", build_image([layer]))
    fake_registry.on("layer", fakes.trickle(3 << 19, step=1 << 18))
    agent = start_agent(runtime.endpoint, stall_timeout=4)
    preload = Preload(agent, image.reference, backoff_limit=0)
    assert preload.wait_end().phase == agent.messages.PHASE_SUCCEEDED, preload.events[-1]
    assert preload.times[-1] - preload.began_at > 4.5
    runtime.remove_image(image.reference)
