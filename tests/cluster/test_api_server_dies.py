# SPDX-License-Identifier: Apache-2.0
"""Proves that no status is lost and no pull repeated when the agent, the API server or its store
dies, or when the server does not serve NodeImages yet.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.client import HTTPException

import pytest

from fake.api_proxy import ApiProxy, Exchange, behave_well
from fake.registry import FakeRegistry
from lab import sanitizers
from lab.agent import Agent
from lab.control_plane import ControlPlane
from lab.image import build_image
from lab.kube import KubeError
from lab.kubeconfig import write_kubeconfig
from lab.layers import random_layer
from lab.node_image import NodeImage
from lab.trouble import assert_clear, complaints, problems, readiness, wait_problem, wait_well
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

pytestmark = pytest.mark.timeout(120 * SLOWLY)

_DEFINITION = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodeimages.apps.kruise.io"
)
_BURST = 20


@pytest.fixture(scope="module")
def mortal(session_folder) -> Iterator[ControlPlane]:
    """A control plane that the tests here may kill; each test leaves it running."""
    with ControlPlane(session_folder / "mortal") as made:
        made.install()
        yield made


@pytest.fixture
def desired(mortal, node_name) -> Iterator[NodeImage]:
    made = NodeImage(mortal.admin, node_name)
    made.create()
    yield made
    made.delete()


@pytest.fixture
def member(start_agent, runtime, mortal, folder, node_name, desired) -> Agent:
    path = mortal.write_agent_kubeconfig(folder / "member.conf")
    agent = start_agent(runtime.endpoint, kubeconfig=path, node_name=node_name)
    wait_until(desired.status, 10 * SLOWLY, "status")
    return agent


def count_pulls(registry: FakeRegistry, name: str) -> int:
    """Counts the requests for the tag: a runtime resolves a tag once for each pull."""
    asked = registry.requests("manifest", name)
    return len([request for request in asked if request.path.endswith("/1")])


class Counted:
    """An image whose pulls are counted."""

    def __init__(self, registry: FakeRegistry, name: str) -> None:
        layer = random_layer(1000)
        image = registry.add(name, "1", build_image([layer], labels={"test": name}))
        self._registry, self._name = registry, name
        self.reference, self.image_id = image.reference, image.image_id

    def pulls(self) -> int:
        return count_pulls(self._registry, self._name)


@pytest.fixture
def counted(fake_registry, runtime, image_name) -> Iterator[Counted]:
    made = Counted(fake_registry, f"{image_name}-counted")
    yield made
    runtime.remove_image(made.image_id)


def end(agent: Agent, how: str) -> None:
    agent.terminate() if how == "terminate" else agent.kill9()


# The agent


@pytest.mark.parametrize("how", ["terminate", "kill9"])
def test_agent_ends_when_done(cluster_agent, node_image, counted, push, how):
    """The agent neither repeats nor reports again what is finished."""
    node_image.request(counted.reference, policy="Always")
    seen = node_image.wait_status(counted.reference, "Succeeded")
    wait_until(node_image.events, 10 * SLOWLY, "event")
    cluster_agent.wait_status(counted.reference, "Succeeded")  # in its own file as well
    end(cluster_agent, how)
    later = push()
    node_image.request(counted.reference, later.reference, policy="Always")
    cluster_agent.start()
    node_image.wait_status(later.reference, "Succeeded")
    wait_until(lambda: len(node_image.events()) == 2, 10 * SLOWLY, "second event")
    assert node_image.tag_status(counted.reference) == seen
    assert counted.pulls() == 1


@pytest.mark.parametrize("how", ["terminate", "kill9"])
def test_agent_ends_in_mid_pull(cluster_agent, node_image, counted, gate, how):
    """The next agent completes an unfinished pull."""
    node_image.request(counted.reference, gate.reference, policy="Always")
    node_image.wait_status(counted.reference, "Succeeded")
    node_image.wait_status(gate.reference, "Pulling")
    cluster_agent.wait_status(counted.reference, "Succeeded")  # in its own file as well
    end(cluster_agent, how)
    cluster_agent.start()
    gate.open()
    seen = node_image.wait_status(gate.reference, "Succeeded")
    assert seen["imageID"].endswith(gate.image.image_id)
    assert counted.pulls() == 1


def test_agent_ends_without_files(cluster_agent, node_image, counted, push):
    """The agent learns from the object what is finished when its own state is lost."""
    node_image.request(counted.reference, policy="Always")
    node_image.wait_status(counted.reference, "Succeeded")
    cluster_agent.kill9()
    (cluster_agent.state_dir / "nodeimage.json").unlink(missing_ok=True)
    cluster_agent.start()
    later = push()
    node_image.request(counted.reference, later.reference, policy="Always")
    node_image.wait_status(later.reference, "Succeeded")
    assert counted.pulls() == 1


@pytest.mark.parametrize("away", ["dead", "frozen"])
@pytest.mark.parametrize("n_runs", [0, 1, 2])
def test_both_die_in_mid_pull(
    member, mortal, desired, gate, fake_registry, image_name, away, n_runs
):
    """The next run of the agent reports a pull that ended while the API server was away, however
    many runs end before the server is back."""
    desired.request(gate.reference, policy="Always")
    desired.wait_status(gate.reference, "Pulling")
    server = mortal.apiserver
    server.kill9() if away == "dead" else server.freeze()
    gate.open()
    seen = member.wait_status(gate.reference, "Succeeded")
    del seen["attempt"]  # OpenKruise's object has no such field
    for _ in range(n_runs):
        member.kill9()
        member.start()
        wait_until(lambda: readiness(member)[0] == 503, 10 * SLOWLY, "problem")
    member.kill9()
    server.start() if away == "dead" else server.thaw()
    member.start()
    assert desired.wait_status(gate.reference, "Succeeded", 40 * SLOWLY) == seen
    wait_well(member, 20)
    assert count_pulls(fake_registry, image_name) == 1


def test_new_version_meanwhile(member, desired, counted):
    """A pull that the previous run finished does not count for a newer version of the spec."""
    desired.request(counted.reference, policy="Always")
    desired.wait_status(counted.reference, "Succeeded")
    member.wait_status(counted.reference, "Succeeded")  # in its state, which the object may precede
    member.kill9()
    desired.request(counted.reference, policy="Always", version=1)
    member.start()
    wait_until(
        lambda: (desired.tag_status(counted.reference) or {}).get("version") == 1
        and desired.tag_status(counted.reference)["phase"] == "Succeeded",
        20 * SLOWLY,
        lambda: f"version 1, only {desired.status()}",
    )
    assert counted.pulls() == 2


# The server and its store


@pytest.mark.parametrize("part", ["apiserver", "etcd"])
def test_server_dies_in_mid_pull(member, mortal, desired, gate, counted, push, part):
    """The agent reports the outage, serves local callers, and writes the status afterwards."""
    desired.request(gate.reference, counted.reference, policy="Always")
    desired.wait_status(counted.reference, "Succeeded")
    desired.wait_status(gate.reference, "Pulling")
    getattr(mortal, part).kill9()
    gate.open()
    member.wait_status(gate.reference, "Succeeded")
    local = push()
    done = member.ctl("pull", local.reference)
    assert (done.returncode, local.image_id in done.stdout) == (0, True), done
    if part == "apiserver":
        problem = wait_problem(member, "API server", "cannot connect", 20)  # and not that it was cut, as at first
        assert problem in member.ctl("doctor").stdout
        code, text = readiness(member)
        assert code == 503 and problem in text
    getattr(mortal, part).start()
    mortal.apiserver.wait_ready()
    desired.wait_status(gate.reference, "Succeeded", 40 * SLOWLY)
    wait_well(member, 40)
    assert counted.pulls() == 1
    for line in complaints(member):
        assert_clear(line)
    # The agent logs a line about the server, and while it starts two about each of the four watched kinds: the server has
    # not read its roles, and its storage is not ready. Events that it cannot send have a line for each kind of reason.
    dropped = complaints(member, "Dropped the event")
    assert len(dropped) <= 2, dropped
    assert len(complaints(member)) - len(dropped) <= 9, complaints(member)


@pytest.mark.parametrize("part", ["apiserver", "etcd"])
def test_server_dies_in_a_burst(
    member, mortal, desired, fake_registry, runtime, image_name, part
):
    """The agent loses none of many changes and carries out none twice."""
    images = [Counted(fake_registry, f"{image_name}-{number}") for number in range(_BURST)]
    for number in range(_BURST):
        if number == _BURST // 2:
            getattr(mortal, part).kill9()
            getattr(mortal, part).start(wait_ready=False)
        references = [image.reference for image in images[: number + 1]]
        insist(lambda wanted=references: desired.request(*wanted, policy="Always"))
    mortal.apiserver.wait_ready()  # else a server that is slow to come back takes the agent's time
    wait_until(
        lambda: insist(desired.status).get("succeeded") == _BURST,
        40 * SLOWLY,
        lambda: f"all of them, only {insist(desired.status)}, and the agent has {problems(member)}",
        pause=0.05,
    )
    assert [told for image in images if image.pulls() != 1 for told in story(image, member)] == []
    wait_well(member, 40)
    for image in images:
        runtime.remove_image(image.image_id)


def story(image: Counted, agent: Agent) -> list[str]:
    """How often the image was pulled, and what the agent says of it: whether it had lost the image, or tried again."""
    lines = [json.dumps(line) for line in agent.logs()]
    return [
        f"{image.reference} was pulled {image.pulls()} times: {agent.tag_status(image.reference)}",
        *(line for line in lines if image.reference in line),
    ]


def insist(ask):
    """Repeats the request until the server serves it, which may die in the middle of its answer."""
    last: Exception | None = None

    def is_done():
        nonlocal last
        try:
            return [ask()]
        except (OSError, HTTPException, KubeError) as error:
            last = error
        return None

    return wait_until(is_done, 40 * SLOWLY, lambda: f"answer, only {last!r}", pause=0.02)[0]


def test_status_of_an_old_object(
    start_agent, runtime, mortal, folder, node_name, desired, counted
):
    """A status in flight when the object is created again is not written to the new object."""
    released, is_held = threading.Event(), threading.Event()

    async def hold_success(exchange: Exchange) -> None:
        if b'"Succeeded"' in exchange.request.body and not released.is_set():
            is_held.set()
            while not released.is_set():
                await asyncio.sleep(0.005)
        await behave_well(exchange)

    with ApiProxy(folder / "proxy", mortal.url, mortal.authority.certificate) as proxy:
        token = mortal.agent_token()
        path = write_kubeconfig(folder / "agent.conf", proxy.url, proxy.authority, token=token)
        proxy.on(r"^PATCH \S*/status", hold_success)
        agent = start_agent(runtime.endpoint, kubeconfig=path, node_name=node_name)
        desired.request(counted.reference, policy="Always")
        assert is_held.wait(15 * SLOWLY)
        desired.delete()
        made = desired.create(counted.reference, policy="Always", version=1)
        counts = ("desired", "succeeded", "failed", "pulling", "waiting")
        desired.patch_status(dict.fromkeys(counts, 0))  # else the server rejects a partial status
        for event in desired.watch(since=made):
            released.set()
            images = event["object"].get("status", {}).get("imageStatuses") or {}
            tags = [tag for image in images.values() for tag in image["tags"]]
            assert all(tag.get("version") == 1 for tag in tags), tags
            if [tag["phase"] for tag in tags] == ["Succeeded"]:
                break
        assert counted.pulls() == 2
        wait_well(agent, 20)
        agent.terminate()


# Kinds that are not served


def test_kind_comes_and_goes(start_agent, runtime, mortal, folder, node_name, push):
    """Without our custom resources the agent waits for them, and then starts by itself."""
    mortal.admin.delete(_DEFINITION)
    mortal.admin.wait_gone(_DEFINITION, 30)
    path = mortal.write_agent_kubeconfig(folder / "member.conf")
    agent = start_agent(runtime.endpoint, kubeconfig=path, node_name=node_name)
    try:
        wait_problem(agent, "API server", "nodeimages", 20)
        assert "packaging/kubernetes/crds" in agent.ctl("doctor").stdout
        missing = "the API server has no nodeimages.apps.kruise.io"
        code, why = readiness(agent)
        assert code == 503 and missing in why
        wait_until(lambda: missing in agent.log_text(), 10 * SLOWLY, agent.log_text)
    finally:
        mortal.install()
    assert_served(mortal, node_name, push, "1")
    wait_well(agent, 20)
    mortal.admin.delete(_DEFINITION)
    mortal.admin.wait_gone(_DEFINITION, 30)
    try:
        wait_problem(agent, "API server", timeout=20)
    finally:
        mortal.install()
    assert_served(mortal, node_name, push, "2")
    wait_well(agent, 20)


def assert_served(mortal, node_name, push, tag: str, version: str = "v1beta1") -> None:
    image = push(tag=tag)
    desired = NodeImage(mortal.admin, node_name, version)
    insist(lambda: desired.create(image.reference))
    desired.wait_status(image.reference, "Succeeded", 40 * SLOWLY)
    desired.delete()


def test_older_version_only(start_agent, runtime, mortal, folder, node_name, push):
    """The agent serves the version of OpenKruise 1.8 and older."""
    serve_newer(mortal, False)
    try:
        path = mortal.write_agent_kubeconfig(folder / "member.conf")
        agent = start_agent(runtime.endpoint, kubeconfig=path, node_name=node_name)
        assert_served(mortal, node_name, push, "1", "v1alpha1")
        assert "v1alpha1" in agent.log_text()
        wait_well(agent, 20)
    finally:
        serve_newer(mortal, True)


def serve_newer(mortal, is_served: bool) -> None:
    versions = mortal.admin.get(_DEFINITION)["spec"]["versions"]
    (index,) = [i for i, version in enumerate(versions) if version["name"] == "v1beta1"]
    path = f"/spec/versions/{index}/served"
    mortal.admin.patch(_DEFINITION, [{"op": "replace", "path": path, "value": is_served}], "json")
    newer = "/apis/apps.kruise.io/v1beta1/nodeimages"
    wait_until(
        lambda: (insist_find(mortal, newer) is not None) == is_served, 20 * SLOWLY, "served version"
    )


def insist_find(mortal, path: str):
    return insist(lambda: [mortal.admin.find(path)])[0]
