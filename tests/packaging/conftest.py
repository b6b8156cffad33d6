# SPDX-License-Identifier: Apache-2.0
"""The tests of what users install. Run them from anywhere, as root, with

    INPLACED_BUILD_DIR=build/dev /usr/bin/python3 -m pytest -p no:cacheprovider tests/packaging

The packages are built first, unless INPLACED_ARTIFACTS names a folder of packaging/build.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.pycache_prefix = os.environ.get("INPLACED_BYTECODE")
sys.dont_write_bytecode = sys.pycache_prefix is None
REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests"))

from fixtures import *  # noqa: E402, F401, F403
from lab.version import PACKAGE_VERSION  # noqa: E402

VERSION_OF_UPGRADE = f"{PACKAGE_VERSION}+upgrade"

# On the machine that systemd boots, beside what the Debian package depends on.
_MACHINE = ["systemd", "systemd-sysv", "dbus", "containerd", "runc", "docker-registry", "init-system-helpers", "rpm"]


MACHINE = os.uname().machine
NATIVE = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()


def list_files(machine):
    """All files of the machine, except for those that change by themselves."""
    changing = r"/(proc|sys|dev|run|tmp|srv|root)(/|$)|/var/(log|cache|tmp|lib/(apt|dpkg|containerd|systemd))(/|$)"
    listed = machine.run("find", "/", "-xdev", "(", "-path", "/proc", "-o", "-path", "/sys", ")", "-prune",
                         "-o", "-printf", "%p\\n").splitlines()
    return {path for path in listed if not re.match(changing, path)}


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
    """The package for this machine."""
    return packages[NATIVE]


@pytest.fixture(scope="session")
def kubectl_packages(artifacts):
    """{architecture: the Debian package of kubectl-inplace}"""
    found = artifacts("deb").glob("kubectl-inplace_*.deb")
    return {path.stem.rpartition("_")[2]: path for path in found}


@pytest.fixture(scope="session")
def newer_package(session_folder, package):
    """The same packages with a higher version."""
    folder = session_folder / "newer"
    build_artifacts("deb", folder, INPLACED_PACKAGE_VERSION=VERSION_OF_UPGRADE, INPLACED_ARCHITECTURES=NATIVE)
    return next(folder.glob("inplaced_*.deb"))


def _find_rpms(folder, architecture="*"):
    return sorted(path for kind in ("inplaced", "kubectl-inplace") for path in folder.glob(f"{kind}-*.{architecture}.rpm"))


@pytest.fixture(scope="session")
def rpm_packages(artifacts):
    """The RPMs for this machine."""
    return _find_rpms(artifacts("rpm"), MACHINE)


@pytest.fixture(scope="session")
def newer_rpm_packages(session_folder, rpm_packages):
    """The same packages with a higher version."""
    folder = session_folder / "newer-rpm"
    build_artifacts("rpm", folder, INPLACED_PACKAGE_VERSION=VERSION_OF_UPGRADE, INPLACED_ARCHITECTURES=NATIVE)
    return _find_rpms(folder)


@pytest.fixture(scope="session")
def machine_archive(package):
    """machine_archive(release): for lab.machine, a Debian with all that the packages depend on."""
    depends = subprocess.run(["dpkg-deb", "--field", package, "Depends"], capture_output=True, text=True, check=True)
    names = [entry.split()[0] for entry in depends.stdout.split(",")]

    def make(release):
        made = subprocess.run([REPOSITORY / "tests/packaging/make-root", release, *_MACHINE, *names],
                              stdout=subprocess.PIPE, text=True, check=True)
        return Path(made.stdout.strip())

    return make


@pytest.fixture(scope="session")
def installed(session_folder, package, kubectl_packages):
    """The files of both packages, unpacked and not installed."""
    folder = session_folder / "unpacked"
    for one in (package, kubectl_packages[NATIVE]):
        subprocess.run(["dpkg-deb", "--extract", one, folder], check=True)
    return folder
