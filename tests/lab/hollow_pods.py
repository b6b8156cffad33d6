# SPDX-License-Identifier: Apache-2.0
"""Pods without a kubelet: a thread restarts their containers when they get another image."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import datetime, timezone

from lab.cleanup import Closing
from lab.control_plane import ControlPlane
from lab.kube import KubeError, Object

_DIGEST = "sha256:" + "5" * 64


class HollowPods(Closing):
    """Pods of a namespace of their own, whose only container is `main`. They run at once, and so do their successors."""

    def __init__(self, control_plane: ControlPlane, namespace: str) -> None:
        self.kube = control_plane.make_admin()
        self._watcher = control_plane.make_admin()
        self._kubelet = control_plane.make_admin()
        self.path = f"/api/v1/namespaces/{namespace}/pods"
        self.n_created = 0  # also by others
        self._images: dict[str, str] = {}
        self._is_over = False
        self._thread = threading.Thread(target=self._play, daemon=True)
        self.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        account = {"apiVersion": "v1", "kind": "ServiceAccount"}
        with suppress(KubeError):  # a controller may have made it
            self.kube.create({**account, "metadata": {"name": "default", "namespace": namespace}})

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._is_over = True
        self.kube.request("DELETE", f"{self.path}?gracePeriodSeconds=0")
        self._thread.join(10)
        for one in (self.kube, self._watcher, self._kubelet):
            one.close()

    def restarts(self) -> dict[str, int]:
        """The pods that have restarted, and how often."""
        found = {}
        for pod in self.kube.list(self.path):
            for status in pod["status"].get("containerStatuses", []):
                if status["restartCount"] > 0:
                    found[pod["metadata"]["name"]] = status["restartCount"]
        return found

    # Inside

    def _play(self) -> None:
        with suppress(OSError, ValueError, TimeoutError, KubeError):
            for event in self._watcher.watch(self.path, 600):
                if self._is_over:
                    return
                self.n_created += event["type"] == "ADDED"
                if event["type"] in ("ADDED", "MODIFIED"):
                    self._see(event["object"])

    def _see(self, pod: Object) -> None:
        name, image = pod["metadata"]["name"], pod["spec"]["containers"][0]["image"]
        if self._images.get(name) == image:
            return
        self._images[name] = image
        before = pod["status"].get("containerStatuses", [{}])[0]
        n = before["restartCount"] + 1 if before else 0
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = {
            "name": "main",
            "image": image,
            "imageID": f"registry.example/web@{_DIGEST}",
            "containerID": f"containerd://{pod['metadata']['uid']}-{n}",
            "restartCount": n,
            "ready": True,
            "started": True,
            "state": {"running": {"startedAt": now}},
            "lastState": {},
        }
        conditions = [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in ("Ready", "ContainersReady")]
        whole = {"phase": "Running", "containerStatuses": [status], "conditions": conditions}
        self._kubelet.patch(f"{self.path}/{name}/status", {"status": whole})
