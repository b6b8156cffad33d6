# SPDX-License-Identifier: Apache-2.0
"""A real containerd of our own, beside any that the machine may run."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc

from lab.cleanup import kill_processes, sweep
from lab.cri import Cri, Pulled
from lab.process import Exit, Process
from lab.registry import Registry
from lab.wait import wait_until

# They only slow the start down.
_UNUSED_PLUGINS = [
    "io.containerd.internal.v1.restart",
    "io.containerd.internal.v1.tracing",
    "io.containerd.snapshotter.v1.aufs",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.zfs",
]


class Containerd:
    """Keeps its state in `folder` until closed; images survive `stop`, `kill9` and `start`.

    With `root_megabytes` images live on a file system of that size, which tests can fill up.
    """

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
        self.socket = folder / "containerd.sock"
        self.endpoint = f"unix://{self.socket}"
        self.cni = folder / "cni"  # configurations of networks for pods; there are none at first
        self.snapshotter = "overlayfs" if _overlayfs_works(self.root / "probe") else "native"
        self.cri = Cri(self.socket)
        self._process: Process | None = None
        self._write_config(sandbox_image)

    def __enter__(self) -> Containerd:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def process(self) -> Process:
        assert self._process is not None, "containerd was not started"
        return self._process

    def start(self, timeout: float = 10) -> None:
        """Returns once it answers a CRI call."""
        argv = ["containerd", "--config", str(self.folder / "config.toml")]
        process = Process(argv, self.folder, self.folder / "containerd.log")
        self._process = process

        def answers() -> bool:
            process.check_alive()
            return _speaks_cri(self.socket)

        wait_until(answers, timeout, f"answer at {self.socket}")
        self.cri.close()
        self.cri = Cri(self.socket)

    def stop(self) -> Exit:
        """Ends containerd alone; containers go on, as they do on a node."""
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

    def trust(self, registry: Registry) -> None:
        """Lets it pull from a registry that speaks TLS; from others on loopback it can anyhow."""
        assert registry.certificates is not None, "only a registry with TLS has to be trusted"
        folder = self._hosts / registry.host
        folder.mkdir(parents=True)
        (folder / "hosts.toml").write_text(
            f'server = "{registry.url}"\n[host."{registry.url}"]\n'
            f'  capabilities = ["pull", "resolve"]\n'
            f'  ca = "{registry.certificates.authority}"\n'
        )

    def mirror(self, host: str, registry: Registry) -> None:
        """Lets it pull from a registry of the lab what is asked of a registry that is out of reach."""
        folder = self._hosts / host
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "hosts.toml").write_text(
            f'server = "{registry.url}"\n[host."{registry.url}"]\n'
            f'  capabilities = ["pull", "resolve"]\n'
        )

    def image_status(self, reference: str) -> Any | None:
        return self.cri.image_status(reference)

    def pull(self, reference: str, credentials: tuple[str, str] | None = None) -> Pulled:
        return self.cri.pull(reference, credentials)

    def remove_image(self, reference: str) -> None:
        self.cri.remove_image(reference)

    def untag(self, reference: str) -> None:
        """Removes one name of an image, as `ctr images rm` does; its content may stay for a while."""
        done = self._ctr("images", "rm", reference)
        assert done.returncode == 0 and done.stdout.strip() == reference, done

    def list_images(self) -> list[Any]:
        return self.cri.list_images()

    def run(self, reference: str, *argv: str, name: str) -> subprocess.CompletedProcess[str]:
        """Runs a container of an image that is there, without network, until it ends."""
        return self._ctr("run", "--rm", *self._runc_root, reference, name, *argv)

    def run_detached(self, reference: str, *argv: str, name: str) -> None:
        """Starts a container that goes on, so that its image is in use."""
        started = self._ctr("run", "--detach", *self._runc_root, reference, name, *argv)
        if started.returncode != 0:
            raise RuntimeError(f"container {name} did not start: {started.stderr}")

    def kill_containers(self) -> None:
        """Kills all containers and their shims; containerd itself must be stopped."""
        assert self.process.code is not None, "stop containerd first"
        kill_processes(self.folder)

    @property
    def _hosts(self) -> Path:
        return self.folder / "certs.d"

    @property
    def _runc_root(self) -> tuple[str, str]:
        return "--runc-root", str(self.folder / "runc")

    def _ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        argv = ["ctr", "--address", str(self.socket), "--namespace", "k8s.io", *arguments]
        if arguments[0] == "run":
            argv[6:6] = ["--snapshotter", self.snapshotter]
        return subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)

    def _write_config(self, sandbox_image: str) -> None:
        (self.folder / "config.toml").write_text(
            f"""\
version = 2
root = "{self.root}"
state = "{self.folder}/state"
disabled_plugins = {json.dumps(_UNUSED_PLUGINS)}
[grpc]
  address = "{self.socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{self.folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{sandbox_image}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{self.cni}"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{self._hosts}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{self.snapshotter}"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        Root = "{self.folder}/runc"
"""
        )


def _speaks_cri(socket: Path) -> bool:
    """Asks over a new channel: one that came too early takes seconds until it tries again."""
    if not socket.exists():
        return False
    cri = Cri(socket)
    try:
        cri.version(timeout=5)
    except grpc.RpcError:
        return False
    finally:
        cri.close()
    return True


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
