# SPDX-License-Identifier: Apache-2.0
"""A terminal on which a program runs."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Mapping, Sequence

from lab.process import DIES_WITH_US


class Terminal:
    """Keeps all output of the program, with the sequences that move the cursor. The kernel kills the program with the
    thread that made this object."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], term: str = "xterm", columns: int = 120, rows: int = 40
    ) -> None:
        self.text = ""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.child = subprocess.Popen(
            [*DIES_WITH_US, *command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**environment, "TERM": term, "LANG": "C.UTF-8"},
            preexec_fn=_become_foreground,
        )
        os.close(slave)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def press(self, key: bytes) -> None:
        os.write(self._master, key)

    def wait_end(self, timeout: float = 40) -> int:
        code = self.child.wait(timeout)
        self._thread.join(5)
        os.close(self._master)
        return code

    def _read(self) -> None:
        try:
            while chunk := os.read(self._master, 1 << 16):
                self.text += chunk.decode(errors="replace")
        except OSError:
            pass  # the other end is closed


def _become_foreground() -> None:
    """So that Ctrl-C reaches it as it does from a keyboard."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def screen(text: str) -> list[str]:
    """The lines that are left when lines were drawn again in place."""
    lines: list[str] = []
    for line in text.replace("\r", "").split("\n"):
        while line.startswith("\x1b["):
            command, _, rest = line[2:].partition("A\x1b[J")
            if not command.isdigit():
                break
            del lines[len(lines) - int(command) :]
            line = rest
        lines.append(line)
    return lines
