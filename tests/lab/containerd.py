# SPDX-License-Identifier: Apache-2.0
"""A real containerd of our own: Debian's, or a newer one that the tests build."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from lab.registry import Registry
from lab.runtime import Runtime, find_built
from lab.wait import wait_until

Release = Literal["1.6", "2"]

# They only slow the start down.
_UNUSED_PLUGINS = [
    "io.containerd.internal.v1.restart",
    "io.containerd.internal.v1.tracing",
    "io.containerd.snapshotter.v1.aufs",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.zfs",
]

# Options of images that release 1.6 has in another place.
_OF_SNAPSHOTTERS = frozenset({"discard_unpacked_layers", "disable_snapshot_annotations"})


class Containerd(Runtime):
    """Can be configured further until it is started: `image_options` are keys of CRI's images as release 2
    has them, `more` is TOML, and `snapshotter` may be one that is named there."""

    program = "containerd"

    def __init__(self, folder: Path, *, release: Release = "1.6", **options: Any) -> None:
        super().__init__(folder, **options)
        self.release = release
        self.programs = Path("/usr/bin") if release == "1.6" else find_built("containerd")
        self.snapshotter = "overlayfs" if self.has_overlayfs else "native"
        self.image_options: dict[str, Any] = {}
        self.more = ""

    def trust(self, registry: Registry) -> None:
        assert registry.certificates is not None, "only a registry with TLS has to be trusted"
        self._write_hosts(registry.host, registry, f'  ca = "{registry.certificates.authority}"\n')

    def mirror(self, host: str, registry: Registry) -> None:
        self._write_hosts(host, registry)

    def untag(self, reference: str) -> None:
        done = self.ctr("images", "rm", reference)
        assert done.returncode == 0 and done.stdout.strip() == reference, done

    def keep_sandboxes_with(self, reference: str) -> None:
        """It only knows the image by the name in its configuration."""
        if self.image_status(self.sandbox_image) is None:
            done = self.ctr("images", "tag", reference, self.sandbox_image)
            assert done.returncode == 0, done
            wait_until(lambda: self.image_status(self.sandbox_image), 10, self.sandbox_image)

    def run(self, reference: str, *argv: str, name: str) -> subprocess.CompletedProcess[str]:
        """Runs a container of an image that is there, without network, until it ends."""
        where = ("--snapshotter", self.snapshotter, "--runc-root", str(self.folder / "runc"))
        return self.ctr("run", "--rm", *where, reference, name, *argv)

    def ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [self.programs / "ctr", "--address", self.socket, "--namespace", "k8s.io"]
        return subprocess.run(
            [*argv, *arguments], capture_output=True, text=True, timeout=30, check=False
        )

    def _argv(self) -> Sequence[str]:
        return [str(self.programs / "containerd"), "--config", str(self.folder / "config.toml")]

    def _environment(self) -> Mapping[str, str]:
        """The PATH: `bin` first, then the programs, since the shim must be of the same build."""
        return {"PATH": f"{self.folder}/bin:{self.programs}:{os.environ['PATH']}"}

    def _write_hosts(self, host: str, registry: Registry, more: str = "") -> None:
        folder = self.folder / "certs.d" / host
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "hosts.toml").write_text(
            f'server = "{registry.url}"\n[host."{registry.url}"]\n'
            f'  capabilities = ["pull", "resolve"]\n{more}'
        )

    def _write_config(self) -> None:
        parts = self._config_of_1() if self.release == "1.6" else self._config_of_2()
        (self.folder / "config.toml").write_text(
            f"""\
{parts}
[plugins."io.containerd.internal.v1.opt"]
  path = "{self.folder}/opt"
{self.more}"""
        )

    def _head(self, version: int) -> str:
        return f"""\
version = {version}
root = "{self.root}"
state = "{self.folder}/state"
disabled_plugins = {json.dumps(_UNUSED_PLUGINS)}
[grpc]
  address = "{self.socket}"
"""

    def _config_of_1(self) -> str:
        cri = 'plugins."io.containerd.grpc.v1.cri"'
        return f"""\
{self._head(2)}
[{cri}]
  sandbox_image = "{self.sandbox_image}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  {_options(self.image_options, without=_OF_SNAPSHOTTERS)}
  [{cri}.cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{self.cni}"
  [{cri}.registry]
    config_path = "{self.folder}/certs.d"
  [{cri}.containerd]
    snapshotter = "{self.snapshotter}"
    {_options(self.image_options, only=_OF_SNAPSHOTTERS)}
    [{cri}.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [{cri}.containerd.runtimes.runc.options]
        Root = "{self.folder}/runc"
"""

    def _config_of_2(self) -> str:
        images = 'plugins."io.containerd.cri.v1.images"'
        runtime = 'plugins."io.containerd.cri.v1.runtime"'
        return f"""\
{self._head(3)}
[{images}]
  snapshotter = "{self.snapshotter}"
  {_options(self.image_options)}
  [{images}.pinned_images]
    sandbox = "{self.sandbox_image}"
  [{images}.registry]
    config_path = "{self.folder}/certs.d"
[{runtime}]
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [{runtime}.cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "{self.cni}"
  [{runtime}.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [{runtime}.containerd.runtimes.runc.options]
      Root = "{self.folder}/runc"
[plugins."io.containerd.nri.v1.nri"]
  disable = true
"""


def _options(
    values: Mapping[str, Any],
    only: frozenset[str] | None = None,
    without: frozenset[str] = frozenset(),
) -> str:
    """TOML has JSON's strings, numbers and truth."""
    chosen = {k: v for k, v in values.items() if (only is None or k in only) and k not in without}
    return "\n  ".join(f"{key} = {json.dumps(value)}" for key, value in chosen.items())
