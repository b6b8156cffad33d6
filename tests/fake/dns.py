# SPDX-License-Identifier: Apache-2.0
"""A name server for a few names, on a loopback address of its own, that notes what it is asked."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Mapping

from lab.cleanup import Closing

_TYPE_A = 1
_ANSWER, _NO_SUCH_NAME = 0x8180, 0x8183


class FakeDns(Closing):
    """Answers with IPv4 addresses until closed. `names` are whole, without a dot at the end."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names
        self.asked: list[str] = []
        process = os.getpid()
        self.address = f"127.{process >> 16 & 63 | 64}.{process >> 8 & 255}.{process & 255 or 1}"
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((self.address, 53))
        self._thread = threading.Thread(target=self._serve)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._socket.sendto(b"", self._socket.getsockname())
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            query, peer = self._socket.recvfrom(512)
            if not query:
                return
            self._socket.sendto(self._answer(query), peer)

    def _answer(self, query: bytes) -> bytes:
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode())
            at += 1 + query[at]
        question = query[12 : at + 5]
        name, kind = ".".join(labels), struct.unpack_from("!H", query, at + 1)[0]
        self.asked.append(name)
        address = self.names.get(name)
        record = b""
        if address is not None and kind == _TYPE_A:
            record = struct.pack("!HHHLH", 0xC00C, _TYPE_A, 1, 5, 4) + socket.inet_aton(address)
        flags = _NO_SUCH_NAME if address is None else _ANSWER
        head = query[:2] + struct.pack("!HHHHH", flags, 1, bool(record), 0, 0)
        return head + question + record
