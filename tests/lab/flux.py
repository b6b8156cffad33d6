# SPDX-License-Identifier: Apache-2.0
"""Flux, as it treats a repository: by its library, in tests/cluster/flux."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from lab.built import find_built
from lab.cleanup import Closing
from lab.process import Process
from lab.wait import wait_until


class Repository(Closing):
    """A manifest, which Flux applies every second until this is closed. `must_wait`: until it is healthy each time."""

    def __init__(self, folder: Path, kubeconfig: Path, manifest: str, *, must_wait: bool = False) -> None:
        self.folder = folder
        self.folder.mkdir()
        self._kubeconfig = kubeconfig
        self._manifest = folder / "manifest.yaml"
        self._log = folder / "flux.log"
        self._flags = ["--wait"] if must_wait else []
        self._numbers = itertools.count(1)
        self.revision = ""
        self.commit(manifest)

    def start(self) -> None:
        argv = [str(find_built("flux") / "flux-apply"), str(self._manifest), *self._flags]
        self._process = Process(argv, self.folder, self._log, {"KUBECONFIG": str(self._kubeconfig)})
        self.wait_reconciled()

    def close(self) -> None:
        self._process.kill9()

    def commit(self, manifest: str) -> None:
        self.revision = f"# {next(self._numbers)}"
        new = self.folder / "new"
        new.write_text(f"{self.revision}\n{manifest}")
        new.rename(self._manifest)

    def reconciliations(self) -> list[dict[str, Any]]:
        """Returns the log lines of the last commit: "output" has the action on each object; and "error"."""
        lines = self._log.read_text().splitlines(keepends=True) if self._log.exists() else []
        said = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]
        return [one for one in said if one["revision"] == self.revision]

    def actions(self) -> list[str]:
        """Returns Flux's action on the object in each reconciliation."""
        return [action for one in self.reconciliations() for action in one.get("output", {}).values()]

    def wait_reconciled(self, more: int = 1) -> None:
        """Until the last commit has been applied so many times from now on."""
        wanted = len(self.actions()) + more

        def is_reached() -> bool:
            self._process.check_alive()
            return len(self.actions()) >= wanted

        wait_until(is_reached, 60, lambda: f"reconciliation: {self.reconciliations()}", 0.1)
