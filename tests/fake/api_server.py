# SPDX-License-Identifier: Apache-2.0
"""As much of a Kubernetes API server as an agent meets that preloads images, in memory.

    with FakeApiServer(folder) as server:
        server.create("nodeimages", {"metadata": {"name": "node-1"}, "spec": {...}})
        ...
        assert server.get("nodeimages", "node-1")["status"]["succeeded"] == 1

It serves NodeImages, Nodes, Secrets and Events, and does what clients must bear of a good server:
old versions are forgotten, page tokens expire, rights are missing, streamed lists are unknown. What
a good server does not do is up to the ApiProxy.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fake.api_faults import status_object
from fake.api_store import RESOURCES, ApiStore, Object, Refusal, look_up
from lab.certificates import make_certificates
from lab.cleanup import Closing

# By which fields objects can be selected, beside their names.
_FIELDS = {"events": ("involvedObject.kind", "involvedObject.name", "reason")}

_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass
class Call:
    """A request that was understood."""

    method: str
    group: str
    version: str
    namespace: str
    resource: str
    name: str
    subresource: str
    query: dict[str, str]
    body: Any

    @property
    def verb(self) -> str:
        if self.method == "GET" and not self.name:
            return "watch" if self.query.get("watch") in ("1", "true") else "list"
        return _VERBS[self.method]


@dataclass
class _Selector:
    """A field selector and a label selector, of equalities alone."""

    namespace: str
    terms: list[tuple[tuple[str, ...], str]] = field(default_factory=list)

    @staticmethod
    def parse(call: Call) -> _Selector:
        terms = []
        for term in filter(None, call.query.get("fieldSelector", "").split(",")):
            path, _, value = term.replace("==", "=").partition("=")
            if path not in _FIELDS.get(call.resource, ()) and path != "metadata.name":
                raise Refusal(400, f'field label not supported: "{path}"')
            terms.append((tuple(path.split(".")), value))
        for term in filter(None, call.query.get("labelSelector", "").split(",")):
            label, _, value = term.replace("==", "=").partition("=")
            terms.append((("metadata", "labels", label), value))
        return _Selector(call.namespace, terms)

    def selects(self, found: Object) -> bool:
        if self.namespace and found["metadata"].get("namespace") != self.namespace:
            return False
        return all(look_up(found, *path) == value for path, value in self.terms)


class FakeApiServer(ApiStore, Closing):
    """Serves at `url` from the moment it is made; `folder` is for its certificates.

    Everything may be changed while it runs: `tokens` are let in; `forbidden` holds pairs of a verb
    and a resource, but not for `admin_tokens`; `versions` are those that apps.kruise.io is served
    in; no page of a list is longer than `page_size`, unless that is 0 or none were asked for.
    """

    def __init__(self, folder: Path, *, streams_lists: bool = True, page_size: int = 0) -> None:
        super().__init__()
        folder.mkdir(parents=True, exist_ok=True)
        self.tokens = {"lab-token"}
        self.admin_tokens = {"lab-admin"}
        self.forbidden: set[tuple[str, str]] = set()
        self.versions = ["v1beta1", "v1alpha1"]
        self.streams_lists, self.page_size = streams_lists, page_size
        self._pages: dict[str, tuple[str, list[Object]]] = {}
        self._is_closed = False
        certificates = make_certificates(folder)
        self.authority = certificates.authority
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificates.certificate, certificates.key)
        tls.set_alpn_protocols(["http/1.1"])
        self._server = _Server(("127.0.0.1", 0), _make_handler(self))
        self._server.socket = tls.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        with self.changed:
            self._is_closed = True
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def expire_pages(self) -> None:
        """The rest of lists that were begun is not to be had any more."""
        with self.changed:
            self._pages.clear()

    # Requests over HTTP

    def serve(self, handler: _Handler) -> None:
        answer: Object
        try:
            token = handler.headers.get("Authorization", "").removeprefix("Bearer ")
            if token not in self.tokens | self.admin_tokens:
                raise Refusal(401, "Unauthorized")
            size = int(handler.headers.get("Content-Length") or 0)
            body = json.loads(handler.rfile.read(size)) if size else None
            path = urlsplit(handler.path)
            answer = self._discover(path.path) or {}
            if not answer:
                call = _parse(handler.command, path.path, path.query, body)
                self._check_rights(call, token in self.admin_tokens)
                if call.verb == "watch":
                    self._watch(handler, call)
                    return
                answer = self._answer(call, handler.headers.get("Accept", ""))
            code = 201 if handler.command == "POST" else 200
        except Refusal as refusal:
            code, answer = refusal.code, refusal.body
        text = json.dumps(answer).encode()
        handler.send_response(code)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    def _discover(self, path: str) -> Object | None:
        group, _, version = path.removeprefix("/apis/").partition("/")
        if path in ("/healthz", "/livez", "/readyz", "/version"):
            return {"major": "1", "minor": "34", "gitVersion": "v1.34.4"}
        if path == "/api/v1":
            group, version = "", "v1"
        elif group != "apps.kruise.io" or "/" in version or not self.versions:
            return None
        elif not version:
            served = [{"groupVersion": f"{group}/{v}", "version": v} for v in self.versions]
            about = {"name": group, "versions": served, "preferredVersion": served[0]}
            return {"kind": "APIGroup", "apiVersion": "v1", **about}
        elif version not in self.versions:
            return None
        resources = []
        for name, about in RESOURCES.items():
            for found in [name] + [f"{name}/status"] * about.has_status:
                if about.group == group:
                    resources.append(
                        {"name": found, "kind": about.kind, "namespaced": about.has_namespaces}
                    )
        group_version = f"{group}/{version}".strip("/")
        return {"kind": "APIResourceList", "groupVersion": group_version, "resources": resources}

    def _check_rights(self, call: Call, is_admin: bool) -> None:
        known = RESOURCES.get(call.resource)
        served = self.versions if call.group else ["v1"]
        if known is None or known.group != call.group or call.version not in served:
            raise Refusal(404, "the server could not find the requested resource")
        if not is_admin and (call.verb, call.resource) in self.forbidden:
            what = ".".join(filter(None, [call.resource, call.group]))
            raise Refusal(
                403,
                f'{what} "{call.name}" is forbidden: User "lab" cannot {call.verb} resource '
                f'"{call.resource}" in API group "{call.group}" at the cluster scope',
            )

    def _answer(self, call: Call, accept: str) -> Object:
        if call.verb == "list":
            return self._list(call)
        if call.verb == "create":
            namespace = {"namespace": call.namespace} if call.namespace else {}
            metadata = {**call.body["metadata"], **namespace}
            return _dress(call, self.create(call.resource, {**call.body, "metadata": metadata}))
        at = call.resource, call.name
        if call.verb == "patch":
            is_status = call.subresource == "status"
            found = self.patch(*at, call.body, call.namespace, is_status)
        elif call.verb == "delete":
            found = self.delete(*at, call.namespace)
        elif call.verb == "get":
            found = self.get(*at, call.namespace)
        else:
            raise Refusal(405, f"the server does not allow this method: {call.method}")
        if "as=PartialObjectMetadata" in accept:
            return {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": found["metadata"],
            }
        return _dress(call, found)

    def _list(self, call: Call) -> Object:
        selector = _Selector.parse(call)
        with self.changed:
            if call.query.get("continue"):
                if call.query["continue"] not in self._pages:
                    raise Refusal(410, "The provided continue parameter is too old", "Expired")
                version, found = self._pages[call.query["continue"]]
            else:
                version = str(self.version)
                found = [each for each in self.list(call.resource) if selector.selects(each)]
            metadata: Object = {"resourceVersion": version}
            limit = int(call.query.get("limit") or 0)
            size = min(limit, self.page_size or limit)
            if size and len(found) > size:
                token = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()
                self._pages[token] = version, found[size:]
                metadata |= {"continue": token, "remainingItemCount": len(found) - size}
                found = found[:size]
        kind = f"{RESOURCES[call.resource].kind}List"
        items = [_dress(call, each) for each in found]
        return {**_dress(call, {}), "kind": kind, "metadata": metadata, "items": items}

    def _watch(self, handler: _Handler, call: Call) -> None:
        selector = _Selector.parse(call)
        wants_initial = call.query.get("sendInitialEvents") == "true"
        if wants_initial and not self.streams_lists:
            raise Refusal(422, "sendInitialEvents: Forbidden: not on this server")
        bookmarks = call.query.get("allowWatchBookmarks") in ("1", "true")
        deadline = time.monotonic() + float(call.query.get("timeoutSeconds") or 1800)
        since = int(call.query.get("resourceVersion") or 0)
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        with self.changed:
            first = []
            if since == 0 or wants_initial:
                since = self.version
                found = [each for each in self.list(call.resource) if selector.selects(each)]
                first = [{"type": "ADDED", "object": _dress(call, each)} for each in found]
            if wants_initial:
                end = {"annotations": {"k8s.io/initial-events-end": "true"}}
                first.append(_bookmark(call, since, end))
            is_too_old = since < self.oldest
        if is_too_old:
            error = status_object(410, f"too old resource version: {since}", "Expired")
            first = [{"type": "ERROR", "object": error}]
            deadline = 0
        for event in first:
            handler.send_line(event)
        while (now := time.monotonic()) < deadline:
            with self.changed:
                news = self.changes(since)
                if not news and not self._is_closed:
                    self.changed.wait(min(deadline - now, 1))
                    continue
                since = max(since, self.version)
            if self._is_closed:
                break
            for change in news:
                if change.resource != call.resource:
                    continue
                if change.kind == "BOOKMARK":
                    if bookmarks:
                        handler.send_line(_bookmark(call, change.version, {}))
                elif selector.selects(change.object):
                    event = {"type": change.kind, "object": _dress(call, change.object)}
                    handler.send_line(event)
        handler.send_chunk(b"")


def _parse(method: str, path: str, query: str, body: Any) -> Call:
    """/api/VERSION/… or /apis/GROUP/VERSION/…, then [namespaces/NAME/]RESOURCE[/NAME[/STATUS]]"""
    words = path.strip("/").split("/")
    if words[:1] == ["api"]:
        group, words = "", words[1:]
    elif words[:1] == ["apis"] and len(words) > 2:
        group, words = words[1], words[2:]
    else:
        raise Refusal(404, "the server could not find the requested resource")
    version, words = words[0], words[1:]
    namespace = ""
    if words[:1] == ["namespaces"] and len(words) > 2:
        namespace, words = words[1], words[2:]
    resource, name, subresource = [*words, "", "", ""][:3]
    values = {key: found[-1] for key, found in parse_qs(query).items()}
    return Call(method, group, version, namespace, resource, name, subresource, values, body)


def _dress(call: Call, found: Object) -> Object:
    """In the version that was asked for."""
    api_version = f"{call.group}/{call.version}".strip("/")
    return {**found, "kind": RESOURCES[call.resource].kind, "apiVersion": api_version}


def _bookmark(call: Call, version: int, metadata: Object) -> Object:
    about = {"metadata": {**metadata, "resourceVersion": str(version)}}
    return {"type": "BOOKMARK", "object": _dress(call, about)}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def finish_request(self, request: Any, client_address: Any) -> None:
        """In the connection's own thread, so that a slow TLS handshake delays no other."""
        with suppress(OSError):
            request.do_handshake()
            super().finish_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def send_line(self, event: Object) -> None:
        self.send_chunk(json.dumps(event).encode() + b"\n")

    def send_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def log_message(self, format: str, *arguments: object) -> None:
        """Not on the test's terminal."""


def _make_handler(server: FakeApiServer) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(_Handler):
        def _serve(self) -> None:
            server.serve(self)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

    return Handler
