# SPDX-License-Identifier: Apache-2.0
"""An image as a registry serves it: layers, a configuration and a manifest."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lab.layers import Layer

Format = Literal["docker", "oci"]

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
_MEDIA_TYPES: dict[str, dict[str, str]] = {
    "docker": {
        "manifest": "application/vnd.docker.distribution.manifest.v2+json",
        "config": "application/vnd.docker.container.image.v1+json",
        "layer": "application/vnd.docker.image.rootfs.diff.tar.gzip",
    },
    "oci": {
        "manifest": "application/vnd.oci.image.manifest.v1+json",
        "config": "application/vnd.oci.image.config.v1+json",
        "layer": "application/vnd.oci.image.layer.v1.tar+gzip",
    },
}

_INDEX = "application/vnd.oci.image.index.v1+json"


@dataclass(frozen=True)
class Image:
    """A built image. Its ID, as runtimes call it, is the digest of its configuration."""

    layers: tuple[Layer, ...]
    config: bytes
    manifest: bytes
    media_type: str

    @property
    def image_id(self) -> str:
        return digest_of(self.config)

    @property
    def manifest_digest(self) -> str:
        return digest_of(self.manifest)

    @property
    def compressed_size(self) -> int:
        """Bytes that a node has to fetch of it: the layers, the configuration, the manifest."""
        return sum(layer.size for layer in self.layers) + len(self.config) + len(self.manifest)


def build_image(
    layers: Sequence[Layer],
    env: Mapping[str, str] | None = None,
    command: Sequence[str] = ("/bin/sh",),
    labels: Mapping[str, str] | None = None,
    image_format: Format = "docker",
    entrypoint: Sequence[str] = (),
) -> Image:
    """Two images with the same layers differ in their ID if their `env` or `labels` do."""
    types = _MEDIA_TYPES[image_format]
    variables = {"PATH": "/bin", **(env or {})}
    config = _json_bytes(
        {
            "architecture": ARCHITECTURE,
            "os": "linux",
            "created": "2020-01-01T00:00:00Z",
            "config": {
                "Env": [f"{name}={value}" for name, value in variables.items()],
                "Cmd": list(command),
                **({"Entrypoint": list(entrypoint)} if entrypoint else {}),
                "Labels": dict(labels or {}),
            },
            "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        }
    )
    manifest = _json_bytes(
        {
            "schemaVersion": 2,
            "mediaType": types["manifest"],
            "config": _descriptor(types["config"], digest_of(config), len(config)),
            "layers": [_descriptor(types["layer"], one.digest, one.size) for one in layers],
        }
    )
    return Image(tuple(layers), config, manifest, types["manifest"])


def build_index(image: Image, architecture: str) -> Image:
    """An index in which that image, which the registry has already, is the only one, and for this architecture."""
    manifest = _json_bytes(
        {
            "schemaVersion": 2,
            "mediaType": _INDEX,
            "manifests": [
                {
                    **_descriptor(image.media_type, image.manifest_digest, len(image.manifest)),
                    "platform": {"architecture": architecture, "os": "linux"},
                }
            ],
        }
    )
    return Image((), image.config, manifest, _INDEX)


def build_artifact(blob: Layer, title: str) -> Image:
    """An OCI artifact: no image, but one file of that name."""
    media_type = _MEDIA_TYPES["oci"]["manifest"]
    empty = "application/vnd.oci.empty.v1+json"
    file = _descriptor("application/octet-stream", blob.digest, blob.size)
    manifest = _json_bytes(
        {
            "schemaVersion": 2,
            "mediaType": media_type,
            "artifactType": "application/vnd.example.model",
            "config": _descriptor(empty, digest_of(b"{}"), 2),
            "layers": [{**file, "annotations": {"org.opencontainers.image.title": title}}],
        }
    )
    return Image((blob,), b"{}", manifest, media_type)


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _descriptor(media_type: str, digest: str, size: int) -> dict[str, Any]:
    return {"mediaType": media_type, "size": size, "digest": digest}


def _json_bytes(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
