# SPDX-License-Identifier: Apache-2.0
"""The tests of the image: its content, and the agent in a container of it. Run them from anywhere with

    INPLACED_BUILD_DIR=build/packaging/static-amd64 INPLACED_IMAGE_ARCHIVE=build/artifacts/inplaced-*.oci.tar \
        /usr/bin/python3 -m pytest -p no:cacheprovider tests/image

What they have at hand is that of the tests in a cluster.
"""

import os
import sys
from pathlib import Path

import pytest

sys.pycache_prefix = os.environ.get("INPLACED_BYTECODE")
sys.dont_write_bytecode = sys.pycache_prefix is None
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cluster.conftest import *  # noqa: E402, F401, F403


@pytest.fixture(scope="session")
def archive() -> Path:
    """The archive that packaging/image/build has made."""
    if "INPLACED_IMAGE_ARCHIVE" not in os.environ:
        pytest.skip("INPLACED_IMAGE_ARCHIVE is not set")
    return Path(os.environ["INPLACED_IMAGE_ARCHIVE"]).resolve()
