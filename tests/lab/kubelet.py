# SPDX-License-Identifier: Apache-2.0
"""A real kubelet with a runtime of its own: a node on which pods run."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compatibility import note
from lab import runtimes
from lab.built import find_built
from lab.cleanup import CONTROL_GROUP_FILE, GROUP_PREFIX, Closing, list_hierarchies, sweep
from lab.control_plane import ControlPlane
from lab.interface import Interface
from lab.kube import Object
from lab.part import Part, says_ok
from lab.registry import Registry
from lab.wait import free_port

_PAUSE = ("/bin/sh", "-c", "trap exit TERM; while :; do sleep 3600 & wait; done")

# KubeletConfiguration: containers that are restarted repeatedly start without the back-off.
HASTY = {
    "featureGates": {"KubeletCrashLoopBackOffMax": True},
    "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
}

# A kubelet keeps the sockets of device plugins in one place, whatever its configuration says.
_REAL_NODE = Path("/var/lib/kubelet/config.yaml")

# Where runtimes keep what the network plugins answered, in files that begin with the network's name.
_NETWORK_RESULTS = Path("/var/lib/cni/results")


class Kubelet(Closing):
    """A node until closed. Pods whose spec names it run on it, or a scheduler sends them there.

    Closing it takes the pods' containers down and leaves their objects behind. Nothing of it is
    shared with other nodes on the same machine: pods have addresses of a subnet of its own, which
    this machine reaches, and control groups below one of its own.
    """

    def __init__(
        self,
        folder: Path,
        control_plane: ControlPlane,
        registry: Registry,
        name: str = "lab",
        *,
        config: Mapping[str, Any] | None = None,
        server: str | None = None,
        runtime: str = runtimes.NAME,
        root_megabytes: int | None = None,
    ) -> None:
        """`registry` holds the image of pods' sandboxes; `config` is more of KubeletConfiguration.

        `server` is where something listens that stands between the kubelet and the API server.
        `root_megabytes` is as for Runtime.
        """
        if _REAL_NODE.exists():
            raise RuntimeError(f"there is {_REAL_NODE}: two kubelets would get in each other's way")
        self.folder = folder
        self.folder.mkdir(parents=True)
        self.name = name
        self.control_plane = control_plane
        self.path = f"/api/v1/nodes/{name}"
        pause = registry.push_image("lab/pause", "1", busybox=True, command=_PAUSE)
        self.runtime = runtimes.make_runtime(
            folder / "runtime", runtime, sandbox_image=pause.reference, root_megabytes=root_megabytes
        )
        self.interface = Interface(folder)
        self._write_network()
        self.health_address = f"127.0.0.1:{free_port()}"
        self.kubelet = self._make_kubelet(config or {}, server)

    def start(self, timeout: float = 90) -> float:
        """Returns how long it took until the node was ready, in seconds."""
        began = time.monotonic()
        self.runtime.start()
        self.kubelet.start()
        node = self.control_plane.admin.wait_for(self.path, is_ready, timeout)
        note("kubelet", node["status"]["nodeInfo"]["kubeletVersion"])
        return time.monotonic() - began

    def close(self) -> None:
        self.runtime.close()
        sweep(self.folder)
        for kept in _NETWORK_RESULTS.glob(f"{self.interface.name}-*"):  # pods that were never taken down left them
            kept.unlink()

    def run_pod(
        self,
        name: str,
        image: str,
        command: Sequence[str] = (),
        namespace: str = "default",
        **spec: Any,
    ) -> Object:
        """Creates a pod with one container, `main`, and waits until it is ready."""
        container = {"name": "main", "image": image, "imagePullPolicy": "IfNotPresent"}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "nodeName": self.name,
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": False,
                "containers": [container | ({"command": list(command)} if command else {})],
                **spec,
            },
        }
        self.control_plane.admin.create(pod)
        return self.control_plane.admin.wait_for(
            f"/api/v1/namespaces/{namespace}/pods/{name}", is_ready, timeout=30
        )

    def _write_network(self) -> None:
        """Pods get a link of their own; without a bridge nothing outlives the last pod. When CRI-O starts, it removes the links
        that a network of this name has on this machine and that it does not know.
        """
        addresses = {
            "type": "host-local",
            "dataDir": f"{self.folder}/addresses",
            "ranges": [[{"subnet": self.interface.subnet}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        plugins = [{"type": "ptp", "ipMasq": False, "ipam": addresses}, {"type": "loopback"}]
        network = {"cniVersion": "0.4.0", "name": self.interface.name, "plugins": plugins}
        self.runtime.cni.mkdir()
        (self.runtime.cni / "lab.conflist").write_text(json.dumps(network))

    def _make_control_group(self) -> str:
        group = f"/{GROUP_PREFIX}{self.interface.name}"
        (self.folder / CONTROL_GROUP_FILE).write_text(group)
        for hierarchy in list_hierarchies():
            Path(f"{hierarchy}{group}").mkdir()
        return group

    def _make_kubelet(self, more: Mapping[str, Any], server: str | None) -> Part:
        config: dict[str, Any] = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": self.runtime.endpoint,
            "address": self.interface.address,
            "port": free_port(),
            "healthzPort": int(self.health_address.rpartition(":")[2]),
            "readOnlyPort": 0,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": self._make_control_group(),
            "failCgroupV1": False,
            "enforceNodeAllocatable": [],
            "evictionHard": {"memory.available": "10Mi"},
            "imageGCHighThresholdPercent": 100,
            "failSwapOn": False,
            "oomScoreAdj": 0,
            "makeIPTablesUtilChains": False,
            "resolvConf": "",
            "podLogsDir": f"{self.folder}/logs",
            "volumePluginDir": f"{self.folder}/plugins",
            "staticPodPath": "",
        }
        path = self.folder / "config.json"
        path.write_text(json.dumps(config | dict(more)))
        kubeconfig = self.control_plane.write_kubeconfig(
            self.folder / "kubelet.conf",
            server,
            certificate=self.control_plane.node_certificate(self.name),
        )
        argv = [
            *(find_built("control-plane") / "kubelet", f"--config={path}", f"--kubeconfig={kubeconfig}"),
            *(f"--root-dir={self.folder}/kubelet", f"--cert-dir={self.folder}/certificates"),
            *(f"--hostname-override={self.name}", f"--node-ip={self.interface.address}"),
        ]
        return Part(self.folder, argv, lambda: says_ok(f"http://{self.health_address}/healthz"))


def is_ready(object: Object) -> bool:
    """A node or a pod."""
    conditions = object.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
