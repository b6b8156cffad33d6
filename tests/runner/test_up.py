# SPDX-License-Identifier: Apache-2.0
"""tests/lab/up.py with a Python that has no modules but its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_UP = Path(__file__).resolve().parents[1] / "lab" / "up.py"


def test_python_without_modules():
    """It says in one line which Python has them, instead of a traceback."""
    bare = [sys.executable, "-S", "-E", str(_UP)]
    ran = subprocess.run(bare, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert ran.returncode == 1
    (line,) = ran.stderr.splitlines()
    assert "no module" in line and "/usr/bin/python3 " in line
