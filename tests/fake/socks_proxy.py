# SPDX-License-Identifier: Apache-2.0
"""A SOCKS5 proxy without a password that leads every name to one server of this machine, and resolves none."""

from __future__ import annotations

import asyncio

from fake.tcp_proxy import TcpProxy

_NAME = 3  # type of an address


class SocksProxy(TcpProxy):
    """`asked` are the names and ports that it was asked for, oldest first; what is no name is refused."""

    def __init__(self, server: tuple[str, int]) -> None:
        self.asked: list[str] = []
        super().__init__(server)

    @property
    def url(self) -> str:
        return f"socks5://127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, n_methods = await reader.readexactly(2)
        await reader.readexactly(n_methods)
        writer.write(b"\x05\x00")
        _, _, _, kind, size = await reader.readexactly(5)
        if kind != _NAME:
            writer.write(b"\x05\x08\x00\x01" + bytes(6))
            await writer.drain()
            return
        name = await reader.readexactly(size)
        port = int.from_bytes(await reader.readexactly(2), "big")
        self.asked.append(f"{name.decode()}:{port}")
        writer.write(b"\x05\x00\x00\x01" + bytes(6))
        await super()._serve(reader, writer)
