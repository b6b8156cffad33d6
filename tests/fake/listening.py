# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the fakes on a TCP port: vanish, return to the same port, and drop all connections.

All of it runs on an event loop in a thread of its own, so that a connection costs no thread and a
behaviour can be waited out or given up at any time. What a test calls is safe from any thread.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from lab.cleanup import Closing

Result = TypeVar("Result")


class Listening(Closing):
    """Listens from the moment it is made: on a port of the loopback address, or at `address`.

    A subclass says in `_serve` what happens to a connection; it is over when that returns.
    """

    def __init__(
        self, tls: ssl.SSLContext | None = None, address: tuple[str, int] = ("127.0.0.1", 0)
    ) -> None:
        self.accepted = 0
        self._tls = tls
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        # Bound but deaf: so no other program gets the port while this has vanished.
        self._holder = socket.socket()
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._holder.bind(address)
        self._host = address[0]
        self.port: int = self._holder.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.listen()

    @property
    def open_connections(self) -> int:
        return len(self._open)

    def listen(self) -> None:
        """Takes connections again, if it did not."""
        self._run(self._listen())

    def refuse(self) -> None:
        """Takes no new connections; the existing ones go on."""
        self._run(self._refuse())

    def drop(self) -> None:
        """Breaks every connection, in the middle of any message."""
        self._run(self._drop())

    def vanish(self) -> None:
        """As if the machine's program had died: connections break, new ones are refused."""
        self._run(self._refuse())
        self._run(self._drop())

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self.vanish()
        self._run(self._end_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()
        self._holder.close()

    # For subclasses

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Has the loop do it, and waits."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def _soon(self, work: Callable[..., object], *arguments: object) -> None:
        """Has the loop do it, before anything that it is given later."""
        self._loop.call_soon_threadsafe(work, *arguments)

    # The rest runs on the loop.

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(
                self._accept, self._host, self.port, ssl=self._tls, reuse_address=True
            )

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _drop(self) -> None:
        for writer in list(self._open):
            reset(writer)

    async def _end_tasks(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._open.add(writer)
        try:
            with suppress(OSError, EOFError, ValueError, asyncio.CancelledError):
                await self._serve(reader, writer)
        finally:
            self._open.discard(writer)
            writer.close()


def reset(writer: asyncio.StreamWriter) -> None:
    """Breaks the connection so that the peer sees an error, not an end."""
    connection = writer.get_extra_info("socket")
    if connection is not None:
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
