# SPDX-License-Identifier: Apache-2.0
"""Pushes images over a registry's HTTP API, with one connection for any number of them."""

from __future__ import annotations

import base64
import http.client
import ssl
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import urlsplit

from lab.image import Image


class RegistryClient:
    """Talks to one registry. Not for several threads at once."""

    def __init__(
        self,
        host: str,
        credentials: tuple[str, str] | None = None,
        authority: Path | None = None,
    ) -> None:
        """`authority` is the file of the CA to trust; with it, the registry is spoken to by TLS."""
        self._connection: http.client.HTTPConnection
        if authority is None:
            self._connection = http.client.HTTPConnection(host, timeout=60)
        else:
            trust = ssl.create_default_context(cafile=str(authority))
            self._connection = http.client.HTTPSConnection(host, timeout=60, context=trust)
        self._headers = {}
        if credentials is not None:
            token = base64.b64encode(":".join(credentials).encode()).decode()
            self._headers["Authorization"] = f"Basic {token}"
        self._homes: dict[str, set[str]] = {}  # digest of a blob → the repositories that have it

    def close(self) -> None:
        self._connection.close()

    def answers(self) -> bool:
        """Whether the registry is up; any answer will do."""
        try:
            self._request("GET", "/v2/")
        except OSError:
            self._connection.close()
            return False
        return True

    def push(self, name: str, tag: str, image: Image) -> None:
        for layer in image.layers:
            self._provide(name, layer.digest, layer.size, layer.chunks)
        self._provide(name, image.image_id, len(image.config), lambda: [image.config])
        self._expect(
            201,
            *self._request(
                "PUT",
                f"/v2/{name}/manifests/{tag}",
                [image.manifest],
                {"Content-Type": image.media_type, "Content-Length": str(len(image.manifest))},
            ),
        )

    def delete(self, name: str, digest: str) -> None:
        """Removes the manifest, and so every tag that points to it."""
        self._expect(202, *self._request("DELETE", f"/v2/{name}/manifests/{digest}"))

    def _provide(
        self, name: str, digest: str, size: int, chunks: Callable[[], Iterable[bytes]]
    ) -> None:
        """Sends a blob at most once; another repository borrows it from the first."""
        homes = self._homes.setdefault(digest, set())
        if name not in homes:
            if not homes or not self._mount(name, digest, min(homes)):
                self._upload(name, digest, size, chunks())
            homes.add(name)

    def _mount(self, name: str, digest: str, home: str) -> bool:
        url = f"/v2/{name}/blobs/uploads/?mount={digest}&from={home}"
        status, _, _ = self._request("POST", url)
        return status == 201

    def _upload(self, name: str, digest: str, size: int, chunks: Iterable[bytes]) -> None:
        status, headers, text = self._request("POST", f"/v2/{name}/blobs/uploads/")
        self._expect(202, status, headers, text)
        place = urlsplit(headers["Location"])
        url = f"{place.path}?{place.query}&digest={digest}"
        sizes = {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
        self._expect(201, *self._request("PUT", url, chunks, sizes))

    def _request(
        self,
        method: str,
        url: str,
        body: Iterable[bytes] | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        self._connection.request(method, url, body, {**self._headers, **(headers or {})})
        response = self._connection.getresponse()
        return response.status, response.headers, response.read()

    @staticmethod
    def _expect(expected: int, status: int, headers: http.client.HTTPMessage, text: bytes) -> None:
        if status != expected:
            raise RuntimeError(f"the registry says {status}, not {expected}: {text.decode()[:500]}")
