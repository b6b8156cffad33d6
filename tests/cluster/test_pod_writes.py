# SPDX-License-Identifier: Apache-2.0
"""Proves that the agent writes to a pod as often as there is something to report, whichever other writer writes
to the same fields, and however many containers there are.

The pods are bound to a node without a kubelet: their statuses, and their containers in the runtime,
are what the tests set.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fake.behaviours import Answer, Call, answer
from fake.runtime_proxy import RuntimeProxy
from lab import sanitizers, stubs
from lab.kube import Kube, Object
from lab.kubeconfig import write_kubeconfig
from lab.pod import GATE, META, VERIFIED, condition
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

pytestmark = pytest.mark.timeout(90 * SLOWLY)

_IMAGE_ID = f"sha256:{'a' * 64}"
_RACE_SECONDS = 15


class MadePod:
    """A pod that runs nowhere, though the runtime lists its containers."""

    def __init__(self, kube: Kube, node_name: str, n_containers: int) -> None:
        self.kube = kube
        self.name = f"{node_name}-pod"
        self.path = f"/api/v1/namespaces/default/pods/{self.name}"
        self.names = [f"c{i}" for i in range(n_containers)]
        owner = {
            "apiVersion": "apps.kruise.io/v1alpha1",
            "kind": "CloneSet",
            "name": "lab",
            "uid": str(uuid.uuid4()),
            "controller": True,
        }
        containers = [{"name": name, "image": "nowhere/web:1"} for name in self.names]
        made = kube.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": self.name,
                    "namespace": "default",
                    "ownerReferences": [owner],
                },
                "spec": {
                    "nodeName": node_name,
                    "automountServiceAccountToken": False,
                    "containers": containers,
                },
            }
        )
        self.uid = made["metadata"]["uid"]

    def container_id(self, name: str) -> str:
        return f"{name:0>64}"

    def begin(self) -> None:
        """Reports all containers as running, and begins an update of OpenKruise."""
        statuses = [
            {
                "name": name,
                "image": "nowhere/web:1",
                "imageID": _IMAGE_ID,
                "ready": True,
                "restartCount": 0,
                "containerID": f"containerd://{self.container_id(name)}",
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            }
            for name in self.names
        ]
        conditions = [{"type": GATE, "status": "True"}]
        status = {"phase": "Running", "conditions": conditions, "containerStatuses": statuses}
        self.kube.patch(f"{self.path}/status", {"status": status}, "merge")

    def add_to(self, listed: Any) -> None:
        for name in self.names:
            one = listed.containers.add(
                id=self.container_id(name),
                image_ref=_IMAGE_ID,
                state=1,  # running
                created_at=1,
            )
            one.metadata.name = name
            one.image.image = "nowhere/web:1"
            one.labels["io.kubernetes.pod.uid"] = self.uid
            one.labels["io.kubernetes.pod.name"] = self.name
            one.labels["io.kubernetes.pod.namespace"] = "default"
            one.labels["io.kubernetes.container.name"] = name
            one.annotations["io.kubernetes.container.hash"] = "1f"
            one.annotations["io.kubernetes.container.restartCount"] = "0"

    def get(self) -> Object:
        return self.kube.get(self.path)

    def wait(self, condition: Callable[[Object], Any]) -> Object:
        return self.kube.wait_for(self.path, condition, 20 * SLOWLY)


def entries(pod: Object) -> list[Object]:
    text = pod["metadata"].get("annotations", {}).get(META, "{}")
    return json.loads(text).get("containers", [])


def verified(pod: Object) -> Object:
    return condition(pod, VERIFIED)


@pytest.fixture
def make_pod(
    start_agent, runtime, control_plane, api, kube, node_name, folder
) -> Iterator[Callable[[int], MadePod]]:
    """make_pod(n): a pod with n containers, to which an agent is about to write."""
    pods: list[MadePod] = []

    messages = stubs.load("runtime.v1.api").messages

    def list_containers(call: Call, good: Callable[[], Answer]) -> Answer:
        listed = messages.ListContainersResponse()
        wanted = call.request.filter.label_selector.get("io.kubernetes.pod.uid")
        for pod in pods:
            if wanted in (None, pod.uid):
                pod.add_to(listed)
        return listed

    def make(n_containers: int) -> MadePod:
        pod = MadePod(kube, node_name, n_containers)
        pods.append(pod)
        pod.begin()
        return pod

    with RuntimeProxy(folder / "runtime", runtime.socket) as proxy:
        proxy.on("ListContainers", list_containers)
        proxy.on("ImageStatus", answer(messages.ImageStatusResponse(image={"id": _IMAGE_ID})))
        token = control_plane.agent_token()
        path = write_kubeconfig(folder / "agent.conf", api.url, api.authority, token=token)
        start_agent(proxy.endpoint, kubeconfig=path, node_name=node_name)
        yield make
    for pod in pods:
        kube.delete(pod.path, gracePeriodSeconds="0")


@pytest.mark.parametrize("n_containers", [257, 1024])
def test_each_of_many_containers_is_written_once(make_pod, api, n_containers):
    """The agent reads back what it wrote, and does not write it again."""
    pod = make_pod(n_containers)
    found = pod.wait(lambda pod: len(entries(pod)) == n_containers)
    assert [one["name"] for one in entries(found)] == pod.names
    wait_until(lambda: verified(pod.get()), 20 * SLOWLY, "condition")
    writes = rf"^PATCH {pod.path}/status"
    n_before = len(api.requests(writes))
    with pytest.raises(TimeoutError):  # the time in which it would write without end
        wait_until(lambda: len(api.requests(writes)) > n_before + 1, 3, "more", is_exact=True)


_SPOILERS: dict[str, Callable[[int], tuple[str, Object]]] = {
    "annotation": lambda n: ("", {"metadata": {"annotations": {META: f'{{"by":{n}}}'}}}),
    "condition": lambda n: (
        "/status",
        {"status": {"conditions": [{"type": VERIFIED, "status": "Unknown", "reason": f"By{n}"}]}},
    ),
}


@pytest.mark.parametrize("field", _SPOILERS)
def test_another_writer_of_the_field(make_pod, field):
    """Another writer reverts the field each time; the agent writes less and less often."""
    pod = make_pod(1)
    pod.wait(lambda pod: entries(pod) and verified(pod).get("reason"))
    n_spoilt = 0

    def is_ours(pod: Object) -> bool:
        if field == "annotation":
            return bool(entries(pod))
        return not verified(pod).get("reason", "By").startswith("By")

    began = time.monotonic()
    while (left := began + _RACE_SECONDS - time.monotonic()) > 0:
        try:
            wait_until(lambda: is_ours(pod.get()), left, "write", is_exact=True)
        except TimeoutError:
            break
        n_spoilt += 1
        where, patch = _SPOILERS[field](n_spoilt)
        pod.kube.patch(pod.path + where, patch, "strategic")

    # At first, and 0.25, 0.5, 1, 2, 4 and 8 s after the last time.
    assert 3 <= n_spoilt <= 8
