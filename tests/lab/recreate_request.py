# SPDX-License-Identifier: Apache-2.0
"""A ContainerRecreateRequest, and the part that OpenKruise's manager has in it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from lab.kube import Object, one_of
from lab.pod import Pod
from lab.wait import wait_until

GROUP = "apps.kruise.io"
PREFIX = "crr.apps.kruise.io"

_numbers = itertools.count(1)


class RecreateRequest:
    """About containers of one pod, by name. Strategy and spec as keyword arguments.

    Made with `create` it is as a user of kubectl makes it; with `create_managed` as a webhook of
    OpenKruise completes it, and a Manager does then what its controller does.
    """

    def __init__(
        self,
        pod: Pod,
        *containers: str,
        version: str = "v1beta1",
        deadline: int | None = None,
        keep_seconds: int | None = None,
        **strategy: Any,
    ) -> None:
        self.pod = pod
        self.kube = pod.kube
        self.version = version
        self.name = f"request-{next(_numbers)}"
        base = f"/apis/{GROUP}/{version}/namespaces/{pod.namespace}/containerrecreaterequests"
        self.path = f"{base}/{self.name}"
        self.spec: Object = {
            "podName": pod.name,
            "containers": [{"name": name} for name in containers],
        }
        if strategy:
            self.spec["strategy"] = strategy
        if deadline is not None:
            self.spec["activeDeadlineSeconds"] = deadline
        if keep_seconds is not None:
            self.spec["ttlSecondsAfterFinished"] = keep_seconds

    def create(self, **metadata: Any) -> RecreateRequest:
        self.kube.create(
            {
                "apiVersion": f"{GROUP}/{self.version}",
                "kind": "ContainerRecreateRequest",
                "metadata": {"name": self.name, "namespace": self.pod.namespace, **metadata},
                "spec": self.spec,
            }
        )
        return self

    def create_managed(self, pod_uid: str | None = None) -> RecreateRequest:
        """With labels, the containers' context and their hooks; perhaps for another pod's UID."""
        pod = self.pod.get()
        for entry in self.spec["containers"]:
            status = self.pod.status(entry["name"])
            entry["statusContext"] = {key: status[key] for key in ("containerID", "restartCount")}
            spec = next(one for one in pod["spec"]["containers"] if one["name"] == entry["name"])
            hook = spec.get("lifecycle", {}).get("preStop", {})
            if hook:
                entry["preStop"] = {key: hook[key] for key in hook if key != "sleep"}
            if "httpGet" in hook:
                entry["ports"] = spec.get("ports", [])
        strategy = self.spec.setdefault("strategy", {})
        grace = pod["spec"]["terminationGracePeriodSeconds"]
        strategy.setdefault("terminationGracePeriodSeconds", grace)
        strategy.setdefault("failurePolicy", "Fail")
        labels = {
            f"{PREFIX}/node-name": self.pod.node.name,
            f"{PREFIX}/pod-uid": pod_uid or self.pod.uid,
            f"{PREFIX}/active": "true",
        }
        return self.create(labels=labels)

    def delete(self) -> None:
        self.kube.delete(self.path)

    # State of the request

    def get(self) -> Object:
        return self.kube.get(self.path)

    def status(self) -> Object:
        """Empty while there is none."""
        return self.get().get("status", {})

    def state(self, container: str) -> Object:
        """The state of a container; empty while there is none."""
        states = self.status().get("containerRecreateStates", [])
        return next((one for one in states if one["name"] == container), {})

    def wait_phase(self, phase: str, timeout: float = 30) -> Object:
        """Returns the status."""
        found = self.kube.wait_for(
            self.path, lambda crr: crr.get("status", {}).get("phase") == phase, timeout
        )
        return found["status"]

    def wait_state(self, container: str, phase: str, timeout: float = 30) -> Object:
        def reached() -> Object | None:
            found = self.state(container)
            return found if found.get("phase") == phase else None

        return self.kube.wait_until(
            reached, one_of(self.path), timeout, lambda: f"{phase} of {container}: {self.status()}"
        )

    def watch(self, timeout: float = 30) -> Iterator[Object]:
        base = self.path.rpartition("/")[0]
        return self.kube.watch(base, timeout, fieldSelector=f"metadata.name={self.name}")


class Manager:
    """Does the part of OpenKruise's controller for one request, when a test asks for it."""

    def __init__(self, request: RecreateRequest) -> None:
        self.request = request
        self.kube = request.kube

    def report_drained(self) -> None:
        """Reports that the pod has been taken out of service, just now."""
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        if self.request.version == "v1alpha1":
            self._annotate("unready-acquired", now)
            return
        kind = "PreRecreateGrace"
        condition = {"type": kind, "status": "True", "reason": kind, "lastTransitionTime": now}
        self._patch_status({"conditions": [condition]})

    def report_containers(self) -> None:
        """Copies the statuses of running containers from the pod."""
        entries = []
        for named in self.request.spec["containers"]:
            status = self.request.pod.status(named["name"])
            if "running" in status["state"]:
                keys = ("name", "ready", "restartCount", "containerID")
                entries.append({key: status[key] for key in keys})
        if self.request.version == "v1alpha1":
            self._annotate("sync-container-statuses", json.dumps(entries))
        else:
            self._patch_status({"containerStatusSnapshot": entries})

    def serve(self, timeout: float = 30) -> Object:
        """Reports the containers until the request is completed; returns its status."""

        def is_completed() -> Object | None:
            status = self.request.status()
            if status.get("phase") == "Recreating":
                self.report_containers()
            return status if status.get("phase") == "Completed" else None

        return wait_until(is_completed, timeout, lambda: f"end: {self.request.status()}", 0.2)

    def complete(self, message: str) -> None:
        """Completes the request as the controller does after the deadline: no agent shall go on with it."""
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._patch_status({"phase": "Completed", "completionTime": now, "message": message})

    def withdraw(self) -> None:
        """Takes the request out of what agents watch."""
        labels = {f"{PREFIX}/active": None}
        self.kube.patch(self.request.path, {"metadata": {"labels": labels}})

    def _annotate(self, key: str, value: str) -> None:
        patch = {"metadata": {"annotations": {f"{PREFIX}/{key}": value}}}
        self.kube.patch(self.request.path, patch)

    def _patch_status(self, status: Object) -> None:
        self.kube.patch(f"{self.request.path}/status", {"status": status})
