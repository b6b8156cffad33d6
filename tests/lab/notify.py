# SPDX-License-Identifier: Apache-2.0
"""The service manager's end of sd_notify(3): records what a service says and when."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lab.wait import wait_until


@dataclass(frozen=True)
class Notice:
    """An assignment, such as READY=1. `at` is of time.monotonic()."""

    name: str
    value: str
    at: float


class NotifySocket:
    """Listens at `path`, which goes into the service's NOTIFY_SOCKET."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._notices: list[Notice] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def close(self) -> None:
        # Closing alone would not wake the thread that waits in recvmsg().
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)  # has read the last message by then
        self._socket.close()
        self.path.unlink(missing_ok=True)

    def notices(self, name: str | None = None) -> list[Notice]:
        return [notice for notice in list(self._notices) if name in (None, notice.name)]

    def wait_for(self, name: str, timeout: float, since: float = 0) -> Notice:
        """Waits for an assignment of the name; returns the first one after the time `since`."""

        def find() -> Notice | None:
            return next((notice for notice in self.notices(name) if notice.at >= since), None)

        return wait_until(find, timeout, lambda: f"{name}=, only {self.notices()}")

    def catch_up(self) -> None:
        """Returns once all is read that a service has sent, which may have ended since."""
        mark = str(time.monotonic())
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(f"MARK={mark}".encode(), str(self.path))
        wait_until(lambda: any(notice.value == mark for notice in self.notices("MARK")), 5, "own mark")

    def _listen(self) -> None:
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(self._socket, 1 << 16, 8)
            except OSError:
                return
            for descriptor in descriptors:
                os.close(descriptor)  # a barrier waits for that
            if not data and not descriptors:
                return
            at = time.monotonic()
            for line in data.decode(errors="replace").splitlines():
                name, _, value = line.partition("=")
                self._notices.append(Notice(name, value, at))
