# SPDX-License-Identifier: Apache-2.0
"""An image with the programs under test, as a cluster gets them: nothing else is in it, and no shell.

The environment variable INPLACED_IMAGE_ARCHIVE names an OCI archive to take it from instead.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from lab.image import ARCHITECTURE, Image, build_image
from lab.layers import Layer, files_layer

# Libraries that programs load without listing them: libcurl, and the loader's own.
_MORE = ("libcurl.so.4",)


# Place of the machine's number in an ELF file (EM_386 is 3), and a number that no machine has.
_MACHINE = slice(18, 20)
_NO_MACHINE = b"\xed\xfe"


def build_foreign_image() -> Image:
    """An image that claims this architecture, with a program for a machine that does not exist."""
    program = bytearray(Path("/bin/true").read_bytes())
    program[_MACHINE] = _NO_MACHINE
    layer = files_layer({"usr/bin/inplaced": bytes(program)})
    return build_image([layer], command=(), entrypoint=("/usr/bin/inplaced",))


def build_agent_image(label: str = "") -> Image:
    """Builds an image of the build folder that the tests use. Another `label` makes another image of the same
    programs.
    """
    archive = os.environ.get("INPLACED_IMAGE_ARCHIVE")
    if archive is not None:
        return _read_archive(Path(archive), label)
    build = Path(os.environ["INPLACED_BUILD_DIR"])
    programs = [build / "agent" / name for name in ("inplaced", "inplacectl", "kubectl-inplace")]
    files: dict[str, Path | bytes] = {f"usr/bin/{program.name}": program for program in programs}
    files["etc/group"] = b"root:x:0:\ninplaced:x:999:\n"
    for program in [*programs, *(_find_library(name) for name in _MORE)]:
        for library in _libraries(program):
            files[str(library).lstrip("/")] = library
    for name in _MORE:
        files[str(_find_library(name)).lstrip("/")] = _find_library(name)
    return build_image(
        [files_layer(files)],
        env={"PATH": "/usr/bin"},
        command=(),
        entrypoint=("/usr/bin/inplaced",),
        labels={"test": label},
    )


def _read_archive(path: Path, label: str) -> Image:
    """An OCI layout in a tar archive: the image for this machine, with one more label."""
    with tarfile.open(path) as archive:
        files = {
            entry.name: archive.extractfile(entry).read() for entry in archive if entry.isfile()
        }

    def read(descriptor: dict[str, Any]) -> bytes:
        return files[f"blobs/{descriptor['digest'].replace(':', '/')}"]

    index = json.loads(files["index.json"])
    while "manifests" in index:
        found = index["manifests"]
        matching = [
            one for one in found if one.get("platform", {}).get("architecture") == ARCHITECTURE
        ]
        index = json.loads(read((matching or found)[0]))
    config = json.loads(read(index["config"]))
    layers = []
    for descriptor, diff_id in zip(index["layers"], config["rootfs"]["diff_ids"], strict=True):
        content = read(descriptor)
        layers.append(
            Layer(descriptor["digest"], len(content), diff_id, lambda content=content: iter([content]))
        )
    about = config["config"]
    environment = dict(entry.split("=", 1) for entry in about.get("Env", []))
    labels = {**about.get("Labels", {}), "test": label}
    entrypoint, command = about.get("Entrypoint", ()), about.get("Cmd", ())
    return build_image(layers, environment, command, labels, "oci", entrypoint)


def _libraries(program: Path) -> list[Path]:
    """The libraries that the loader loads for it, and the loader itself, by the paths that it searches."""
    shown = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [Path(found) for found in re.findall(r"(?:=> |^\t)(/\S+)", shown, re.MULTILINE)]


def _find_library(name: str) -> Path:
    shown = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    return Path(re.findall(rf"{re.escape(name)} .*=> (\S+)", shown)[0])
