# SPDX-License-Identifier: Apache-2.0
"""The disk of a runtime's images, which something else fills."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from lab.runtime import Runtime


def n_free(runtime: Runtime) -> int:
    disk = os.statvfs(runtime.root)
    return disk.f_bavail * disk.f_frsize


def fill(runtime: Runtime, leave: int) -> Path:
    """Something else than images takes all but so many bytes, until the returned file is removed."""
    filler = runtime.root / "filler"
    with filler.open("wb") as file:
        while (size := n_free(runtime) - leave) > 0:
            try:
                os.posix_fallocate(file.fileno(), 0, size)
                break
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                file.truncate(0)  # a pull has taken some of it just now
    return filler
