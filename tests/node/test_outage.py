# SPDX-License-Identifier: Apache-2.0
"""A failed image is tried again: until it is there, and at once when something has changed."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from fake import behaviours
from lab import sanitizers
from lab.agent import Agent
from lab.documents import node_image, write_whole
from lab.preload import Preload
from lab.registry import Registry
from lab.trouble import pull_another
from lab.wait import wait_until

_UNREACHABLE = behaviours.fail("UNKNOWN", "failed to pull: dial tcp: connection refused")
_DENIED = behaviours.fail("UNKNOWN", "failed with status code [manifests 1]: 401 Unauthorized")
_NO_PLATFORM = behaviours.fail("NOT_FOUND", "no match for platform in manifest: not found")
_LONG = 200  # seconds: in no test does a pause end by itself that is longer


@pytest.fixture
def outage(folder, runtime, image_name):
    """A registry of the test's own, that has one image and is down."""
    with Registry(folder / "registry") as registry:
        registry.image = registry.push_image(image_name, "1", [1000], labels={"test": image_name})
        registry.stop()
        yield registry
    runtime.remove_image(registry.image.image_id)


def rest(status: dict[str, Any]) -> float:
    """How many seconds are left until the next attempt."""
    at = datetime.fromisoformat(status["nextAttemptTime"].replace("Z", "+00:00"))
    return (at - datetime.now(timezone.utc)).total_seconds()


def wait_attempt(agent: Agent, reference: str, number: int, timeout: float = 60) -> dict[str, Any]:
    """Waits until so many attempts have failed and the next one is to come."""

    def reached() -> dict[str, Any] | None:
        status = agent.tag_status(reference)
        failed = status is not None and status["phase"] == "BackOff"
        return status if failed and status["attempt"] >= number else None

    return wait_until(
        reached, timeout, lambda: f"attempt {number} that failed: {agent.tag_status(reference)}"
    )


def make_patient(agent: Agent, reference: str) -> dict[str, Any]:
    """Lets attempts fail until the next one is minutes away: each caller has one at once."""
    status = wait_attempt(agent, reference, 1)
    while rest(status) < _LONG:
        assert agent.ctl("pull", "--attempts=1", reference).returncode == 1
        status = wait_attempt(agent, reference, status["attempt"] + 1)
    return status


@pytest.mark.slow
@pytest.mark.handover
def test_registry_is_down_for_12_seconds(agent, runtime, outage):
    """The third attempt, later than that, fails as well; when the registry is up the image comes."""
    agent.request(outage.image.reference)
    status = wait_attempt(agent, outage.image.reference, 3)
    assert status["message"].startswith("RegistryUnreachable: ")
    assert status["message"].endswith("(attempt 3)")
    outage.start()
    status = agent.wait_status(outage.image.reference, "Succeeded", 60)
    assert "nextAttemptTime" not in status and "message" not in status
    assert runtime.image_id(outage.image.reference) == outage.image.image_id


def test_local_request_without_a_limit(start_agent, fake_runtime):
    """A caller's request is tried on too, and each event says when."""
    fails = [_UNREACHABLE] * 2
    fake_runtime.on("PullImage", behaviours.in_turn(*fails, behaviours.normal()))
    agent = start_agent(fake_runtime.endpoint)
    preload = Preload(agent, "demo/web:1")
    event = preload.wait_step("BACKING_OFF")
    assert (event.phase, event.attempt) == (agent.messages.PHASE_PULLING, 1)
    assert event.reason == "RegistryUnreachable" and event.next_attempt_time > 0
    assert preload.wait_end(60).phase == agent.messages.PHASE_SUCCEEDED
    assert preload.events[-1].attempt == 3 and preload.events[-1].next_attempt_time == 0


@pytest.mark.parametrize("behaviour, reason", [(_DENIED, "Unauthorized"), (None, "NotFound")])
def test_reason_is_shown_at_the_first_attempt(start_agent, fake_runtime, behaviour, reason):
    """Status and doctor say it at once, with the number of the attempt and the time of the next."""
    fake_runtime.on("PullImage", behaviour or behaviours.fail("NOT_FOUND", "no such image"))
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1")
    status = wait_attempt(agent, "demo/web:1", 1)
    assert (status["attempt"], status["message"].split(":")[0]) == (1, reason)
    assert 0 < rest(status) < 10
    shown = agent.ctl("status").stdout
    assert "BackOff" in shown and f"; {reason} (attempt " in shown and "next attempt in " in shown
    document = json.loads(agent.ctl("status", "--failed", "-o", "json").stdout)
    (tag,) = document["status"]["imageStatuses"]["demo/web"]["tags"]
    assert tag["attempt"] >= 1 and tag["phase"] in ("BackOff", "Pulling")
    assert document["status"]["failed"] == 0
    assert reason in agent.ctl("doctor").stdout
    assert agent.metrics().get_value("inplaced_images_wanted", phase="backoff") <= 1


def write_again(path: Path) -> None:
    write_whole(path, path.read_text())


@pytest.mark.parametrize("touch", [os.utime, write_again])
def test_document_is_touched(agent, outage, touch):
    """A document that is touched, or written again, has its images tried at once."""
    agent.request(outage.image.reference)
    make_patient(agent, outage.image.reference)
    outage.start()
    (document,) = agent.images_dir.glob("*.yaml")
    touch(document)
    agent.wait_status(outage.image.reference, "Succeeded")


@pytest.mark.parametrize("is_there", [True, False], ids=["changed", "new"])
def test_credentials_change(agent, runtime, auth_registry, image_name, is_there):
    """A file in the folder of credentials that changes has pulls that were refused tried at once."""
    image = auth_registry.push_image(image_name, "1", [1000], labels={"test": image_name})
    if is_there:
        agent.give_credentials(auth_registry.host, "lab-user", "not-the-password")
    agent.request(image.reference)
    assert make_patient(agent, image.reference)["message"].startswith("Unauthorized: ")
    agent.give_credentials(auth_registry.host, *auth_registry.credentials)
    agent.wait_status(image.reference, "Succeeded")
    runtime.remove_image(image.image_id)


def test_registry_answers_another_pull(agent, runtime, outage, image_name):
    """A pull that could not reach a registry is tried at once when another pull gets an answer from it."""
    agent.request(outage.image.reference)
    make_patient(agent, outage.image.reference)
    outage.start()
    absent = Preload(agent, f"{outage.host}/{image_name}:none", backoff_limit=0).wait_end()
    assert absent.reason == "NotFound"
    agent.wait_status(outage.image.reference, "Succeeded")


def test_other_registry_does_not_count(start_agent, fake_runtime):
    """A registry that has always answered is no sign of another one; one that is back is."""
    fake_runtime.on("PullImage", _UNREACHABLE, "down.test/web:1")
    agent = start_agent(fake_runtime.endpoint)
    agent.request("down.test/web:1")
    before = make_patient(agent, "down.test/web:1")
    pull_another(agent)
    assert agent.tag_status("down.test/web:1") == before
    back = behaviours.in_turn(_UNREACHABLE, behaviours.normal())
    fake_runtime.on("PullImage", back, "b.test/web:1")
    Preload(agent, "b.test/web:1").wait_end()
    wait_attempt(agent, "down.test/web:1", before["attempt"] + 1)


def test_runtime_comes_back(agent, runtime, outage):
    """A runtime that was restarted may have other settings: all is tried at once."""
    agent.request(outage.image.reference)
    make_patient(agent, outage.image.reference)
    outage.start()
    runtime.restart()
    agent.wait_status(outage.image.reference, "Succeeded")


def test_reload(agent, outage):
    """So is it when the agent is reloaded."""
    agent.request(outage.image.reference)
    make_patient(agent, outage.image.reference)
    outage.start()
    agent.reload()
    agent.wait_status(outage.image.reference, "Succeeded")


def test_restart(agent, outage):
    """And when the agent is restarted, also if it was killed."""
    agent.request(outage.image.reference)
    make_patient(agent, outage.image.reference)
    agent.kill9()
    agent.start()
    assert wait_attempt(agent, outage.image.reference, 1)["attempt"] == 1
    make_patient(agent, outage.image.reference)
    agent.terminate()
    outage.start()
    agent.start()
    agent.wait_status(outage.image.reference, "Succeeded")


def test_failure_of_an_earlier_version(agent, outage):
    """An image that had failed for good, and has no limit any more, is tried on after a restart."""
    agent.request(outage.image.reference, backoffLimit=0)
    agent.wait_status(outage.image.reference, "Failed")
    agent.terminate()
    (document,) = agent.images_dir.glob("*.yaml")
    write_whole(document, node_image((outage.image.reference,)))
    agent.start()
    wait_attempt(agent, outage.image.reference, 1)
    outage.start()
    agent.wait_status(outage.image.reference, "Succeeded", 60)


def test_backoff_limit_ends_it(start_agent, fake_runtime):
    """An image that has used up its backoffLimit stays failed: touched, reloaded and restarted."""
    fake_runtime.on("PullImage", _UNREACHABLE, "demo/web:1")
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1", backoffLimit=1)
    failed = agent.wait_status("demo/web:1", "Failed")
    assert failed["message"].endswith("(attempt 2 of 2)") and "nextAttemptTime" not in failed
    (document,) = agent.images_dir.glob("*.yaml")
    os.utime(document)
    agent.reload()
    pull_another(agent)
    agent.terminate()
    agent.start()
    pull_another(agent)
    assert agent.tag_status("demo/web:1") == failed
    assert len(fake_runtime.calls("PullImage", "demo/web:1")) == 2


def test_hopeless_ones_fail_at_once(start_agent, fake_runtime):
    """Neither a malformed reference nor an image for another platform is tried a second time."""
    fake_runtime.on("PullImage", _NO_PLATFORM, "demo/arm:1")
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/arm:1", file="arm.yaml")
    agent.request("NOT A:reference", file="bad.yaml")
    arm = agent.wait_status("demo/arm:1", "Failed")
    bad = agent.wait_status("NOT A:reference", "Failed")
    assert arm["message"].startswith("Unsupported: ") and "(attempt 1 of 1)" in arm["message"]
    assert bad["message"].startswith("InvalidReference: ")
    agent.terminate()
    agent.start()
    pull_another(agent)
    assert len(fake_runtime.calls("PullImage", "demo/arm:1")) == 1


def test_retry_of_some(agent, outage):
    """`inplacectl retry IMAGE` has it tried at once, and says of each other one why not."""
    agent.request(outage.image.reference)
    make_patient(agent, outage.image.reference)
    outage.start()
    done = agent.ctl("retry", outage.image.reference, "not/here:1")
    assert done.stdout == f"{outage.image.reference} is being tried again\n"
    assert "not/here:1: it is not requested" in done.stderr and done.returncode == 3
    agent.wait_status(outage.image.reference, "Succeeded")
    again = agent.ctl("retry", outage.image.reference)
    assert again.returncode == 1 and "it is present" in again.stderr
    log = [line for line in agent.logs() if line["message"].startswith("Trying 1 image again for")]
    assert len(log) == 1 and "root (uid 0" in log[0]["message"]


def test_retry_of_all_that_failed(start_agent, fake_runtime):
    """`inplacectl retry --failed`: those that wait, and those that had used up their attempts."""
    for image in ("demo/ever:1", "demo/once:1"):
        fake_runtime.on("PullImage", _UNREACHABLE, image)
    agent = start_agent(fake_runtime.endpoint)
    assert agent.ctl("retry", "--failed").stdout == "No image has failed.\n"
    agent.request("demo/good:1", file="good.yaml")
    agent.request("demo/ever:1", file="ever.yaml")
    agent.request("demo/once:1", file="once.yaml", backoffLimit=0)
    agent.request("NOT A:reference", file="bad.yaml")
    make_patient(agent, "demo/ever:1")
    for reference in ("demo/once:1", "NOT A:reference"):
        agent.wait_status(reference, "Failed")
    for image in ("demo/ever:1", "demo/once:1"):
        fake_runtime.on("PullImage", behaviours.normal(), image)
    done = agent.ctl("retry", "--failed", "-o", "json")
    results = {row["image"]: row for row in json.loads(done.stdout)["results"]}
    retried = {image for image, row in results.items() if row["retried"]}
    assert retried == {"demo/ever:1", "demo/once:1"}
    assert "correct" in results["NOT A:reference"]["message"] and done.returncode == 3
    assert done.stderr == f"inplacectl: NOT A:reference: {results['NOT A:reference']['message']}\n"
    for reference in ("demo/ever:1", "demo/once:1"):
        agent.wait_status(reference, "Succeeded")


def test_retry_of_what_nothing_waits_for(start_agent, fake_runtime):
    """`retry --failed` leaves alone a request whose caller waited for it, but tries it again by its name."""
    for image in ("demo/waited:1", "demo/left:1"):
        fake_runtime.on("PullImage", _UNREACHABLE, image)
    agent = start_agent(fake_runtime.endpoint)
    assert agent.ctl("pull", "--attempts=1", "demo/waited:1").returncode == 1
    assert agent.ctl("pull", "--attempts=1", "--no-wait", "demo/left:1").returncode == 0
    agent.wait_status("demo/left:1", "Failed")
    for image in ("demo/waited:1", "demo/left:1"):
        fake_runtime.on("PullImage", behaviours.normal(), image)
    done = agent.ctl("retry", "--failed", "-o", "json")
    results = {row["image"]: row for row in json.loads(done.stdout)["results"]}
    assert results["demo/left:1"]["retried"]
    assert done.returncode == 0 and list(results) == ["demo/left:1"]
    agent.wait_status("demo/left:1", "Succeeded")
    assert len(fake_runtime.calls("PullImage")) == 3
    assert agent.ctl("retry", "demo/waited:1").returncode == 0
    agent.wait_status("demo/waited:1", "Succeeded")


@pytest.mark.parametrize("words", [(), ("--failed", "a:1")])
def test_retry_of_nothing_in_particular(agent, words):
    done = agent.ctl("retry", *words)
    assert done.returncode == 2 and "either images or --failed" in done.stderr


def test_retries_have_a_pace(start_agent, fake_runtime):
    """A caller may not have the registry asked again and again with the node's credentials."""
    fake_runtime.on("PullImage", _UNREACHABLE)
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/ever:1", file="ever.yaml")
    agent.request("demo/once:1", file="once.yaml", backoffLimit=0)
    make_patient(agent, "demo/ever:1")
    agent.wait_status("demo/once:1", "Failed")
    for image in ("demo/ever:1", "demo/once:1"):
        before = len(fake_runtime.calls("PullImage", image))
        assert agent.ctl("retry", image).returncode == 0
        wait_until(lambda: len(fake_runtime.calls("PullImage", image)) > before, 10, "attempt")
        if "once" in image:
            agent.wait_status(image, "Failed")
        again = agent.ctl("retry", image)
        assert again.returncode == 1
        assert "less than 5 s ago" in again.stderr or ("ever" in image and "is in progress" in again.stderr)
        assert len(fake_runtime.calls("PullImage", image)) == before + 1
        wait_until(lambda: agent.ctl("retry", image).returncode == 0, 10, "end of the pause")
        wait_until(lambda: len(fake_runtime.calls("PullImage", image)) >= before + 2, 10, "attempt")
    agent.wait_status("demo/once:1", "Failed")
    assert "demo/once:1: it was tried less than 5 s ago" in agent.ctl("retry", "--failed").stderr


def test_pauses_after_a_retry_are_short(start_agent, fake_runtime):
    """A person who asks for an attempt need not ask for the next one, too."""
    fake_runtime.on("PullImage", _UNREACHABLE)
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1")
    before = make_patient(agent, "demo/web:1")
    agent.ctl("retry", "demo/web:1")
    assert rest(wait_attempt(agent, "demo/web:1", before["attempt"] + 1)) < 10


def test_many_that_fail_for_ever(start_agent, fake_runtime):
    """Sixty images that are absent take no slot while they wait, and no line of the log each time."""
    fake_runtime.on("PullImage", behaviours.fail("NOT_FOUND", "no such image"))
    fake_runtime.on("PullImage", behaviours.normal(), "demo/good:1")
    references = [f"demo/absent{number}:1" for number in range(60)]
    agent = start_agent(fake_runtime.endpoint, max_parallel_pulls=2)
    agent.request(*references)
    for reference in references:
        wait_attempt(agent, reference, 2, 60 * sanitizers.SLOWNESS)
    assert Preload(agent, "demo/good:1").wait_end().phase == agent.messages.PHASE_SUCCEEDED
    about = 'Cannot pull "demo/absent7:1"'
    lines = [line for line in agent.logs() if line["message"].startswith(about)]
    assert [line["level"] for line in lines if line["level"] != "debug"] == ["warning"]
