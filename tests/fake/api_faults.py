# SPDX-License-Identifier: Apache-2.0
"""Behaviours of an ApiProxy, which it may show instead of answering a request well.

A behaviour gets the Exchange, with which it may ask the server, answer, or break the connection.
The functions here make the usual ones:

    proxy.on("/nodeimages", api_faults.delay(0.2))
    proxy.on("^PATCH", api_faults.in_turn(api_faults.refuse(500), api_faults.behave_well))
"""

from __future__ import annotations

import asyncio
import email.utils
import itertools
import json
import re
import threading
import time
from collections.abc import Callable

from fake.api_proxy import Behaviour, Exchange, behave_well
from fake.http1 import Headers

__all__ = ["Behaviour", "behave_well"]

_JSON = "application/json"

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}


def status_object(code: int, message: str, reason: str | None = None) -> dict[str, object]:
    """A metav1.Status as servers make them."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason or _REASONS.get(code, "Unknown"),
        "code": code,
    }


def error_event(code: int, message: str = "too old resource version: 1 (2)") -> bytes:
    """The line of a watch that reports an error."""
    return json.dumps({"type": "ERROR", "object": status_object(code, message)}).encode() + b"\n"


# Answers that are no good


def answer(code: int, body: bytes, content_type: str = _JSON) -> Behaviour:
    """The server is not asked."""

    async def behave(exchange: Exchange) -> None:
        await exchange.send_whole(code, body, Headers([("Content-Type", content_type)]))

    return behave


def refuse(code: int, message: str = "as told", retry_after: int | None = None) -> Behaviour:
    """With a proper Status. The server is not asked."""

    async def behave(exchange: Exchange) -> None:
        headers = Headers([("Content-Type", _JSON)])
        if retry_after is not None:
            headers.append(("Retry-After", str(retry_after)))
        body = json.dumps(status_object(code, message)).encode()
        await exchange.send_whole(code, body, headers)

    return behave


def refuse_tokens_but(token: str) -> Behaviour:
    """As if all others had expired."""
    refused = refuse(401, "Unauthorized")

    async def behave(exchange: Exchange) -> None:
        await (behave_well if exchange.request.bearer == token else refused)(exchange)

    return behave


def rewrite(change: Callable[[bytes], bytes], content_type: str | None = None) -> Behaviour:
    """The server does it, and its answer is changed; not for watches, which do not end."""

    async def behave(exchange: Exchange) -> None:
        reply = await exchange.ask()
        headers = reply.headers
        if content_type is not None:
            headers = headers.without("Content-Type") + [("Content-Type", content_type)]
        body = change(await reply.read())
        await exchange.send_whole(reply.code, body, Headers(headers))

    return behave


def set_clock(seconds: int) -> Behaviour:
    """The server answers well, but its clock is ahead by so much; not for watches."""

    async def behave(exchange: Exchange) -> None:
        reply = await exchange.ask()
        date = email.utils.formatdate(time.time() + seconds, usegmt=True)
        headers = reply.headers.without("Date") + [("Date", date)]
        await exchange.send_whole(reply.code, await reply.read(), Headers(headers))

    return behave


def truncate(n_bytes: int) -> Behaviour:
    """JSON that ends too early, in a body that does not."""
    return rewrite(lambda body: body[:n_bytes])


def relabel(content_type: str) -> Behaviour:
    """A good answer under another Content-Type."""
    return rewrite(lambda body: body, content_type)


def say(lines: bytes, then_hang: bool = False) -> Behaviour:
    """A watch that says this, and then ends in order or says no more. The server is not asked."""

    async def behave(exchange: Exchange) -> None:
        exchange.send_head(200, Headers([("Content-Type", _JSON)]))
        exchange.send(lines)
        await exchange.flush()
        if then_hang:
            await exchange.wait_over()

    return behave


def half_line(n_bytes: int = 20) -> Behaviour:
    """A watch that ends in order in the middle of the first event."""

    async def behave(exchange: Exchange) -> None:
        reply = await exchange.ask()
        exchange.send_head(reply.code, reply.headers, reply.reason)
        async for piece in reply.pieces:
            exchange.send(piece[:n_bytes])
            await exchange.flush()
            return

    return behave


def huge_line(n_bytes: int) -> Behaviour:
    """A watch whose first event has no end for so many bytes."""
    start = b'{"type":"ADDED","object":{"kind":"'

    async def behave(exchange: Exchange) -> None:
        exchange.send_head(200, Headers([("Content-Type", _JSON)]))
        exchange.send(start)
        for left in range(n_bytes, 0, -65536):
            exchange.send(b"x" * min(left, 65536))
            await exchange.flush()
        exchange.send(b'"}}\n')

    return behave


# Connections that break


async def lose_request(exchange: Exchange) -> None:
    """Breaks before the server learns of it."""
    exchange.cut()


async def lose_reply(exchange: Exchange) -> None:
    """The server does it, and the caller gets no answer."""
    await (await exchange.ask()).read()
    exchange.cut()


async def cut_head(exchange: Exchange) -> None:
    """The server does it, and the answer breaks off in its headers."""
    await (await exchange.ask()).read()
    exchange.send_raw(b"HTTP/1.1 200 OK\r\nContent-Ty")
    await exchange.flush()
    exchange.close()


def cut_body(n_bytes: int, in_order: bool = False) -> Behaviour:
    """Breaks the connection in the middle of a good answer, or ends it there without a word."""

    async def behave(exchange: Exchange) -> None:
        reply = await exchange.ask()
        exchange.send_head(reply.code, reply.headers, reply.reason)
        left = n_bytes
        async for piece in reply.pieces:
            exchange.send(piece[:left])
            await exchange.flush()
            left -= len(piece)
            if left <= 0:
                break
        if in_order:
            exchange.close()
        else:
            exchange.cut()

    return behave


# Answers that are late, or never come


def delay(seconds: float, then: Behaviour = behave_well) -> Behaviour:
    """The request reaches the server late."""

    async def behave(exchange: Exchange) -> None:
        await asyncio.sleep(seconds)
        await then(exchange)

    return behave


def when(released: threading.Event, then: Behaviour = behave_well) -> Behaviour:
    """Once the test sets the event."""

    async def behave(exchange: Exchange) -> None:
        while not released.is_set():
            await asyncio.sleep(0.005)
        await then(exchange)

    return behave


def answer_when(released: threading.Event) -> Behaviour:
    """Passes the request on at once, but holds the answer until the test sets the event."""

    async def behave(exchange: Exchange) -> None:
        reply = await exchange.ask()
        body = await reply.read()
        while not released.is_set():
            await asyncio.sleep(0.005)
        await exchange.send_whole(reply.code, body, reply.headers)

    return behave


def hold_behind(pattern: bytes, released: threading.Event, reached: threading.Event | None = None) -> Behaviour:
    """Passes a watch on, but holds what follows a piece like the pattern until the test sets the first event; the second
    one says that the piece has come.
    """

    async def behave(exchange: Exchange) -> None:
        reply = await exchange.ask()
        exchange.send_head(reply.code, reply.headers, reply.reason)
        async for piece in reply.pieces:
            exchange.send(piece)
            await exchange.flush()
            if not re.search(pattern, piece):
                continue
            if reached is not None:
                reached.set()
            while not released.is_set():
                await asyncio.sleep(0.005)

    return behave


async def hang(exchange: Exchange) -> None:
    """The server does not learn of it, and nothing is ever said."""
    await exchange.wait_over()


async def hang_reply(exchange: Exchange) -> None:
    """The server does it, and nothing is ever said."""
    await (await exchange.ask()).read()
    await exchange.wait_over()


def hang_body(n_bytes: int) -> Behaviour:
    """Begins a good answer and then says no more."""

    async def behave(exchange: Exchange) -> None:
        reply = await exchange.ask()
        body = await reply.read()
        headers = reply.headers.without("Content-Length", "Transfer-Encoding")
        exchange.send_head(reply.code, Headers([*headers, ("Content-Length", str(len(body)))]))
        exchange.send(body[:n_bytes])
        await exchange.flush()
        await exchange.wait_over()

    return behave


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Takes the behaviours one after the other, a request each; the last one stays."""
    rest = itertools.chain(behaviours, itertools.repeat(behaviours[-1]))

    async def behave(exchange: Exchange) -> None:
        await next(rest)(exchange)

    return behave
