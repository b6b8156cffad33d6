# SPDX-License-Identifier: Apache-2.0
"""The program that only starts the agent's libraries (floor.c): what cannot be less."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import TracebackType

from lab.cleanup import sweep
from lab.folder import LabFolder
from lab.notify import NotifySocket
from lab.process import Process
from lab.wait import wait_until

_LIBRARIES = ["grpc_unsecure", "libprotobuf-c", "libsystemd", "json-c", "yaml-0.1", "libmicrohttpd"]


class Floor:
    """Runs it in `folder` beside a runtime until closed."""

    def __init__(self, folder: Path, runtime: Path, environment: Mapping[str, str]) -> None:
        folder.mkdir()
        self._folder = folder
        self._argv = [str(_build().path / "floor"), str(folder / "floor.sock"), str(runtime)]
        self._notify = NotifySocket(folder / "notify.sock")
        self._environment = {**environment, "NOTIFY_SOCKET": str(self._notify.path)}
        self._process: Process | None = None

    def __enter__(self) -> Floor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.kill9()
        self._notify.close()
        sweep(self._folder)

    @property
    def pid(self) -> int:
        assert self._process is not None, "the floor was not started"
        return self._process.pid

    def start(self) -> float:
        """Returns how long it took to be ready, in seconds."""
        process = Process(self._argv, self._folder, self._folder / "log", self._environment)
        self._process = process

        def is_ready() -> bool:
            process.check_alive()
            return bool(self._notify.notices("READY"))

        wait_until(is_ready, 10, "READY=1 of the floor")
        return self._notify.notices("READY")[0].at - process.began_at


@cache
def _build() -> LabFolder:
    """Linked with the same libraries and options as the agent; goes with this process."""
    output = LabFolder()
    source = Path(__file__).with_name("floor.c")
    words = subprocess.run(
        ["pkg-config", "--cflags", "--libs", *_LIBRARIES],
        check=True,
        capture_output=True,
        text=True,
    )
    argv = ["cc", "-std=c17", "-D_GNU_SOURCE", "-O2", "-Wl,--as-needed", str(source)]
    argv += ["-o", str(output / "floor"), *words.stdout.split()]
    if subprocess.run(argv).returncode != 0:
        raise RuntimeError(f"{source} cannot be built, see above")
    return output
