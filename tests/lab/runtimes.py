# SPDX-License-Identifier: Apache-2.0
"""The runtime that the tests run on: the one that INPLACED_RUNTIME names, Debian's containerd without it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lab.containerd import Containerd
from lab.crio import Crio
from lab.runtime import Runtime

NAME = os.environ.get("INPLACED_RUNTIME") or "containerd-1.6"


def make_runtime(folder: Path, **options: Any) -> Runtime:
    """Not started yet; `options` as of Runtime."""
    if NAME == "crio":
        return Crio(folder, **options)
    program, _, release = NAME.partition("-")
    if program != "containerd" or release not in ("1.6", "2.2"):
        raise ValueError(f'INPLACED_RUNTIME is "{NAME}": not containerd-1.6, containerd-2.2 or crio')
    return Containerd(folder, release=release, **options)
