# SPDX-License-Identifier: Apache-2.0
"""A child process of the lab: marked as ours, logged to a file, killed when we die."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.cleanup import MARKER
from lab.wait import stretch


# Before a command: the kernel kills the program with the thread that has started it.
DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")


@dataclass(frozen=True)
class Exit:
    """How a process ended: `code` as in subprocess, `seconds` from the signal to the end."""

    code: int
    seconds: float


class Child(subprocess.Popen[str]):
    """A program beside a test, which has to wait for it; one that fails, or is ended by its time limit, does not."""

    def __exit__(self, kind: object, value: object, traceback: object) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, value, traceback)  # type: ignore[arg-type]


class Process:
    """Runs a program in the background with its standard output and error in `log`.

    The kernel kills the program when the *thread* that made this object ends (PR_SET_PDEATHSIG), so
    start long-lived ones from the main thread. `began_at` is of time.monotonic().
    """

    def __init__(
        self,
        argv: Sequence[str],
        folder: Path,
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = Path(argv[0]).name
        self.log = log
        self.began_at = time.monotonic()
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                [*DIES_WITH_US, *argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **(environment or {}), MARKER: str(folder)},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def code(self) -> int | None:
        """None while it runs."""
        return self._child.poll()

    def check_alive(self) -> None:
        if self.code is not None:
            raise RuntimeError(f"{self.name} ended with {self.code}; its log:\n{self.log_tail()}")

    def send(self, number: signal.Signals) -> None:
        self._child.send_signal(number)

    def terminate(self, grace_seconds: float = 10) -> Exit:
        """SIGTERM, and SIGKILL when that did not help in time."""
        return self._end(signal.SIGTERM, grace_seconds)

    def kill9(self) -> Exit:
        return self._end(signal.SIGKILL, 10)

    def _end(self, number: signal.Signals, grace_seconds: float) -> Exit:
        began = time.monotonic()
        self._child.send_signal(number)
        try:
            code = self._child.wait(stretch(grace_seconds))
        except subprocess.TimeoutExpired:
            self._child.kill()
            code = self._child.wait()
        return Exit(code, time.monotonic() - began)

    def log_tail(self, lines: int = 40) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
