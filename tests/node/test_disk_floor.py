# SPDX-License-Identifier: Apache-2.0
"""Proves that pulls leave room on the disk of the images: containerd's is a small file system here."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator

import pytest

from fake.registry import Connection, FakeRegistry, Reply, Request
from fixtures import Gate
from lab import sanitizers
from lab.disk import fill, n_free
from lab.runtime import Runtime
from lab.image import build_image
from lab.layers import random_layer
from lab.trouble import facts, problems, pull_another, the_complaint
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS
MB = 1_000_000


@pytest.fixture
def small(new_runtime) -> Iterator[Runtime]:
    """A containerd whose images have 100 MB, about all of it free."""
    with new_runtime("small", root_megabytes=96) as made:
        yield made


def wait_pressure(agent, reference: str) -> dict:
    def found():
        status = agent.tag_status(reference)
        return status if status and status.get("message", "").startswith("DiskPressure: ") else None

    return wait_until(found, 20 * SLOWLY, lambda: f"DiskPressure, but {agent.tag_status(reference)}")


class SlowLayers:
    """Sends the layers of a repository at 40 MB/s each, and counts the bytes."""

    STEP = 400_000

    def __init__(self, registry: FakeRegistry, name: str) -> None:
        self.n_sent = 0
        registry.on("layer", self._send, name)

    def _send(self, connection: Connection, request: Request, reply: Reply) -> None:
        connection.send_head(reply)
        for start in range(0, len(reply.body), self.STEP):
            piece = reply.body[start : start + self.STEP]
            connection.send_body(piece)
            self.n_sent += len(piece)
            if connection.wait_gone(self.STEP / 40e6):
                return


def n_asked(registry: FakeRegistry, name: str) -> int:
    """How often a runtime has begun with an image of the repository."""
    return len([one for one in registry.requests("manifest", name) if one.method == "GET"])


def n_pulls(agent) -> float:
    return agent.metrics().total("inplaced_cri_requests_total", method="PullImage")


def test_pull_waits_for_room(start_agent, small, registry, image_name):
    """Below the floor no pull begins; each place says why; it begins as soon as there is room."""
    image = registry.push_image(image_name, "1", [1000])
    filler = fill(small, 20 * MB)
    agent = start_agent(small.endpoint, min_free_disk="30MB")
    agent.request(image.reference, backoffLimit=0)
    status = wait_pressure(agent, image.reference)
    assert status["phase"] == "Waiting"
    assert f"20 MB of 101 MB are free in {small.root}" in status["message"]
    assert "less than minFreeDisk (30 MB)" in status["message"]
    assert "remove images" in status["message"]
    assert "DiskPressure" in agent.ctl("status").stdout
    assert "less than minFreeDisk (30 MB)" in problems(agent)["disk"]
    assert the_complaint(agent).startswith("Pulls wait: DiskPressure: 20 MB of 101 MB")
    asked = agent.ctl("pull", "--attempt-timeout=1s", image.reference)
    assert asked.returncode == 1
    waited = "within the 1s of --attempt-timeout; still waiting for free disk space: Disk"
    assert waited in asked.stdout
    assert "waiting for free disk space: DiskPressure: 20 MB" in asked.stderr.splitlines()[0]
    assert n_pulls(agent) == 0

    filler.unlink()
    assert "message" not in agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)
    assert problems(agent) == {}
    assert [line["message"] for line in agent.logs() if "enough free disk space again" in line["message"]]
    assert the_complaint(agent)


def test_many_wait_and_begin_in_order(start_agent, small, registry, image_name):
    """Waiting pulls hold no slot, are one line in the log, and all begin when there is room."""
    images = [registry.push_image(image_name, str(n), [1000], seed=n) for n in range(8)]
    filler = fill(small, 20 * MB)
    agent = start_agent(small.endpoint, min_free_disk="30MB", max_parallel_pulls=2)
    agent.request(*(image.reference for image in images))
    for image in images:
        wait_pressure(agent, image.reference)
    assert agent.metrics().get_value("inplaced_pulls_running") == 0
    the_complaint(agent)
    filler.unlink()
    for image in images:
        agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)


def test_running_pull_is_canceled(start_agent, small, fake_registry, image_name):
    """Below a third of the floor a running pull ends before the disk is full, and comes later."""
    gate = Gate(fake_registry, image_name, 40 * MB)
    agent = start_agent(small.endpoint, min_free_disk="30MB")
    agent.request(gate.reference, backoffLimit=0)
    arrived = lambda: n_free(small) < 85 * MB  # noqa: E731
    wait_until(arrived, 20 * SLOWLY, "half of the image")
    filler = fill(small, 5 * MB)
    status = wait_pressure(agent, gate.reference)
    assert status["phase"] in ("BackOff", "Pulling")  # the latter once it waits for room
    gate.wait_left(20 * SLOWLY)
    assert n_free(small) > 0

    gate.open()
    filler.unlink()
    agent.wait_status(gate.reference, "Succeeded", 60 * SLOWLY)


def test_running_pull_goes_on_above_a_third(start_agent, small, fake_registry, image_name):
    """A disk that gets low while an image is pulled stops the next pull, not this one."""
    gate = Gate(fake_registry, image_name, 2 * MB)
    agent = start_agent(small.endpoint, min_free_disk="30MB")
    agent.request(gate.reference)
    wait_until(lambda: n_pulls_running(agent) == 1, 20 * SLOWLY, "pull")
    fill(small, 20 * MB)
    content = build_image([random_layer(1000, seed=9)])
    other = fake_registry.add(f"{image_name}-other", "1", content)
    agent.request(other.reference, file="other.yaml")
    wait_pressure(agent, other.reference)
    gate.open()
    agent.wait_status(gate.reference, "Succeeded", 20 * SLOWLY)
    wait_pressure(agent, other.reference)


def n_pulls_running(agent) -> float:
    return agent.metrics().get_value("inplaced_pulls_running")


def test_default_floor(start_agent, small, registry, image_name):
    """Without an option, 15 % of a small file system stay free."""
    image = registry.push_image(image_name, "1", [1000])
    fill(small, 14 * MB)
    agent = start_agent(small.endpoint, min_free_disk=None)
    agent.request(image.reference)
    assert "less than minFreeDisk (15 MB)" in wait_pressure(agent, image.reference)["message"]


def test_floor_is_reloaded(start_agent, small, registry, image_name):
    """A lower floor in the configuration counts from the reload on; a wrong one changes nothing."""
    image = registry.push_image(image_name, "1", [1000])
    fill(small, 20 * MB)
    agent = start_agent(small.endpoint, min_free_disk=None, config={"minFreeDisk": "30%"})
    agent.request(image.reference)
    wait_pressure(agent, image.reference)
    agent.reload({"minFreeDisk": "lots"})
    the_complaint(agent, "minFreeDisk: \"lots\"")
    assert agent.tag_status(image.reference)["phase"] == "Waiting"
    agent.reload({"minFreeDisk": "10MB"})
    agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)


def test_host_root(start_agent, fake_runtime, folder):
    """In a container, the folder is where the host's files are mounted."""
    (folder / "host").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder / "host"], check=True)
    (folder / "host" / "images").mkdir()
    fake_runtime.filesystem = "/images"
    agent = start_agent(
        fake_runtime.endpoint, min_free_disk="20MB", flags=[f"--host-root={folder / 'host'}"]
    )
    agent.request("good/one:1")
    assert "8 MB of 8 MB are free in /images" in wait_pressure(agent, "good/one:1")["message"]


def test_hidden_disk(start_agent, fake_runtime, folder):
    """Where the folder is not seen the floor is not kept, doctor says so, and images are pulled."""
    fake_runtime.filesystem = str(folder / "hidden")
    agent = start_agent(fake_runtime.endpoint, min_free_disk="90%")
    pull_another(agent)
    assert "so it does not keep minFreeDisk: No such file" in facts(agent)["disk"]


def test_runtime_goes_while_a_pull_waits(start_agent, small, registry, image_name):
    """A runtime that is restarted meanwhile changes nothing about what waits for room."""
    image = registry.push_image(image_name, "1", [1000])
    filler = fill(small, 20 * MB)
    agent = start_agent(small.endpoint, min_free_disk="30MB")
    agent.request(image.reference)
    wait_pressure(agent, image.reference)
    small.restart()
    wait_until(lambda: "disk" in problems(agent), 20 * SLOWLY, "runtime")
    filler.unlink()
    agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)


def test_what_cannot_fit_is_not_downloaded(start_agent, small, registry, fake_registry, image_name):
    """As soon as the sizes are known; not again before there is room; others go on meanwhile."""
    layers = [random_layer(40 * MB, seed=n) for n in (81, 82, 83)]
    image = fake_registry.add(image_name, "1", build_image(layers))
    sent = SlowLayers(fake_registry, image_name)
    agent = start_agent(small.endpoint, min_free_disk="9MB")
    asked = agent.start_ctl("pull", image.reference)
    status = wait_pressure(agent, image.reference)
    assert re.search(r": needs 1[012]\d MB, \d+ MB of 101 MB are free in ", status["message"]), status
    assert "(a third of minFreeDisk); remove images" in status["message"]
    assert sent.n_sent < 80 * MB, "about as much as fits was sent"
    wait_until(
        lambda: n_free(small) > 95 * MB and not fake_registry.is_fetched_from(image_name),
        20 * SLOWLY,
        "the end of what was fetched",
    )
    so_far = sent.n_sent

    one = registry.push_image(image_name, "small", [1000])
    agent.request(one.reference)
    agent.wait_status(one.reference, "Succeeded", 20 * SLOWLY)
    filler = fill(small, 50 * MB)
    filler.unlink()
    two = registry.push_image(image_name, "other", [1000], seed=2)
    agent.request(one.reference, two.reference)
    agent.wait_status(two.reference, "Succeeded", 20 * SLOWLY)
    assert (sent.n_sent, n_asked(fake_registry, image_name)) == (so_far, 1)
    assert list(problems(agent)) == [image.reference]

    assert agent.ctl("retry", image.reference).returncode == 0
    wait_until(
        lambda: n_asked(fake_registry, image_name) == 2, 20 * SLOWLY, "attempt that was asked for"
    )
    wait_pressure(agent, image.reference)
    asked.send_signal(signal.SIGINT)
    assert "waiting for free disk space: DiskPressure: needs 1" in asked.communicate()[1]


def test_what_fits_again_is_downloaded(start_agent, small, fake_registry, image_name):
    """It goes on by itself, without having asked the registry in between."""
    image = fake_registry.add(image_name, "1", build_image([random_layer(30 * MB, seed=84)]))
    sent = SlowLayers(fake_registry, image_name)
    filler = fill(small, 25 * MB)
    agent = start_agent(small.endpoint, min_free_disk="6MB")
    agent.request(image.reference, backoffLimit=0)
    assert "DiskPressure: needs " in wait_pressure(agent, image.reference)["message"]
    assert sent.n_sent < 20 * MB, "about as much as fits was sent"
    filler.unlink()
    assert "message" not in agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)
    assert n_asked(fake_registry, image_name) == 2


def test_layers_that_are_there_need_no_room(start_agent, small, fake_registry, image_name):
    """The missing bytes are compared, not the size of the image."""
    base = random_layer(30 * MB, seed=85)
    agent = start_agent(small.endpoint, min_free_disk="3MB")
    for tag, layers in (("1", [base]), ("2", [base, random_layer(4 * MB, seed=86)])):
        image = fake_registry.add(image_name, tag, build_image(layers))
        SlowLayers(fake_registry, image_name)
        agent.request(image.reference, file=f"{tag}.yaml")
        agent.wait_status(image.reference, "Succeeded", 20 * SLOWLY)
        fill(small, 20 * MB)
    assert not [line for line in agent.logs() if "needs" in line["message"]]


def test_room_is_promised_once(start_agent, small, fake_registry, image_name):
    """The room that a running pull still needs is not free for another one, until it ends."""
    gate = Gate(fake_registry, f"{image_name}-first", 24 * MB)
    other = fake_registry.add(image_name, "1", build_image([random_layer(20 * MB, seed=87)]))
    SlowLayers(fake_registry, image_name)
    filler = fill(small, 40 * MB)
    agent = start_agent(small.endpoint, min_free_disk="3MB")
    agent.request(gate.reference, file="first.yaml")
    wait_until(lambda: n_free(small) < 30 * MB, 20 * SLOWLY, "half of the first image")
    agent.request(other.reference)
    status = wait_pressure(agent, other.reference)
    assert re.search(r"needs [12]\d MB, 2\d MB of .*, other pulls need 1\d MB, 1 MB ", status["message"])
    (agent.images_dir / "first.yaml").unlink()
    wait_until(lambda: n_free(small) > 35 * MB, 20 * SLOWLY, "room")
    filler.unlink()
    agent.wait_status(other.reference, "Succeeded", 20 * SLOWLY)
