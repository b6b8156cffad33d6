# SPDX-License-Identifier: Apache-2.0
"""A plain CRI client, with which the tests compare the agent's work and speed."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from lab import stubs

# The server may be restarted at any time, and its answers may be of any size.
CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.min_reconnect_backoff_ms", 5000),  # also how long a peer may take to say hello
    ("grpc.max_reconnect_backoff_ms", 200),
]

_CONTENT_NAMESPACE = (("containerd-namespace", "k8s.io"),)


@dataclass(frozen=True)
class Pulled:
    """The answer of PullImage, and the seconds that the call took."""

    image_id: str
    seconds: float


class Cri:
    """Calls to the runtime behind one socket; the bare stubs are there for everything else.

    Failures are `grpc.RpcError`, as they come.
    """

    def __init__(self, socket: Path, timeout: float = 60) -> None:
        self.timeout = timeout
        self.channel = grpc.insecure_channel(f"unix:{socket}", options=CHANNEL_OPTIONS)
        cri = stubs.load("runtime.v1.api")
        self.messages = cri.messages
        self.runtime = cri.services.RuntimeServiceStub(self.channel)
        self.images = cri.services.ImageServiceStub(self.channel)

    def close(self) -> None:
        self.channel.close()

    def version(self, timeout: float | None = None) -> Any:
        request = self.messages.VersionRequest(version="v1")
        return self.runtime.Version(request, timeout=timeout or self.timeout)

    def image_status(self, reference: str) -> Any | None:
        """The image that the runtime holds under the reference; None if it holds none."""
        request = self.messages.ImageStatusRequest(image=self._spec(reference))
        answer = self.images.ImageStatus(request, timeout=self.timeout)
        return answer.image if answer.HasField("image") else None

    def pull(self, reference: str, credentials: tuple[str, str] | None = None) -> Pulled:
        request = self.messages.PullImageRequest(image=self._spec(reference))
        if credentials is not None:
            request.auth.username, request.auth.password = credentials
        began = time.monotonic()
        answer = self.images.PullImage(request, timeout=self.timeout)
        return Pulled(answer.image_ref, time.monotonic() - began)

    def remove_image(self, reference: str) -> None:
        """Removes the named image, under all its names. No error if there is none."""
        request = self.messages.RemoveImageRequest(image=self._spec(reference))
        self.images.RemoveImage(request, timeout=self.timeout)

    def list_images(self) -> list[Any]:
        request = self.messages.ListImagesRequest()
        return list(self.images.ListImages(request, timeout=self.timeout).images)

    def image_folder(self) -> str:
        """Where the runtime says that it keeps images."""
        answer = self.images.ImageFsInfo(self.messages.ImageFsInfoRequest(), timeout=self.timeout)
        return answer.image_filesystems[0].fs_id.mountpoint

    def ingests(self) -> list[Any]:
        """The blobs that containerd is fetching just now: `ref`, `offset` and `total` of each."""
        content = stubs.load("containerd.services.content.v1.content")
        stub = content.services.ContentStub(self.channel)
        request = content.messages.ListStatusesRequest()
        answer = stub.ListStatuses(request, timeout=self.timeout, metadata=_CONTENT_NAMESPACE)
        return list(answer.statuses)

    def pod_containers(self, uid: str) -> list[Any]:
        """The containers of a pod, as the kubelet has labelled them, in any state; the oldest first."""
        filter = self.messages.ContainerFilter(label_selector={"io.kubernetes.pod.uid": uid})
        request = self.messages.ListContainersRequest(filter=filter)
        found = self.runtime.ListContainers(request, timeout=self.timeout).containers
        return sorted(found, key=lambda container: container.created_at)

    def container_status(self, container_id: str) -> tuple[Any, dict[str, Any]]:
        """The container's status, and the runtime's further info about it: "pid", "config"..."""
        messages = self.messages
        request = messages.ContainerStatusRequest(container_id=container_id, verbose=True)
        answer = self.runtime.ContainerStatus(request, timeout=self.timeout)
        return answer.status, json.loads(answer.info["info"])

    def execute(self, container_id: str, *command: str, timeout: int = 5) -> Any:
        """Runs a program in a container; has stdout, stderr and exit_code."""
        request = self.messages.ExecSyncRequest(
            container_id=container_id, cmd=command, timeout=timeout
        )
        return self.runtime.ExecSync(request, timeout=self.timeout)

    def _spec(self, reference: str) -> Any:
        return self.messages.ImageSpec(image=reference)


def describe_error(error: grpc.RpcError) -> str:
    """The status and its text: "NOT_FOUND: no such image"."""
    return f"{error.code().name}: {error.details()}"
