# SPDX-License-Identifier: Apache-2.0
"""A pod on a real node, as its owner, a controller, the runtime and its own processes see it."""

from __future__ import annotations

import itertools
import json
import signal
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc

from lab.hashes import env_hash, env_values, plain_hash
from lab.kube import Object, one_of
from lab.kubelet import Kubelet, is_ready
from lab.wait import wait_until

META = "apps.kruise.io/runtime-containers-meta"
OPT_IN = "inplaced.io/restart-on-metadata-change"
GATE = "InPlaceUpdateReady"
VERIFIED = "inplaced.io/InPlaceVerified"

_CLONE_SET = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "lab"}

_numbers = itertools.count(1)


def shell(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


def condition(pod: Object, kind: str) -> Object:
    """Empty while there is none."""
    return next((one for one in pod["status"].get("conditions", []) if one["type"] == kind), {})


def until_term(then: str = "") -> list[str]:
    """Runs until SIGTERM, does something, and ends."""
    return shell(f"trap '{then}\nexit' TERM; while :; do sleep 3600 & wait; done")


def container(name: str, image: str, **more: Any) -> Object:
    """A container that ends at once on SIGTERM, and sees the pod's volume at /data."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": until_term(),
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        **more,
    }


def from_annotations(**variables: str) -> list[Object]:
    """`env` of a container: from_annotations(COLOUR="colour")."""
    return [_from_field(name, "annotations", key) for name, key in variables.items()]


def from_labels(**variables: str) -> list[Object]:
    return [_from_field(name, "labels", key) for name, key in variables.items()]


def _from_field(name: str, field: str, key: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.{field}['{key}']"}}}


class Pod:
    """A pod with a name of its own. With `owner`, a CloneSet owns it, whose part tests play."""

    def __init__(
        self,
        node: Kubelet,
        *containers: Object,
        name: str | None = None,
        namespace: str = "default",
        owner: bool = True,
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        self.node = node
        self.kube = node.control_plane.admin
        self.name = name or f"pod-{next(_numbers)}"
        self.namespace = namespace
        self.path = f"/api/v1/namespaces/{namespace}/pods/{self.name}"
        self._has_owner = owner
        self.document: Object = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name,
                "namespace": namespace,
                "annotations": dict(annotations or {}),
                "labels": dict(labels or {}),
            },
            "spec": {
                "nodeName": node.name,
                "terminationGracePeriodSeconds": 2,
                "automountServiceAccountToken": False,
                "volumes": [{"name": "data", "emptyDir": {}}],
                "containers": list(containers),
                **spec,
            },
        }
        if owner:
            reference = {**_CLONE_SET, "uid": str(uuid.uuid4()), "controller": True}
            self.document["metadata"]["ownerReferences"] = [reference]
            self.document["spec"].setdefault("readinessGates", [{"conditionType": GATE}])
        self.uid = ""
        # All metadata that the server has had, each with the time when it had it at the latest.
        self._metadata: list[tuple[float, Object]] = [(0, self.document["metadata"])]
        self._late: dict[str, bool] = {}  # by NAME/ID, of the containers that were started again

    # Actions of the pod's owner

    def create(self) -> Pod:
        self.uid = self.kube.create(self.document)["metadata"]["uid"]
        if self._has_owner:
            self.set_condition(GATE, "True")
        return self

    def start(self, timeout: float = 30) -> Pod:
        """Creates it, and waits until it is ready."""
        self.create()
        self.wait(is_ready, timeout)
        return self

    def delete(self, grace: int | None = 0) -> None:
        self.kube.delete(self.path, **({} if grace is None else {"gracePeriodSeconds": str(grace)}))

    def begin_update(self, **metadata: Mapping[str, str | None]) -> None:
        """As a controller that updates in place: the pod is taken out of service and changed."""
        self.set_condition(GATE, "False")
        self.change(**metadata)

    def change(
        self,
        annotations: Mapping[str, str | None] | None = None,
        labels: Mapping[str, str | None] | None = None,
        images: Mapping[str, str] | None = None,
    ) -> None:
        """In one patch. None removes a key."""
        patch: Object = {"metadata": {"annotations": annotations or {}, "labels": labels or {}}}
        if images:
            named = [{"name": name, "image": image} for name, image in images.items()]
            patch["spec"] = {"containers": named}
        metadata = self.kube.patch(self.path, patch, "strategic")["metadata"]
        self._metadata.append((time.time(), metadata))

    def set_condition(self, kind: str, status: str) -> None:
        patch = {"status": {"conditions": [{"type": kind, "status": status}]}}
        self.kube.patch(f"{self.path}/status", patch, "strategic")

    # Knowledge of the API server

    def get(self) -> Object:
        return self.kube.get(self.path)

    def wait(self, condition: Callable[[Object], Any], timeout: float = 30) -> Object:
        return self.kube.wait_for(self.path, condition, timeout)

    def status(self, name: str) -> Object:
        """The status of a container; empty while there is none."""
        return _status_in(self.get(), name)

    def container_id(self, name: str) -> str:
        return self.status(name)["containerID"]

    def condition(self, kind: str) -> Object | None:
        return condition(self.get(), kind) or None

    def wait_condition(self, kind: str, status: str, timeout: float = 10) -> Object:
        """As `kubectl wait --for=condition=…` does; returns the condition."""

        def reached() -> Object | None:
            found = self.condition(kind)
            return found if found is not None and found["status"] == status else None

        return self.kube.wait_until(
            reached, one_of(self.path), timeout, lambda: f"{kind}={status}: {self.condition(kind)}"
        )

    def restarts(self) -> dict[str, int]:
        """How often the kubelet has started each container again, as it was to.

        Two kinds of starts do not count, since each makes one more necessary: those of n_late(), and one that containerd
        has failed by its own fault.
        """
        return {one["name"]: self._n_restarts(one) for one in _statuses(self.get())}

    def wait_restarted(self, name: str, times: int = 1, timeout: float = 30) -> Object:
        """Waits until it runs again, for so many times in all, counted as by restarts(); returns its status."""

        def runs_again(pod: Object) -> bool:
            status = _status_in(pod, name)
            return "running" in status.get("state", {}) and self._n_restarts(status) == times

        return _status_in(self.wait(runs_again, timeout), name)

    def _n_restarts(self, status: Object) -> int:
        return status["restartCount"] - _was_failed_by_containerd(status) - self.n_late(status["name"])

    def meta(self) -> Object | None:
        """The agent's annotation about the containers; None if there is none."""
        return _meta_in(self.get())

    def has_meta(self) -> bool:
        return _has_meta(self.get())

    def wait_meta(self, timeout: float = 10) -> list[Object]:
        """Waits until that is so: each container's own entry, computed anew from the pod."""
        try:
            return _meta_in(self.wait(_has_meta, timeout))["containers"]
        except TimeoutError:
            pod = self.get()
            raise TimeoutError(f"{_meta_in(pod)} is not {expected_meta(pod)}") from None

    def events(self, reason: str | None = None, from_kubelet: bool = False) -> list[Object]:
        """About it, by the kubelet, or by all others."""
        path, query = self._list_of_events(reason)
        return [one for one in self.kube.list(path, **query) if (_author(one) == "kubelet") == from_kubelet]

    def wait_event(self, reason: str, timeout: float = 10) -> Object:
        about = self._list_of_events(reason)
        found = self.kube.wait_until(
            lambda: self.events(reason), about, timeout, lambda: f"event {reason} of {self.name}, only:\n{self.story()}"
        )
        return found[0]

    def story(self) -> str:
        """All events about it and the statuses of its containers, for the message of a test that fails."""
        path, query = self._list_of_events(None)
        told = [f"{_author(one)}: {one['reason']}: {one['message']}" for one in self.kube.list(path, **query)]
        return "\n".join([*told, *(json.dumps(one) for one in _statuses(self.kube.find(self.path) or {}))])

    def _list_of_events(self, reason: str | None) -> tuple[str, dict[str, str]]:
        selector = f"involvedObject.uid={self.uid}" + (f",reason={reason}" if reason else "")
        return f"/api/v1/namespaces/{self.namespace}/events", {"fieldSelector": selector}

    # Knowledge of the runtime and of the processes

    def runtime_container(self, name: str) -> Any:
        """The newest of that name."""
        found = self.node.runtime.cri.pod_containers(self.uid)
        return [one for one in found if one.metadata.name == name][-1]

    def runtime_status(self, name: str, which: int = -1) -> Any:
        """The runtime's status of the newest container of that name; 0 is the oldest that the kubelet has kept."""
        cri = self.node.runtime.cri
        found = [one for one in cri.pod_containers(self.uid) if one.metadata.name == name]
        return cri.container_status(found[which].id)[0]

    def wait_ended(self, container_id: str, timeout: float = 30) -> Any:
        """Waits until the container with that ID of the runtime has ended; returns the runtime's status of it.

        The kubelet keeps the newest one that has ended, until its successor ends, too.
        """
        cri = self.node.runtime.cri

        def ended() -> Any | None:
            status = cri.container_status(container_id)[0]
            return status if status.state == cri.messages.CONTAINER_EXITED else None

        return wait_until(ended, timeout, f"end of {container_id} of {self.name}", pause=0.02)

    def n_late(self, name: str) -> int:
        """How often the kubelet has started it again with values of labels and annotations that change() had replaced
        before: it had not heard of the change yet, as on a busy machine. The agent restarts the container once more then.

        What the runtime says of the container decides, and neither the agent nor the number of restarts. The kubelet
        removes all that have ended but the newest, so each is judged when it is first seen.
        """
        with suppress(grpc.RpcError):  # the runtime is away, or the kubelet has just removed one
            if len(self._metadata) > 1:
                self._judge_starts()
        return sum(is_late for key, is_late in self._late.items() if key.startswith(f"{name}/"))

    def _judge_starts(self) -> None:
        for one in self.node.runtime.cri.pod_containers(self.uid):
            key = f"{one.metadata.name}/{one.id}"
            if one.metadata.attempt > 0 and key not in self._late:
                self._late[key] = self._was_late(one)

    def _was_late(self, started: Any) -> bool:
        """It has exactly former values."""
        spec = self.document["spec"]
        known = [*spec["containers"], *spec.get("initContainers", [])]
        declared = next(one for one in known if one["name"] == started.metadata.name)
        before = [metadata for since, metadata in self._metadata if since < started.created_at / 1e9]
        wanted = [env_values(declared, metadata) for metadata in before]
        process = self.node.runtime.cri.container_status(started.id)[1]["runtimeSpec"]["process"]
        environment = dict(entry.partition("=")[::2] for entry in process["env"])
        found = {variable: environment.get(variable, "") for variable in wanted[-1]}
        return found != wanted[-1] and found in wanted

    def is_running(self, name: str) -> bool:
        running = self.node.runtime.cri.messages.CONTAINER_RUNNING
        return self.runtime_container(name).state == running

    def process(self, name: str) -> int:
        """The container's first process, by its number on this machine."""
        cri = self.node.runtime.cri
        return cri.container_status(self.runtime_container(name).id)[1]["pid"]

    def environment(self, name: str) -> dict[str, str]:
        """The environment that the container's process was really started with.

        A runtime says "running" shortly before its own process becomes the container's: only the latter has HOSTNAME,
        which every runtime sets.
        """
        path = Path(f"/proc/{self.process(name)}/environ")

        def read() -> dict[str, str] | None:
            entries = path.read_bytes().decode().split("\0")
            found = dict(entry.partition("=")[::2] for entry in entries if entry)
            return found if "HOSTNAME" in found else None

        return wait_until(read, 10, f"the environment of {name} of {self.name}", pause=0.01)

    def wait_heeds_term(self, name: str) -> None:
        """Waits until its first process handles SIGTERM.

        A container runs, and may be ready, before its shell has come to the trap, and the kernel keeps from the first
        process of a container what that does not handle: the process would go on until it is killed.
        """
        self.environment(name)  # the runtime's own process, which handles it, has become the container's

        def heeds_term() -> bool:
            text = Path(f"/proc/{self.process(name)}/status").read_text()
            caught = int(text.partition("\nSigCgt:")[2].split()[0], 16)
            return bool(caught >> (signal.SIGTERM - 1) & 1)

        wait_until(heeds_term, 10, f"handler of SIGTERM in {name} of {self.name}", pause=0.01)

    def wait_environment(self, name: str, variable: str, value: str, timeout: float = 30) -> None:
        """Waits until the process was started with that value; other processes may come and go before."""

        def has_it() -> bool:
            try:
                return self.environment(name).get(variable) == value
            except (OSError, KeyError, grpc.RpcError):
                return False

        wait_until(has_it, timeout, f"{variable}={value} in {name} of {self.name}", pause=0.05)

    def file(self, name: str) -> Path:
        """A file in its volume."""
        return self.node.folder.joinpath(
            "kubelet/pods", self.uid, "volumes/kubernetes.io~empty-dir/data", name
        )

    def lines(self, name: str) -> list[str]:
        """The lines of a file in the pod's volume; none if there is no such file."""
        path = self.file(name)
        return path.read_text().splitlines() if path.exists() else []


def expected_meta(pod: Object) -> list[Object]:
    """The right annotation of a pod whose containers have the environment that it asks for."""
    spec = pod["spec"]
    sidecars = [one for one in spec.get("initContainers", []) if "restartPolicy" in one]
    known = {one["name"]: one for one in [*spec["containers"], *sidecars]}
    return [
        {
            "name": status["name"],
            "containerID": status["containerID"],
            "restartCount": status["restartCount"],
            "hashes": {
                "plainHash": plain_hash(known[status["name"]]),
                "extractedEnvFromMetadataHash": env_hash(known[status["name"]], pod["metadata"]),
            },
        }
        for status in _statuses(pod)
        if status["name"] in known and "containerID" in status
    ]


def _was_failed_by_containerd(status: Object) -> bool:
    """Whether the container before the newest one never ran, because containerd took the pod's sandbox, which is well,
    for one without a process: it then looks for the namespaces of process 0. The kubelet tries again.
    """
    last = status.get("lastState", {}).get("terminated", {})
    return last.get("reason") == "StartError" and "/proc/0/ns/" in last.get("message", "")


def _statuses(pod: Object) -> Sequence[Object]:
    status = pod.get("status", {})
    return [*status.get("containerStatuses", []), *status.get("initContainerStatuses", [])]


def _status_in(pod: Object, name: str) -> Object:
    return next((one for one in _statuses(pod) if one["name"] == name), {})


def _has_meta(pod: Object) -> bool:
    return (_meta_in(pod) or {}).get("containers") == expected_meta(pod)


def _meta_in(pod: Object) -> Object | None:
    text = pod["metadata"].get("annotations", {}).get(META)
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return None


def _author(event: Object) -> str:
    return event.get("reportingComponent") or event.get("source", {}).get("component", "")
