# SPDX-License-Identifier: Apache-2.0
"""A container runtime that speaks CRI v1 on a Unix socket and does what a test sets.

    with FakeRuntime(folder) as runtime:
        runtime.on("PullImage", behaviours.fail("NOT_FOUND", "no such image"), image="demo/web:1")
        ...
        assert [call.image for call in runtime.calls("PullImage")] == ["demo/web:1"]

What goes wrong below gRPC is up to its `front`; what it reports of bytes is in its `content`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from fake.behaviours import Answer, Behaviour, Call, normal
from fake.content import CONTENT, IMAGES, LEASES, Content
from fake.front import Front
from lab import stubs
from lab.cleanup import Closing
from lab.image import digest_of

_STREAMS = {(CONTENT, "List"), (CONTENT, "Read")}


@dataclass
class FakeImage:
    """An image that the runtime holds."""

    image_id: str
    repo_tags: list[str] = field(default_factory=list)
    repo_digests: list[str] = field(default_factory=list)
    size: int = 1000
    pinned: bool = False


class FakeRuntime(Closing):
    """Serves from the moment it is made. All of it may be changed while it runs.

    `images` is what it holds by reference; a good PullImage adds to it. `api` is the CRI version it
    speaks: with "v1alpha2" every v1 call is unknown to it. `search` is the registry where it finds
    an image without one. References of Docker Hub are those without "docker.io/library/" to a test,
    in whichever way the runtime is asked; `call.request` has what it was asked.
    """

    def __init__(self, folder: Path, *, has_content: bool = True) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.socket = folder / "runtime.sock"
        self.endpoint = f"unix://{self.socket}"
        self.api = "v1"
        self.name, self.version = "containerd", "1.6.20"
        self.search = _HUB
        self.images: dict[str, FakeImage] = {}
        self.filesystem = str(folder)
        self.content = Content(has_content)
        self._messages = stubs.load("runtime.v1.api").messages
        self._behaviours: dict[tuple[str, str | None], Behaviour] = {}
        self._calls: list[Call] = []
        self._lock = threading.Lock()
        behind = folder / "behind.sock"
        self._pool = ThreadPoolExecutor(128)
        self._server = grpc.server(self._pool, options=[("grpc.max_receive_message_length", -1)])
        self._server.add_generic_rpc_handlers((_Router(self),))
        self._server.add_insecure_port(f"unix:{behind}")
        self._server.start()
        self.front = Front(self.socket, behind)

    def close(self) -> None:
        self.front.vanish()
        self._server.stop(grace=None).wait(5)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def on(self, method: str, behaviour: Behaviour, image: str | None = None) -> None:
        """From now on, for calls of the method about the image, or about any but those named."""
        self._behaviours[method, image and _familiar(image)] = behaviour

    def behave(self) -> None:
        """Forgets all that `on` has set."""
        self._behaviours.clear()

    def calls(self, method: str | None = None, image: str | None = None) -> list[Call]:
        """The calls so far, oldest first, calls that it does not know included."""
        image = image and _familiar(image)
        with self._lock:
            return [
                call
                for call in self._calls
                if method in (None, call.method) and image in (None, call.image)
            ]

    def hold(self, reference: str, image_id: str | None = None, **more: Any) -> FakeImage:
        """Has the image, as if it had been pulled before."""
        name = reference.partition("@")[0]
        tags = [] if "@" in reference else [reference]
        digests = [f"{name.rpartition(':')[0] or name}@{digest_of(reference.encode())}"]
        image_id = image_id or digest_of(f"id of {reference}".encode())
        image = FakeImage(image_id, **{"repo_tags": tags, "repo_digests": digests, **more})
        self.images[_familiar(reference)] = image
        return image

    # The rest is for the router below.

    def begin(self, service: str, method: str, request: Any, context: Any) -> Call:
        metadata = dict(context.invocation_metadata()) if context else {}
        image = self._resolve(request.image.image) if method in _ABOUT_ONE_IMAGE and request else ""
        call = Call(method, service, request, image, metadata, time.monotonic(), context=context)
        with self._lock:
            self._calls.append(call)
        if context is not None and not context.add_callback(lambda: _end(call, True)):
            _end(call, True)
        return call

    def request_type(self, service: str, method: str) -> Any | None:
        """The type of a method's request; None for calls that it does not know."""
        if service in (CONTENT, IMAGES, LEASES):
            return self.content.request_type(service, method)
        if service not in (f"runtime.{self.api}.{name}" for name in _SERVICES):
            return None
        known = hasattr(self, f"_{method.lower()}") or (method, None) in self._behaviours
        return getattr(self._messages, f"{method}Request", None) if known else None

    def perform(self, call: Call) -> Answer:
        behaviour = self._behaviours.get((call.method, call.image))
        behaviour = behaviour or self._behaviours.get((call.method, None)) or normal()
        try:
            return behaviour(call, lambda: self._answer_well(call))
        except LookupError as error:
            call.context.abort(grpc.StatusCode[error.args[0]], error.args[1])

    def _answer_well(self, call: Call) -> Answer:
        if call.service in (CONTENT, IMAGES, LEASES):
            return self.content.handle(call)
        return getattr(self, f"_{call.method.lower()}")(call.request)

    def _resolve(self, reference: str) -> str:
        """As the tests call it; one without a registry is searched for."""
        first, slash, _ = reference.partition("/")
        has_registry = slash and (set(first) & set(".:") or first == "localhost")
        return _familiar(reference if has_registry or not reference else f"{self.search}/{reference}")

    def _version(self, request: Any) -> Answer:
        return self._messages.VersionResponse(
            version="0.1.0",
            runtime_name=self.name,
            runtime_version=self.version,
            runtime_api_version=self.api,
        )

    def _status(self, request: Any) -> Answer:
        conditions = [
            self._messages.RuntimeCondition(type=kind, status=True)
            for kind in ("RuntimeReady", "NetworkReady")
        ]
        status = self._messages.RuntimeStatus(conditions=conditions)
        return self._messages.StatusResponse(status=status)

    def _imagestatus(self, request: Any) -> Answer:
        image = self.images.get(self._resolve(request.image.image))
        return self._messages.ImageStatusResponse(image=image and self._to_message(image))

    def _listimages(self, request: Any) -> Answer:
        images = [self._to_message(image) for image in list(self.images.values())]
        return self._messages.ListImagesResponse(images=images)

    def _pullimage(self, request: Any) -> Answer:
        reference = self._resolve(request.image.image)
        image = self.images.get(reference) or self.hold(reference)
        return self._messages.PullImageResponse(image_ref=image.image_id)

    def _removeimage(self, request: Any) -> Answer:
        self.images.pop(self._resolve(request.image.image), None)
        return self._messages.RemoveImageResponse()

    def _imagefsinfo(self, request: Any) -> Answer:
        usage = self._messages.FilesystemUsage(timestamp=time.time_ns())
        usage.fs_id.mountpoint = self.filesystem
        usage.used_bytes.value = sum(image.size for image in list(self.images.values()))
        return self._messages.ImageFsInfoResponse(image_filesystems=[usage])

    def _to_message(self, image: FakeImage) -> Any:
        return self._messages.Image(
            id=image.image_id,
            repo_tags=image.repo_tags,
            repo_digests=image.repo_digests,
            size=image.size,
            pinned=image.pinned,
        )


def _familiar(reference: str) -> str:
    return reference.removeprefix(f"{_HUB}/").removeprefix("library/")


_HUB = "docker.io"
_SERVICES = ("RuntimeService", "ImageService")
_ABOUT_ONE_IMAGE = ("ImageStatus", "PullImage", "RemoveImage")


class _Router(grpc.GenericRpcHandler):
    """Finds out what a call is about and hands it to the runtime."""

    def __init__(self, runtime: FakeRuntime) -> None:
        self._runtime = runtime

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        service, _, method = details.method.lstrip("/").rpartition("/")
        request_type = self._runtime.request_type(service, method)
        if request_type is None:
            _end(self._runtime.begin(service, method, None, None), False)
            return None

        def answer(request: Any, context: Any) -> Answer:
            call = self._runtime.begin(service, method, request, context)
            try:
                return self._runtime.perform(call)
            finally:
                if context.is_active():
                    _end(call, False)

        def stream(request: Any, context: Any) -> Iterable[Answer]:
            messages = answer(request, context)
            return iter(messages if isinstance(messages, list) else [messages])

        if (service, method) in _STREAMS:
            return grpc.unary_stream_rpc_method_handler(stream, request_type.FromString, _serialize)
        return grpc.unary_unary_rpc_method_handler(answer, request_type.FromString, _serialize)


def _serialize(message: Answer) -> bytes:
    return message if isinstance(message, bytes) else message.SerializeToString()


def _end(call: Call, cancelled: bool) -> None:
    """The first report wins: the good end of a call is followed by the end of its context."""
    if not call.over.is_set():
        call.cancelled = cancelled
        call.ended_at = time.monotonic()
        call.over.set()
