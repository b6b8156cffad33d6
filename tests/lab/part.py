# SPDX-License-Identifier: Apache-2.0
"""A server of the lab that can be killed and started again as often as a test likes."""

from __future__ import annotations

import signal
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lab.process import Exit, Process
from lab.wait import wait_until


class Part:
    """A program with its arguments; `answers` says whether it is up. Its log is NAME.log."""

    def __init__(
        self,
        folder: Path,
        argv: Sequence[str | Path],
        answers: Callable[[], bool],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.argv = [str(argument) for argument in argv]
        self.name = Path(self.argv[0]).name
        self.log = folder / f"{self.name}.log"
        self._folder = folder
        self._answers = answers
        self._environment = environment
        self._process: Process | None = None

    @property
    def process(self) -> Process:
        assert self._process is not None, f"{self.name} was not started"
        return self._process

    def start(self, wait_ready: bool = True) -> None:
        self._process = Process(self.argv, self._folder, self.log, self._environment)
        if wait_ready:
            self.wait_ready()

    def is_up(self) -> bool:
        """RuntimeError if it has ended by itself."""
        self.process.check_alive()
        return self._answers()

    def wait_ready(self, timeout: float = 120) -> None:
        wait_until(self.is_up, timeout, lambda: f"answer of {self.name}:\n{self.process.log_tail()}")

    def kill9(self) -> Exit:
        return self.process.kill9()

    def stop(self) -> Exit:
        """As an operator would. An API server first ends its watches, which takes a while."""
        return self.process.terminate()

    def restart(self) -> None:
        """Dies and comes back; returns when it is up again."""
        self.kill9()
        self.start()

    def freeze(self) -> None:
        """It keeps its connections, and says nothing any more."""
        self.process.send(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send(signal.SIGCONT)


def says_ok(url: str) -> bool:
    """Whether an HTTP server answers with success, as health endpoints do."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False
