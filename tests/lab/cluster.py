# SPDX-License-Identifier: Apache-2.0
"""A whole cluster of one node, whose pods reach the API server where pods expect it."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import yaml

from fake.tcp_proxy import TcpProxy
from lab import sanitizers
from lab.agent_image import build_agent_image
from lab.cleanup import Closing
from lab.clients import MANIFESTS, run_client
from lab.control_plane import ControlPlane
from lab.interface import free_network
from lab.kube import Object
from lab.kubelet import HASTY, Kubelet
from lab.registry import Registry

# For documentation (RFC 5737): no service has an address there.
_SERVICES = IPv4Network("203.0.113.0/24")

# Policies that change objects, without a webhook's server.
ADMISSION = (
    "--feature-gates=MutatingAdmissionPolicy=true",
    "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
)

IMAGE = "registry.example/inplaced"  # as the manifests call it


class Cluster(Closing):
    """Until closed. There is no kube-proxy; one address stands for the service of the API server."""

    def __init__(
        self, folder: Path, registry: Registry, *, hasty: bool = True, config: Mapping[str, Any] | None = None
    ) -> None:
        """`hasty`: the kubelet starts containers again without its back-off. `config`: more of its configuration."""
        self.folder = folder
        self.folder.mkdir(parents=True)
        networks = list(_SERVICES.subnets(new_prefix=28))
        with free_network(random.sample(networks, len(networks))) as services:
            self.control_plane = ControlPlane(
                folder / "cp",
                controllers=True,
                scheduler=True,
                services=str(services),
                apiserver_flags=ADMISSION,
            )
            self.admin = self.control_plane.admin
            kubelet = {**(HASTY if hasty else {}), **(config or {})}
            self.node = Kubelet(folder / "node", self.control_plane, registry, "lab", config=kubelet)
            _share(self.node.runtime.folder)
            self.node.interface.add(self.control_plane.service_address)
        self._service = TcpProxy(
            ("127.0.0.1", self.control_plane.port), (self.control_plane.service_address, 443)
        )
        self.state = folder / "state"

    def start(self) -> None:
        self.control_plane.start()
        self.node.start()

    def close(self) -> None:
        self._service.close()
        self.node.close()
        self.control_plane.close()

    def kubectl(self, *arguments: str | Path) -> str:
        return run_client("kubectl", *arguments, kubeconfig=self.control_plane.admin_kubeconfig)

    def helm(self, *arguments: str | Path) -> str:
        return run_client("helm", *arguments, kubeconfig=self.control_plane.admin_kubeconfig)

    def prepare(self, *, definitions: bool = True) -> None:
        """Applies the objects that come before an overlay: the namespace and, without OpenKruise, the definitions."""
        self.kubectl("apply", "-k", MANIFESTS / "namespace")
        if definitions:
            self.kubectl("apply", "-k", MANIFESTS / "crds")
            self.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")

    def wait_rolled_out(self, namespace: str, name: str) -> None:
        """Waits as `kubectl rollout status` does for a DaemonSet, at most 90 s."""

        def is_done(daemons: Object) -> bool:
            status = daemons["status"]
            return (
                status.get("observedGeneration") == daemons["metadata"]["generation"]
                and status.get("updatedNumberScheduled") == status.get("numberReady") == 1
            )

        path = f"/apis/apps/v1/namespaces/{namespace}/daemonsets/{name}"
        try:
            self.admin.wait_for(path, is_done, 90 * sanitizers.SLOWNESS)
        except TimeoutError as error:
            shown = self.kubectl(f"--namespace={namespace}", "describe", "pods")
            raise TimeoutError(f"{error}\n{shown}") from None

    def write_kustomization(
        self,
        image: str,
        overlay: str = "standalone",
        patches: Sequence[Object] = (),
        components: Sequence[str] = (),
        config: Mapping[str, Any] | None = None,
    ) -> Path:
        """Writes an operator's overlay: ours, with the image and with the paths of this node.

        These are the runtime's socket and the folder of the state. `patches` are further JSON patches of the
        DaemonSet. `config` is the configuration of the agent.
        """
        folder = self.folder / "deploy"
        folder.mkdir(exist_ok=True)
        name, _, tag = image.rpartition(":")
        volumes = "/spec/template/spec/volumes"
        operations = [
            replace(f"{volumes}/0/hostPath/path", str(self.node.runtime.folder)),
            replace(f"{volumes}/1/hostPath/path", str(self.state)),
            *patches,
        ]
        document = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [os.path.relpath(MANIFESTS / "overlays" / overlay, folder.resolve())],
            "components": [
                os.path.relpath(MANIFESTS / "components" / name, folder.resolve())
                for name in components
            ],
            "images": [{"name": IMAGE, "newName": name, "newTag": tag}],
            "configMapGenerator": _configure(config),
            "patches": [{"target": {"kind": "DaemonSet"}, "patch": yaml.safe_dump(operations)}],
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(document))
        return folder


def push_agent_images(registry: Registry, repository: str) -> list[str]:
    """Two images of the agent, which differ in their ID."""
    return [
        registry.push(repository, str(number), build_agent_image(str(number))).reference
        for number in (1, 2)
    ]


def _configure(config: Mapping[str, Any] | None) -> list[Object]:
    if config is None:
        return []
    literal = f"config.yaml={yaml.safe_dump(dict(config))}"
    where = {"name": "inplaced", "namespace": "inplaced"}
    return [where | {"behavior": "replace", "literals": [literal]}]


def _share(folder: Path) -> None:
    """Shares mounts with containers, as a node with systemd does: each mount and unmount happens there as well."""
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    subprocess.run(["mount", "--make-shared", folder], check=True)


def replace(path: str, value: object) -> Object:
    return {"op": "replace", "path": path, "value": value}
