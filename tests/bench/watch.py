# SPDX-License-Identifier: Apache-2.0
"""Sees that a file of a folder was replaced as soon as it happens: inotify(7)."""

from __future__ import annotations

import ctypes
import os
import select
import time
from collections.abc import Callable
from pathlib import Path

_IN_CLOSE_WRITE, _IN_MOVED_TO = 0x8, 0x80

_libc = ctypes.CDLL(None, use_errno=True)


class FolderWatch:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fd = _libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        mask = _IN_CLOSE_WRITE | _IN_MOVED_TO
        if self._fd < 0 or _libc.inotify_add_watch(self._fd, bytes(folder), mask) < 0:
            raise OSError(ctypes.get_errno(), "inotify", str(folder))

    def close(self) -> None:
        os.close(self._fd)

    def wait_until(self, condition: Callable[[], bool], timeout: float = 120) -> None:
        """Asks first and then after every change of a file."""
        deadline = time.monotonic() + timeout
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._fd], [], [], left)[0]:
                raise TimeoutError(f"{self._folder} did not become as expected in {timeout:g} s")
            os.read(self._fd, 1 << 16)
