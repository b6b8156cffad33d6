# SPDX-License-Identifier: Apache-2.0
"""As much of HTTP/1.1 as the fakes between two others need: heads, and bodies piece by piece."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

# Size of a connection's buffer, so also of the longest head and the longest line.
LIMIT = 1 << 20


class Headers(list[tuple[str, str]]):
    """In the order and the spelling in which they came."""

    def find(self, name: str) -> str | None:
        """The value of the first header of that name, in any case."""
        return next((value for key, value in self if key.lower() == name.lower()), None)

    def without(self, *names: str) -> Headers:
        left_out = {name.lower() for name in names}
        return Headers((key, value) for key, value in self if key.lower() not in left_out)


async def read_head(reader: asyncio.StreamReader) -> tuple[list[str], Headers] | None:
    """The three words of the first line, and the headers; None where the peer ended instead."""
    try:
        text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    first, *lines = text[:-4].split("\r\n")
    words = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines)
    return [*words, ""][:3], Headers((name, value.strip()) for name, _, value in pairs)


def format_head(words: Iterable[str], headers: Headers) -> bytes:
    lines = [" ".join(words), *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def format_chunk(piece: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(piece), piece) if piece else b""


LAST_CHUNK = b"0\r\n\r\n"


async def read_pieces(
    reader: asyncio.StreamReader, headers: Headers, until_end: bool
) -> AsyncIterator[bytes]:
    """The body as it arrives; IncompleteReadError if it breaks off.

    until_end: what has neither length nor chunks lasts until the connection ends (a reply), or else
    is empty (a request).
    """
    length = headers.find("Content-Length")
    if (headers.find("Transfer-Encoding") or "").lower() == "chunked":
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            yield await reader.readexactly(size)
            await reader.readexactly(2)
        await reader.readuntil(b"\r\n")
    elif length is not None:
        left = int(length)
        while left > 0:
            piece = await reader.read(min(left, 1 << 16))
            if not piece:
                raise asyncio.IncompleteReadError(b"", left)
            left -= len(piece)
            yield piece
    elif until_end:
        while piece := await reader.read(1 << 16):
            yield piece


async def read_body(reader: asyncio.StreamReader, headers: Headers, until_end: bool) -> bytes:
    return b"".join([piece async for piece in read_pieces(reader, headers, until_end)])
