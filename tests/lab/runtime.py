# SPDX-License-Identifier: Apache-2.0
"""A container runtime of our own, beside any that the machine may run: what all of them have.

`Containerd` and `Crio` are the real ones. A test that runs on each takes a `Runtime`; `start_runtime` makes
the one that INPLACED_RUNTIME names.
"""

from __future__ import annotations

import shutil
import subprocess
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import grpc

from compatibility import note
from lab.cleanup import Closing, sweep
from lab.cri import Cri, Pulled
from lab.process import Exit, Process
from lab.registry import Registry
from lab.wait import wait_until

_BUILD = Path(__file__).resolve().parents[1] / "runtimes" / "build"


class Runtime(Closing):
    """Keeps its state in `folder` until closed; images survive `stop`, `kill9` and `start`.

    With `root_megabytes` images live on a file system of that size, which tests can fill up. Registries on
    the loopback address need neither TLS nor `trust`.
    """

    program: str
    cri_name = "containerd"  # as its answer to Version says
    has_own_api = True  # beside CRI, with content and events

    def __init__(
        self,
        folder: Path,
        *,
        root_megabytes: int | None = None,
        sandbox_image: str = "localhost/pause:1",
    ) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.root.mkdir(parents=True)
        if root_megabytes is not None:
            _mount("tmpfs", self.root, f"size={root_megabytes}m")
        self.socket = folder / f"{self.program}.sock"
        self.endpoint = f"unix://{self.socket}"
        self.cni = folder / "cni"  # configurations of networks for pods; there are none at first
        self.sandbox_image = sandbox_image
        self.has_overlayfs = _overlayfs_works(self.root / "probe")
        self.cri = Cri(self.socket)
        self._process: Process | None = None

    @property
    def process(self) -> Process:
        assert self._process is not None, "the runtime was not started"
        return self._process

    @property
    def log(self) -> Path:
        return self.folder / f"{self.program}.log"

    def start(self, timeout: float = 10, wait_ready: bool = True) -> None:
        """Returns once it answers a CRI call, unless it is not to wait."""
        self._write_config()
        process = Process(self._argv(), self.folder, self.log, self._environment())
        self._process = process

        def answers() -> Any:
            process.check_alive()
            return _ask_version(self.socket)

        if wait_ready:
            version = wait_until(answers, timeout, f"answer at {self.socket}")
            note(version.runtime_name, version.runtime_version)
        self.cri.close()
        self.cri = Cri(self.socket)

    def stop(self) -> Exit:
        """Ends the runtime alone; containers go on, as they do on a node."""
        return self.process.terminate()

    def kill9(self) -> Exit:
        return self.process.kill9()

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """Takes down containers, too, and removes the folder."""
        self.cri.close()
        if self._process is not None and self._process.code is None:
            self._process.terminate(grace_seconds=3)
        sweep(self.folder)

    def image_status(self, reference: str) -> Any | None:
        return self.cri.image_status(reference)

    def image_id(self, reference: str) -> str | None:
        """The ID of the image that it holds under the reference, with the algorithm as in the image's manifest."""
        image = self.image_status(reference)
        return None if image is None else f"sha256:{image.id.removeprefix('sha256:')}"

    def pull(self, reference: str, credentials: tuple[str, str] | None = None) -> Pulled:
        return self.cri.pull(reference, credentials)

    def remove_image(self, reference: str) -> None:
        self.cri.remove_image(reference)

    def list_images(self) -> list[Any]:
        return self.cri.list_images()

    @abstractmethod
    def trust(self, registry: Registry) -> None:
        """Lets it pull from a registry that speaks TLS."""

    @abstractmethod
    def mirror(self, host: str, registry: Registry) -> None:
        """Redirects pulls from a registry out of reach to a registry of the lab."""

    @abstractmethod
    def untag(self, reference: str) -> None:
        """Removes one name of an image; its content may stay for a while."""

    @abstractmethod
    def keep_sandboxes_with(self, reference: str) -> None:
        """Pods are kept by this image, which is there, from now on."""

    @abstractmethod
    def _argv(self) -> Sequence[str]: ...

    @abstractmethod
    def _environment(self) -> Mapping[str, str]: ...

    @abstractmethod
    def _write_config(self) -> None: ...


@cache
def find_built(what: str) -> Path:
    """The folder with the programs of a runtime that Debian does not have; builds them at first."""
    found = subprocess.run([_BUILD, what], stdout=subprocess.PIPE, text=True, check=True)
    return Path(found.stdout[:-1])


def _ask_version(socket: Path) -> Any | None:
    """Asks over a new channel: a channel that was opened too early takes seconds until it tries again."""
    if not socket.exists():
        return None
    cri = Cri(socket)
    try:
        return cri.version(timeout=5)
    except grpc.RpcError:
        return None
    finally:
        cri.close()


def _mount(kind: str, point: Path, options: str) -> None:
    subprocess.run(["mount", "-t", kind, "-o", options, kind, str(point)], check=True)


def _overlayfs_works(probe: Path) -> bool:
    """Not inside of most containers, for one, where the root is an overlay itself."""
    folders = {name: probe / name for name in ("lower", "upper", "work", "merged")}
    for folder in folders.values():
        folder.mkdir(parents=True)
    options = "lowerdir={lower},upperdir={upper},workdir={work}".format(**folders)
    argv = ["mount", "-t", "overlay", "-o", options, "overlay", str(folders["merged"])]
    works = subprocess.run(argv, capture_output=True, check=False).returncode == 0
    if works:
        subprocess.run(["umount", str(folders["merged"])], check=True)
    shutil.rmtree(probe)
    return works
