# SPDX-License-Identifier: Apache-2.0
"""Image layers made from nothing, the same bytes every time, at any size and in little memory.

A layer is not a blob but a recipe for one: its bytes are made anew each time they are asked for, so
half a gigabyte is pushed without ever being held. Its digests are found by one pass over the bytes.
"""

from __future__ import annotations

import hashlib
import io
import random
import subprocess
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

_CHUNK = 1 << 20
_BUSYBOX = Path("/bin/busybox")


@dataclass(frozen=True)
class Layer:
    """`digest` and `size` are of the compressed bytes, `diff_id` of the tar archive inside."""

    digest: str
    size: int
    diff_id: str
    chunks: Callable[[], Iterator[bytes]]


@lru_cache(maxsize=64)
def random_layer(size: int, seed: int = 0) -> Layer:
    """A layer with one file of `size` bytes that do not compress."""
    return _make_layer(lambda: _random_tar(size, seed), level=0)


@cache
def busybox_layer() -> Layer:
    """A layer with a shell and the usual small programs in /bin, so that containers can run."""
    archive = _busybox_tar()
    return _make_layer(lambda: iter([archive]), level=1)


@cache
def program_layer(applet: str) -> Layer:
    """A layer with nothing but one program in its root: no shell, no `env`, no libraries."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.GNU_FORMAT) as archive:
        _add_busybox(archive, applet)
    archive_bytes = output.getvalue()
    return _make_layer(lambda: iter([archive_bytes]), level=1)


def files_layer(files: Mapping[str, Path | bytes]) -> Layer:
    """A layer with these files of the machine, or these bytes, by their paths in it, without the first slash."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, path in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            content = path if isinstance(path, bytes) else path.read_bytes()
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
    archive_bytes = output.getvalue()
    return _make_layer(lambda: iter([archive_bytes]), level=1)


def _make_layer(tar_chunks: Callable[[], Iterator[bytes]], level: int) -> Layer:
    def compressed() -> Iterator[bytes]:
        packer = zlib.compressobj(level, zlib.DEFLATED, 31)
        for chunk in tar_chunks():
            if packed := packer.compress(chunk):
                yield packed
        yield packer.flush()

    diff_id = hashlib.sha256()
    for chunk in tar_chunks():
        diff_id.update(chunk)
    digest, size = hashlib.sha256(), 0
    for chunk in compressed():
        digest.update(chunk)
        size += len(chunk)
    return Layer(f"sha256:{digest.hexdigest()}", size, f"sha256:{diff_id.hexdigest()}", compressed)


def _random_tar(size: int, seed: int) -> Iterator[bytes]:
    header = tarfile.TarInfo(f"data/{seed}-{size}")
    header.size = size
    yield header.tobuf(tarfile.GNU_FORMAT)
    source = random.Random(seed)
    left = size
    while left > 0:
        chunk = source.randbytes(min(left, _CHUNK))
        left -= len(chunk)
        yield chunk
    yield bytes(-size % tarfile.BLOCKSIZE + 2 * tarfile.BLOCKSIZE)


def _busybox_tar() -> bytes:
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for folder in ("bin", "etc", "tmp"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        _add_busybox(archive, "bin/busybox")
        for applet in _applets():
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(entry)
    return output.getvalue()


def _add_busybox(archive: tarfile.TarFile, name: str) -> None:
    if not _BUSYBOX.exists():
        raise FileNotFoundError(f"{_BUSYBOX} is missing: install the package busybox-static")
    program = _BUSYBOX.read_bytes()
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(program), 0o755
    archive.addfile(entry, io.BytesIO(program))


def _applets() -> list[str]:
    listing = subprocess.run([_BUSYBOX, "--list"], check=True, capture_output=True, text=True)
    return [name for name in listing.stdout.split() if name != "busybox"]
