# SPDX-License-Identifier: Apache-2.0
"""A real registry (Debian's docker-registry) on the loopback address."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.certificates import Certificates, make_certificates
from lab.cleanup import Closing, sweep
from lab.image import Format, Image, build_image
from lab.layers import Layer, busybox_layer, random_layer
from lab.process import Process
from lab.push import RegistryClient
from lab.wait import free_port, wait_until


@dataclass(frozen=True)
class PushedImage:
    """A pushed image, with the facts that a test needs.

    `reference` names it by tag, `digest_reference` by the digest of its manifest. `image_id` is
    what a runtime reports once it holds the image. `size` is the number of bytes to fetch.
    """

    reference: str
    digest_reference: str
    image_id: str
    manifest_digest: str
    size: int


class Registry(Closing):
    """Serves from `folder` until closed. Images survive `stop` and `start`.

    With `credentials` no client gets in without them; with `tls` the certificate comes from an
    authority that only `certificates.authority` names.
    """

    def __init__(
        self,
        folder: Path,
        *,
        credentials: tuple[str, str] | None = None,
        tls: bool = False,
    ) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True)
        self.port = free_port()
        self.host = f"127.0.0.1:{self.port}"
        self.credentials = credentials
        self.certificates: Certificates | None = make_certificates(folder) if tls else None
        self._process: Process | None = None
        self._client: RegistryClient | None = None
        self._write_config()

    @property
    def url(self) -> str:
        return f"{'https' if self.certificates else 'http'}://{self.host}"

    @property
    def process(self) -> Process:
        assert self._process is not None, "the registry was not started"
        return self._process

    def start(self, wait_ready: bool = True) -> None:
        argv = ["docker-registry", "serve", str(self.folder / "config.json")]
        process = Process(argv, self.folder, self.folder / "registry.log")
        self._process = process
        authority = self.certificates.authority if self.certificates else None
        client = RegistryClient(self.host, self.credentials, authority)
        self._client = client

        def is_up() -> bool:
            process.check_alive()
            return client.answers()

        if wait_ready:
            wait_until(is_up, 10, f"registry at {self.url}")

    def stop(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._process is not None:
            self._process.terminate(grace_seconds=2)
            self._process = None

    def close(self) -> None:
        self.stop()
        sweep(self.folder)

    def push_image(
        self,
        name: str,
        tag: str,
        layers: Sequence[int] = (),
        *,
        busybox: bool = False,
        seed: int = 0,
        env: Mapping[str, str] | None = None,
        command: Sequence[str] = ("/bin/sh",),
        labels: Mapping[str, str] | None = None,
        image_format: Format = "docker",
    ) -> PushedImage:
        """Pushes an image with a layer of random bytes per entry of `layers`, which are sizes.

        `busybox` puts a layer with a shell below them. Layers with the same size and `seed` are the
        same, and are sent once. For another image ID with the same layers, vary `env` or `labels`.
        """
        parts: list[Layer] = [busybox_layer()] if busybox else []
        parts += [random_layer(size, seed + index) for index, size in enumerate(layers)]
        return self.push(name, tag, build_image(parts, env, command, labels, image_format))

    def push(self, name: str, tag: str, image: Image) -> PushedImage:
        assert self._client is not None, "the registry was not started"
        self._client.push(name, tag, image)
        return PushedImage(
            reference=f"{self.host}/{name}:{tag}",
            digest_reference=f"{self.host}/{name}@{image.manifest_digest}",
            image_id=image.image_id,
            manifest_digest=image.manifest_digest,
            size=image.compressed_size,
        )

    def delete_image(self, name: str, pushed: PushedImage) -> None:
        assert self._client is not None, "the registry was not started"
        self._client.delete(name, pushed.manifest_digest)

    def _write_config(self) -> None:
        """As JSON, which is YAML as well."""
        http: dict[str, Any] = {"addr": self.host, "relativeurls": True}
        config: dict[str, Any] = {
            "version": 0.1,
            "log": {"level": "warn", "accesslog": {"disabled": True}},
            "storage": {
                "filesystem": {"rootdirectory": str(self.folder / "data")},
                "delete": {"enabled": True},
                "maintenance": {"uploadpurging": {"enabled": False}},
            },
            "http": http,
        }
        if self.certificates is not None:
            http["tls"] = {
                "certificate": str(self.certificates.certificate),
                "key": str(self.certificates.key),
            }
        if self.credentials is not None:
            passwords = self.folder / "htpasswd"
            passwords.write_text(password_line(*self.credentials))
            config["auth"] = {"htpasswd": {"realm": "lab", "path": str(passwords)}}
        (self.folder / "config.json").write_text(json.dumps(config, indent=2))


def password_line(user: str, password: str) -> str:
    """Makes a line of an htpasswd file; docker-registry takes bcrypt only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import crypt
    # The registry knows the older name of the same hash.
    hashed = crypt.crypt(password, crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=32))
    return f"{user}:{hashed}\n"
