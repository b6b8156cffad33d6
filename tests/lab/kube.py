# SPDX-License-Identifier: Apache-2.0
"""Talks to an API server as one user: as much as tests need, by path and JSON."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

from lab.wait import wait_until

Object = dict[str, Any]
Value = TypeVar("Value")

# A watch costs as much as some requests, and what comes about sooner needs none.
_UNWATCHED_SECONDS = 0.05

_PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


class KubeError(Exception):
    """The server refused; `code` is that of HTTP, `status` what it says, of the kind Status."""

    def __init__(self, method: str, path: str, code: int, text: bytes) -> None:
        self.code = code
        try:
            self.status: Object = json.loads(text)
        except ValueError:
            self.status = {"message": text.decode(errors="replace")}
        super().__init__(f"{method} {path}: {code} {self.status.get('message', '')}")

    @property
    def reason(self) -> str:
        """Such as "NotFound" or "Forbidden"."""
        return self.status.get("reason", "")


class Kube:
    """A client with one connection, made when it is needed. Not for several threads at once.

    Paths are as in "/api/v1/nodes/NAME"; parameters of the query are keyword arguments, as in
    labelSelector="app=web". A refusal raises KubeError.
    """

    def __init__(
        self,
        server: str,
        authority: Path,
        token: str | None = None,
        certificate: tuple[Path, Path] | None = None,
        *,
        can_watch: bool = True,
    ) -> None:
        """`authority` is the file of the CA to trust, `certificate` ours and its key. Without `can_watch` it asks
        again and again where it waits, for a server whose watches are what is tested."""
        self.can_watch = can_watch
        self.server = server
        self._host = urlsplit(server).netloc
        self._trust = ssl.create_default_context(cafile=str(authority))
        if certificate is not None:
            self._trust.load_cert_chain(*map(str, certificate))
        self._headers = {"Accept": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._connection: http.client.HTTPSConnection | None = None
        self._plurals: dict[str, dict[str, tuple[str, bool]]] = {}

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # Requests

    def get(self, path: str, **query: str) -> Object:
        return self.request("GET", path, query=query)

    def find(self, path: str) -> Object | None:
        """None if there is no such object."""
        try:
            return self.get(path)
        except KubeError as error:
            if error.code != 404:
                raise
        return None

    def list(self, path: str, **query: str) -> list[Object]:
        return self.get(path, **query)["items"]

    def post(self, path: str, body: Object, **query: str) -> Object:
        return self.request("POST", path, body, query=query)

    def put(self, path: str, body: Object, **query: str) -> Object:
        return self.request("PUT", path, body, query=query)

    def patch(self, path: str, body: Any, kind: str = "merge", **query: str) -> Object:
        """`kind` is merge, json, strategic or apply."""
        return self.request("PATCH", path, body, _PATCH_TYPES[kind], query)

    def delete(self, path: str, **query: str) -> None:
        """It may be gone already."""
        try:
            self.request("DELETE", path, query=query)
        except KubeError as error:
            if error.code != 404:
                raise

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Any:
        """Sends a request and returns the answer: JSON, or text if the server sends something else."""
        text = None if body is None else json.dumps(body).encode()
        url = f"{path}?{urlencode(query)}" if query else path
        headers = {**self._headers, "Content-Type": content_type}
        response, answer = self._send(method, url, text, headers)
        if response.status >= 400:
            raise KubeError(method, path, response.status, answer)
        is_json = response.headers.get_content_type() == "application/json"
        return json.loads(answer) if is_json else answer.decode()

    # Documents, whose path is known from their kind

    def create(self, document: Object) -> Object:
        return self.post(self.path_of(document, with_name=False), document)

    def apply(self, document: Object) -> Object:
        """Creates the object, or patches it with the document."""
        query = {"fieldManager": "lab", "force": "true"}
        return self.patch(self.path_of(document), document, "apply", **query)

    def path_of(self, document: Object, with_name: bool = True) -> str:
        """Asks the server how it calls the kind."""
        version, kind = document["apiVersion"], document["kind"]
        metadata = document["metadata"]
        group = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if kind not in self._plurals.get(group, {}):
            self._plurals[group] = {
                entry["kind"]: (entry["name"], entry["namespaced"])
                for entry in self.get(group)["resources"]
                if "/" not in entry["name"]
            }
        plural, is_namespaced = self._plurals[group][kind]
        space = f"/namespaces/{metadata.get('namespace', 'default')}" if is_namespaced else ""
        return f"{group}{space}/{plural}" + (f"/{metadata['name']}" if with_name else "")

    # Waiting

    def wait_for(
        self, path: str, condition: Callable[[Object], Any] = bool, timeout: float = 10
    ) -> Object:
        """Waits until there is such an object and it meets the condition; returns it."""
        last: Object | None = None

        def reached() -> Object | None:
            nonlocal last
            last = self.find(path)
            return last if last is not None and condition(last) else None

        return self.wait_until(reached, one_of(path), timeout, lambda: f"such {path}, only {last}")

    def wait_gone(self, path: str, timeout: float = 10) -> None:
        self.wait_until(lambda: self.find(path) is None, one_of(path), timeout, f"end of {path}")

    def wait_until(
        self,
        ask: Callable[[], Value | None],
        about: tuple[str, Mapping[str, str]],
        timeout: float,
        what: str | Callable[[], str],
    ) -> Value:
        """Asks as wait.wait_until() does, but not again before there is another answer.

        `about` is a list, by path and query: it asks again when something in there has changed, and once a
        second, since the answer may depend on more.
        """
        with closing(_Changes(self, *about)) as changes:
            return wait_until(ask, timeout, what, pause=0.01, rest=changes.wait)

    def watch(self, path: str, timeout: float = 30, **query: str) -> Iterator[Object]:
        """Events {"type": ..., "object": ...} over a connection of their own, as they come.

        Without resourceVersion it begins with what there is. TimeoutError after `timeout` seconds
        without an event; leaving the loop closes the connection.
        """
        query = {"watch": "true", **query}
        with closing(self._connect(timeout)) as connection:
            connection.request("GET", f"{path}?{urlencode(query)}", headers=self._headers)
            response = connection.getresponse()
            if response.status != 200:
                raise KubeError("WATCH", path, response.status, response.read())
            while line := response.readline():
                yield json.loads(line)

    # Inside

    def _connect(self, timeout: float = 30) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, timeout=timeout, context=self._trust)

    def _send(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """A connection that the server has closed meanwhile is made again, once."""
        for is_last in (self._connection is None, True):
            if self._connection is None:
                self._connection = self._connect()
            try:
                self._connection.request(method, url, body, dict(headers))
                response = self._connection.getresponse()
                return response, response.read()
            except (OSError, http.client.HTTPException):
                self.close()
                if is_last:
                    raise
        raise AssertionError("unreachable")


class _Changes:
    """Changes of what is in a list."""

    def __init__(self, kube: Kube, path: str, query: Mapping[str, str]) -> None:
        self._kube, self._path, self._query = kube, path, query
        self._events: Iterator[Object] | None = None
        self._began = time.monotonic()

    def wait(self, seconds: float) -> None:
        """Returns when something may have changed since the last call, or about a second later."""
        if not self._kube.can_watch or time.monotonic() - self._began < _UNWATCHED_SECONDS:
            time.sleep(seconds)
            return
        try:
            if self._events is None or next(self._events, None) is None:
                self._begin()
        except (OSError, ValueError, http.client.HTTPException, KubeError):
            # The server is away, or lets this user only read: the next question finds that out.
            self._events = None
            time.sleep(seconds)

    def close(self) -> None:
        if self._events is not None:
            self._events.close()  # type: ignore[attr-defined]

    def _begin(self) -> None:
        """The caller asks once more before the first event is awaited, so that no change is missed."""
        self._events = None
        listed = self._kube.get(self._path, limit="1", **self._query)
        since = {"resourceVersion": listed["metadata"]["resourceVersion"], "timeoutSeconds": "1"}
        self._events = self._kube.watch(self._path, 2, **since, **self._query)


def one_of(path: str) -> tuple[str, Mapping[str, str]]:
    """The list with that one object."""
    folder, _, name = path.rpartition("/")
    return folder, {"fieldSelector": f"metadata.name={name}"}
