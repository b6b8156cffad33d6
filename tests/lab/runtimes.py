# SPDX-License-Identifier: Apache-2.0
"""The runtime that the tests run on: the one that INPLACED_RUNTIME names, Debian's containerd without it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lab.containerd import Containerd, Release
from lab.crio import Crio
from lab.runtime import Runtime

NAMES = ("containerd-1.6", "containerd-2", "crio")
DEFAULT = NAMES[0]
NAME = os.environ.get("INPLACED_RUNTIME") or DEFAULT


def make_runtime(folder: Path, name: str = NAME, **options: Any) -> Runtime:
    """Not started yet; `options` as of Runtime."""
    if name not in NAMES:
        raise ValueError(f'INPLACED_RUNTIME is "{name}": not one of {", ".join(NAMES)}')
    if name == "crio":
        return Crio(folder, **options)
    release: Release = "2" if name == "containerd-2" else "1.6"
    return Containerd(folder, release=release, **options)
