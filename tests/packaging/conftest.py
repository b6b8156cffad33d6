# SPDX-License-Identifier: Apache-2.0
"""The tests of what users install. Run them from anywhere, as root, with

    INPLACED_BUILD_DIR=build/dev /usr/bin/python3 -m pytest -p no:cacheprovider tests/packaging

The packages are built first, unless INPLACED_ARTIFACTS names a folder of packaging/build.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.dont_write_bytecode = True
REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests"))

from fixtures import *  # noqa: E402, F401, F403

VERSION_OF_UPGRADE = "0.1.0+upgrade"


def build_package(folder, **environment):
    subprocess.run(
        [REPOSITORY / "packaging/deb/build", folder, REPOSITORY / "build/packaging/deb"],
        check=True, stdin=subprocess.DEVNULL, env={**os.environ, **environment}, stdout=subprocess.DEVNULL,
    )
    return next(folder.glob("inplaced_*.deb"))


@pytest.fixture(scope="session")
def package(session_folder):
    """The Debian package of this tree."""
    if "INPLACED_ARTIFACTS" in os.environ:
        return next(Path(os.environ["INPLACED_ARTIFACTS"]).glob("inplaced_*.deb"))
    return build_package(session_folder / "package")


@pytest.fixture(scope="session")
def newer_package(session_folder, package):
    """The same tree as a higher version."""
    return build_package(session_folder / "newer", INPLACED_PACKAGE_VERSION=VERSION_OF_UPGRADE)


@pytest.fixture(scope="session")
def installed(session_folder, package):
    """The files of the package, unpacked and not installed."""
    folder = session_folder / "unpacked"
    subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
    return folder
