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


NATIVE = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()


def build_artifacts(kind, folder, **environment):
    subprocess.run(
        [REPOSITORY / "packaging" / kind / "build", folder, REPOSITORY / "build/packaging"],
        check=True, stdin=subprocess.DEVNULL, env={**os.environ, **environment}, stdout=subprocess.DEVNULL,
    )


@pytest.fixture(scope="session")
def artifacts(session_folder):
    """artifacts(kind): the folder with the artifacts of that kind, perhaps with others."""

    def provide(kind):
        if "INPLACED_ARTIFACTS" in os.environ:
            return Path(os.environ["INPLACED_ARTIFACTS"])
        folder = session_folder / f"artifacts-{kind}"
        if not folder.exists():
            build_artifacts(kind, folder)
        return folder

    return provide


@pytest.fixture(scope="session")
def packages(artifacts):
    """{architecture: the Debian package of this tree}"""
    found = artifacts("deb").glob("inplaced_*.deb")
    return {path.stem.rpartition("_")[2]: path for path in found}


@pytest.fixture(scope="session")
def package(packages):
    """That for this machine."""
    return packages[NATIVE]


@pytest.fixture(scope="session")
def kubectl_packages(artifacts):
    """{architecture: the Debian package of kubectl-inplace}"""
    found = artifacts("deb").glob("kubectl-inplace_*.deb")
    return {path.stem.rpartition("_")[2]: path for path in found}


@pytest.fixture(scope="session")
def newer_package(session_folder, package):
    """The same tree as a higher version."""
    folder = session_folder / "newer"
    build_artifacts("deb", folder, INPLACED_PACKAGE_VERSION=VERSION_OF_UPGRADE, INPLACED_ARCHITECTURES=NATIVE)
    return next(folder.glob("inplaced_*.deb"))


@pytest.fixture(scope="session")
def installed(session_folder, package, kubectl_packages):
    """The files of both packages, unpacked and not installed."""
    folder = session_folder / "unpacked"
    for one in (package, kubectl_packages[NATIVE]):
        subprocess.run(["dpkg-deb", "--extract", one, folder], check=True)
    return folder
