# SPDX-License-Identifier: Apache-2.0
"""An image with the real kruise-daemon, from the folder that tests/cluster/kruise-daemon/build prints.

The environment variable INPLACED_KRUISE_DAEMON names that folder, else the program is asked, which builds it
if need be.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from lab.image import Image, build_image
from lab.layers import files_layer
from lab.stubs import REPOSITORY


def _find_program() -> Path:
    named = os.environ.get("INPLACED_KRUISE_DAEMON")
    if named is None:
        build = REPOSITORY / "tests" / "cluster" / "kruise-daemon" / "build"
        named = subprocess.run([build], stdout=subprocess.PIPE, text=True, check=True).stdout[:-1]
    return Path(named) / "daemon"


def build_kruise_image() -> Image:
    """With /kruise-daemon, as in OpenKruise's own image."""
    return build_image([files_layer({"kruise-daemon": _find_program()})], command=("/kruise-daemon",))
