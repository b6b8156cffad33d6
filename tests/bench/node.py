# SPDX-License-Identifier: Apache-2.0
"""The parts that one group of figures is measured with."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from lab import runtimes
from lab.agent import Agent
from lab.cleanup import Closing
from lab.folder import LabFolder
from lab.registry import Registry

import machine
from floor import ApiServer, Floor

# As in systemd/inplaced.service.
_WATCHDOG_SECONDS = 30
_ENVIRONMENT = {"MALLOC_ARENA_MAX": "2"}

# 500 MB packed and unpacked, and again while the garbage of the last round is collected.
_IMAGES_MEBIBYTES = 3 << 10


class Node(Closing):
    """A runtime and a registry of its own; agents and floors run beside them until it is closed.

    With `quick`, measurements are short.
    """

    def __init__(
        self, folder: LabFolder, build_dir: Path, quick: bool, runtime: str = runtimes.NAME
    ) -> None:
        self.folder = folder
        self.build_dir = build_dir
        self.quick = quick
        self._runtime_name = runtime
        self._stack = ExitStack()
        self._count = 0

    def start(self) -> None:
        has_room = machine.available_mebibytes() > 2 * _IMAGES_MEBIBYTES
        size = _IMAGES_MEBIBYTES if has_room else None
        try:
            self.registry = self._stack.enter_context(Registry(self.folder / "r"))
            runtime = runtimes.make_runtime(
                self.folder / "c", self._runtime_name, root_megabytes=size
            )
            self.runtime = self._stack.enter_context(runtime)
        except BaseException:
            self._stack.close()
            raise

    def close(self) -> None:
        self._stack.close()

    def _new_path(self, name: str) -> Path:
        self._count += 1
        return self.folder / f"{name}{self._count}"

    def make_agent(self, runtime_endpoint: str | None = None, **options: Any) -> Agent:
        """Run as the service is; to be started by the caller. `options` are more of Agent's."""
        environment = {**_ENVIRONMENT, **options.pop("environment", {})}
        return Agent(
            self._new_path("a"),
            runtime_endpoint or self.runtime.endpoint,
            build_dir=self.build_dir,
            watchdog_seconds=_WATCHDOG_SECONDS,
            log_level="info",
            environment=environment,
            **options,
        )

    def make_floor(self, server: ApiServer | None = None) -> Floor:
        """To be started by the caller. With a server it is that of an agent in a cluster."""
        return Floor(self._new_path("f"), self.runtime.socket, _ENVIRONMENT, server)
