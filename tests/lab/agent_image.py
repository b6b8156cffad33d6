# SPDX-License-Identifier: Apache-2.0
"""An image with the programs under test, as a cluster gets them: nothing else is in it, and no shell."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from lab.image import Image, build_image
from lab.layers import files_layer

# What programs load without saying so: libcurl, and the loader's own.
_MORE = ("libcurl.so.4",)


def build_agent_image(label: str = "") -> Image:
    """Of the build folder that the tests use. Another `label` makes another image of the same programs."""
    build = Path(os.environ["INPLACED_BUILD_DIR"])
    programs = [build / "agent" / name for name in ("inplaced", "inplacectl")]
    files = {f"usr/bin/{program.name}": program for program in programs}
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


def _libraries(program: Path) -> list[Path]:
    """What the loader loads for it, and the loader itself, by the paths where they are looked for."""
    shown = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [Path(found) for found in re.findall(r"(?:=> |^\t)(/\S+)", shown, re.MULTILINE)]


def _find_library(name: str) -> Path:
    shown = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    return Path(re.findall(rf"{re.escape(name)} .*=> (\S+)", shown)[0])
