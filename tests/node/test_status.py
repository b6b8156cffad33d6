# SPDX-License-Identifier: Apache-2.0
"""The status file: prompt, true, never half, and a memory that survives kill -9."""

from __future__ import annotations

import json
import os
import re
import threading
from datetime import datetime, timedelta, timezone

import pytest

from fake import behaviours
from lab.documents import node_image, write_whole
from lab.preload import Preload
from lab.trouble import the_complaint
from lab.wait import wait_until

_COUNTS = ("desired", "succeeded", "failed", "pulling", "waiting")


def counts(agent) -> dict[str, int]:
    status = agent.status().get("status", {})
    return {name: status.get(name) for name in _COUNTS}


def wait_counts(agent, **expected: int) -> None:
    all_of_them = {name: expected.get(name, 0) for name in _COUNTS}
    wait_until(lambda: counts(agent) == all_of_them, 15, lambda: f"{expected}: {counts(agent)}")


def when(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)


def test_waiting_and_pulling_at_once(start_agent, fake_runtime):
    """A request is in the status at once: Pulling in its turn, else Waiting without a time."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint, max_parallel_pulls=1)
    agent.request("demo/web:1", "demo/web:2")
    wait_counts(agent, desired=2, pulling=1, waiting=1)
    tags = {
        tag["phase"]: tag for tag in agent.status()["status"]["imageStatuses"]["demo/web"]["tags"]
    }
    assert "startTime" in tags["Pulling"] and "completionTime" not in tags["Pulling"]
    assert "startTime" not in tags["Waiting"]
    assert tags["Waiting"]["lastTransitionTime"] and "lastTransitionTime" not in tags["Pulling"]
    assert re.search(r" Waiting +- +\d+s *$", agent.ctl("status").stdout, re.MULTILINE)
    assert "imageID" not in tags["Pulling"]


def test_waiting_without_a_runtime(make_agent, folder):
    """Without a runtime a request is Waiting, and a sentence of the status says that the runtime is missing."""
    agent = make_agent(f"unix://{folder.path}/nowhere.sock")
    agent.start()
    agent.request("demo/web:1")
    agent.wait_status("demo/web:1", "Waiting")
    annotations = agent.status()["metadata"]["annotations"]
    assert "nowhere.sock" in annotations["inplaced.io/runtime"]


def test_image_id_is_the_runtimes_own(agent, runtime, push):
    """For each reference, the ID in the status is what the runtime says of that reference."""
    image, other = push(tag="1"), push(tag="2", image_format="oci")
    references = [image.reference, image.digest_reference, other.reference]
    agent.request(*references)
    for reference in references:
        status = agent.wait_status(reference, "Succeeded")
        name = reference.partition("@")[0] if "@" in reference else reference.rpartition(":")[0]
        assert status["imageID"] == f"{name}@{runtime.image_id(reference)}"
        assert status["progress"] == 100
    wait_counts(agent, desired=3, succeeded=3)


def test_times(agent, push):
    """startTime and completionTime are when it was pulled, in UTC and in this order."""
    image = push()
    before = datetime.now(timezone.utc) - timedelta(seconds=1)
    agent.request(image.reference)
    status = agent.wait_status(image.reference, "Succeeded")
    after = datetime.now(timezone.utc)
    assert before <= when(status["startTime"]) <= when(status["completionTime"]) <= after


def test_failure_names_its_class(start_agent, fake_runtime):
    """A failure has a message with its class, the runtime's words and an advice; and is counted."""
    text = "no such image: /var/lib/x"
    fake_runtime.on("PullImage", behaviours.fail("NOT_FOUND", text), image="demo/bad:1")
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/bad:1", "demo/good:1", backoffLimit=0)
    status = agent.wait_status("demo/bad:1", "Failed")
    assert status["message"].startswith(f"NotFound: {text}; ")
    assert text in (agent.state_dir / "nodeimage.json").read_text(), "it cannot be searched for"
    assert "completionTime" in status and "imageID" not in status
    wait_counts(agent, desired=2, succeeded=1, failed=1)


def test_readers_never_see_half_a_file(start_agent, fake_runtime):
    """A reader of the status file finds a whole document each time."""
    agent = start_agent(fake_runtime.endpoint)
    stop = threading.Event()
    broken: list[str] = []
    seen: set[int] = set()

    def read() -> None:
        path = agent.state_dir / "nodeimage.json"
        while not stop.is_set():
            try:
                text = path.read_text()
                seen.add(json.loads(text)["status"]["succeeded"])
            except FileNotFoundError:
                pass
            except ValueError as error:
                broken.append(f"{error}: {text[-100:]}")

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(40):
            agent.request(*(f"demo/web:{number}-{i}" for i in range(20)), file=f"{number % 4}.yaml")
        # The last one done, so that nothing is written any more.
        wait_counts(agent, desired=80, succeeded=80)
    finally:
        stop.set()
        reader.join()
    assert not broken
    assert seen
    assert sorted(os.listdir(agent.state_dir)) == ["lock", "nodeimage.json"]


def test_finished_work_survives_kill9(start_agent, fake_runtime):
    """After kill -9 finished requests are known, with their times, and not done again."""
    fake_runtime.on("PullImage", behaviours.fail("NOT_FOUND", "no such image"), image="demo/bad:1")
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1", file="a.yaml", policy="Always")
    agent.request("demo/bad:1", file="b.yaml", backoffLimit=0)
    agent.wait_status("demo/web:1", "Succeeded")
    agent.wait_status("demo/bad:1", "Failed")
    before = agent.status()["status"]
    agent.kill9()
    agent.start()
    # Something new is done, so by then the old would have been, too.
    agent.request("demo/new:1", file="c.yaml")
    agent.wait_status("demo/new:1", "Succeeded")
    after = agent.status()["status"]["imageStatuses"]
    assert {**after, **before["imageStatuses"]} == after
    images = [call.image for call in fake_runtime.calls("PullImage")]
    assert sorted(images) == ["demo/bad:1", "demo/new:1", "demo/web:1"]


def test_unfinished_work_goes_on_after_kill9(start_agent, runtime, gate):
    """After kill -9 in the middle of a pull, the next start pulls the image to its end."""
    agent = start_agent(runtime.endpoint)
    agent.request(gate.reference)
    agent.wait_status(gate.reference, "Pulling")
    gate.wait_fetched()
    agent.kill9()
    agent.start()
    gate.open()
    status = agent.wait_status(gate.reference, "Succeeded")
    assert status["imageID"].endswith(runtime.image_id(gate.reference))


def test_lost_or_broken_file(start_agent, fake_runtime):
    """A status file that is broken costs no more than a question to the runtime."""
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1")
    agent.wait_status("demo/web:1", "Succeeded")
    agent.kill9()
    (agent.state_dir / "nodeimage.json").write_text('{"status": {"imageStatuses": [')
    agent.start()
    agent.wait_status("demo/web:1", "Succeeded")
    assert len(fake_runtime.calls("PullImage")) == 1
    assert the_complaint(agent, "nodeimage.json").endswith(", starting without it.")


def test_bad_tag_in_the_file(start_agent, fake_runtime):
    """A tag of the file that the agent cannot read costs no more than itself: a detached request goes on."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/bad:1", file="bad.yaml")
    Preload(agent, "demo/web:1", detach=True, pin=True)
    wait_until(lambda: counts(agent)["desired"] == 2, 10, "both in the file")
    agent.kill9()
    (agent.images_dir / "bad.yaml").unlink()
    status = agent.status()
    status["spec"]["images"]["demo/bad"]["tags"][0]["version"] = -1
    (agent.state_dir / "nodeimage.json").write_text(json.dumps(status))
    agent.start()
    wait_until(lambda: counts(agent)["desired"] == 1, 10, "the request alone")
    (tag,) = agent.status()["spec"]["images"]["demo/web"]["tags"]
    assert tag["pin"]
    assert the_complaint(agent, "nodeimage.json").endswith(", starting without that part.")


def test_new_version_pulls_again(start_agent, fake_runtime):
    """Another version of a tag is another round: pulled again, and the status has the version."""
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1", policy="Always", version=1)
    assert agent.wait_status("demo/web:1", "Succeeded")["version"] == 1
    agent.request("demo/web:1", policy="Always", version=1)
    agent.request("demo/web:1", policy="Always", version=2)
    wait_until(
        lambda: (agent.tag_status("demo/web:1") or {}).get("version") == 2, 10, "version 2"
    )
    agent.wait_status("demo/web:1", "Succeeded")
    assert len(fake_runtime.calls("PullImage")) == 2


def test_new_version_stops_the_old_round(start_agent, fake_runtime):
    """A version that comes while the one before is pulled cancels it and starts anew."""
    fake_runtime.on("PullImage", behaviours.in_turn(behaviours.hang(), behaviours.normal()))
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1", version=1)
    wait_until(lambda: fake_runtime.calls("PullImage"), 10, "first pull")
    agent.request("demo/web:1", version=2)
    assert agent.wait_status("demo/web:1", "Succeeded")["version"] == 2
    first, second = fake_runtime.calls("PullImage")
    assert first.wait_over(60) and first.cancelled and not second.cancelled


def test_changed_limits_are_no_new_round(start_agent, fake_runtime):
    """Another policy or limit of a finished tag with the same version does not pull it again."""
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1", policy="IfNotPresent")
    agent.wait_status("demo/web:1", "Succeeded")
    agent.request("demo/web:1", policy="Always", timeoutSeconds=7)
    agent.request("demo/new:1", file="new.yaml")
    agent.wait_status("demo/new:1", "Succeeded")
    assert len(fake_runtime.calls("PullImage", "demo/web:1")) == 1
    (tag,) = agent.status()["spec"]["images"]["demo/web"]["tags"]
    assert tag["pullPolicy"]["timeoutSeconds"] == 7


def test_ttl(start_agent, fake_runtime):
    """ttlSecondsAfterFinished takes a finished tag out of the status, also across a restart."""
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1", ttlSecondsAfterFinished=3)
    agent.wait_status("demo/web:1", "Succeeded")
    wait_until(lambda: agent.status()["status"]["desired"] == 0, 10, "end of the request")
    agent.kill9()
    agent.start()
    agent.request("demo/new:1", file="new.yaml")
    agent.wait_status("demo/new:1", "Succeeded")
    assert agent.tag_status("demo/web:1") is None
    assert len(fake_runtime.calls("PullImage", "demo/web:1")) == 1
    # A new version is a new task.
    agent.request("demo/web:1", version=1, ttlSecondsAfterFinished=60)
    agent.wait_status("demo/web:1", "Succeeded")


@pytest.mark.slow
def test_ttl_of_a_request(start_agent, fake_runtime):
    """The status keeps requests of the socket for as long as they say."""
    agent = start_agent(fake_runtime.endpoint)
    Preload(agent, "demo/web:1", ttl_seconds_after_finished=3).wait_end()
    agent.wait_status("demo/web:1", "Succeeded")
    wait_until(lambda: agent.status()["status"]["desired"] == 0, 10, "end of the request")


def test_ttl_of_a_request_beside_another_after_a_restart(start_agent, fake_runtime):
    """A document for the same image, which the status keeps for ever, does not make the request last as long."""
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1", file="web.yaml")
    agent.wait_status("demo/web:1", "Succeeded")
    Preload(agent, "demo/web:1", detach=True, ttl_seconds_after_finished=3)
    wait_until(lambda: len(agent.owners("demo/web:1")) == 2, 10, "both in the file")
    agent.kill9()
    agent.start()
    (agent.images_dir / "web.yaml").unlink()
    wait_until(lambda: agent.status()["status"]["desired"] == 0, 10, "end of the request")


def test_limit_of_a_request_beside_another_after_a_restart(start_agent, fake_runtime):
    """A document for the same image that sets no limit does not take that of the request away."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1", file="web.yaml")
    limits = {"backoff_limit": 3, "active_deadline_seconds": 600}
    Preload(agent, "demo/web:1", detach=True, **limits)
    wait_until(lambda: len(agent.owners("demo/web:1")) == 2, 10, "both in the file")
    agent.kill9()
    agent.start()
    (agent.images_dir / "web.yaml").unlink()
    wait_until(lambda: len(agent.owners("demo/web:1")) == 1, 10, "the request alone")
    (tag,) = agent.status()["spec"]["images"]["demo/web"]["tags"]
    assert (tag["pullPolicy"]["backoffLimit"], tag["pullPolicy"]["activeDeadlineSeconds"]) == (3, 600)


def test_demands_of_others_after_a_restart(start_agent, fake_runtime):
    """A request that was open does not demand what a document for the same image demands."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    agent.give_credentials("docker.io", "user", "hunter2", file="mine.json")
    document = node_image(("demo/web:1",), policy="Always")
    image = document["spec"]["images"]["demo/web"]
    image["pullSecrets"] = [{"name": "mine"}]
    image["sandboxConfig"] = {"annotations": {"inplaced.io/resolve": "true"}}
    image["tags"][0]["complete"] = True
    write_whole(agent.images_dir / "web.yaml", document)
    Preload(agent, "demo/web:1", detach=True)
    wait_until(lambda: len(agent.owners("demo/web:1")) == 2, 10, "both in the file")
    agent.kill9()
    (agent.images_dir / "web.yaml").unlink()
    agent.start()
    wait_until(lambda: len(agent.owners("demo/web:1")) == 1, 10, "the request alone")
    (tag,) = agent.status()["spec"]["images"]["demo/web"]["tags"]
    assert not {"complete", "pullSecrets", "sandboxConfig"} & set(tag)
    assert tag["imagePullPolicy"] == "IfNotPresent"


def test_a_call_that_failed_stays_so(start_agent, fake_runtime):
    """A call that was given up is not tried again after a crash, though a document asks for the image without end."""
    fake_runtime.on("PullImage", behaviours.fail("UNKNOWN", "it is broken"))
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1", file="web.yaml")
    assert agent.ctl("pull", "--attempts=1", "demo/web:1").returncode == 1
    wait_until(lambda: "inplaced.io/outcomes" in agent.status()["metadata"]["annotations"], 10, "its outcome in the file")
    agent.kill9()
    agent.start()
    (agent.images_dir / "web.yaml").unlink()
    agent.wait_status("demo/web:1", "Failed")


def test_malformed_reference_fails(start_agent, fake_runtime):
    """A reference that can be none fails at once, says why, and keeps no other request waiting."""
    agent = start_agent(fake_runtime.endpoint)
    document = node_image(("demo/web:1",))
    document["spec"]["images"]["UPPER/Case"] = {"tags": [{"tag": "1"}]}
    write_whole(agent.images_dir / "web.yaml", document)
    agent.wait_status("demo/web:1", "Succeeded")
    status = agent.wait_status("UPPER/Case:1", "Failed")
    assert status["message"].startswith("InvalidReference: ")
    assert len(fake_runtime.calls("PullImage")) == 1
    assert f"{status['message']}; nothing tries it again before that\n" in agent.ctl("doctor").stdout


def unique_members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """For json.loads(): a key that is there twice is no JSON that anyone can rely on."""
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys)), keys
    return dict(pairs)


def test_no_image_hides_another_one(start_agent, fake_runtime):
    """Each image has one row, and each name one key, though names are spelled alike."""
    agent = start_agent(fake_runtime.endpoint)
    names = {
        "demo/web": ["1", "no tag!", "2"],
        "docker.io/demo/web": ["2", "3", "no tag!"],
        "demo/a": ["1"],
        "demo/weby": ["1"],
        "NO NAME": ["1", "x y"],
        "NO": ["NAME 1"],
        "NO NAME x": ["y"],
    }
    images = {name: {"tags": [{"tag": tag} for tag in tags]} for name, tags in names.items()}
    document = {**node_image(()), "spec": {"images": images}}
    write_whole(agent.images_dir / "a.yaml", document)
    agent.wait_status("demo/web:3", "Succeeded")
    text = (agent.state_dir / "nodeimage.json").read_text()
    status = json.loads(text, object_pairs_hook=unique_members)["status"]
    shown = {
        (name, entry["tag"])
        for name, image in status["imageStatuses"].items()
        for entry in image["tags"]
    }
    expected = {(name, tag) for name, tags in names.items() for tag in tags}
    expected -= {("docker.io/demo/web", "2"), ("docker.io/demo/web", "3")}
    assert shown == expected | {("demo/web", "3")}
    assert status["desired"] == len(shown)
    assert agent.ctl("status", "demo/web:1").returncode == 0
    agent.terminate()
    agent.start()
    assert "Cannot understand" not in agent.log_text()
    assert agent.wait_status("demo/web:3", "Succeeded")
