# SPDX-License-Identifier: Apache-2.0
"""A control group of its own for a process, whose memory the kernel limits as it does a pod's."""

from __future__ import annotations

import os
from pathlib import Path

from lab.cleanup import Closing
from lab.wait import wait_until

_VERSION_1 = Path("/sys/fs/cgroup/memory")
_VERSION_2 = Path("/sys/fs/cgroup")


def is_possible() -> bool:
    """False where the machine's kernel, or who started us, gives no control of memory."""
    if (_VERSION_1 / "memory.limit_in_bytes").exists():
        return os.access(_VERSION_1, os.W_OK)
    try:
        return "memory" in (_VERSION_2 / "cgroup.subtree_control").read_text().split()
    except FileNotFoundError:
        return False


class MemoryLimit(Closing):
    """A process that is over the limit is killed, and so are those that it starts from now on."""

    def __init__(self, pid: int, limit: int) -> None:
        is_first = (_VERSION_1 / "memory.limit_in_bytes").exists()
        self._folder = (_VERSION_1 if is_first else _VERSION_2) / f"inplaced-test-{pid}"
        self._folder.mkdir()
        name = "memory.limit_in_bytes" if is_first else "memory.max"
        (self._folder / name).write_text(str(limit))
        (self._folder / "cgroup.procs").write_text(str(pid))

    def close(self) -> None:
        """Processes that are left go back to where all others are."""
        root = self._folder.parent / "cgroup.procs"

        def is_removed() -> bool:
            for pid in (self._folder / "cgroup.procs").read_text().split():
                try:
                    root.write_text(pid)
                except ProcessLookupError:
                    pass
            try:
                self._folder.rmdir()
            except OSError:
                return False
            return True

        wait_until(is_removed, 10, f"end of {self._folder}")
