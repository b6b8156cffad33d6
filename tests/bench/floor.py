# SPDX-License-Identifier: Apache-2.0
"""The program that only starts the agent's libraries (floor.c): a lower bound of the cost."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType

from lab.cleanup import sweep
from lab.folder import LabFolder
from lab.notify import NotifySocket
from lab.process import Process
from lab.wait import wait_until

_LIBRARIES = ["grpc_unsecure", "libprotobuf-c", "libsystemd", "json-c", "yaml-0.1", "libmicrohttpd"]


@dataclass(frozen=True)
class ApiServer:
    """A server that the floor keeps a connection to. `authority` is the file of the CA to trust.

    With a path and a query in `watch` it reads what the server sends there.
    """

    url: str
    authority: Path
    token: str
    watch: str = ""


class Floor:
    """Runs it in `folder` beside a runtime, and perhaps an API server, until closed."""

    def __init__(
        self,
        folder: Path,
        runtime: Path,
        environment: Mapping[str, str],
        server: ApiServer | None = None,
    ) -> None:
        folder.mkdir()
        self._folder = folder
        program = _build(server is not None).path / "floor"
        self._argv = [str(program), str(folder / "floor.sock"), str(runtime)]
        if server is not None:
            self._argv += [server.url, str(server.authority), server.token]
            self._argv += [server.watch] if server.watch else []
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
def _build(in_cluster: bool) -> LabFolder:
    """Builds the program with the agent's libraries; it goes with this process."""
    libraries = [*_LIBRARIES, "libcurl"] if in_cluster else _LIBRARIES
    return build_program("floor.c", libraries, ["-DIN_CLUSTER"] if in_cluster else [])


def build_program(source_name: str, libraries: list[str], options: Sequence[str] = ()) -> LabFolder:
    """A folder with the program that such a file here is, compiled as the agent is."""
    output = LabFolder()
    source = Path(__file__).with_name(source_name)
    words = subprocess.run(
        ["pkg-config", "--cflags", "--libs", *libraries],
        check=True,
        capture_output=True,
        text=True,
    )
    argv = ["cc", "-std=c17", "-D_GNU_SOURCE", "-O2", "-Wl,--as-needed", *options, str(source)]
    argv += ["-o", str(output / source.stem), *words.stdout.split()]
    if subprocess.run(argv).returncode != 0:
        raise RuntimeError(f"{source} cannot be built, see above")
    return output
