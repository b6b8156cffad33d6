# SPDX-License-Identifier: Apache-2.0
"""The folder of one lab, and the guardian that removes it whatever happens."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from lab import cleanup

# A socket's path may have 107 characters, and parts put theirs some levels down.
_LONGEST_PATH = 64


class _Guardian:
    """The process that sweeps our folders should we die; started when the first one is made."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0

    def send(self, verb: str, folder: Path) -> None:
        if self._process is None or self._owner != os.getpid():
            self._start()
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(f"{verb} {folder}\n")
        self._process.stdin.flush()

    def _start(self) -> None:
        environment = {k: v for k, v in os.environ.items() if k != cleanup.MARKER}
        self._process = subprocess.Popen(
            [sys.executable, "-B", cleanup.__file__],
            stdin=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
            cwd="/",
        )
        self._owner = os.getpid()
        atexit.register(self._finish)

    def _finish(self) -> None:
        """Waits, so that our parent finds everything taken down."""
        if self._process is not None and self._owner == os.getpid():
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(timeout=30)


_guardian = _Guardian()


class LabFolder(cleanup.Closing):
    """A private folder; leaving the `with` block takes down all that was started in it.

    Without `path` it is a new one in the folder for temporary files. A given `path` must not exist
    or be empty, and is removed as well.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="lab-")) if path is None else _claim(path)
        if len(str(self.path)) > _LONGEST_PATH:
            self.path.rmdir()
            raise ValueError(
                f"{self.path} is too long for sockets in it: at most {_LONGEST_PATH} characters"
            )
        _guardian.send("add", self.path)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def close(self) -> None:
        cleanup.sweep(self.path)
        _guardian.send("drop", self.path)


def _claim(path: Path) -> Path:
    path = path.resolve()
    path.mkdir(parents=True, exist_ok=True)
    if any(path.iterdir()):
        raise ValueError(f"{path} is not empty; name a folder that can be removed afterwards")
    return path
