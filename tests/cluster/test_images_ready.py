# SPDX-License-Identifier: Apache-2.0
"""Proves that a node waits for the images of its sets: real API server, runtime and registry, and Nodes that a test makes.

The agents have tokens that are bound to their Node, and work under the policy for Nodes.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import pairwise

import pytest

from fake import api_faults
from fake.api_proxy import ApiProxy, Exchange, Request
from fake.registry import Line
from lab import documents, sanitizers
from lab.agent import Agent
from lab.clients import MANIFESTS
from lab.control_plane import ControlPlane, read_documents
from lab.image import build_image
from lab.kube import Kube, Object
from lab.kubeconfig import write_kubeconfig
from lab.layers import busybox_layer, random_layer
from lab.node_image import ImageSet, NodeImage
from lab.pod import container
from lab.trouble import facts, problems, the_complaint
from lab.wait import stretch, wait_until

SLOWLY = sanitizers.SLOWNESS
SOON = 20 * SLOWLY

CONDITION = "inplaced.io/ImagesReady"
STARTUP = "inplaced.io/images-pending"
MISSING = "localhost:1/mistyped/web:1"  # nothing listens there

COMPONENTS = MANIFESTS / "components"


class WarmNode:
    """A Node without a kubelet, and what other writers write to it."""

    def __init__(self, kube: Kube, name: str) -> None:
        self.kube = kube
        self.name = name
        self.path = f"/api/v1/nodes/{name}"

    def create(self, *taints: str) -> None:
        self.kube.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": self.name, "labels": {"pool": self.name}},
                "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]},
            }
        )

    def condition(self) -> Object | None:
        conditions = self.kube.get(self.path).get("status", {}).get("conditions", [])
        found = [one for one in conditions if one["type"] == CONDITION]
        assert len(found) <= 1
        return found[0] if found else None

    def wait(self, status: str, reason: str, timeout: float = SOON) -> Object:
        def reached() -> Object | None:
            found = self.condition()
            return found if found and (found["status"], found["reason"]) == (status, reason) else None

        return wait_until(reached, timeout, lambda: f"{status}, {reason}, but {self.condition()}")

    def set_condition(self, status: str) -> None:
        condition = {"type": CONDITION, "status": status, "reason": "Lab", "message": "by the lab"}
        self.kube.patch(f"{self.path}/status", {"status": {"conditions": [condition]}}, "strategic")

    def taints(self) -> set[str]:
        return {one["key"] for one in self.kube.get(self.path)["spec"].get("taints", [])}

    def add_taint(self, key: str) -> None:
        step = {"op": "add", "path": "/spec/taints/0", "value": {"key": key, "effect": "NoSchedule"}}
        self.kube.patch(self.path, [step], "json")

    def wait_taint_gone(self, key: str = STARTUP) -> None:
        wait_until(lambda: key not in self.taints(), SOON, lambda: f"end of {key}: {self.taints()}")


@pytest.fixture(scope="module")
def rights(control_plane) -> Iterator[ControlPlane]:
    files = (
        COMPONENTS / "images-ready" / "policy.yaml",
        COMPONENTS / "images-ready" / "rbac.yaml",
        COMPONENTS / "startup-taint" / "rbac.yaml",
    )
    made = [document for path in files for document in read_documents(path)]
    for document in made:
        control_plane.admin.apply(document)
    yield control_plane
    for document in reversed(made):
        control_plane.admin.delete(control_plane.admin.path_of(document))


@pytest.fixture
def warm(kube, node_name) -> Iterator[WarmNode]:
    made = WarmNode(kube, node_name)
    made.create(STARTUP, "lab.example/other")
    yield made
    kube.delete(made.path)
    NodeImage(kube, node_name).delete()


@pytest.fixture
def start_warm(start_agent, rights, runtime, folder, api, warm) -> Callable[..., Agent]:
    """start_warm(*flags): the agent of the Node, behind the proxy."""

    def start(*flags: str, token: str | None = None, **options: object) -> Agent:
        token = token or rights.agent_token(warm.name)
        path = write_kubeconfig(folder / "warm.conf", api.url, api.authority, token=token)
        flags = flags or ("--register-node", f"--startup-taint={STARTUP}")
        return start_agent(
            runtime.endpoint, kubeconfig=path, node_name=warm.name, flags=list(flags), **options
        )

    return start


def writes(api: ApiProxy, part: str = "") -> list[Request]:
    """Patches of the Node: of its status, or of itself ("$")."""
    return api.requests(rf"^PATCH /api/v1/nodes/[^/?]+{part}")


def statuses(api: ApiProxy) -> list[str]:
    """The states that the agent has written."""
    return [one.json()["status"]["conditions"][0]["status"] for one in writes(api, "/status")]


def test_waits_for_images(start_warm, warm, image_set, gate, push, api):
    """False as long as an image is missing, then True, and then the startup taint is gone, and no other one."""
    there = push(tag="there")
    image_set.create_set(f"pool={warm.name}", gate.reference, there.reference)
    agent = start_warm()
    gate.wait_fetched(SOON)
    found = wait_until(
        lambda: (one := warm.condition()) and one["message"].startswith("1 of 2 images") and one,
        SOON,
        lambda: f"one image: {warm.condition()}",
    )
    assert (found["status"], found["reason"]) == ("False", "ImagesMissing")
    assert found["message"].endswith(f"missing: {gate.reference}")
    assert found["lastTransitionTime"] and found["lastHeartbeatTime"]
    warm.add_taint("lab.example/late")
    others = warm.taints() - {STARTUP}
    assert STARTUP in warm.taints() and writes(api, "$") == []

    gate.open()
    assert warm.wait("True", "AllPresent")["message"] == "all 2 images are there"
    warm.wait_taint_gone()
    assert warm.taints() == others
    (last,) = writes(api, "$")
    assert last.began_at > writes(api, "/status")[-1].began_at
    assert facts(agent)["readiness of images"] == "all 2 images are there" and problems(agent) == {}


def test_mistyped_tag(start_warm, warm, image_set, push, api):
    """After the deadline the node no longer waits, neither then nor after a restart of the agent."""
    image_set.create_set(f"pool={warm.name}", push().reference, MISSING)
    flags = ("--register-node", f"--startup-taint={STARTUP}", "--images-ready-deadline=4")
    agent = start_warm(*flags)
    warm.wait("False", "ImagesMissing")
    found = warm.wait("True", "GaveUp")
    assert "1 of 2 images are there" in found["message"] and MISSING in found["message"]
    assert STARTUP in warm.taints() or writes(api, "$")
    warm.wait_taint_gone()
    n = len(statuses(api))
    agent.kill9()
    agent.start()
    wait_until(lambda: facts(agent).get("readiness of images") == found["message"], SOON, "decision")
    assert statuses(api)[n:] == []
    assert warm.condition() == found


def test_no_sets_and_a_later_one(start_warm, warm, image_set, gate, kube, api):
    """A set that comes later makes the condition False again; the taint does not come back."""
    start_warm()
    warm.wait("True", "NoSets")
    warm.wait_taint_gone()
    image_set.create_set(f"pool={warm.name}", gate.reference)
    warm.wait("False", "ImagesMissing")
    gate.open()
    warm.wait("True", "AllPresent")
    assert STARTUP not in warm.taints() and len(writes(api, "$")) == 1
    # Written on change only, whatever else is written to the Node.
    n = len(writes(api))
    for number in range(3):
        kube.patch(warm.path, {"metadata": {"labels": {"number": str(number)}}})
    image_set.delete()
    warm.wait("True", "NoSets")
    assert len(writes(api)) == n + 1


@pytest.mark.parametrize("cause", ["slot", "disk"])
def test_later_set_whose_pull_waits(start_warm, warm, image_set, push, runtime, cause):
    """The image is known to be missing before the pull begins, and the deadline ends that wait as well.

    The agent has no right to Leases here, and so no slot.
    """
    image = push()
    runtime.remove_image(image.reference)
    flags = ("--register-node", "--images-ready", "--images-ready-deadline=6")
    start_warm(*flags, min_free_disk="1000TB" if cause == "disk" else "0")
    warm.wait("True", "NoSets")
    image_set.create_set(f"pool={warm.name}", image.reference, **({"parallelism": 1} if cause == "slot" else {}))
    found = warm.wait("False", "ImagesMissing")
    assert found["message"].startswith(f"0 of 1 images are there; missing: {image.reference}")
    assert ("this node waits for one of 1 slots" in found["message"]) == (cause == "slot")
    assert image.reference in warm.wait("True", "GaveUp")["message"]


def test_not_selected(start_warm, warm, image_set, push):
    """A set of other nodes changes nothing; once the Node has the label, it does."""
    image = push()
    image_set.create_set("pool=others", image.reference)
    start_warm()
    warm.wait("True", "NoSets")
    warm.kube.patch(warm.path, {"metadata": {"labels": {"pool": "others"}}})
    warm.wait("True", "AllPresent")


def test_labels_that_are_not_complete(start_warm, warm, image_set, push, api):
    """While Karpenter has not set its labels, no set is taken for the answer."""
    warm.add_taint("karpenter.sh/unregistered")
    image = push()
    image_set.create_set("karpenter.sh/nodepool=warm", image.reference)
    agent = start_warm()
    wait_until(lambda: NodeImage(warm.kube, warm.name).find(), SOON, "NodeImage")
    assert warm.condition() is None and "readiness of images" not in facts(agent)
    labels = {"metadata": {"labels": {"karpenter.sh/nodepool": "warm"}}}
    taints = [one for one in warm.kube.get(warm.path)["spec"]["taints"] if "karpenter" not in one["key"]]
    warm.kube.patch(warm.path, labels | {"spec": {"taints": taints}})
    warm.wait("True", "AllPresent")
    warm.wait_taint_gone()


def test_sets_that_are_never_known(start_warm, warm, api):
    """Where the API server does not show the sets, the deadline counts from the start of the agent."""

    async def refuse(exchange: Exchange) -> None:
        exchange.cut()

    api.on("labelSelector=inplaced.io%2Fset", refuse)
    start_warm("--register-node", f"--startup-taint={STARTUP}", "--images-ready-deadline=3")
    found = warm.wait("True", "GaveUp")
    assert found["message"] == "after 3 s it is not known which images this node needs"
    warm.wait_taint_gone()


def test_image_is_removed(start_warm, warm, image_set, gate, runtime, api):
    """The condition says so until the image is there once more."""
    gate.open()
    image_set.create_set(f"pool={warm.name}", gate.reference)
    start_warm()
    warm.wait("True", "AllPresent")
    n = len(statuses(api))
    runtime.remove_image(gate.reference)
    # A pull that takes longer is written with another message.
    wait_until(
        lambda: [status for status, _ in itertools.groupby(statuses(api)[n:])] == ["False", "True"],
        SOON,
        lambda: f"{statuses(api)}",
    )


@pytest.mark.parametrize("what", ["/status", "$"])
@pytest.mark.parametrize("is_written", [False, True], ids=["before", "after"])
def test_agent_is_killed(start_warm, warm, image_set, push, api, what, is_written):
    """Right before the server takes a write, or right after that: the next run ends what this one began."""
    image = push()
    image_set.create_set(f"pool={warm.name}", image.reference)
    others = warm.taints() - {STARTUP}
    arrived = threading.Event()

    async def hold(exchange: Exchange) -> None:
        if is_written:
            await (await exchange.ask()).read()
        arrived.set()
        await exchange.wait_over()

    api.on(rf"^PATCH /api/v1/nodes/[^/?]+{what}", hold)
    agent = start_warm()
    assert arrived.wait(SOON)
    agent.kill9()
    assert (STARTUP in warm.taints()) == (what != "$" or not is_written)
    api.behave()
    agent.start()
    warm.wait("True", "AllPresent")
    warm.wait_taint_gone()
    assert warm.taints() == others


def test_taint_that_is_added_meanwhile(start_warm, warm, api):
    """A taint of another writer that comes between the agent's look and its write stays."""
    arrived, may_go = threading.Event(), threading.Event()

    async def hold(exchange: Exchange) -> None:
        arrived.set()
        while not may_go.is_set():
            await asyncio.sleep(0.005)
        await exchange.pass_on(await exchange.ask())

    api.on(r"^PATCH /api/v1/nodes/[^/?]+$", hold, times=1)
    start_warm()
    assert arrived.wait(SOON)
    warm.add_taint("lab.example/meanwhile")
    others = warm.taints() - {STARTUP}
    may_go.set()
    warm.wait_taint_gone()
    assert warm.taints() == others
    wait_until(lambda: [one.code for one in writes(api, "$")] == [409, 200], SOON, "answer to the second write")


def test_condition_of_another_writer(start_warm, warm, api):
    """The agent sets it right, later each time, and stops when the other one does."""
    start_warm()
    warm.wait("True", "NoSets")
    for _ in range(4):
        n = len(writes(api, "/status"))
        warm.set_condition("False")
        wait_until(lambda n=n: len(writes(api, "/status")) > n, SOON, "correction")
        warm.wait("True", "NoSets")
    times = [one.began_at for one in writes(api, "/status")][-4:]
    gaps = [b - a for a, b in pairwise(times)]
    assert gaps == sorted(gaps) and gaps[-1] > 0.9, gaps


def test_node_is_made_anew(start_warm, warm, api):
    """The new Node gets the condition, and loses its startup taint."""
    start_warm()
    warm.wait("True", "NoSets")
    warm.wait_taint_gone()
    warm.kube.delete(warm.path)
    warm.create(STARTUP, "lab.example/other")
    warm.wait("True", "NoSets")
    warm.wait_taint_gone()
    assert "lab.example/other" in warm.taints()


def test_condition_alone(start_warm, warm, api):
    """Without --startup-taint the Node itself is never written."""
    agent = start_warm("--register-node", "--images-ready")
    warm.wait("True", "NoSets")
    assert facts(agent)["readiness of images"] == "no image set selects this node"
    assert STARTUP in warm.taints() and writes(api, "$") == []


def test_switched_off(start_warm, warm, image_set, push, api):
    """By default the agent only reads the Node that it registers, and neither watches nor writes it."""
    image = push()
    image_set.create_set(f"pool={warm.name}", image.reference)
    start_warm("--register-node")
    node_image = NodeImage(warm.kube, warm.name)
    wait_until(node_image.find, SOON, "NodeImage")
    node_image.wait_status(image.reference, "Succeeded", SOON)
    asked = {one.name for one in api.requests("/nodes")}
    assert asked == {f"GET {warm.path}"} and warm.condition() is None


def test_next_run_hears_of_the_node_late(start_warm, warm, image_set, push, api):
    """Until the server has shown the Node, the status of the NodeImage keeps what its sets ask for."""
    own, node = push(tag="own"), NodeImage(warm.kube, warm.name)
    image_set.create_set(f"pool={warm.name}", MISSING)
    agent = start_warm("--register-node", "--images-ready")
    wait_until(lambda: node.find() and node.tag_status(MISSING), SOON, "first status")
    before = node.get()
    agent.kill9()
    released = threading.Event()
    api.on(r"^GET /api/v1/nodes\?", api_faults.when(released))
    agent.start()
    node.request(own.reference)
    agent.wait_status(own.reference, "Succeeded")
    released.set()
    for event in node.watch(since=before):
        assert documents.find_tag_status(event["object"], MISSING) is not None, event
        status = documents.find_tag_status(event["object"], own.reference)
        if status is not None and status["phase"] == "Succeeded":
            break


def test_rights_are_missing(start_warm, warm, control_plane, push):
    """The log names it once, and so does doctor; the status of the NodeImage does not wait for them."""
    agent = start_warm(token=control_plane.agent_token())
    image, node = push(), NodeImage(warm.kube, warm.name)
    wait_until(node.find, SOON, "NodeImage")
    node.request(image.reference)
    node.wait_status(image.reference, "Succeeded", SOON)
    wait_until(lambda: "readiness of images" in problems(agent), SOON, lambda: f"{problems(agent)}")
    assert 'cannot watch resource "nodes"' in problems(agent)["readiness of images"]
    the_complaint(agent, "Cannot watch the Node", 20)


@pytest.mark.containers
def test_measured(start_node_agent, rights, node, kube, fake_registry, image_name, make_pod, folder, capsys):
    """Five images over a line of 50 MB/s; then a pod with them fetches nothing.

    Prints the time from the end of the last pull to the condition, and to the end of the taint.
    """
    line = Line(50e6, step=1 << 17)
    fake_registry.on("layer", line.behave)
    images = [
        fake_registry.add(f"{image_name}/{n}", "1", build_image([busybox_layer(), random_layer(50_000_000, seed=n)]))
        for n in range(5)
    ]
    warm, image_set = WarmNode(kube, node.name), ImageSet(kube, f"set-{node.name}")
    image_set.create_set(f"kubernetes.io/hostname={node.name}", *(one.reference for one in images))
    warm.kube.patch(warm.path, {"spec": {"taints": [{"key": STARTUP, "effect": "NoSchedule"}]}})
    events: list[tuple[float, Object]] = []

    def watch() -> None:
        for event in kube.watch("/api/v1/nodes", fieldSelector=f"metadata.name={node.name}", timeout=120):
            events.append((time.time(), event["object"]))
            if not event["object"]["spec"].get("taints"):
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        began = time.time()
        agent = start_node_agent(flags=("--register-node", f"--startup-taint={STARTUP}"))
        warm.wait("True", "AllPresent", 120 * SLOWLY)
        watcher.join(SOON)
        is_true = next(
            at
            for at, one in events
            if any(c["type"] == CONDITION and c["status"] == "True" for c in one["status"]["conditions"])
        )
        untainted = events[-1][0]
        pulled = [one["time"] for one in agent.logs() if one["message"].startswith("Pulled ")]
        ended = datetime.fromisoformat(pulled[-1].replace("Z", "+00:00")).timestamp()
        fetched = len(fake_registry.requests())
        make_pod(*(container(f"c{n}", one.reference) for n, one in enumerate(images)))
        with capsys.disabled():
            print(f"\n5 images of 50 MB at 50 MB/s: {ended - began:.2f} s until the end of the last pull")
            print(f"condition True {is_true - ended:.3f} s later, startup taint gone {untainted - ended:.3f} s later")
            print(f"requests of a pod with these images afterwards: {len(fake_registry.requests()) - fetched}")
        assert len(pulled) == 5 and len(fake_registry.requests()) == fetched
        assert is_true - ended < stretch(0.5 * SLOWLY) and untainted - ended < stretch(2 * SLOWLY)
    finally:
        image_set.delete()
        kube.patch(warm.path, {"spec": {"taints": None}})
        for one in images:
            node.runtime.remove_image(one.reference)
