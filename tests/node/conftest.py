# SPDX-License-Identifier: Apache-2.0
"""The tests of the programs on a node without a cluster. Run them from anywhere with

    INPLACED_BUILD_DIR=build/dev /usr/bin/python3 -m pytest -p no:cacheprovider tests/node

What they have at hand is in fixtures.py.
"""

import os
import sys
from pathlib import Path

sys.pycache_prefix = os.environ.get("INPLACED_BYTECODE")
sys.dont_write_bytecode = sys.pycache_prefix is None
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fixtures import *  # noqa: E402, F401, F403
