# SPDX-License-Identifier: Apache-2.0
"""The tool for a whole cluster, as a person at a terminal calls it: kubectl-inplace."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab import sanitizers
from lab.cleanup import MARKER
from lab.process import Child
from lab.terminal import Terminal


# The peak of a process counts what it was before it ran its program: a copy of the one that started it,
# which had better be small.
_MEASURE = """
import os, sys
if (pid := os.fork()) == 0:
    os.execv(sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(pid, 0)
with open(sys.argv[1], "w") as file:
    file.write(str(usage.ru_maxrss))
sys.exit(os.waitstatus_to_exitcode(status))
"""


@dataclass(frozen=True)
class Ran:
    """How a call ended."""

    code: int
    stdout: str
    stderr: str


class Inplace:
    """Calls it as one user. Nothing of this machine's kubeconfigs is found."""

    def __init__(self, kubeconfig: Path, folder: Path, build_dir: Path | None = None) -> None:
        """`folder` is the home of that user, and what is running is ended with it.

        The program is that of INPLACED_BUILD_DIR, unless another build's is to run.
        """
        build_dir = build_dir or Path(os.environ["INPLACED_BUILD_DIR"])
        self.program = build_dir / "agent" / "kubectl-inplace"
        self.kubeconfig = kubeconfig
        self.folder = folder
        self.prefix: list[str] = []  # runs it as a part of another program

    def run(self, *arguments: str, timeout: float = 60, **environment: str | Path | None) -> Ran:
        """Calls it and waits for its end; `environment` as for `start`."""
        with self.start(*arguments, **environment) as child:
            try:
                output, errors = child.communicate(timeout=timeout)
            except BaseException:
                child.kill()
                raise
        return Ran(child.returncode, output, errors)

    def measure(
        self, *arguments: str, timeout: float = 60, **environment: str | Path | None
    ) -> tuple[Ran, int]:
        """Runs it; returns the result, and the most memory that was resident, in KiB."""
        peak = self.folder / "peak"
        measured = Inplace(self.kubeconfig, self.folder, self.program.parents[1])
        measured.prefix = [sys.executable, "-I", "-S", "-c", _MEASURE, str(peak), *self.prefix]
        ran = measured.run(*arguments, timeout=timeout, **environment)
        return ran, int(peak.read_text())

    def start(self, *arguments: str, **environment: str | Path | None) -> Child:
        """Calls it beside the test, which has to wait for it. None: the variable is not set."""
        return Child(
            [*self.prefix, str(self.program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment(environment),
        )

    @contextmanager
    def running(self, *arguments: str, **environment: str | Path | None) -> Iterator[Child]:
        """Runs it beside the test; a program that still runs afterwards is killed."""
        with self.start(*arguments, **environment) as child:
            try:
                yield child
            finally:
                child.kill()

    def on_terminal(self, *arguments: str, columns: int = 120, rows: int = 40) -> Terminal:
        """Calls it on a terminal, beside the test."""
        return Terminal([str(self.program), *arguments], self._environment({}), columns=columns, rows=rows)

    def _environment(self, more: dict[str, str | Path | None]) -> dict[str, str]:
        variables = {
            **os.environ,
            **sanitizers.environment(),
            MARKER: str(self.folder),
            "HOME": str(self.folder),
            "KUBECONFIG": str(self.kubeconfig),
            **more,
        }
        return {name: str(value) for name, value in variables.items() if value is not None}
