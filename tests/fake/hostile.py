# SPDX-License-Identifier: Apache-2.0
"""Servers in a pod that are after the program that probes them: endless, empty, too much, or not what was asked.

A behaviour is a function that is given a connection and may do with it what it likes:

    with HostileServer(address, endless_data) as server:
        ...  # probe server.port
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

from lab.cleanup import Closing
from lab.http2 import DATA, END_HEADERS, HEADERS, PING, PREFACE, SETTINGS, WINDOW_UPDATE, frame, settings

CONTINUATION = 9

# Static entries of RFC 7541, and literals that are not to be remembered.
_STATUS_200 = b"\x88"
_STATUS_103 = b"\x08\x03103"
_GRPC = b"\x5f\x10application/grpc"


class HostileServer(Closing):
    """Each connection has a thread, in which `serve` runs until the other side has enough."""

    def __init__(self, address: str, serve: Callable[[socket.socket], None]) -> None:
        self._socket = socket.create_server((address, 0), backlog=512)
        self.port = self._socket.getsockname()[1]
        self.n_accepted = 0
        self._serve = serve
        self._connections: set[socket.socket] = set()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.n_accepted += 1
            self._connections.add(connection)
            threading.Thread(target=self._handle, args=(connection,), daemon=True).start()

    def _handle(self, connection: socket.socket) -> None:
        try:
            self._serve(connection)
        except OSError:
            pass
        self._connections.discard(connection)
        connection.close()

    def close(self) -> None:
        self._socket.close()
        for connection in list(self._connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def _begin(connection: socket.socket) -> None:
    """As a server of gRPC begins; the request is there then."""
    said = b""
    connection.settimeout(60)
    # The request ends with the DATA frame that ends stream 1.
    while b"\x00\x01\x00\x00\x00\x01\x00" not in said:
        got = connection.recv(65536)
        if not got:
            raise OSError("the caller has gone")
        said += got
    assert said.startswith(PREFACE)
    connection.sendall(settings() + frame(SETTINGS, 1))


def _forever(connection: socket.socket, piece: bytes) -> None:
    piece *= 1 + 16384 // len(piece)
    while True:
        connection.sendall(piece)


def _headers(fields: bytes, flags: int = END_HEADERS) -> bytes:
    return frame(HEADERS, flags, 1, fields)


def _hold(connection: socket.socket) -> None:
    """Sends nothing, and stays connected until the other side ends it."""
    while connection.recv(65536):
        pass


# In HTTP/2


def endless_data(connection: socket.socket) -> None:
    """Frames of an answer that has not begun."""
    _begin(connection)
    _forever(connection, frame(DATA, 0, 1))


def endless_empty_data(connection: socket.socket) -> None:
    _begin(connection)
    connection.sendall(_headers(_STATUS_200 + _GRPC))
    _forever(connection, frame(DATA, 0, 1))


def endless_continuation(connection: socket.socket) -> None:
    _begin(connection)
    connection.sendall(_headers(_STATUS_200, flags=0))
    _forever(connection, frame(CONTINUATION, 0, 1, b"\x40\x01" + b"A" * 16382))


def endless_pings(connection: socket.socket) -> None:
    _begin(connection)
    _forever(connection, frame(PING, 0, 0, b"8 bytes."))


def endless_settings(connection: socket.socket) -> None:
    _begin(connection)
    _forever(connection, settings(65535))


def endless_windows(connection: socket.socket) -> None:
    _begin(connection)
    _forever(connection, frame(WINDOW_UPDATE, 0, 1, b"\0\0\0\1"))


def endless_early_hints(connection: socket.socket) -> None:
    _begin(connection)
    _forever(connection, _headers(_STATUS_103))


def endless_headers(connection: socket.socket) -> None:
    """Blocks that end, each of which begins another answer or trailer."""
    _begin(connection)
    _forever(connection, _headers(_STATUS_200 + b"\x00\x01a\x01b" * 100))


def bomb(connection: socket.socket) -> None:
    """A header of 4 KiB that is repeated by one byte each time, in a block that does not end."""
    _begin(connection)
    value = b"v" * 4000
    size = b"\x7f" + bytes([(4000 - 127) % 128 | 128, (4000 - 127) // 128])
    block = _STATUS_200 + b"\x40\x01a" + size + value + b"\xbe" * 30
    connection.sendall(_headers(block, flags=0))
    _hold(connection)


def endless_trailers(connection: socket.socket) -> None:
    _begin(connection)
    connection.sendall(_headers(_STATUS_200 + _GRPC) + frame(DATA, 0, 1, b"\0\0\0\0\2\x08\1"))
    connection.sendall(_headers(b"\x00\x01a\x01b", flags=1))
    _forever(connection, frame(CONTINUATION, 0, 1, b"\x00\x01a\x01b" * 20))


def huge_message(connection: socket.socket) -> None:
    _begin(connection)
    connection.sendall(_headers(_STATUS_200 + _GRPC) + frame(DATA, 0, 1, b"\0\xff\xff\xff\xff"))
    _forever(connection, frame(DATA, 0, 1, b"z" * 16384))


def dribble(connection: socket.socket) -> None:
    """A byte now and then, of frames that have nothing in them."""
    _begin(connection)
    while True:
        for byte in frame(DATA, 0, 1):
            connection.sendall(bytes([byte]))
            time.sleep(0.01)


def deaf(connection: socket.socket) -> None:
    """Sends requests of its own, and does not read the answers."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    _begin(connection)
    _forever(connection, frame(PING, 0, 0, b"8 bytes."))


# In another language, or none


def http1(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def junk(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"\x00\xff\xfe junk\r\n\r\n" * 100)


def silent(connection: socket.socket) -> None:
    _hold(connection)


# In HTTP/1.1


def many_headers(connection: socket.socket) -> None:
    """As many as are taken, and then nothing."""
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 200 OK\r\n" + b"a:b\r\n" * 240)
    _hold(connection)


def endless_short_headers(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    _forever(connection, b"a:\r\n")


def long_header(connection: socket.socket) -> None:
    """Sends a line that is nearly as long as any may be, and does not end."""
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 200 OK\r\na: " + b"b" * 100_000)
    _hold(connection)


def endless_body(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    _forever(connection, b"z")


def endless_chunks(connection: socket.socket) -> None:
    """Sends chunks of one byte, each with an extension."""
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    _forever(connection, b"1;x\r\nz\r\n")


def endless_continue(connection: socket.socket) -> None:
    connection.recv(4096)
    _forever(connection, b"HTTP/1.1 100 Continue\r\n\r\n")


HTTP1 = (
    many_headers, endless_short_headers, long_header, endless_body, endless_chunks, endless_continue, silent,
)  # fmt: skip

HTTP2 = (
    endless_data, endless_empty_data, endless_continuation, endless_pings, endless_settings,
    endless_windows, endless_early_hints, endless_headers, bomb, endless_trailers, huge_message,
    dribble, deaf, http1, junk, silent,
)  # fmt: skip
