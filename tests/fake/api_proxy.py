# SPDX-License-Identifier: Apache-2.0
"""Stands between the agent and an API server, real or not, and spoils what a test sets.

    with ApiProxy(folder, server.url, server.authority) as proxy:
        agent = ...  # with a kubeconfig that names proxy.url and proxy.authority
        proxy.on("^PATCH .*/status", api_faults.refuse(429, retry_after=2), times=1)
        ...
        assert len(proxy.requests("^PATCH .*/status")) == 2
        for watch in proxy.watches("/nodeimages"):
            watch.silence()

A request is named "METHOD /path?query", and patterns are regular expressions that are searched in
that. It ends the agent's TLS with a certificate of its own and speaks HTTP/1.1 to both sides; what
it is not set to spoil passes through, piece by piece as it arrives. What goes wrong below HTTP, or
with HTTP/2, is up to the TcpProxy.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fake import http1
from fake.http1 import Headers
from fake.listening import Listening, reset
from lab.certificates import make_certificates


@dataclass(eq=False)
class Request:
    """A request that reached the proxy, and its outcome. Times are of time.monotonic().

    `code` is what the agent was answered, None as long as it was not; `sent` counts the bytes of
    the body that it was sent, without HTTP's framing.
    """

    method: str
    path: str
    headers: Headers = field(repr=False)
    body: bytes
    began_at: float
    code: int | None = None
    sent: int = 0
    ended_at: float | None = None

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def content_type(self) -> str | None:
        return self.headers.find("Content-Type")

    @property
    def accept(self) -> str | None:
        return self.headers.find("Accept")

    @property
    def bearer(self) -> str | None:
        """The token it came with."""
        value = self.headers.find("Authorization") or ""
        return value.removeprefix("Bearer ") if value.startswith("Bearer ") else None

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Reply:
    """The head of the server's answer; its body has to be read as it comes."""

    code: int
    reason: str
    headers: Headers
    pieces: AsyncIterator[bytes]

    async def read(self) -> bytes:
        return b"".join([piece async for piece in self.pieces])


class Watch:
    """A watch that is under way, in the hands of a test."""

    def __init__(self, exchange: Exchange, soon: Callable[..., None]) -> None:
        self.request = exchange.request
        self._exchange = exchange
        self._soon = soon
        self.is_silent = False
        self._instead: bytes | None = None

    def silence(self) -> None:
        """Swallows all that the server sends from now on, bookmarks as well."""
        self.is_silent = True

    def say(self, line: bytes) -> None:
        """Sends bytes that are not the server's."""
        self._soon(self._exchange.send, line)

    def replace_next(self, line: bytes) -> None:
        """Sends this instead of the server's next event."""
        self._instead = line

    def end(self) -> None:
        """Ends the watch as a server does when its time is over."""
        self._soon(self._exchange.end)

    def cut(self) -> None:
        self._soon(self._exchange.cut)

    def filter(self, piece: bytes) -> bytes:
        """For the proxy: what is to be sent for what the server said."""
        if self.is_silent:
            return b""
        if self._instead is None:
            return piece
        _, newline, rest = piece.partition(b"\n")
        if not newline:
            return b""
        piece, self._instead = self._instead + rest, None
        return piece


class Exchange:
    """A request in the hands of a behaviour, with the actions that it may take. Runs on the proxy's loop.

    Whatever it sends after the answer was ended or cut goes nowhere.
    """

    def __init__(self, proxy: ApiProxy, request: Request, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self.keeps_alive = True
        self._proxy = proxy
        self._writer = writer
        self._over = asyncio.Event()
        self._server: asyncio.StreamWriter | None = None
        self._is_chunked = False

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    async def ask(self) -> Reply:
        """Has the server do it."""
        reader, self._server = await self._proxy.connect()
        left_out = ("Connection", "Host", "Expect", "Transfer-Encoding", "Content-Length")
        headers = self.request.headers.without(*left_out)
        headers += [("Host", self._proxy.server_host), ("Connection", "close")]
        if self.request.body or self.request.method in ("POST", "PUT", "PATCH"):
            headers.append(("Content-Length", str(len(self.request.body))))
        words = [self.request.method, self.request.path, "HTTP/1.1"]
        self._server.write(http1.format_head(words, headers) + self.request.body)
        while True:
            head = await http1.read_head(reader)
            if head is None:
                raise ConnectionResetError("the server hung up")
            (_, code, reason), headers = head
            if int(code) >= 200:
                break
        is_empty = self.request.method == "HEAD" or code in ("204", "304")
        pieces = http1.read_pieces(reader, Headers() if is_empty else headers, not is_empty)
        return Reply(int(code), reason, headers.without("Connection"), pieces)

    def send_head(self, code: int, headers: Headers, reason: str = "") -> None:
        """Without a Content-Length the body follows in chunks."""
        self.request.code = code
        headers = headers.without("Transfer-Encoding")
        self._is_chunked = headers.find("Content-Length") is None and code not in (204, 304)
        if self._is_chunked:
            headers.append(("Transfer-Encoding", "chunked"))
        self.send_raw(http1.format_head(["HTTP/1.1", str(code), reason], headers))

    def send(self, piece: bytes) -> None:
        self.send_raw(http1.format_chunk(piece) if self._is_chunked else piece)
        self.request.sent += 0 if self.is_over else len(piece)

    def send_raw(self, data: bytes) -> None:
        if not self.is_over:
            self._writer.write(data)

    async def send_whole(self, code: int, body: bytes, headers: Headers) -> None:
        headers = headers.without("Content-Length", "Transfer-Encoding")
        headers.append(("Content-Length", str(len(body))))
        self.send_head(code, headers)
        self.send(body)
        await self.flush()

    async def flush(self) -> None:
        await self._writer.drain()

    def end(self) -> None:
        """All has been said."""
        if self._is_chunked:
            self.send_raw(http1.LAST_CHUNK)
        self.leave()

    def close(self) -> None:
        """Ends the connection in order, though parts of the answer may be missing."""
        self.keeps_alive = False
        self._writer.close()
        self.leave()

    def cut(self) -> None:
        """Breaks the connection, so that the agent sees an error."""
        self.keeps_alive = False
        reset(self._writer)
        self.leave()

    async def pass_on(self, reply: Reply) -> None:
        """The good answer, piece by piece as it arrives."""
        self.send_head(reply.code, reply.headers, reply.reason)
        watch = self._proxy.begin_watch(self) if "watch=" in self.request.path else None
        async for piece in reply.pieces:
            self.send(watch.filter(piece) if watch is not None else piece)
            await self.flush()
        if watch is not None and watch.is_silent:
            # Nor does it report that the server has ended it.
            await self.wait_over()

    async def wait_over(self) -> None:
        """Until the agent gives up, or a test ends it."""
        await self._over.wait()

    def leave(self) -> None:
        """No more is sent, and nothing more is read from the server."""
        self._over.set()
        if self._server is not None:
            # Ends whatever still reads from it.
            self._server.transport.abort()


Behaviour = Callable[[Exchange], Awaitable[None]]


async def behave_well(exchange: Exchange) -> None:
    await exchange.pass_on(await exchange.ask())


@dataclass
class _Rule:
    pattern: re.Pattern[str]
    behaviour: Behaviour
    times_left: int | None


class ApiProxy(Listening):
    """Listens at `url`, which has a certificate of `authority`; `folder` is for its files.

    `server_authority` is what the server's certificate is checked with; None: it is not.
    """

    def __init__(self, folder: Path, server_url: str, server_authority: Path | None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        certificates = make_certificates(folder)
        self.authority = certificates.authority
        self._requests: list[Request] = []
        self._rules: list[_Rule] = []
        self._watches: dict[Exchange, Watch] = {}
        self.lead_to(server_url, server_authority)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificates.certificate, certificates.key)
        tls.set_alpn_protocols(["http/1.1"])
        super().__init__(tls)
        self.url = f"https://127.0.0.1:{self.port}"

    def lead_to(self, server_url: str, server_authority: Path | None) -> None:
        """To another server, from the next request on."""
        server = urlsplit(server_url)
        self.server_host = server.netloc
        self._server_address = server.hostname or "", server.port or 443
        self._server_tls = ssl.create_default_context(cafile=server_authority)
        self._server_tls.set_alpn_protocols(["http/1.1"])
        if server_authority is None:
            self._server_tls.check_hostname = False
            self._server_tls.verify_mode = ssl.CERT_NONE

    def on(self, pattern: str, behaviour: Behaviour, times: int | None = None) -> None:
        """Sets the behaviour for matching requests, from now on or so many times; the last one set goes first."""
        self._rules.insert(0, _Rule(re.compile(pattern), behaviour, times))

    def behave(self) -> None:
        """Forgets all that `on` has set. Requests that it has begun to spoil stay spoilt."""
        self._rules.clear()

    def requests(self, pattern: str = "") -> list[Request]:
        """The requests so far, oldest first."""
        return [request for request in list(self._requests) if re.search(pattern, request.name)]

    def watches(self, pattern: str = "") -> list[Watch]:
        """The watches under way, oldest first."""
        return [
            watch
            for watch in list(self._watches.values())
            if re.search(pattern, watch.request.name)
        ]

    # The rest runs on the loop.

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = self._server_address
        return await asyncio.open_connection(host, port, ssl=self._server_tls, limit=http1.LIMIT)

    def begin_watch(self, exchange: Exchange) -> Watch:
        watch = self._watches[exchange] = Watch(exchange, self._soon)
        return watch

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gone = asyncio.create_task(_wait_gone(writer))
        try:
            while (head := await http1.read_head(reader)) is not None:
                (method, path, _), headers = head
                if headers.find("Expect"):
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = await http1.read_body(reader, headers, until_end=False)
                request = Request(method, path, headers, body, time.monotonic())
                self._requests.append(request)
                if not await self._handle(Exchange(self, request, writer), gone):
                    return
        finally:
            gone.cancel()

    async def _handle(self, exchange: Exchange, gone: asyncio.Task[None]) -> bool:
        """Whether another request may follow."""
        work = asyncio.create_task(self._perform(exchange))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work
            exchange.leave()
            self._watches.pop(exchange, None)
            exchange.request.ended_at = time.monotonic()
        return exchange.keeps_alive and not gone.done()

    async def _perform(self, exchange: Exchange) -> None:
        """Serves a request. An error between us and the server, or in a behaviour, breaks the agent's
        connection, too.
        """
        try:
            await self._choose(exchange.request.name)(exchange)
            if not exchange.is_over:
                exchange.end()
        except (OSError, EOFError, ValueError):
            if not exchange.is_over:
                exchange.cut()

    def _choose(self, name: str) -> Behaviour:
        for rule in list(self._rules):
            if rule.times_left != 0 and rule.pattern.search(name):
                rule.times_left = None if rule.times_left is None else rule.times_left - 1
                return rule.behaviour
        return behave_well


async def _wait_gone(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        await writer.wait_closed()
