# SPDX-License-Identifier: Apache-2.0
"""A wrong clock for a program, see clock-ahead.c."""

from __future__ import annotations

import os
from pathlib import Path

from lab import sanitizers

HOUR = {"INPLACED_CLOCK_AHEAD": "3600"}


def jumps_when_there(path: Path) -> dict[str, str]:
    """As soon as that file is there, an hour has passed, or as many seconds as it says."""
    return {"INPLACED_CLOCK_JUMP": str(path)}


def is_set_by(path: Path) -> dict[str, str]:
    """The time of day is off by as many seconds as that file says, if it is there."""
    return {"INPLACED_CLOCK_STEP": str(path)}


def environment(variables: dict[str, str]) -> dict[str, str]:
    """The environment of a program that has such a clock."""
    library = Path(os.environ["INPLACED_BUILD_DIR"], "tests", "libclock-ahead.so").absolute()
    made = {"LD_PRELOAD": str(library), **variables}
    if sanitizers.NAME:  # The sanitizer requires to be the first library.
        others = os.environ.get("ASAN_OPTIONS", "")
        made["ASAN_OPTIONS"] = f"{others}:verify_asan_link_order=0"
    return made
