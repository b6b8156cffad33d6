# SPDX-License-Identifier: Apache-2.0
"""Proves that images are kept from the kubelet's garbage collection as long as a request wants that, and no longer:
by what containerd 2 reports over CRI, and by the labels of its image records."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time

import grpc
import pytest

from fake import behaviours
from fake.front import Front
from fake.runtime_proxy import RuntimeProxy
from lab import clock, sanitizers
from lab.containerd import Containerd
from lab.crio import Crio
from lab.preload import Preload
from lab.trouble import complaints
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS
LABEL = "io.cri-containerd.pinned"
MARK = "inplaced.io/pinned"
OURS = {LABEL: "pinned", MARK: "true"}


@pytest.fixture(scope="module")
def containerd(session_folder):
    with Containerd(session_folder / "pins", release="2") as made:
        yield made


@pytest.fixture
def push(registry, image_name, containerd):
    """push(tag, megabytes): an image that no other test has."""
    pushed = []

    def push_image(tag="1", megabytes=1):
        layers = [megabytes << 20]
        labels = {"test": f"{image_name}:{tag}"}
        pushed.append(registry.push_image(image_name, tag, layers, seed=len(pushed), labels=labels))
        return pushed[-1]

    yield push_image
    for image in pushed:
        containerd.remove_image(image.reference)


def labels_of(containerd, reference):
    """The label of a pin, and the agent's mark."""
    shown = containerd.ctr("images", "ls", f"name=={reference}").stdout.splitlines()[1:]
    pairs = [pair.split("=") for line in shown for pair in line.split()[-1].split(",")]
    return {key: value for key, value in pairs if key in OURS}


def is_pinned(containerd, reference):
    return containerd.image_status(reference).pinned


def wait_pinned(containerd, image, wanted=True):
    def is_so():
        there = containerd.image_status(image.reference)
        return there is not None and there.pinned == wanted

    wait_until(is_so, 15 * SLOWLY, f"{'' if wanted else 'un'}pinned {image.reference}")


def label(containerd, reference, *labels):
    done = containerd.ctr("images", "label", reference, *labels)
    assert done.returncode == 0, done


def column(agent, image):
    """The value of PINNED that inplacectl shows."""
    lines = agent.ctl("images", "-o", "wide").stdout.splitlines()
    (line,) = [line for line in lines if image.reference in line]
    return next(word for word in line.split() if word in ("no", "inplaced", "other"))


def doctor(agent):
    problems = json.loads(agent.ctl("doctor", "-o", "json").stdout)["problems"]
    return {problem["subject"]: problem["message"] for problem in problems}


def pin_for(agent, image, seconds):
    request = agent.messages.PreloadRequest(
        images=[image.reference], pin=True, detach=True, ttl_seconds_after_finished=seconds
    )
    list(agent.node.Preload(request))


def test_a_document_pins(start_agent, containerd, push):
    """As long as the document says so; the image itself stays."""
    agent = start_agent(containerd.endpoint)
    image = push()
    agent.request(image.reference, pin=True)
    wait_pinned(containerd, image)
    assert labels_of(containerd, image.reference) == OURS
    assert "message" not in agent.wait_status(image.reference, "Succeeded")
    assert column(agent, image) == "inplaced" and doctor(agent) == {}
    agent.request(image.reference)
    wait_pinned(containerd, image, False)
    assert labels_of(containerd, image.reference) == {} and column(agent, image) == "no"
    agent.request(image.digest_reference, pin=True)
    wait_pinned(containerd, image)
    assert labels_of(containerd, image.digest_reference) == OURS
    (agent.images_dir / "wanted.yaml").unlink()
    wait_pinned(containerd, image, False)
    updates = lambda: agent.metrics().total("inplaced_cri_requests_total", method="Update")  # noqa: E731
    wait_until(lambda: updates() == 4, 15 * SLOWLY, lambda: f"one change of labels for each step, not {updates()}")
    assert complaints(agent) == []


def test_two_owners(start_agent, containerd, push):
    """The last one that wants the pin takes it along; the round between is proved by another image."""
    agent = start_agent(containerd.endpoint)
    image, other = push("1"), push("2")
    for file in ("a.yaml", "b.yaml"):
        agent.request(image.reference, file=file, pin=True)
    agent.request(image.reference, file="plain.yaml")
    wait_pinned(containerd, image)
    agent.request(other.reference, file="a.yaml", pin=True)
    wait_pinned(containerd, other)
    assert is_pinned(containerd, image.reference)
    (agent.images_dir / "b.yaml").unlink()
    wait_pinned(containerd, image, False)
    assert is_pinned(containerd, other.reference)
    assert agent.log_text().count("Unpinned") == 1


def test_what_others_change_comes_back(start_agent, registry, containerd, push, image_name):
    """The label is removed, the tag is moved, and the kubelet pulls again, which drops all labels."""
    agent = start_agent(containerd.endpoint)
    image, other = push("1"), push("other")
    agent.request(image.reference, pin=True)
    wait_pinned(containerd, image)
    label(containerd, image.reference, f"{LABEL}=")
    wait_pinned(containerd, image)
    containerd.cri.pull(other.reference)
    assert containerd.ctr("images", "tag", "--force", other.reference, image.reference).returncode == 0
    wait_pinned(containerd, image)
    assert containerd.image_status(image.reference).id == other.image_id
    assert not containerd.image_status(image.digest_reference).pinned
    registry.push_image(image_name, "1", [1000], labels={"moved": "again"})
    containerd.cri.pull(image.reference)
    wait_until(lambda: labels_of(containerd, image.reference) == OURS, 15 * SLOWLY, "label and mark")
    assert is_pinned(containerd, image.reference)


def test_a_pin_of_another(start_agent, containerd, push):
    """It is kept when the request ends, and replaced when the other takes it away."""
    agent = start_agent(containerd.endpoint)
    image, other = push("1"), push("2")
    containerd.cri.pull(image.reference)
    label(containerd, image.reference, f"{LABEL}=pinned")
    agent.request(image.reference, other.reference, pin=True)
    wait_pinned(containerd, other)
    assert column(agent, image) == "other" and column(agent, other) == "inplaced"
    agent.request(image.reference, other.reference)
    wait_pinned(containerd, other, False)
    assert labels_of(containerd, image.reference) == {LABEL: "pinned"}
    agent.request(image.reference, pin=True)
    agent.wait_status(image.reference, "Succeeded")
    label(containerd, image.reference, f"{LABEL}=")
    wait_until(lambda: labels_of(containerd, image.reference) == OURS, 15 * SLOWLY, "pin of the agent")


def test_crashes(start_agent, containerd, push):
    """Changes while the agent or containerd was away are made good when it is back."""
    agent = start_agent(containerd.endpoint)
    kept, dropped = push("1"), push("2")
    agent.request(kept.reference, pin=True)
    agent.request(dropped.reference, file="b.yaml", pin=True)
    wait_pinned(containerd, kept)
    wait_pinned(containerd, dropped)
    agent.kill9()
    (agent.images_dir / "b.yaml").unlink()
    label(containerd, kept.reference, f"{LABEL}=")
    agent.start()
    wait_pinned(containerd, kept)
    wait_pinned(containerd, dropped, False)
    containerd.kill9()
    agent.request(dropped.reference, file="b.yaml", pin=True)
    containerd.start()
    wait_pinned(containerd, dropped)
    assert is_pinned(containerd, kept.reference)


@pytest.mark.parametrize("is_set", [False, True], ids=["before", "after"])
def test_containerd_dies_while_it_sets_a_pin(folder, start_agent, containerd, push, is_set):
    """Right before it takes the labels, or right after that, without an answer: the pin is there once it is back, and
    can be withdrawn."""
    image, died = push(), threading.Event()

    def die(call, good):
        if is_set:
            good()
        containerd.kill9()
        died.set()
        call.context.abort(grpc.StatusCode.UNAVAILABLE, "killed")

    with RuntimeProxy(folder / "proxy", containerd.socket) as proxy:
        agent = start_agent(proxy.endpoint)
        proxy.on("Update", die)
        agent.request(image.reference, pin=True)
        assert died.wait(20 * SLOWLY)
    containerd.start()
    assert labels_of(containerd, image.reference) == (OURS if is_set else {})
    with RuntimeProxy(folder / "proxy", containerd.socket):
        wait_until(lambda: image.reference in agent.ctl("images").stdout, 20 * SLOWLY, "list of images")
        wait_until(lambda: column(agent, image) == "inplaced", 20 * SLOWLY, "pin of the agent")
        assert labels_of(containerd, image.reference) == OURS and is_pinned(containerd, image.reference)
        agent.request(image.reference)
        wait_pinned(containerd, image, False)
        assert labels_of(containerd, image.reference) == {}


def test_a_request_with_a_time_to_live(start_agent, containerd, push):
    agent = start_agent(containerd.endpoint)
    image = push()
    pin_for(agent, image, 3)
    wait_pinned(containerd, image)
    wait_pinned(containerd, image, False)


@pytest.mark.parametrize("seconds", [3600, -3600], ids=["forward", "back"])
def test_the_clock_is_set_during_a_time_to_live(folder, start_agent, containerd, push, seconds):
    """The pin lasts as long as it was to, not until a time of the day."""
    set_by, time_to_live = folder / "clock", 4
    agent = start_agent(containerd.endpoint, environment=clock.environment(clock.is_set_by(set_by)))
    image, other = push("1"), push("2")
    began = time.monotonic()
    pin_for(agent, image, time_to_live)
    wait_pinned(containerd, image)
    agent.wait_status(image.reference, "Succeeded")  # the time begins then, a moment after the pin
    set_by.write_text(str(seconds))
    agent.request(other.reference)
    agent.wait_status(other.reference, "Succeeded")
    wait_pinned(containerd, image, False)
    assert time.monotonic() - began > time_to_live - 1


def test_the_clock_is_set_right_between_two_runs(folder, start_agent, containerd, push):
    """A request that was done in the future is as old as the run that finds it."""
    set_by = folder / "clock"
    set_by.write_text("3600")
    agent = start_agent(containerd.endpoint, environment=clock.environment(clock.is_set_by(set_by)))
    image = push()
    pin_for(agent, image, 4)
    wait_pinned(containerd, image)
    is_saved = lambda: "completionTime" in (agent.tag_status(image.reference) or {})  # noqa: E731
    wait_until(is_saved, 10 * SLOWLY, "outcome in the file")
    agent.kill9()
    set_by.unlink()
    agent.start()
    wait_pinned(containerd, image, False)


def test_pin_survives_beside_a_pull(start_agent, fake_runtime):
    """A pin whose request has ended is kept over a crash while another request pulls the image."""
    agent = start_agent(fake_runtime.endpoint)
    assert agent.ctl("pin", "demo/web:1").returncode == 0
    released = threading.Event()
    fake_runtime.on("PullImage", behaviours.when(released))
    agent.request("demo/web:1", policy="Always")
    wait_until(lambda: len(agent.owners("demo/web:1")) == 2 and agent.tag_status("demo/web:1")["phase"] == "Pulling",
               10 * SLOWLY, "the pull in the file")
    agent.kill9()
    agent.start()
    unpinned = agent.ctl("unpin", "demo/web:1")
    released.set()
    assert unpinned.returncode == 0, unpinned.stderr


def test_status_of_a_pin_after_the_pull_of_a_caller(start_agent, fake_runtime):
    """An image that is there is shown so after a crash, though a caller's pull of it has ended with the agent."""
    agent = start_agent(fake_runtime.endpoint)
    assert agent.ctl("pin", "demo/web:1").returncode == 0
    released = threading.Event()
    fake_runtime.on("PullImage", behaviours.when(released))
    Preload(agent, "demo/web:1", pull_policy=agent.messages.PULL_POLICY_ALWAYS)
    wait_until(lambda: len(agent.owners("demo/web:1")) == 2 and agent.tag_status("demo/web:1")["phase"] == "Pulling",
               10 * SLOWLY, "the pull in the file")
    agent.kill9()
    released.set()
    agent.start()
    agent.wait_status("demo/web:1", "Succeeded")


def test_pin_and_unpin(start_agent, containerd, push):
    """A pin of a caller survives the agent, beside a document that pins nothing and one that pins the other."""
    agent = start_agent(containerd.endpoint)
    first, second = push("1"), push("2")
    assert agent.ctl("pin", first.reference, second.reference).returncode == 0
    assert agent.ctl("pull", "--no-wait", first.reference).returncode == 0
    agent.request(second.reference, pin=True)
    wait_pinned(containerd, first)
    wait_pinned(containerd, second)
    pins = lambda: json.loads(agent.status()["metadata"]["annotations"].get("inplaced.io/pins", "[]"))  # noqa: E731
    wait_until(lambda: len(pins()) == 3, 10 * SLOWLY, "both pins of the caller and that of the document")
    agent.kill9()
    agent.start()
    unpinned = agent.ctl("unpin", first.reference, second.reference)
    assert unpinned.returncode == 0 and unpinned.stdout.count("unpinned") == 2
    assert f"{second.reference}: other requests still pin it" in unpinned.stderr
    wait_pinned(containerd, first, False)
    again = agent.ctl("unpin", first.reference, "-o", "json")
    assert again.returncode == 1 and "no request pins it" in again.stderr
    agent.kill9()
    agent.start()
    agent.request(second.reference)
    wait_pinned(containerd, second, False)
    assert agent.ctl("pull", "--pin", first.reference).returncode == 0
    wait_pinned(containerd, first)


def test_the_limit(start_agent, containerd, push):
    """An image above it is pulled, and its message has both numbers; a larger limit pins it."""
    agent = start_agent(containerd.endpoint, config={"maxPinned": "5MB"})
    first, second = push("1", 3), push("2", 4)
    agent.request(first.reference, pin=True)
    wait_pinned(containerd, first)
    agent.request(second.reference, file="b.yaml", pin=True)
    is_told = lambda: "maxPinned" in (agent.tag_status(second.reference) or {}).get("message", "")  # noqa: E731
    wait_until(is_told, 15 * SLOWLY, "refusal")
    status = agent.wait_status(second.reference, "Succeeded")
    assert status["message"] == (
        "not pinned: 3 MB of images are pinned, and 4 MB more would exceed maxPinned (5 MB)"
    )
    assert "not pinned" in agent.ctl("status", "-o", "wide").stdout and "maxPinned" in doctor(agent)["pins"]
    agent.reload({"maxPinned": "10MB"})
    wait_pinned(containerd, second)
    wait_until(lambda: "message" not in agent.tag_status(second.reference), 15 * SLOWLY, "end of the message")


def test_the_limit_by_default(folder, start_agent, registry, image_name):
    """A fifth of the disk; 0 is no limit."""
    images = [registry.push_image(image_name, str(n), [8 << 20], seed=n) for n in range(2)]
    with Containerd(folder / "small", release="2", root_megabytes=60) as containerd:
        agent = start_agent(containerd.endpoint)
        agent.request(images[0].reference, pin=True)
        wait_pinned(containerd, images[0])
        agent.request(images[1].reference, file="b.yaml", pin=True)
        is_told = lambda: "message" in (agent.tag_status(images[1].reference) or {})  # noqa: E731
        wait_until(is_told, 15 * SLOWLY, "refusal")
        message = agent.wait_status(images[1].reference, "Succeeded")["message"]
        assert message == "not pinned: 8 MB of images are pinned, and 8 MB more would exceed maxPinned (13 MB)"
        agent.reload({"maxPinned": "0"})
        wait_pinned(containerd, images[1])


def test_a_mistyped_label(start_agent, containerd, push):
    agent = start_agent(containerd.endpoint)
    image = push()
    containerd.cri.pull(image.reference)
    label(containerd, image.reference, f"{LABEL}=true")
    wait_until(lambda: image.reference in doctor(agent), 15 * SLOWLY, "finding")
    assert doctor(agent)[image.reference] == f'its label {LABEL} is "true", not "pinned", and pins nothing'
    assert labels_of(containerd, image.reference) == {LABEL: "true"}


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("containerd-1.6", f"does not report the label {LABEL} to the kubelet; update containerd"),
        ("crio", "cri-o cannot pin images on request; add this one to pinned_images in crio.conf"),
    ],
)
def test_runtimes_that_do_not_pin(folder, start_agent, registry, image_name, kind, why):
    """The request succeeds, and its message says why."""
    image = registry.push_image(image_name, "1", [1000])
    make = Crio if kind == "crio" else lambda path: Containerd(path, release="1.6")
    with make(folder / "other") as other:
        agent = start_agent(other.endpoint)
        agent.request(image.reference, pin=True)
        agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)
        is_told = lambda: "message" in agent.tag_status(image.reference)  # noqa: E731
        wait_until(is_told, 20 * SLOWLY, "message")
        message = agent.tag_status(image.reference)["message"]
        assert message.startswith("not pinned: ") and message.endswith(why), message
        assert doctor(agent)["pins"].endswith(message)
        agent.request(image.reference)
        wait_until(lambda: "message" not in agent.tag_status(image.reference), 20 * SLOWLY, "end of the message")


def start_removal(agent, endpoint):
    argv = [agent.argv[0], "--remove-pins", f"--runtime-endpoint={endpoint}", f"--state-dir={agent.state_dir}", "--log-format=text"]
    return subprocess.Popen(argv, env=sanitizers.environment(), stderr=subprocess.PIPE, text=True)


def test_removal_from_a_runtime_that_goes_away(make_agent, folder, containerd):
    """It ends, and says that pins are left: a package is not removed before."""
    with RuntimeProxy(folder / "proxy", containerd.socket) as proxy:
        front = Front(folder / "front.sock", proxy.socket)
        proxy.on("List", behaviours.hang())
        endpoint = f"unix://{front.path}"
        with start_removal(make_agent(endpoint), endpoint) as child:
            wait_until(lambda: proxy.calls("List"), 20 * SLOWLY, "list of the pins")
            front.vanish()
            _, errors = child.communicate(timeout=20 * SLOWLY)
    assert child.returncode == 1 and "Cannot remove the pins: " in errors


def test_removal_that_is_interrupted(make_agent, folder, containerd):
    """A reload is nothing to it. A signal that ends it leaves the pins, and it says so."""
    with RuntimeProxy(folder / "proxy", containerd.socket) as proxy:
        proxy.on("List", behaviours.hang())
        with start_removal(make_agent(proxy.endpoint), proxy.endpoint) as child:
            wait_until(lambda: proxy.calls("List"), 20 * SLOWLY, "list of the pins")
            child.send_signal(signal.SIGHUP)
            child.send_signal(signal.SIGTERM)
            _, errors = child.communicate(timeout=20 * SLOWLY)
    assert child.returncode == 1, errors
    assert errors.endswith("inplaced: the pins were not removed\n"), errors


def test_removal(start_agent, containerd, push):
    """No pin of an agent that has ended is left, and each one of others and of an agent that runs."""
    agent = start_agent(containerd.endpoint)
    ours, foreign = push("1"), push("2")
    agent.request(ours.reference, pin=True)
    wait_pinned(containerd, ours)
    containerd.cri.pull(foreign.reference)
    label(containerd, foreign.reference, f"{LABEL}=pinned")

    def remove_pins(endpoint):
        with start_removal(agent, endpoint) as child:
            _, errors = child.communicate(timeout=60)
        return child.returncode, errors

    status, errors = remove_pins(containerd.endpoint)
    assert status == 1 and "another agent does" in errors, errors
    assert is_pinned(containerd, ours.reference)
    agent.terminate()
    status, errors = remove_pins(containerd.endpoint)
    assert status == 0 and f'Unpinned "{ours.reference}"' in errors, errors
    assert labels_of(containerd, ours.reference) == {} and not is_pinned(containerd, ours.reference)
    assert is_pinned(containerd, foreign.reference)
    status, errors = remove_pins("unix:///nowhere/containerd.sock")
    assert status == 1 and "Cannot remove the pins: no runtime at" in errors, errors
    assert errors.endswith("inplaced: the pins were not removed\n"), errors
