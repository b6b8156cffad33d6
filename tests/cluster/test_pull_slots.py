# SPDX-License-Identifier: Apache-2.0
"""Proves that nodes take turns where an image set has a limit: several agents, each with a real runtime of its own, that pull
the same images from one registry, with the roles and the policy of the component `pull-slots`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from fake import api_faults
from fake.registry import Connection, FakeRegistry, Reply, Request
from lab import clock, sanitizers
from lab.agent import Agent
from lab.clients import MANIFESTS
from lab.control_plane import ControlPlane, read_documents
from lab.image import build_image
from lab.kube import Object
from lab.kubeconfig import write_kubeconfig
from lab.layers import random_layer
from lab.node_image import NodeImage
from lab.registry import PushedImage
from lab.runtime import Runtime
from lab.trouble import problems
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS
SOON = 30 * SLOWLY
NAMESPACE = "inplaced"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
COMPONENT = MANIFESTS / "components" / "pull-slots"


@pytest.fixture
def rights(control_plane: ControlPlane) -> Iterator[None]:
    made = [one for name in ("policy", "rbac") for one in read_documents(COMPONENT / f"{name}.yaml")]
    for document in made:
        control_plane.admin.apply(document)
    yield
    for document in reversed(made):
        control_plane.admin.delete(control_plane.admin.path_of(document))


class Member:
    """A Node without a kubelet, with an agent and a runtime of its own."""

    def __init__(self, node: NodeImage, agent: Agent, runtime: Runtime) -> None:
        self.node, self.agent, self.runtime = node, agent, runtime
        self.name = node.name

    def wait(self, image: PushedImage, phase: str = "Succeeded", timeout: float = SOON) -> Object:
        return self.node.wait_status(image.reference, phase, timeout)

    def wait_message(self, image: PushedImage, text: str) -> None:
        def found() -> bool:
            return text in (self.node.tag_status(image.reference) or {}).get("message", "")

        wait_until(found, SOON, lambda: f"{text}: {self.node.status()}")


@pytest.fixture
def join(start_agent, control_plane, kube, new_runtime, folder, api, node_name) -> Iterator[Callable[..., Member]]:
    """join(…) as Member; all have the label pool=NODE_NAME."""
    runtimes, nodes = [], []

    def make(**options: object) -> Member:
        name = f"{node_name}-{len(nodes)}"
        labels = {"pool": node_name}
        node = kube.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
        nodes.append(kube.path_of(node))
        runtime = new_runtime(f"runtime-{name}")
        runtimes.append(runtime)
        runtime.start()
        image = NodeImage(kube, name)
        image.create(labels=labels)
        nodes.append(image.path)
        token = control_plane.agent_token(name)
        path = write_kubeconfig(
            folder / f"{name}.conf", api.url, api.authority, token=token, namespace=NAMESPACE
        )
        agent = start_agent(
            runtime.endpoint, kubeconfig=path, node_name=name, flags=["--register-node"], **options
        )
        return Member(image, agent, runtime)

    yield make
    for path in nodes:
        kube.delete(path)
    for runtime in runtimes:
        runtime.close()


@pytest.fixture(autouse=True)
def no_slots(kube) -> Iterator[None]:
    yield
    kube.request("DELETE", f"{LEASES}?labelSelector=inplaced.io%2Fslots")


@pytest.fixture
def pool(image_set, node_name) -> Callable[..., None]:
    """pool(image, …, parallelism=…): the set of all members."""

    def make(*images: PushedImage, **limits: int) -> None:
        image_set.create_set(f"pool={node_name}", *(one.reference for one in images), **limits)

    return make


class Traffic:
    """The registry's view of nodes that pull the same image of one layer, which arrives when the test lets it."""

    def __init__(self, registry: FakeRegistry, name: str) -> None:
        self.registry, self.name = registry, name
        self.image = self.push(1)
        self.most_at_once = self.n_now = self.n_served = 0
        self.too_early: list[str] = []
        self._go = threading.Semaphore(0)
        self._lock = threading.Lock()
        registry.on("manifest", self._manifest, name)
        registry.on("layer", self._layer, name)

    def push(self, number: int) -> PushedImage:
        """Another image under the same tag."""
        built = build_image([random_layer(20000, number)], labels={"test": self.name})
        return self.registry.add(self.name, "1", built)

    def wait(self, n: int = 1) -> None:
        """Waits until so many nodes fetch the layer."""
        wait_until(lambda: self.n_now == n, SOON, lambda: f"{n} at once, not {self.n_now}")

    def let(self, n: int = 1) -> None:
        """So many layers may arrive."""
        self._go.release(n)

    def _manifest(self, connection: Connection, request: Request, reply: Reply) -> None:
        # A node asks for manifests before it asks for layers.
        if self.n_now > 0:
            self.too_early.append(request.path)
        connection.send(reply)

    def _layer(self, connection: Connection, request: Request, reply: Reply) -> None:
        with self._lock:
            self.n_now += 1
            self.most_at_once = max(self.most_at_once, self.n_now)
        try:
            while not self._go.acquire(timeout=0.05):
                if connection.wait_gone(0):
                    return
            self.n_served += 1
            connection.send(reply)
        finally:
            with self._lock:
                self.n_now -= 1


@pytest.fixture
def traffic(fake_registry, image_name) -> Iterator[Traffic]:
    made = Traffic(fake_registry, image_name)
    yield made
    made.let(100)


def holders(kube) -> list[str]:
    found = [one["spec"].get("holderIdentity", "") for one in kube.list(LEASES)]
    return sorted(one for one in found if one)


def waiting(traffic: Traffic, n_slots: int = 1) -> str:
    registry = traffic.image.reference.partition("/")[0]
    return f"NodesFirst: this node waits for one of {n_slots} slots of registry {registry}; "


def pulls_first(
    traffic: Traffic, members: list[Member], kube, message: str = ""
) -> tuple[Member, list[Member]]:
    """The member that fetches the layer, and the others, which wait, with this message, or for a slot of the registry."""
    traffic.wait()
    (holder,) = holders(kube)
    first = next(one for one in members if one.name == holder)
    others = [one for one in members if one is not first]
    for other in others:
        other.wait_message(traffic.image, message or waiting(traffic))
    return first, others


@pytest.mark.slow
def test_one_node_at_a_time(join, pool, rights, traffic, kube, api):
    """The registry never sees two nodes at once; each has the image in the end, and no slot is held."""
    members = [join() for _ in range(4)]
    pool(traffic.image, parallelism=1)
    first, others = pulls_first(traffic, members, kube)
    assert waiting(traffic) in others[0].agent.ctl("status", "-o", "wide").stdout
    traffic.let(4)
    for member in members:
        member.wait(traffic.image, timeout=4 * SOON)
    assert (traffic.n_served, traffic.most_at_once, traffic.too_early) == (4, 1, [])
    wait_until(lambda: holders(kube) == [], SOON, lambda: f"free slots: {holders(kube)}")
    (slot,) = kube.list(LEASES)
    assert slot["metadata"]["annotations"]["inplaced.io/slots-of"] == traffic.image.reference.partition("/")[0]
    assert all("waits" not in member.agent.ctl("status").stdout for member in members)


def test_two_slots(join, pool, rights, traffic, kube):
    """As many as the set says, and each slot is another node's."""
    members = [join() for _ in range(3)]
    pool(traffic.image, parallelism=2)
    traffic.wait(2)
    assert len(set(holders(kube))) == 2
    (last,) = [one for one in members if one.name not in holders(kube)]
    last.wait_message(traffic.image, waiting(traffic, 2))
    traffic.let(3)
    for member in members:
        member.wait(traffic.image)
    assert traffic.most_at_once == 2


def test_image_comes_otherwise(join, pool, rights, traffic, kube, fake_registry):
    """A node that waits for its turn asks its runtime again, and leaves alone what a pod has brought meanwhile."""
    members = [join(), join()]
    pool(traffic.image, parallelism=1)
    _, (second,) = pulls_first(traffic, members, kube)
    fake_registry.behave()
    second.runtime.pull(traffic.image.reference)
    traffic.let()
    for member in members:
        member.wait(traffic.image)
    assert second.agent.metrics().total("inplaced_cri_requests_total", method="PullImage") == 0
    assert second.agent.metrics().total("inplaced_pulls_total", result="present") == 1


@pytest.mark.slow
def test_holder_is_killed(join, pool, rights, traffic, kube):
    """The slot expires, and another node takes it; the killed one goes on when it is back."""
    members = [join(), join()]
    pool(traffic.image, parallelism=1)
    first, (second,) = pulls_first(traffic, members, kube)
    first.agent.kill9()
    wait_until(lambda: holders(kube) == [second.name], 60 * SLOWLY, lambda: f"slot of {second.name}: {holders(kube)}")
    traffic.wait()
    first.agent.start()
    traffic.let(2)
    for member in members:
        member.wait(traffic.image, timeout=2 * SOON)
    assert traffic.most_at_once == 1


def test_other_requests_do_not_wait(join, pool, rights, traffic, kube):
    """Such as one of a controller for the same image, or of a user of the node."""
    members = [join(), join(), join()]
    pool(traffic.image, parallelism=1)
    first, (second, third) = pulls_first(traffic, members, kube)
    second.node.request(traffic.image.reference)
    traffic.wait(2)
    pull = third.agent.start_ctl("pull", traffic.image.reference)
    traffic.wait(3)
    traffic.let(3)
    assert pull.wait(SOON) == 0
    for member in members:
        member.wait(traffic.image)


def test_set_changes_while_nodes_wait(join, pool, rights, traffic, kube, image_set):
    """More slots let more nodes pull, a set without a limit all of them, and what leaves the set is not waited for."""
    members = [join(), join(), join()]
    pool(traffic.image, parallelism=1)
    first, others = pulls_first(traffic, members, kube)
    image_set.limit(parallelism=2)
    traffic.wait(2)
    (last,) = [one for one in members if one.name not in holders(kube)]
    last.wait_message(traffic.image, waiting(traffic, 2))
    image_set.limit(parallelism=None)
    traffic.wait(3)
    image_set.request()
    for member in members:
        wait_until(lambda one=member: one.node.tag_status(traffic.image.reference) is None, SOON, "withdrawal")
    traffic.wait(0)
    wait_until(lambda: holders(kube) == [], SOON, lambda: f"free slots: {holders(kube)}")


def test_mistyped_tag(join, pool, rights, traffic, fake_registry, image_name, kube):
    """It holds no slot while its pull pauses, so that other images, and other nodes, have their turns."""
    missing = PushedImage(f"{fake_registry.host}/{image_name}:typo", "", "", "", 0)
    members = [join(), join()]
    pool(missing, traffic.image, parallelism=1)
    traffic.let(2)
    for member in members:
        member.wait(traffic.image, timeout=2 * SOON)
        member.wait_message(missing, "NotFound: ")
    assert traffic.most_at_once == 1


def is_there(member: Member, traffic: Traffic) -> bool:
    return (member.node.tag_status(traffic.image.reference) or {}).get("phase") == "Succeeded"


def wait_awake(member: Member, reached: Callable[[], bool]) -> None:
    """The kernel's timers do not know the wrong clock, so calls wake the agent up."""

    def woken() -> bool:
        member.agent.ctl("status")
        return reached()

    wait_until(woken, SOON, "end of the wait", 0.5)


def test_without_the_right(join, pool, traffic, folder, api):
    """The node pulls after a while, and says why at once, in one line."""
    jump = folder / "jump"
    member = join(environment=clock.environment(clock.jumps_when_there(jump)))
    pool(traffic.image, parallelism=1)
    member.wait_message(traffic.image, waiting(traffic))
    wait_until(lambda: len(api.requests("leases")) >= 2, SOON, "second attempt")
    missing = "the right to list leases.coordination.k8s.io is missing"
    (line,) = [one["message"] for one in member.agent.logs() if missing in one["message"]]
    assert line.startswith("Cannot use the Leases for which pulls of image sets wait: ")
    # A request under way would time out by the jump.
    wait_until(lambda: all(one.code for one in api.requests("leases")), SOON, "the answer")
    jump.touch()
    traffic.let()
    wait_awake(member, lambda: is_there(member, traffic))
    (line,) = [one["message"] for one in member.agent.logs() if "without a slot" in one["message"]]
    assert f"the Leases cannot be used: {missing}" in line


def test_one_failure_a_while_ago(join, pool, rights, traffic, folder, api, image_set, push):
    """A Lease that could not be given back once says nothing about the Leases of minutes later."""
    jump = folder / "jump"
    member = join(environment=clock.environment(clock.jumps_when_there(jump)))
    pool(traffic.image, parallelism=1)
    traffic.wait()
    api.on("^PATCH.*leases", api_faults.refuse(500))
    traffic.let()
    member.wait(traffic.image)
    wait_until(lambda: any(one.json()["spec"]["holderIdentity"] == "" for one in api.requests("^PATCH.*leases")),
               SOON, "the release")
    api.behave()
    (folder / "half").write_text("360")
    (folder / "half").rename(jump)
    second = push()
    image_set.request(traffic.image.reference, second.reference)
    wait_awake(member, lambda: (member.node.tag_status(second.reference) or {}).get("phase") == "Succeeded")
    assert "without a slot" not in member.agent.log_text()


def test_slots_that_never_change_hands(join, pool, rights, traffic, folder, api):
    """A node that holds its slot for ever delays the others by an hour at most."""
    jump = folder / "jump"
    first = join()
    pool(traffic.image, parallelism=1)
    traffic.wait()
    second = join(environment=clock.environment(clock.jumps_when_there(jump)))
    second.wait_message(traffic.image, waiting(traffic))
    # A request under way would time out by the jump, and an old list would show a slot without renewals.
    lists = "^GET .*leases"
    n = len(api.requests(lists))
    wait_until(lambda: any(one.code for one in api.requests(lists)[n:]), SOON, "a list of the slots")
    jump.touch()
    wait_awake(second, lambda: traffic.n_now == 2)
    traffic.let(2)
    first.wait(traffic.image)
    wait_awake(second, lambda: is_there(second, traffic))
    assert "other nodes have held all slots for an hour" in second.agent.log_text()


def test_api_server_away(join, pool, rights, traffic, api, kube):
    """A pull that has begun goes on."""
    member = join()
    pool(traffic.image, parallelism=1)
    traffic.wait()
    n = len(api.requests("leases"))
    api.on("leases", lambda exchange: exchange.wait_over())
    wait_until(lambda: len(api.requests("leases")) > n, SOON, "renewal without an answer")
    traffic.let()
    member.agent.wait_status(traffic.image.reference, "Succeeded")
    api.behave()
    member.wait(traffic.image)


def test_answer_to_a_renewal_is_lost(join, pool, rights, traffic, api, kube):
    """The next renewal names a version that is too old: the node takes its slot again, and no other node does."""
    member = join()
    pool(traffic.image, parallelism=1)
    traffic.wait()
    api.on("^PATCH.*leases", api_faults.lose_reply, times=1)

    def codes() -> list[int | None]:
        return [one.code for one in api.requests("^PATCH.*leases")]

    wait_until(lambda: codes()[:3] == [None, 409, 200], SOON, lambda: f"renewal: {codes()}")
    assert holders(kube) == [member.name]
    traffic.let()
    member.wait(traffic.image)


def test_no_limit_no_requests(join, pool, traffic, api):
    """Without the annotation, or the right, nodes pull at once."""
    members = [join(), join()]
    pool(traffic.image)
    traffic.wait(2)
    traffic.let(2)
    for member in members:
        member.wait(traffic.image)
    assert api.requests("leases") == []


def test_faulty_limit(join, pool, traffic, image_set):
    """It is none, and doctor says so."""
    member = join()
    pool(traffic.image, parallelism=0)
    traffic.let()
    member.wait(traffic.image)
    assert "inplaced.io/parallelism is no number from 1 to 1000" in problems(member.agent)[image_set.name]
    image_set.limit(parallelism=None)
    wait_until(lambda: image_set.name not in problems(member.agent), SOON, "end of the problem")


# Nodes that pull first


def waiting_for(image_set, n: int = 1) -> str:
    return f"NodesFirst: this node waits until {n} nodes have the images of set {image_set.name}; "


def test_first(join, pool, rights, traffic, kube, image_set, api):
    """The others begin when it has the image, all at once; a node that comes later does not wait."""
    members = [join(), join(), join()]
    pool(traffic.image, first=1)
    first, others = pulls_first(traffic, members, kube, waiting_for(image_set))
    traffic.let()
    first.wait(traffic.image)
    traffic.wait(2)
    traffic.let(3)
    for member in others:
        member.wait(traffic.image)
    (slot,) = kube.list(LEASES)
    assert (slot["spec"]["holderIdentity"], slot["metadata"]["annotations"]["inplaced.io/slots-of"]) == (
        first.name,
        image_set.name,
    )
    n = len(api.requests("leases"))
    join().wait(traffic.image)
    assert [one.method for one in api.requests("leases")[n:]] == ["GET"]


def test_first_of_a_new_version(join, pool, rights, traffic, kube, image_set):
    """A raised version asks for the image again: one node tries it before the others, as before."""
    members = [join(), join(), join()]
    pool(traffic.image, first=1)
    traffic.let(3)
    for member in members:
        member.wait(traffic.image)
    changed = traffic.push(2)
    image_set.request(changed.reference, policy="Always", version=1)
    first, others = pulls_first(traffic, members, kube, waiting_for(image_set))
    assert all(one.runtime.image_id(changed.reference) != changed.image_id for one in members)
    traffic.let()
    wait_until(lambda: first.runtime.image_id(changed.reference) == changed.image_id, SOON, "the first")
    traffic.wait(2)
    traffic.let(2)
    for member in others:
        wait_until(lambda one=member: one.runtime.image_id(changed.reference) == changed.image_id, SOON, member.name)


def test_fewer_nodes_than_first(join, pool, rights, traffic):
    """They do not wait for nodes that do not exist."""
    members = [join(), join()]
    pool(traffic.image, first=5)
    traffic.wait(2)
    traffic.let(2)
    for member in members:
        member.wait(traffic.image)


@pytest.mark.slow
def test_first_is_killed(join, pool, rights, traffic, kube, image_set):
    """The slot expires, and the next node is the first."""
    members = [join(), join()]
    pool(traffic.image, first=1)
    first, (second,) = pulls_first(traffic, members, kube, waiting_for(image_set))
    first.agent.kill9()
    wait_until(lambda: holders(kube) == [second.name], 60 * SLOWLY, lambda: f"{second.name}: {holders(kube)}")
    traffic.wait()
    traffic.let(2)
    second.wait(traffic.image)
    first.agent.start()
    first.wait(traffic.image)


def test_first_with_parallelism(join, pool, rights, traffic):
    """Both count: never more than so many at once, also of those that are first."""
    members = [join(), join(), join()]
    pool(traffic.image, first=2, parallelism=1)
    traffic.let(3)
    for member in members:
        member.wait(traffic.image, timeout=3 * SOON)
    assert (traffic.most_at_once, traffic.too_early) == (1, [])


@pytest.mark.slow
def test_mistyped_tag_first(join, pool, rights, traffic, fake_registry, image_name, kube, image_set):
    """After three attempts it holds up the others no more."""
    missing = PushedImage(f"{fake_registry.host}/{image_name}:typo", "", "", "", 0)
    members = [join(), join()]
    pool(missing, traffic.image, first=1)
    traffic.let(2)
    for member in members:
        member.wait(traffic.image, timeout=3 * SOON)
        member.wait_message(missing, "NotFound: ")


def test_set_changes_while_nodes_wait_for_the_first(join, pool, rights, traffic, kube, image_set, push):
    """Other nodes may be the first for other images; without the annotation none waits."""
    members = [join(), join()]
    pool(traffic.image, first=1)
    first, (second,) = pulls_first(traffic, members, kube, waiting_for(image_set))
    other = push(tag="2")
    image_set.request(traffic.image.reference, other.reference)
    first.wait(other)
    second.wait_message(other, waiting_for(image_set))
    traffic.let()
    first.wait(traffic.image)
    second.wait(other, timeout=2 * SOON)
    traffic.let()
    second.wait(traffic.image)


def test_end_of_first(join, pool, rights, traffic, kube, image_set):
    members = [join(), join()]
    pool(traffic.image, first=1)
    pulls_first(traffic, members, kube, waiting_for(image_set))
    image_set.limit(first=None)
    traffic.wait(2)
    wait_until(lambda: holders(kube) == [], SOON, lambda: f"free slots: {holders(kube)}")
    traffic.let(2)
    for member in members:
        member.wait(traffic.image)
