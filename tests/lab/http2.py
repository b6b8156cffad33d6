# SPDX-License-Identifier: Apache-2.0
"""As much of HTTP/2 as it takes to be a bad client of a gRPC server: no library would do that."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS = 1, 4

_INITIAL_WINDOW_SIZE = 4


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return struct.pack(">IBBI", len(payload), kind, flags, stream)[1:] + payload


def settings(window: int | None = None) -> bytes:
    """`window` is how many bytes of each answer we take before we are asked again."""
    payload = b"" if window is None else struct.pack(">HI", _INITIAL_WINDOW_SIZE, window)
    return frame(SETTINGS, 0, 0, payload)


def header(path: str, more: Mapping[str, str] | None = None) -> bytes:
    """The header of a call; `more` replaces fields, or adds some."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "localhost",
        "te": "trailers",
        "content-type": "application/grpc",
        **(more or {}),
    }
    return b"".join(map(_field, fields.items()))


def request(
    stream: int, path: str, message: bytes | None = b"", more: Mapping[str, str] | None = None
) -> bytes:
    """Makes a whole gRPC call. Without a message the caller has not finished its request yet."""
    head = frame(HEADERS, END_HEADERS, stream, header(path, more))
    if message is None:
        return head
    body = b"\0" + struct.pack(">I", len(message)) + message
    parts = [body[start : start + 16384] for start in range(0, len(body), 16384)]
    flags = [0] * (len(parts) - 1) + [END_STREAM]
    return head + b"".join(frame(DATA, flag, stream, part) for flag, part in zip(flags, parts))


def _field(field: tuple[str, str]) -> bytes:
    """A literal that is not to be remembered, without compression (RFC 7541, 6.2.2)."""
    return b"\0" + b"".join(string(text.encode()) for text in field)


def string(text: bytes) -> bytes:
    """A text in a header, without compression (RFC 7541, 5.1 and 5.2)."""
    size, rest = bytes([min(len(text), 127)]), len(text) - 127
    while rest >= 0:
        size += bytes([rest & 127 | (128 if rest > 127 else 0)])
        rest = (rest >> 7) or -1
    return size + text


def connect(path: Path, *said: bytes) -> socket.socket:
    """A connection over which all bytes were sent, as far as the other side took them at once."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(10)
    connection.connect(str(path))
    _send(connection, said)
    return connection


def greet(path: Path, *said: bytes, window: int | None = None) -> socket.socket:
    """The same over a connection of which each side has acknowledged the other's settings."""
    connection = connect(path, PREFACE + settings(window))
    connection.settimeout(10)
    with suppress(ConnectionError):
        connection.recv(1, socket.MSG_PEEK)
    _send(connection, (frame(SETTINGS, 1), *said))
    return connection


def _send(connection: socket.socket, said: Iterable[bytes]) -> None:
    connection.setblocking(False)
    for text in said:
        try:
            connection.send(text)
        except (BlockingIOError, ConnectionError):
            break


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side has hung up; first reads its last bytes."""
    try:
        while connection.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True
