# SPDX-License-Identifier: Apache-2.0
"""Programs of others that the tests build."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

from lab.stubs import REPOSITORY


@functools.cache
def find_built(name: str) -> Path:
    """The folder that tests/cluster/NAME/build prints, which builds if need be; or that INPLACED_NAME names."""
    named = os.environ.get(f"INPLACED_{name.upper().replace('-', '_')}")
    if named is not None:
        return Path(named)
    build = REPOSITORY / "tests" / "cluster" / name / "build"
    return Path(subprocess.run([build], stdout=subprocess.PIPE, text=True, check=True).stdout[:-1])
