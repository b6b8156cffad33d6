# SPDX-License-Identifier: Apache-2.0
"""The part of containerd that reports what arrives while it pulls, with scripted bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fake.behaviours import Answer, Behaviour, Call
from lab import stubs
from lab.image import digest_of

CONTENT = "containerd.services.content.v1.Content"
LEASES = "containerd.services.leases.v1.Leases"
IMAGES = "containerd.services.images.v1.Images"


@dataclass
class Ingest:
    """A blob on its way: grows from `begin` on and, if set, stalls at `stops_at` bytes."""

    digest: str
    total: int
    bytes_per_second: float
    stops_at: int | None = None
    kind: str = "layer"
    began_at: float | None = field(default=None, init=False)
    began_ns: int = field(default=0, init=False)  # by the wall clock

    @property
    def ref(self) -> str:
        return f"{self.kind}-{self.digest}"

    @property
    def offset(self) -> int:
        if self.began_at is None:
            return 0
        grown = int((time.monotonic() - self.began_at) * self.bytes_per_second)
        return min(grown, self.total if self.stops_at is None else self.stops_at)

    @property
    def is_complete(self) -> bool:
        return self.began_at is not None and self.offset >= self.total


class Content:
    """`names` says which blob an image's name means, `blobs` holds the bytes of small ones.

    Without `present` its calls are unknown, as they are to runtimes other than containerd.
    """

    def __init__(self, present: bool = True) -> None:
        self.present = present
        self.names: dict[str, str] = {}
        self.blobs: dict[str, bytes] = {}
        self.ingests: list[Ingest] = []
        self.leases: list[str] = []  # IDs of other programs' leases
        self.leases_made_at: float | None = None  # time by the wall clock; None: just now
        self._content = stubs.load("containerd.services.content.v1.content").messages
        self._images = stubs.load("containerd.services.images.v1.images").messages
        self._leases = stubs.load("containerd.services.leases.v1.leases").messages

    def add_blob(self, content: bytes) -> str:
        digest = digest_of(content)
        self.blobs[digest] = content
        return digest

    def fetch(self, *ingests: Ingest, unpack_seconds: float = 0) -> Behaviour:
        """For PullImage: the ingests grow to their end, if they have one, then it unpacks.

        When the caller gives up the ingests are gone, as they are in containerd.
        """

        def behave(call: Call, good: Callable[[], Answer]) -> Answer:
            for ingest in ingests:
                ingest.began_at, ingest.began_ns = time.monotonic(), time.time_ns()
            self.ingests = [*self.ingests, *ingests]
            while not all(ingest.is_complete for ingest in ingests):
                if call.wait_over(0.005):
                    self.ingests = [one for one in self.ingests if one not in ingests]
                    return b""
            return b"" if call.wait_over(unpack_seconds) else good()

        return behave

    def request_type(self, service: str, method: str) -> Any | None:
        """None if there is no such call."""
        if not self.present:
            return None
        if service == IMAGES:
            return {"Get": self._images.GetImageRequest}.get(method)
        if service == LEASES:
            return {
                "Create": self._leases.CreateRequest,
                "Delete": self._leases.DeleteRequest,
                "List": self._leases.ListRequest,
                "ListResources": self._leases.ListResourcesRequest,
            }.get(method)
        return {
            "Info": self._content.InfoRequest,
            "List": self._content.ListContentRequest,
            "Read": self._content.ReadContentRequest,
            "Status": self._content.StatusRequest,
            "ListStatuses": self._content.ListStatusesRequest,
        }.get(method)

    def handle(self, call: Call) -> Answer:
        """Answers one call well; streams are lists of messages here."""
        if call.metadata.get("containerd-namespace") != "k8s.io":
            raise LookupError("FAILED_PRECONDITION", "namespace is required: failed precondition")
        if call.service == LEASES and call.method == "List":
            return self._list_leases()
        return getattr(self, f"_{call.method.lower()}")(call.request)

    def _get(self, request: Any) -> Answer:
        if request.name not in self.names:
            raise LookupError("NOT_FOUND", f'image "{request.name}": not found')
        digest = self.names[request.name]
        size = len(self.blobs.get(digest, b""))
        target = self._images.Descriptor(digest=digest, size=size)
        image = self._images.Image(name=request.name, target=target)
        return self._images.GetImageResponse(image=image)

    def _info(self, request: Any) -> Answer:
        for info in self._infos():
            if info.digest == request.digest:
                return self._content.InfoResponse(info=info)
        raise LookupError("NOT_FOUND", f"content {request.digest}: not found")

    def _list(self, request: Any) -> list[Answer]:
        """By digest; all small blobs are manifests, which alone have labels."""
        parts = [one.removeprefix("digest==").partition(",labels.") for one in request.filters]
        expected = [digest for digest, labels, _ in parts if not labels or digest in self.blobs]
        infos = [info for info in self._infos() if info.digest in expected]
        return [self._content.ListContentResponse(info=infos)]

    def _create(self, request: Any) -> Answer:
        return self._leases.CreateResponse(lease=self._leases.Lease(id=request.id))

    def _delete(self, request: Any) -> Answer:
        return self._leases.DeleteResponse()

    def _list_leases(self) -> Answer:
        made_at = self._leases.Timestamp(seconds=int(self.leases_made_at or time.time() + 1))
        leases = [self._leases.Lease(id=name, created_at=made_at) for name in self.leases]
        return self._leases.ListResponse(leases=leases)

    def _listresources(self, request: Any) -> Answer:
        """Every lease refers to all that is there: only one image is pulled at a time."""
        resources = [("content", info.digest) for info in self._infos()]
        resources += [("ingests", status.ref) for status in self._statuses()]
        listed = [self._leases.Resource(type=kind, id=name) for kind, name in resources]
        return self._leases.ListResourcesResponse(resources=listed)

    def _read(self, request: Any) -> list[Answer]:
        if request.digest not in self.blobs:
            raise LookupError("NOT_FOUND", f"content {request.digest}: not found")
        end = request.offset + request.size if request.size else None
        data = self.blobs[request.digest][request.offset : end]
        return [self._content.ReadContentResponse(offset=request.offset, data=data)]

    def _status(self, request: Any) -> Answer:
        for status in self._statuses():
            if status.ref == request.ref:
                return self._content.StatusResponse(status=status)
        raise LookupError("NOT_FOUND", f"ingest {request.ref}: not found")

    def _liststatuses(self, request: Any) -> Answer:
        return self._content.ListStatusesResponse(statuses=list(self._statuses()))

    def _infos(self) -> Iterator[Any]:
        for digest, content in self.blobs.items():
            labels = {"containerd.io/distribution.source.registry.example": "demo/web"}
            yield self._content.Info(digest=digest, size=len(content), labels=labels)
        for ingest in self.ingests:
            if ingest.is_complete:
                created = self._timestamp(ingest)
                yield self._content.Info(
                    digest=ingest.digest, size=ingest.total, created_at=created
                )

    def _statuses(self) -> Iterator[Any]:
        for ingest in self.ingests:
            if not ingest.is_complete:
                yield self._content.Status(
                    started_at=self._timestamp(ingest),
                    ref=ingest.ref,
                    offset=ingest.offset,
                    total=ingest.total,
                )

    def _timestamp(self, ingest: Ingest) -> Any:
        """When it began, which stands for its end as well: both are within the pull."""
        seconds, nanos = divmod(ingest.began_ns, 1_000_000_000)
        return self._content.Timestamp(seconds=seconds, nanos=nanos)
