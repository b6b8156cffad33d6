# SPDX-License-Identifier: Apache-2.0
"""A real CRI-O of our own, which the tests build, with Debian's conmon and runc."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc

from lab.cleanup import MARKER
from lab.cri import describe_error
from lab.registry import Registry
from lab.runtime import Runtime, find_built
from lab.wait import wait_until

# CRI-O sets limits of each controller in /proc/cgroups, mounted or not, and runc then refuses.
_RUNC = """\
#!/bin/sh
for argument; do
    if [ "$previous" = --bundle ]; then
        jq 'del(.linux.resources.hugepageLimits)' "$argument/config.json" >"$argument/new.json"
        mv "$argument/new.json" "$argument/config.json"
    fi
    previous=$argument
done
exec /usr/sbin/runc "$@"
"""

_RELOADED = "Applied new registry configuration"

# Accepts any image, since these tests are not about signatures.
_POLICY = {"default": [{"type": "insecureAcceptAnything"}]}


class Crio(Runtime):
    """Can be configured further until it is started: `image_options` are keys of [crio.image], and
    `short_name_registries` are searched for images whose names have no registry.

    It remembers which registry has which layer in /var/lib/containers/cache, whatever its configuration says.
    """

    program = "crio"
    cri_name = "cri-o"
    has_own_api = False

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(folder, **options)
        self.programs = find_built("crio")
        self.image_options: dict[str, Any] = {}
        self.short_name_registries: list[str] = []
        self._mirrors: dict[str, Registry] = {}
        self._runc = folder / "runc.sh"

    def image_status(self, reference: str) -> Any | None:
        return super().image_status(_without_algorithm(reference))

    def remove_image(self, reference: str) -> None:
        """Removes the image, except that an image in use stays; containerd removes its name."""
        try:
            super().remove_image(_without_algorithm(reference))
        except grpc.RpcError as error:
            if "image is in use by a container" not in describe_error(error):
                raise

    def trust(self, registry: Registry) -> None:
        assert registry.certificates is not None, "only a registry with TLS has to be trusted"
        # Where it looks for them below its user's home.
        folder = self.folder / ".config" / "containers" / "certs.d" / registry.host
        folder.mkdir(parents=True)
        (folder / "ca.crt").symlink_to(registry.certificates.authority)

    def mirror(self, host: str, registry: Registry) -> None:
        self._mirrors[host] = registry
        self._reload()

    def untag(self, reference: str) -> None:
        """An image whose last name that was is gone."""
        self.remove_image(reference)

    def keep_sandboxes_with(self, reference: str) -> None:
        if self.sandbox_image != reference:
            self.sandbox_image = reference
            self._reload()

    def _argv(self) -> Sequence[str]:
        return [
            *(str(self.programs / "crio"), f"--config={self.folder}/crio.conf", "--config-dir="),
            f"--registries-conf={self.folder}/registries.conf",
        ]

    def _environment(self) -> Mapping[str, str]:
        return {"HOME": str(self.folder)}

    def _reload(self) -> None:
        """Makes CRI-O read its files again; the changes count when this returns."""
        if self._process is None or self._process.code is not None:
            return
        seen = self.log.read_text().count(_RELOADED)
        self._write_config()
        self.process.send(signal.SIGHUP)
        wait_until(lambda: self.log.read_text().count(_RELOADED) > seen, 10, "reload of CRI-O")

    def _write_config(self) -> None:
        (self.folder / "policy.json").write_text(json.dumps(_POLICY))
        self._runc.write_text(_RUNC)
        self._runc.chmod(0o755)
        (self.folder / "registries.conf").write_text(self._registries())
        image = {
            "pause_image": self.sandbox_image,
            "short_name_mode": "disabled",  # CRI-O otherwise refuses a name that several registries may have
            "signature_policy": f"{self.folder}/policy.json",
            "big_files_temporary_dir": str(self.root),
            **self.image_options,
        }
        (self.folder / "crio.conf").write_text(
            f"""\
[crio]
root = "{self.root}"
runroot = "{self.folder}/run"
storage_driver = "{"overlay" if self.has_overlayfs else "vfs"}"
log_dir = "{self.folder}/logs"
version_file = "{self.folder}/version"
version_file_persist = ""
clean_shutdown_file = "{self.folder}/clean.shutdown"
[crio.api]
listen = "{self.socket}"
stream_port = "0"
[crio.image]
{_options(image)}
[crio.network]
network_dir = "{self.cni}/"
plugin_dirs = ["/usr/lib/cni"]
[crio.nri]
enable_nri = false
[crio.runtime]
cgroup_manager = "cgroupfs"
container_attach_socket_dir = "{self.folder}/attach"
container_exits_dir = "{self.folder}/exits"
default_runtime = "runc"
hooks_dir = []
log_level = "info"
namespaces_dir = "{self.folder}/namespaces"
pinns_path = "{self.programs}/pinns"
[crio.runtime.runtimes.runc]
runtime_path = "{self._runc}"
runtime_root = "{self.folder}/runc"
monitor_path = "/usr/bin/conmon"
monitor_cgroup = "pod"
monitor_env = {json.dumps([f"PATH={os.environ['PATH']}", f"{MARKER}={self.folder}"])}
"""
        )

    def _registries(self) -> str:
        """Lists the registries. On the loopback address they need no TLS, unless their certificates are known."""
        hosts: dict[str, Registry | None] = {"127.0.0.1": None, "localhost": None, **self._mirrors}
        lines = [
            f"unqualified-search-registries = {json.dumps(self.short_name_registries)}",
            'short-name-mode = "disabled"',
        ]
        for host, registry in hosts.items():
            location = host if registry is None else registry.host
            lines += ["[[registry]]", f'prefix = "{host}"', f'location = "{location}"']
            lines += ["insecure = true"]
        return "\n".join(lines) + "\n"


def _without_algorithm(reference: str) -> str:
    """An image's ID is the bare digest here; with its algorithm it would be a name."""
    return reference.removeprefix("sha256:")


def _options(values: Mapping[str, Any]) -> str:
    """TOML has JSON's strings, numbers and truth."""
    return "\n".join(f"{key} = {json.dumps(value)}" for key, value in values.items())
