# SPDX-License-Identifier: Apache-2.0
"""The cluster of one node that a soak runs on, and the programs under test in it.

Between the parts are lines that can be cut: of the agent, of the kubelet and of users to the API server, and of the
runtime to a registry that wants a password.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from fake.tcp_proxy import TcpProxy
from lab.agent import Agent
from lab.cleanup import Closing
from lab.clients import MANIFESTS, run_client
from lab.cluster import ADMISSION
from lab.control_plane import ControlPlane
from lab.folder import LabFolder
from lab.inplace import Inplace
from lab.kube import Kube
from lab.kubelet import HASTY, Kubelet
from lab.node_image import NodeImage
from lab.process import Process
from lab.registry import PushedImage, Registry
from lab.wait import wait_until

from schedule import N_IMAGES, N_RELEASES

NODE = "soak"
POLICY = "inplaced-hold"
BINDING = f"/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings/{POLICY}"
PODS = "/api/v1/namespaces/default/pods"

_SECRET = "s3cr3t"  # a part of every value that no log may contain
_KEEP_EVENTS = "--event-ttl=720h"  # the pods that were made are counted by their events
_DISK_MEGABYTES = 256
_SIZES = (1_000, 200_000, 3_000_000, 12_000_000)  # sizes of the images, in turn


def secret(text: str) -> str:
    """A value that belongs into no log."""
    return f"{_SECRET}-{text}"


def uptime() -> float:
    """Seconds, as containers read them in /proc/uptime."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class World(Closing):
    """Until closed; the agent and the controller run then."""

    def __init__(self, folder: LabFolder) -> None:
        self.folder = folder
        self._stack = ExitStack()
        password = secret("password")
        self.registry = self._stack.enter_context(Registry(folder / "registry"))
        self.vault = self._stack.enter_context(Registry(folder / "vault", credentials=("soak", password)))
        self.control_plane = self._stack.enter_context(
            ControlPlane(folder / "cp", controllers=True, scheduler=True, apiserver_flags=(*ADMISSION, _KEEP_EVENTS))
        )
        self.control_plane.install()
        api = ("127.0.0.1", self.control_plane.port)
        self.lines = {
            "registry": self._make_line(("127.0.0.1", self.vault.port)),
            **{who: self._make_line(api) for who in ("agent", "kubelet", "controller")},
        }
        self.node = self._stack.enter_context(
            Kubelet(
                folder / "node",
                self.control_plane,
                self.registry,
                NODE,
                config=HASTY,
                server=self._url("kubelet"),
                root_megabytes=_DISK_MEGABYTES,
            )
        )
        self.images = self._push_images()
        self.releases = [self._push_release(number) for number in range(N_RELEASES)]
        self.tools = self.registry.push_image("pods/tools", "1", busybox=True).reference
        self.kubectl("apply", "--server-side", "-f", MANIFESTS / "components/updates/policy.yaml")
        NodeImage(self.admin, NODE).create()
        self.agent = self._make_agent(password)
        self.controller_log = folder / "controller.log"
        self.controller: Process

    @property
    def admin(self) -> Kube:
        return self.control_plane.admin

    def start(self) -> None:
        self.agent.start()
        self.start_controller()
        wait_until(lambda: self.admin.find(BINDING), 60, "binding of the policy", 0.1)

    def close(self) -> None:
        try:
            self.agent.close(check=False)
        finally:
            self._stack.close()

    def kubectl(self, *arguments: str | Path) -> str:
        return run_client("kubectl", *arguments, kubeconfig=self.control_plane.admin_kubeconfig)

    def start_controller(self) -> None:
        argv = [str(self.person.program), "controller", "-A", "--policy", POLICY]
        where = {"HOME": str(self.folder.path), "KUBECONFIG": str(self._robot)}
        self.controller = Process(argv, self.folder.path, self.controller_log, where)

    @cached_property
    def person(self) -> Inplace:
        """The plugin as one calls it who may do everything; on the line of the controller."""
        path = self.folder / "person.conf"
        self.control_plane.write_kubeconfig(path, self._url("controller"), token="lab-admin")
        return Inplace(path, self.folder.path)

    @cached_property
    def _robot(self) -> Path:
        """The controller is a user of its own, whose writes the policy does not hold."""
        certificate = self.control_plane.authority.issue("robot", "/O=system:masters/CN=robot")
        return self.control_plane.write_kubeconfig(
            self.folder / "robot.conf", self._url("controller"), certificate=certificate
        )

    def life_file(self, uid: str) -> Path:
        """Where the container of that pod records its life; see actors.alive()."""
        return self.node.folder / "kubelet/pods" / uid / "volumes/kubernetes.io~empty-dir/data/life"

    def _make_line(self, server: tuple[str, int]) -> TcpProxy:
        return self._stack.enter_context(TcpProxy(server))

    def _url(self, who: str) -> str:
        return f"{urlsplit(self.control_plane.url).scheme}://127.0.0.1:{self.lines[who].port}"

    def _make_agent(self, password: str) -> Agent:
        made = Agent(
            self.folder / "agent",
            self.node.runtime.endpoint,
            node_name=NODE,
            kubeconfig=self.control_plane.write_agent_kubeconfig(
                self.folder / "agent.conf", self._url("agent"), node=NODE
            ),
            min_free_disk="30MB",
            flags=["--keep-images", f"--kubelet-health-address={self.node.health_address}"],
        )
        made.give_credentials(f"127.0.0.1:{self.lines['registry'].port}", "soak", password)
        return made

    def _push_images(self) -> list[PushedImage]:
        """As the runtime reaches them: by the line."""
        host = f"127.0.0.1:{self.lines['registry'].port}"
        pushed = (
            self.vault.push_image(f"soak/{number % 3}", str(number), [_SIZES[number % 4]], seed=100 * number)
            for number in range(N_IMAGES)
        )
        return [
            PushedImage(
                f"{host}/{one.reference.partition('/')[2]}",
                f"{host}/{one.digest_reference.partition('/')[2]}",
                one.image_id,
                one.manifest_digest,
                one.size,
            )
            for one in pushed
        ]

    def _push_release(self, number: int) -> str:
        env = {"VALUE": str(number)}
        return self.registry.push_image(
            "soak/release", str(number), [100_000], busybox=True, seed=number, env=env
        ).reference
