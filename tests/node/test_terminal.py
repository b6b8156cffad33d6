# SPDX-License-Identifier: Apache-2.0
"""inplacectl on a terminal: bars that grow, and Ctrl-C."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading

import pytest

from lab import sanitizers
from lab.wait import wait_until

_BYTES = re.compile(r"([\d.]+)\s*/\s*([\d.]+) ([kMG]?B)")


class Terminal:
    """Runs inplacectl on a terminal of 120 columns and keeps all that it writes."""

    def __init__(self, agent, *arguments: str, term: str = "xterm") -> None:
        self.text = ""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.child = subprocess.Popen(
            [str(agent.build_dir / "agent" / "inplacectl"), f"--socket={agent.socket}", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, **sanitizers.environment(), "TERM": term, "LANG": "C.UTF-8"},
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


@pytest.mark.slow
def test_bytes_grow_to_the_total(agent, push):
    """While 400 MB arrive, the bar shows more and more bytes of the real total, then the ID."""
    image = push([50 << 20] * 8)
    terminal = Terminal(agent, "pull", image.reference)
    assert terminal.wait_end() == 0, terminal.text
    shown = [(float(done), total, unit) for done, total, unit in _BYTES.findall(terminal.text)]
    assert {(total, unit) for _, total, unit in shown} == {(f"{image.size / 1e6:.1f}", "MB")}, shown
    done = [done for done, _, _ in shown]
    assert len(set(done)) >= 3 and done == sorted(done), done
    last = terminal.text.rstrip().splitlines()[-1]
    assert image.reference in last and image.image_id[:19] in last
    assert f"{image.size / 1e6:.1f} MB" in last


def test_ctrl_c(start_agent, containerd, gate):
    """Ctrl-C on the terminal withdraws the request and leaves the terminal in order."""
    agent = start_agent(containerd.endpoint)
    terminal = Terminal(agent, "pull", gate.reference)
    wait_until(lambda: "downloading" in terminal.text, 20, lambda: f"bar: {terminal.text!r}")
    terminal.press(b"\x03")
    assert terminal.wait_end(10) == 130
    assert "canceled" in terminal.text.lower()
    assert terminal.text.count("\x1b[?25l") == terminal.text.count("\x1b[?25h")
    wait_until(lambda: not containerd.cri.ingests(), 10, "end of the ingests")


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_line_at_the_end(agent, push, term):
    """An image that is there soon is one line at the end; a dumb terminal gets nothing else."""
    image = push()
    terminal = Terminal(agent, "pull", image.reference, term=term)
    assert terminal.wait_end() == 0
    assert image.image_id[:19] in terminal.text.rstrip().splitlines()[-1]
    assert term != "dumb" or "\x1b" not in terminal.text
