# SPDX-License-Identifier: Apache-2.0
"""Carries bytes between two TCP ports and loses, holds or delays them as a test says.

It knows nothing of what it carries, so TLS and HTTP/2 pass through as they are:

    with TcpProxy(("127.0.0.1", server_port)) as line:
        line.freeze()  # the cable is pulled: neither side notices
        ...
        line.thaw()
"""

from __future__ import annotations

import asyncio

from fake.listening import Listening, reset


class TcpProxy(Listening):
    """Forwards each connection to `server`, which may be changed.

    `n_bytes` is how many bytes it has carried, in both directions together.
    """

    def __init__(
        self, server: tuple[str, int], address: tuple[str, int] = ("127.0.0.1", 0)
    ) -> None:
        self.server = server
        self.n_bytes = 0
        self._delay_seconds = 0.0
        self._cut_after: int | None = None
        self._flows = asyncio.Event()
        self._flows.set()
        super().__init__(address=address)

    def freeze(self) -> None:
        """From now on no byte and no end of a connection gets through, in either direction.

        New connections are still accepted, as a kernel does for a program that is stuck.
        """
        self._soon(self._flows.clear)

    def thaw(self) -> None:
        """Sends the held bytes on."""
        self._soon(self._flows.set)

    def delay(self, seconds: float) -> None:
        """Holds all bytes for so long before they go on."""
        self._delay_seconds = seconds

    def cut_after(self, n_bytes: int) -> None:
        """Connections that are made from now on break after so many bytes from the server."""
        self._cut_after = n_bytes

    def behave(self) -> None:
        self._cut_after = None
        self._delay_seconds = 0.0
        self.thaw()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        cut_after = self._cut_after
        await self._flows.wait()
        server_reader, server_writer = await asyncio.open_connection(*self.server)
        ways = [
            asyncio.create_task(self._carry(reader, server_writer, None)),
            asyncio.create_task(self._carry(server_reader, writer, cut_after)),
        ]
        try:
            done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            if any(way.exception() is not None for way in done):
                # A break on one side breaks the other side.
                reset(writer)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            server_writer.close()

    async def _carry(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, left: int | None
    ) -> None:
        while chunk := await source.read(1 << 16):
            if self._delay_seconds:
                await asyncio.sleep(self._delay_seconds)
            await self._flows.wait()
            if left is not None and len(chunk) >= left:
                target.write(chunk[:left])
                await target.drain()
                raise ConnectionResetError("cut as set")
            left = None if left is None else left - len(chunk)
            await self._admit(len(chunk))
            self.n_bytes += len(chunk)
            target.write(chunk)
            await target.drain()
        await self._flows.wait()

    async def _admit(self, n_bytes: int) -> None:
        """Returns when so many bytes may go on. For subclasses that let through so many a second."""
