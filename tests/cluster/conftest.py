# SPDX-License-Identifier: Apache-2.0
"""The tests of the agent in a cluster. Run them from anywhere with

    INPLACED_BUILD_DIR=build/dev /usr/bin/python3 -m pytest -p no:cacheprovider tests/cluster

One real control plane serves all tests, with our custom resources and roles in it. A test has a node
name of its own, for which there is a NodeImage but no Node: where nothing runs pods, none is needed.
A test that kills a part of the control plane starts a control plane of its own.

The other fixtures are in fixtures.py.
"""

from __future__ import annotations

import itertools
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.pycache_prefix = os.environ.get("INPLACED_BYTECODE")
sys.dont_write_bytecode = sys.pycache_prefix is None
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
pytest.register_assert_rewrite("declared", "faults", "rollouts")  # so that an assertion shows its values

from fixtures import *  # noqa: E402, F401, F403
from fixtures import StartAgent  # noqa: E402
from fake.api_proxy import ApiProxy  # noqa: E402
from lab import documents  # noqa: E402
from lab.agent import Agent  # noqa: E402
from lab.built import find_built  # noqa: E402
from lab.runtime import Runtime  # noqa: E402
from lab.control_plane import ControlPlane  # noqa: E402
from lab.inplace import Inplace  # noqa: E402
from lab.folder import LabFolder  # noqa: E402
from lab.image import build_image  # noqa: E402
from lab.kube import Kube  # noqa: E402
from lab.kubeconfig import write_kubeconfig  # noqa: E402
from lab.kubelet import HASTY, Kubelet, is_ready  # noqa: E402
from lab.layers import busybox_layer, program_layer, random_layer  # noqa: E402
from lab.node_image import ImageSet, NodeImage  # noqa: E402
from lab.node_pod_probe import NodePodProbe  # noqa: E402
from lab.pod import Pod, container, from_annotations  # noqa: E402
from lab.registry import PushedImage, Registry  # noqa: E402

PullSecret = Callable[..., dict[str, str]]
MakePod = Callable[..., Pod]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Builds the control plane, if need be, before the first test's time runs."""
    # With several workers only the workers run tests, and the first worker builds.
    if getattr(session, "items", None) and not session.config.option.collectonly:
        find_built("control-plane")
        if any("run_client" in vars(item.module) or "Cluster" in vars(item.module) for item in session.items):
            find_built("clients")


@pytest.fixture(scope="session")
def control_plane(session_folder: LabFolder) -> Iterator[ControlPlane]:
    with ControlPlane(session_folder / "control-plane") as made:
        made.install()
        yield made


@pytest.fixture(scope="session")
def kube(control_plane: ControlPlane) -> Kube:
    """A client that may do everything."""
    return control_plane.admin


_numbers = itertools.count(1)


@pytest.fixture
def node_name() -> str:
    """A name that no other test uses."""
    return f"node-{next(_numbers)}"


@pytest.fixture
def image_set(kube: Kube, node_name: str) -> Iterator[ImageSet]:
    """An image set that a test may make."""
    made = ImageSet(kube, f"set-{node_name}")
    yield made
    made.delete()


@pytest.fixture
def node_image(kube: Kube, node_name: str) -> Iterator[NodeImage]:
    """The NodeImage of that node, with an empty spec."""
    made = NodeImage(kube, node_name)
    made.create()
    yield made
    made.delete()


@pytest.fixture
def kubeconfig(control_plane: ControlPlane, folder: LabFolder) -> Path:
    """The kubeconfig of the agent's service account, with a token."""
    return control_plane.write_agent_kubeconfig(folder / "agent.conf")


@pytest.fixture
def inplace(control_plane: ControlPlane, folder: LabFolder) -> Inplace:
    """The tool for the cluster, called by one who may do everything."""
    return Inplace(control_plane.admin_kubeconfig, folder.path)


@pytest.fixture
def api(control_plane: ControlPlane, folder: LabFolder) -> Iterator[ApiProxy]:
    """A proxy before the API server."""
    with ApiProxy(folder / "api", control_plane.url, control_plane.authority.certificate) as made:
        yield made


@pytest.fixture
def behind(api: ApiProxy, folder: LabFolder) -> tuple[ApiProxy, Inplace]:
    """The proxy `api`, and the command line of one who may do everything and connects through it."""
    path = write_kubeconfig(folder / "behind.conf", api.url, api.authority, token="lab-admin")
    return api, Inplace(path, folder.path)


@pytest.fixture
def pull_secret(kube: Kube) -> Iterator[PullSecret]:
    """pull_secret(registry): makes a secret with the registry's credentials; returns its name as in a NodeImage."""
    made = []

    def make(registry: Registry, namespace: str = "kruise-daemon-config") -> dict[str, str]:
        assert registry.credentials is not None
        name = f"pull-{next(_numbers)}"
        secret = documents.pull_secret(name, namespace, registry.host, registry.credentials)
        kube.create(secret)
        made.append(secret)
        return {"namespace": namespace, "name": name}

    yield make
    for secret in made:
        kube.delete(kube.path_of(secret))


@pytest.fixture
def cluster_agent(
    start_agent: StartAgent,
    runtime: Runtime,
    kubeconfig: Path,
    node_name: str,
    node_image: NodeImage,
) -> Agent:
    """The agent of that node, on the session's containerd, with no image to pull yet."""
    return start_agent(runtime.endpoint, kubeconfig=kubeconfig, node_name=node_name)


@pytest.fixture
def make_node(
    folder: LabFolder, control_plane: ControlPlane, registry: Registry
) -> Iterator[Callable[..., Kubelet]]:
    """make_node(…) as Kubelet, ready: a real node with a containerd of its own."""
    nodes: list[Kubelet] = []

    def make(name: str | None = None, **options: object) -> Kubelet:
        name = name or f"node-{next(_numbers)}"
        node = Kubelet(folder / name, control_plane, registry, name, **options)
        nodes.append(node)
        node.start()
        return node

    yield make
    for node in nodes:
        node.close()
        control_plane.admin.delete(node.path)


@pytest.fixture(scope="session")
def shared_node(
    session_folder: LabFolder, control_plane: ControlPlane, registry: Registry
) -> Iterator[Kubelet]:
    folder = session_folder / "shared"
    with Kubelet(folder, control_plane, registry, "shared", config=HASTY) as made:
        NodeImage(control_plane.admin, made.name).create()
        yield made


@pytest.fixture
def node(shared_node: Kubelet, kube: Kube) -> Iterator[Kubelet]:
    """A real node that all tests share; a part that a test kills is started again."""
    yield shared_node
    if shared_node.runtime.process.code is not None:
        shared_node.runtime.start()
    if shared_node.kubelet.process.code is not None:
        shared_node.kubelet.start()
        kube.wait_for(shared_node.path, is_ready, 90)


@pytest.fixture
def start_node_agent(
    start_agent: StartAgent, control_plane: ControlPlane, node: Kubelet, folder: LabFolder
) -> StartAgent:
    """start_node_agent(endpoint=…, kubeconfig=…, flags=…, …): the agent of that node, ready."""

    def start(
        endpoint: str | None = None,
        kubeconfig: Path | None = None,
        flags: tuple[str, ...] = (),
        **options: object,
    ) -> Agent:
        path = folder / "node.conf"
        return start_agent(
            endpoint or node.runtime.endpoint,
            kubeconfig=kubeconfig or control_plane.write_agent_kubeconfig(path, node=node.name),
            node_name=node.name,
            flags=[f"--kubelet-health-address={node.health_address}", *flags],
            **options,
        )

    return start


@pytest.fixture
def node_agent(start_node_agent: StartAgent) -> Agent:
    """The agent of that node."""
    return start_node_agent()


@pytest.fixture
def agent_behind_api(
    start_node_agent: StartAgent, control_plane: ControlPlane, node: Kubelet, folder: LabFolder, api: ApiProxy
) -> Agent:
    """The agent of that node, whose requests to the API server pass through the fixture `api`."""
    token = control_plane.agent_token(node.name)
    path = write_kubeconfig(folder / "behind.conf", api.url, api.authority, token=token)
    return start_node_agent(kubeconfig=path)


@pytest.fixture(scope="session")
def tools(registry: Registry) -> str:
    """The name of an image with a shell and the usual small programs."""
    return registry.push_image("pods/tools", "1", busybox=True).reference


@pytest.fixture(scope="session")
def bare(registry: Registry) -> PushedImage:
    """An image with one program and nothing else, which ignores SIGTERM."""
    image = build_image([program_layer("sleep")], command=("/sleep", "1d"))
    return registry.push("pods/bare", "1", image)


@pytest.fixture
def make_pod(node: Kubelet) -> Iterator[MakePod]:
    """make_pod(container, …) as Pod, ready; `must_wait=False`: only created."""
    made: list[Pod] = []

    def make(*containers: dict, must_wait: bool = True, **options: object) -> Pod:
        pod = Pod(node, *containers, **options)
        made.append(pod)
        return pod.start() if must_wait else pod.create()

    yield make
    for pod in made:
        pod.delete()


@pytest.fixture
def requested(kube: Kube, node: Kubelet) -> Iterator[NodePodProbe]:
    """The NodePodProbe of that node, without probes."""
    made = NodePodProbe(kube, node.name)
    yield made
    made.delete()


@pytest.fixture
def add_image(fake_registry, node: Kubelet, image_name: str) -> Iterator[Callable[..., tuple[PushedImage, str]]]:
    """add_image(name, *megabytes, tag=…): an image of the fake registry, with layers of such sizes; and its repository."""
    made = []

    def add(name: str, *sizes: float, tag: str = "1") -> tuple[PushedImage, str]:
        name = f"{image_name}/{name}"
        seed = zlib.crc32(f"{name}:{tag}".encode())
        layers = [random_layer(int(size * (1 << 20)), seed=seed + i) for i, size in enumerate(sizes)]
        image = fake_registry.add(name, tag, build_image([busybox_layer(), *layers]))
        made.append(image)
        return image, name

    yield add
    for image in made:
        node.runtime.remove_image(image.reference)


@pytest.fixture
def settle(make_pod: MakePod, tools: str) -> Callable[[], None]:
    """settle(): waits until the agent has processed all earlier changes.

    Another pod is changed, and has been restarted when this returns.
    """
    pod = make_pod(container("main", tools, env=from_annotations(ROUND="round")))
    rounds = itertools.count(1)

    def settle() -> None:
        n = next(rounds)
        pod.wait_meta()
        pod.begin_update(annotations={"round": str(n)})
        pod.wait_restarted("main", n)

    return settle
