# SPDX-License-Identifier: Apache-2.0
"""The Unix socket that a fake runtime shows: what is wrong below gRPC happens here."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from pathlib import Path

# An HTTP/1 server's answer to the HTTP/2 preface, and garbage.
_JUNK = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n" + bytes(range(256)) * 16


class Line(Enum):
    """The fates of connections."""

    FORWARD = "they reach the runtime"
    MUTE = "they are accepted, and nothing is ever said"
    JUNK = "they are answered with something that is not HTTP/2"
    CLOSE = "they are accepted and closed at once"


class Front:
    """Listens at `path` and forwards to the socket `behind` while its line is FORWARD."""

    def __init__(self, path: Path, behind: Path) -> None:
        self.path = path
        self.line = Line.FORWARD
        self.accepted = 0
        self._behind = behind
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self.listen()

    def listen(self) -> None:
        """Makes the socket, if it is not there."""
        if self._listener is not None:
            return
        self.path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.path))
        listener.listen(64)
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def vanish(self, leave_file: bool = False) -> None:
        """As if the runtime had died: no listener, all connections dropped.

        After kill -9 the socket's file stays and refuses; after an orderly end it is gone.
        """
        if self._listener is not None:
            # Closing alone would not wake the thread that waits in accept().
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        if not leave_file:
            self.path.unlink(missing_ok=True)
        self.drop()

    def drop(self) -> None:
        """Breaks every connection, in the middle of any message."""
        with self._lock:
            broken, self._open = self._open, set()
        for connection in broken:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                caller, _ = listener.accept()
            except OSError:
                return
            self.accepted += 1
            try:
                self._serve(caller)
            except OSError:
                caller.close()

    def _serve(self, caller: socket.socket) -> None:
        if self.line is Line.CLOSE:
            caller.close()
            return
        if self.line is Line.JUNK:
            caller.sendall(_JUNK)
        if self.line is not Line.FORWARD:
            self._start(_swallow, caller)
            return
        runtime = socket.socket(socket.AF_UNIX)
        runtime.connect(str(self._behind))
        self._start(_copy, caller, runtime)
        self._start(_copy, runtime, caller)

    def _start(self, work: Callable[..., None], *connections: socket.socket) -> None:
        """`work` reads from the first connection, in a thread of its own."""
        with self._lock:
            self._open |= set(connections)
        threading.Thread(target=self._carry, args=(work, connections), daemon=True).start()

    def _carry(self, work: Callable[..., None], connections: tuple[socket.socket, ...]) -> None:
        """Carries bytes until one side ends; then tells the other side."""
        with suppress(OSError):
            work(*connections)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open.discard(connections[0])
        connections[0].close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    while chunk := source.recv(1 << 16):
        target.sendall(chunk)


def _swallow(source: socket.socket) -> None:
    while source.recv(1 << 16):
        pass
