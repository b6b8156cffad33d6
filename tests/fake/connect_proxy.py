# SPDX-License-Identifier: Apache-2.0
"""An HTTP proxy that only knows CONNECT, and leads every name to one server of this machine."""

from __future__ import annotations

import asyncio

from fake.tcp_proxy import TcpProxy


class ConnectProxy(TcpProxy):
    """`asked` are the names and ports that it was asked for, oldest first."""

    def __init__(self, server: tuple[str, int]) -> None:
        self.asked: list[str] = []
        super().__init__(server)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, name, _ = head.decode().split(" ", 2)
        self.asked.append(name)
        if method != "CONNECT":
            writer.write(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await super()._serve(reader, writer)
