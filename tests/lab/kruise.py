# SPDX-License-Identifier: Apache-2.0
"""The real OpenKruise: its manager, and kruise-daemon."""

from __future__ import annotations

import os
from collections.abc import Sequence

import yaml

from compatibility import module_version, note
from lab.built import find_built
from lab.cleanup import Closing
from lab.cluster import Cluster
from lab.image import Image, build_image
from lab.kube import Object
from lab.layers import files_layer
from lab.part import Part, says_ok
from lab.wait import free_port

NAMESPACE = "kruise-system"


def build_kruise_image() -> Image:
    """With /kruise-daemon, as in OpenKruise's own image."""
    return build_image(
        [files_layer({"kruise-daemon": find_built("kruise") / "kruise-daemon"})], command=("/kruise-daemon",)
    )


class Kruise(Closing):
    """OpenKruise in a cluster until closed: its own manifests, but for the manager, which runs on this machine with
    the rights of its account, and has the API server find its webhooks by URL. All its features are on, as there.

    kruise-daemon has this image. Its DaemonSet is patched, and has no host network: several tests share this machine.
    """

    def __init__(self, cluster: Cluster, image: str, patches: Sequence[Object]) -> None:
        self.cluster = cluster
        self._image = image
        self._patches = patches
        self.folder = cluster.folder / "kruise"
        self.folder.mkdir()
        self._kubeconfig = self.folder / "manager.conf"
        health = f"127.0.0.1:{free_port()}"
        argv = [
            *(find_built("kruise") / "kruise-manager", f"--kubeconfig={self._kubeconfig}"),
            "--feature-gates=AllAlpha=true,AllBeta=true,EnableExternalCerts=false,TemplateNoDefaults=false",
            *("--v=4", "--logtostderr=true", f"--protection-log-path={self.folder}/protection"),
            *(f"--health-probe-addr={health}", "--metrics-addr=0", "--enable-pprof=false"),
            *("--enable-leader-election=false", "--nodeimage-creation-delay=1s"),
        ]
        environment = {
            "POD_NAMESPACE": NAMESPACE,
            "WEBHOOK_HOST": "localhost",  # the name in its certificate
            "WEBHOOK_PORT": str(free_port()),
            "WEBHOOK_CERT_DIR": f"{self.folder}/certificates",
        }
        self.manager = Part(
            self.folder, argv, lambda: says_ok(f"http://{health}/readyz"), environment
        )

    def start(self) -> None:
        """Applies its manifests and starts the manager."""
        self._apply()
        control_plane = self.cluster.control_plane
        token = control_plane.service_account_token(NAMESPACE, "kruise-manager")
        control_plane.write_kubeconfig(self._kubeconfig, token=token)
        self.manager.start(wait_ready=False)
        self.manager.wait_ready(60)
        note("OpenKruise", module_version(self.manager.argv[0], "github.com/openkruise/kruise"))

    def close(self) -> None:
        self.manager.kill9()

    def _apply(self) -> None:
        folder = self.folder / "deploy"
        folder.mkdir()
        name, _, tag = self._image.rpartition(":")
        pod = "/spec/template/spec"
        operations = [
            {"op": "replace", "path": f"{pod}/hostNetwork", "value": False},
            # It would take half a minute to start.
            {"op": "remove", "path": f"{pod}/containers/0/resources"},
            {
                "op": "replace",
                "path": f"{pod}/volumes/0/hostPath/path",
                "value": str(self.cluster.node.runtime.folder),
            },
            *self._patches,
        ]
        gone = {"apiVersion": "apps/v1", "kind": "Deployment", "$patch": "delete"}
        gone["metadata"] = {"name": "kruise-controller-manager", "namespace": NAMESPACE}
        document = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [os.path.relpath(find_built("kruise") / "config" / "default", folder.resolve())],
            "images": [{"name": "controller", "newName": name, "newTag": tag}],
            "patches": [
                {"patch": yaml.safe_dump(gone)},
                {"target": {"kind": "DaemonSet"}, "patch": yaml.safe_dump(operations)},
            ],
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(document))
        # The definitions are too large for the annotation of `kubectl apply`.
        self.cluster.kubectl("apply", "--server-side", "-k", folder)
        self.cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
