# SPDX-License-Identifier: Apache-2.0
"""A containerd that mounts layers before they are there, and the images that it can do that with."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

from compatibility import module_version, note
from lab.containerd import Containerd
from lab.process import Process
from lab.registry import Registry
from lab.runtime import find_built
from lab.wait import wait_until

_PLUGIN = """\
[proxy_plugins.stargz]
  type = "snapshot"
  address = "{socket}"
"""


class Stargz(Containerd):
    """A pull ends once the layers are mounted; they are fetched in the background, or when they are read.

    `snapshotter_options` are keys of the snapshotter's configuration, such as `no_background_fetch`. It
    fetches from registries on the loopback address without TLS.
    """

    def __init__(
        self,
        folder: Path,
        *,
        snapshotter_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(folder, **options)
        self.snapshotter = "stargz"
        self.image_options["disable_snapshot_annotations"] = False
        self.stargz_root = folder / "stargz"
        self._stargz_socket = folder / "stargz.sock"
        self.more = _PLUGIN.format(socket=self._stargz_socket)
        self._options = snapshotter_options or {}
        self._stargz: Process | None = None

    @property
    def stargz(self) -> Process:
        assert self._stargz is not None, "the snapshotter was not started"
        return self._stargz

    def start(self, timeout: float = 10) -> None:
        """The snapshotter comes first, and stays when containerd is started again."""
        if self._stargz is None or self._stargz.code is not None:
            self._start_stargz(timeout)
        super().start(timeout)

    def close(self) -> None:
        if self._stargz is not None and self._stargz.code is None:
            self._stargz.terminate(grace_seconds=3)
        super().close()

    def _start_stargz(self, timeout: float) -> None:
        config = self.folder / "stargz.json"
        config.write_text(json.dumps(self._options))
        self._stargz_socket.unlink(missing_ok=True)
        program = find_built("stargz") / "stargz-snapshotter"
        argv = [str(program), str(self.stargz_root), str(self._stargz_socket), str(config)]
        process = Process(argv, self.folder, self.folder / "stargz.log")
        self._stargz = process

        def listens() -> bool:
            process.check_alive()
            return self._stargz_socket.exists()

        wait_until(listens, timeout, f"snapshotter at {self._stargz_socket}")
        note("stargz-snapshotter", module_version(program, "github.com/containerd/stargz-snapshotter"))


def push_lazy_image(registry: Registry, name: str, sizes: list[int], folder: Path) -> str:
    """Pushes an image in the form that can be mounted before it is there, and returns its reference.

    Its layers have so many bytes, which no other image has: another runtime on this machine may have mounted
    what another run has pushed.
    """
    plain = registry.push_image(name, "plain", sizes, seed=random.getrandbits(32))
    reference = f"{registry.host}/{name}:1"
    with Containerd(folder) as containerd:
        _push_lazy(containerd, plain.reference, reference)
    return reference


def _push_lazy(containerd: Containerd, source: str, target: str) -> None:
    """Pushes the image `source` of a registry once more, as `target`, in the form that can be mounted early.

    The containerd is one that fetches what it pulls, and holds both images afterwards.
    """
    containerd.pull(source)
    ctr = ["ctr-remote", "--address", str(containerd.socket), "--namespace", "k8s.io", "images"]
    for arguments in (
        ("convert", "--oci", "--estargz", source, target),
        ("push", "--plain-http", target),
    ):
        done = subprocess.run([*ctr, *arguments], capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise RuntimeError(f"ctr-remote images {arguments[0]}: {done.stderr}")
