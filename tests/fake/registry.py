# SPDX-License-Identifier: Apache-2.0
"""An image registry over plain HTTP that fails in whatever way a test sets.

    with FakeRegistry() as registry:
        image = registry.add("demo/web", "1", build_image([random_layer(1 << 20)]))
        registry.on("layer", reset_after(1000), name="demo/web")

Runtimes see it as any other registry; its failures come back as their error texts. Small images
only: it holds all bytes in memory.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

from lab.cleanup import Closing
from lab.image import Image
from lab.registry import PushedImage

Kind = Literal["ping", "manifest", "config", "layer", "other"]


@dataclass(frozen=True)
class Request:
    """A request to the registry. `name` is the repository, `at` a time of time.monotonic()."""

    kind: Kind
    method: str
    name: str
    path: str
    headers: dict[str, str]
    at: float


@dataclass
class Reply:
    """The answer of a well-behaved registry."""

    status: int
    headers: dict[str, str]
    body: bytes


class Connection:
    """The connection that the request came over, with the actions of a behaviour."""

    def __init__(self, handler: BaseHTTPRequestHandler, method: str) -> None:
        self._handler = handler
        self._with_body = method != "HEAD"

    def send(self, reply: Reply) -> None:
        self.send_head(reply)
        self.send_body(reply.body)

    def send_head(self, reply: Reply) -> None:
        self._handler.send_response(reply.status)
        for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
            self._handler.send_header(name, value)
        self._handler.end_headers()
        self._handler.wfile.flush()

    def send_body(self, content: bytes) -> None:
        if self._with_body:
            self._handler.wfile.write(content)
            self._handler.wfile.flush()

    def close(self) -> None:
        """In the middle, as if all had been said."""
        self._handler.close_connection = True

    def reset(self) -> None:
        """Breaks the connection so that the peer sees an error, not an end."""
        connection = self._handler.connection
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # Closing as the server does would say goodbye first.
        os.close(connection.detach())
        self._handler.close_connection = True

    def wait_gone(self, seconds: float = 300) -> bool:
        """Waits until the peer hangs up, at most so long. If it did not, it may go on."""
        readable, _, _ = select.select([self._handler.connection], [], [], seconds)
        if readable:
            self.close()
        return bool(readable)


Behaviour = Callable[[Connection, Request, Reply], None]


def _with_body(behave: Behaviour) -> Behaviour:
    """HEAD has no body that could be spoilt: it is answered well."""

    def choose(connection: Connection, request: Request, reply: Reply) -> None:
        if request.method == "HEAD":
            connection.send(reply)
        else:
            behave(connection, request, reply)

    return choose


def hang() -> Behaviour:
    """Says nothing at all until the peer gives up."""

    def behave(connection: Connection, request: Request, reply: Reply) -> None:
        connection.wait_gone()

    return behave


def _end_after(n_bytes: int, end: Callable[[Connection], object]) -> Behaviour:
    def behave(connection: Connection, request: Request, reply: Reply) -> None:
        connection.send_head(reply)
        connection.send_body(reply.body[:n_bytes])
        end(connection)

    return _with_body(behave)


def hang_after_headers(after_bytes: int = 0) -> Behaviour:
    """Begins a good answer and then says no more."""
    return _end_after(after_bytes, Connection.wait_gone)


def reset_after(n_bytes: int) -> Behaviour:
    """Breaks the connection in the middle of the body."""
    return _end_after(n_bytes, Connection.reset)


def truncate(n_bytes: int) -> Behaviour:
    """Ends the connection early, but in order."""
    return _end_after(n_bytes, Connection.close)


def trickle(bytes_per_second: float, step: int = 1) -> Behaviour:
    """Sends all of it, `step` bytes at a time, evenly."""

    def behave(connection: Connection, request: Request, reply: Reply) -> None:
        connection.send_head(reply)
        for start in range(0, len(reply.body), step):
            connection.send_body(reply.body[start : start + step])
            if connection.wait_gone(step / bytes_per_second):
                return

    return _with_body(behave)


class Line:
    """Behaviours that share a line of so many bytes per second, fairly, as pulls of a node share its uplink.

    `sent` says when how many bytes of which repository went out.
    """

    def __init__(self, bytes_per_second: float, step: int = 1 << 14) -> None:
        self.sent: list[tuple[float, str, int]] = []
        self._pace = step / bytes_per_second
        self._step = step
        self._free_at = 0.0
        self._lock = threading.Lock()

    def n_sent(self, name: str, since: float = 0, until: float = float("inf")) -> int:
        """The bytes of a repository; times are of time.monotonic()."""
        return sum(n for at, of, n in list(self.sent) if of == name and since <= at <= until)

    def widen(self) -> None:
        """Sends the rest without a wait: the kubelet has one pull at a time, and ends none for a pod that is deleted."""
        self._pace = 0.0

    def behave(self, connection: Connection, request: Request, reply: Reply) -> None:
        connection.send_head(reply)
        for start in range(0, len(reply.body) if request.method != "HEAD" else 0, self._step):
            with self._lock:
                at = self._free_at = max(time.monotonic(), self._free_at + self._pace)
            if connection.wait_gone(max(0, at - time.monotonic())):
                return
            part = reply.body[start : start + self._step]
            connection.send_body(part)
            self.sent.append((time.monotonic(), request.name, len(part)))


def refuse(status: int, text: str = "", **headers: str) -> Behaviour:
    """An HTTP status; `Retry_After="1"` makes a header of that name with a dash."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if status == 401:
        named.setdefault("WWW-Authenticate", 'Basic realm="fake"')
    return lambda connection, request, reply: connection.send(Reply(status, named, text.encode()))


def forge() -> Behaviour:
    """Sends other bytes of the same length, under the headers of the right ones."""

    def behave(connection: Connection, request: Request, reply: Reply) -> None:
        forged = reply.body[:-1] + bytes([reply.body[-1] ^ 1])
        connection.send(Reply(reply.status, reply.headers, forged))

    return behave


def redirect_for_ever() -> Behaviour:
    return lambda connection, request, reply: connection.send(
        Reply(307, {"Location": request.path}, b"")
    )


class FakeRegistry(Closing):
    """Serves on the loopback address from the moment it is made."""

    def __init__(self) -> None:
        self._replies: dict[str, tuple[Kind, Reply]] = {"/v2/": ("ping", Reply(200, {}, b"{}"))}
        self._behaviours: dict[tuple[str, str | None], Behaviour] = {}
        self._requests: list[Request] = []
        self._open: list[Request] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._make_handler())
        self._server.daemon_threads = True
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add(self, name: str, tag: str, image: Image) -> PushedImage:
        manifest = Reply(
            200,
            {"Content-Type": image.media_type, "Docker-Content-Digest": image.manifest_digest},
            image.manifest,
        )
        for reference in (tag, image.manifest_digest):
            self._replies[f"/v2/{name}/manifests/{reference}"] = "manifest", manifest
        self._add_blob(name, "config", image.image_id, image.config)
        for layer in image.layers:
            self._add_blob(name, "layer", layer.digest, b"".join(layer.chunks()))
        return PushedImage(
            reference=f"{self.host}/{name}:{tag}",
            digest_reference=f"{self.host}/{name}@{image.manifest_digest}",
            image_id=image.image_id,
            manifest_digest=image.manifest_digest,
            size=image.compressed_size,
        )

    def on(self, kind: Kind, behaviour: Behaviour, name: str | None = None) -> None:
        """From now on, for requests of the kind about the repository, or about any."""
        self._behaviours[kind, name] = behaviour

    def behave(self) -> None:
        """Forgets all that `on` has set."""
        self._behaviours.clear()

    def requests(self, kind: Kind | None = None, name: str | None = None) -> list[Request]:
        """The requests so far, oldest first."""
        return [
            request
            for request in list(self._requests)
            if kind in (None, request.kind) and name in (None, request.name)
        ]

    def is_fetched_from(self, name: str | None = None) -> bool:
        """Whether a layer, of the repository or of any, is on its way: asked for, and the peer still listens."""
        return any(one.kind == "layer" and name in (None, one.name) for one in list(self._open))

    def _add_blob(self, name: str, kind: Kind, digest: str, content: bytes) -> None:
        headers = {"Content-Type": "application/octet-stream", "Docker-Content-Digest": digest}
        self._replies[f"/v2/{name}/blobs/{digest}"] = kind, Reply(200, headers, content)

    def _serve(self, handler: BaseHTTPRequestHandler, method: str) -> None:
        path = handler.path.partition("?")[0]
        kind, reply = self._replies.get(path, ("other", Reply(404, {}, b"")))
        name = path.removeprefix("/v2/").rpartition("/")[0].rpartition("/")[0]
        headers = dict(handler.headers.items())
        request = Request(kind, method, name, path, headers, time.monotonic())
        self._requests.append(request)
        behaviour = self._behaviours.get((kind, name)) or self._behaviours.get((kind, None))
        connection = Connection(handler, method)
        self._open.append(request)
        try:
            if behaviour is None:
                connection.send(_part_of(reply, headers.get("Range")))
            else:
                behaviour(connection, request, _part_of(reply, headers.get("Range")))
        finally:
            self._open.remove(request)

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Clients that try TLS first know an answer in HTTP when they see its version.
            default_request_version = "HTTP/1.0"

            def do_GET(self) -> None:
                with suppress(ConnectionError):
                    registry._serve(self, "GET")

            def do_HEAD(self) -> None:
                with suppress(ConnectionError):
                    registry._serve(self, "HEAD")

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with suppress(ConnectionError):
                    registry._serve(self, "POST")

            def log_message(self, format: str, *arguments: object) -> None:
                """Not on the test's terminal; `requests` has it all."""

        return Handler


def _part_of(reply: Reply, wanted: str | None) -> Reply:
    """Runtimes go on where a connection broke with "bytes=START-"."""
    if wanted is None or not wanted.startswith("bytes=") or reply.status != 200:
        return reply
    start, _, end = wanted.removeprefix("bytes=").partition("-")
    body = reply.body[int(start) : int(end) + 1 if end else None]
    span = f"bytes {start}-{int(start) + len(body) - 1}/{len(reply.body)}"
    return Reply(206, {**reply.headers, "Content-Range": span}, body)
