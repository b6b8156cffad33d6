# SPDX-License-Identifier: Apache-2.0
"""Names without a registry, which CRI-O searches for in others than Docker Hub, and image IDs as it
writes them: without "sha256:", and in containers instead of the name that was asked for."""

from __future__ import annotations

import base64
import json

import pytest

from fake import registry as fakes
from lab.crio import Crio
from lab.folder import LabFolder
from lab.image import build_image
from lab.layers import random_layer
from lab.pod import until_term
from lab.preload import Preload
from lab.sandbox import Sandbox

_PASSWORD = "hub-password"


def _challenge(connection: fakes.Connection, request: fakes.Request, reply: fakes.Reply) -> None:
    """Asks for a password, but does not need one: the requests hold the offered passwords."""
    fakes.refuse(401)(connection, request, reply)


@pytest.fixture(scope="module")
def hub():
    """A registry that the runtime takes for Docker Hub."""
    with fakes.FakeRegistry() as made:
        made.on("ping", _challenge)
        yield made


@pytest.fixture(scope="module")
def evil():
    """The first registry of the search list."""
    with fakes.FakeRegistry() as made:
        made.on("ping", _challenge)
        yield made


@pytest.fixture(scope="module")
def crio(hub, evil):
    with LabFolder() as folder:
        made = Crio(folder / "crio")
        made.short_name_registries = [evil.host, "docker.io"]
        made.mirror("docker.io", hub)
        with made:
            yield made


@pytest.fixture
def crio_agent(start_agent, crio):
    agent = start_agent(crio.endpoint)
    agent.give_credentials("https://index.docker.io/v1/", "hub-user", _PASSWORD)
    agent.wait_runtime()
    return agent


@pytest.fixture
def both(hub, evil, image_name):
    """An image of one name in both registries, with a different content in each."""
    images = [build_image([random_layer(1000, seed)], labels={"of": image_name}) for seed in (1, 2)]
    name = f"foo/{image_name}"
    return name, hub.add(name, "1", images[0]), evil.add(name, "1", images[1])


def _offered(registry: fakes.FakeRegistry, name: str) -> bool:
    """Without any, CRI-O offers an empty password."""
    given = [each.headers.get("Authorization", "") for each in registry.requests(name=name)]
    password = base64.b64encode(f"hub-user:{_PASSWORD}".encode()).decode()
    return f"Basic {password}" in given


def test_full_name(crio_agent, crio, hub, evil, both):
    """An image whose name names Docker Hub comes from there, whatever the search list says."""
    name, right, _ = both
    crio_agent.request(f"docker.io/{name}:1")
    status = crio_agent.wait_status(f"docker.io/{name}:1", "Succeeded")
    assert status["imageID"] == f"docker.io/{name}@{right.image_id}" and "message" not in status
    assert crio.image_status(f"docker.io/{name}:1").id == right.image_id.removeprefix("sha256:")
    assert hub.requests("manifest", name)
    assert not evil.requests(name=name)


def test_short_name(crio_agent, crio, hub, evil, both):
    """A name without a registry is searched for as CRI-O does it for pods. The status names the registry that
    had it, and no registry is offered a password.
    """
    name, _, found = both
    crio_agent.request(f"{name}:1")
    status = crio_agent.wait_status(f"{name}:1", "Succeeded")
    assert status["imageID"] == f"{name}@{found.image_id}"
    assert status["message"] == f"resolved to {found.reference}"
    assert crio.image_status(f"{name}:1").id == found.image_id.removeprefix("sha256:")
    assert not _offered(evil, name) and not _offered(hub, name)
    assert _PASSWORD not in crio_agent.log_text()

    printed = crio_agent.ctl("pull", f"{name}:1").stdout
    assert found.image_id in printed and f"resolved to {found.reference}" in printed
    assert f"resolved to {found.reference}" in crio_agent.ctl("status", "-o", "wide").stdout
    listed = json.loads(crio_agent.ctl("images", "-o", "json").stdout)["images"]
    (image,) = [each for each in listed if found.reference in each["repoTags"]]
    assert image["id"] == found.image_id and image["requestedBy"] == ["folder:wanted.yaml"]


def test_two_spellings(start_agent, crio, hub, both):
    """In one folder they are two images, also to the agent's next run, which pulls neither again."""
    name, right, found = both
    agent = start_agent(crio.endpoint)
    agent.request(f"docker.io/{name}:1", f"{name}:1", policy="Always")
    for reference, image in ((f"docker.io/{name}:1", right), (f"{name}:1", found)):
        status = agent.wait_status(reference, "Succeeded")
        assert status["imageID"].endswith(f"@{image.image_id}")
    before = agent.status()["status"]["imageStatuses"]
    assert set(before) == {f"docker.io/{name}", name}

    agent.kill9()
    n = len(hub.requests(name=name))
    agent.start()
    later = hub.add(f"{name}/later", "1", build_image([random_layer(1000)]))
    agent.request(f"docker.io/{name}/later:1", file="later.yaml")
    agent.wait_status(f"docker.io/{name}/later:1", "Succeeded")
    after = agent.status()["status"]["imageStatuses"]
    assert {key: after[key] for key in before} == before
    assert len(hub.requests(name=name)) == n and later.image_id in str(after)


def test_denied(crio_agent, hub, evil, both):
    """Where a password may have helped, the message says why there was none, and what helps."""
    name = both[0]
    for registry in (evil, hub):
        registry.on("manifest", fakes.refuse(401, "unauthorized: authentication required"), name)
    crio_agent.request(f"{name}:1", backoffLimit=0)
    status = crio_agent.wait_status(f"{name}:1", "Failed")
    assert "the agent sends no credentials" in status["message"]
    assert f"docker.io/{name}:1" in status["message"]


def test_known_late(start_agent, folder, crio, both):
    """Requests that come before the runtime has answered get the meaning that the runtime gives them."""
    name, right, found = both
    socket = folder / "late.sock"
    agent = start_agent(f"unix://{socket}")
    agent.request(f"docker.io/{name}:1", f"{name}:1")
    preload = Preload(agent, f"{name}:1")
    preload.wait_step("WAITING_FOR_RUNTIME")
    socket.symlink_to(crio.socket)
    assert preload.wait_end().image_id == found.image_id
    status = agent.wait_status(f"docker.io/{name}:1", "Succeeded")
    assert status["imageID"] == f"docker.io/{name}@{right.image_id}"


def test_verdict(crio_agent, crio, registry, image_name):
    """A container that the kubelet has made from an image ID is stale once the name has moved."""
    first = registry.push_image(image_name, "1", [1000], busybox=True)
    with Sandbox(crio, first.reference) as pod:
        pod.run("app", until_term(), image_id=crio.image_status(first.reference).id)
        listed = crio.cri.pod_containers(pod.uid)[0].image
        assert listed.image in first.image_id and not listed.user_specified_image

        def verify():
            printed = crio_agent.ctl("verify", "web", "-o", "json").stdout
            return json.loads(printed)["containers"][0]

        found = verify()
        assert (found["verdict"], found["image"]) == ("Current", first.reference)
        assert found["nodeImageID"] == found["runningImageID"] == first.image_id

        moved = registry.push_image(image_name, "1", [2000], busybox=True)
        crio.pull(moved.reference)
        found = verify()
        assert (found["verdict"], found["image"]) == ("Stale", first.reference)
        assert (found["nodeImageID"], found["runningImageID"]) == (moved.image_id, first.image_id)
