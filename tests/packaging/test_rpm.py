# SPDX-License-Identifier: Apache-2.0
"""The content of the RPM packages."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import tarfile

import pytest

from conftest import REPOSITORY

MACHINES = {"x86_64": 62, "aarch64": 183}

pytestmark = pytest.mark.skipif(not shutil.which("rpmbuild"), reason="there is no rpmbuild, and so no RPM")


@pytest.fixture(scope="module")
def packages(artifacts):
    """{architecture: file}"""
    return {path.name.split(".")[-2]: path for path in artifacts("rpm").glob("inplaced-*.rpm")}


@pytest.fixture(scope="module")
def kubectl_packages(artifacts):
    return {path.name.split(".")[-2]: path for path in artifacts("rpm").glob("kubectl-inplace-*.rpm")}


def query(package, *options):
    done = subprocess.run(["rpm", "--query", "--package", package, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def unpacked(packages, kubectl_packages, session_folder):
    """{architecture: folder with the files of both}"""
    folders = {}
    for architecture, package in (*packages.items(), *kubectl_packages.items()):
        folder = folders[architecture] = session_folder / f"rpm-{architecture}"
        with package.open("rb") as file:
            archive = subprocess.run(["rpm2archive", "-"], stdin=file, stdout=subprocess.PIPE, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
            opened.extractall(folder)
    return folders


def test_times(packages):
    """All files have one time, whenever they were checked out or made: so that a later build makes the same package."""
    for package in packages.values():
        assert len(set(query(package, "--queryformat", "[%{FILEMTIMES} ]").split())) == 1


def test_same_files(packages):
    """Both packages have the same files, and those of the Debian package, in the places of distributions with RPM."""
    listed = {a: query(package, "--list").split() for a, package in packages.items()}
    assert set(listed) == set(MACHINES)
    assert listed["x86_64"] == listed["aarch64"]
    files = set(listed["x86_64"])
    assert files >= {
        "/usr/bin/inplaced", "/usr/bin/inplacectl", "/etc/inplaced/config.yaml",
        "/usr/lib/systemd/system/inplaced.service", "/usr/lib/systemd/system/inplaced.socket",
        "/usr/lib/systemd/catalog/inplaced.catalog", "/usr/lib/sysusers.d/inplaced.conf",
        "/usr/lib/tmpfiles.d/inplaced.conf", "/usr/share/man/man8/inplaced.8.gz",
        "/usr/share/man/man5/inplaced.images.5.gz", "/usr/share/man/man5/inplaced.yaml.5.gz",
        "/usr/share/man/man1/inplacectl.1.gz", "/usr/share/bash-completion/completions/inplacectl",
        "/usr/share/zsh/site-functions/_inplacectl", "/usr/share/fish/vendor_completions.d/inplacectl.fish",
        "/usr/share/licenses/inplaced/LICENSE", "/usr/share/doc/inplaced/sbom.spdx.json",
    }
    # Folders of the system belong to its own packages.
    assert not files & {"/usr/bin", "/usr/lib/systemd/system", "/usr/share/man", "/etc"}


def test_kubectl_inplace(packages, kubectl_packages):
    """A static program of its own; no file is in both packages, and the agent's recommends it."""
    listed = {a: query(package, "--list").split() for a, package in kubectl_packages.items()}
    assert set(listed) == set(MACHINES)
    assert listed["x86_64"] == listed["aarch64"]
    assert set(listed["x86_64"]) >= {
        "/usr/bin/kubectl-inplace", "/usr/bin/kubectl_complete-inplace",
        "/usr/share/man/man1/kubectl-inplace.1.gz", "/usr/share/man/man1/kubectl_complete-inplace.1.gz",
        "/usr/share/bash-completion/completions/kubectl-inplace",
        "/usr/share/zsh/site-functions/_kubectl-inplace",
        "/usr/share/fish/vendor_completions.d/kubectl-inplace.fish",
        "/usr/share/licenses/kubectl-inplace/LICENSE", "/usr/share/doc/kubectl-inplace/sbom.spdx.json",
    }
    for architecture, package in kubectl_packages.items():
        assert set(query(packages[architecture], "--list").split()).isdisjoint(listed[architecture])
        assert query(packages[architecture], "--recommends").split() == ["kubectl-inplace"]
        requires = query(package, "--requires").splitlines()
        assert [line for line in requires if ".so" in line or "systemd" in line] == []
        assert query(package, "--scripts") == ""


def test_requirements(packages):
    """No library: the program is static. systemd, which makes the user and runs the service."""
    for architecture, package in packages.items():
        requires = query(package, "--requires").splitlines()
        assert "systemd >= 252" in requires
        assert [line for line in requires if ".so" in line] == []
        assert query(package, "--queryformat", "%{ARCH}") == architecture
        assert query(package, "--configfiles").split() == ["/etc/inplaced/config.yaml"]


def test_rpmlint(packages, kubectl_packages):
    """It finds no error but these: the program is static on purpose, and who distributes a package signs it."""
    done = subprocess.run(["rpmlint", *packages.values(), *kubectl_packages.values()], capture_output=True, text=True)
    errors = re.findall(r"(?m)^(\S+): E: (\S+)", done.stdout)
    assert {error for _, error in errors} == {"statically-linked-binary", "no-signature"}, done.stdout + done.stderr
    assert len(errors) == 2 * (len(packages) + len(kubectl_packages))


def test_maintainer(packages):
    """As in the Debian package."""
    said = query(packages["x86_64"], "--queryformat", "%{PACKAGER}")
    assert said == os.environ.get("INPLACED_MAINTAINER", "local build of inplaced <inplaced@example.org>")


def test_program(unpacked):
    for architecture, folder in unpacked.items():
        program = (folder / "usr/bin/inplaced").read_bytes()
        assert int.from_bytes(program[18:20], "little") == MACHINES[architecture]
        assert b"/ld-linux" not in program and str(REPOSITORY).encode() not in program
        assert (folder / "usr/bin/inplacectl").readlink().name == "inplaced"
        unit = (folder / "usr/lib/systemd/system/inplaced.service").read_text()
        assert "\nExecStart=/usr/bin/inplaced\n" in unit


@pytest.mark.parametrize("program", ["inplaced", "kubectl-inplace"])
def test_bill_of_materials(unpacked, program):
    """It has a licence for each source package that something in the program is of."""
    for folder in unpacked.values():
        documents = folder / "usr/share/doc" / program
        packages = json.loads((documents / "sbom.spdx.json").read_text())["packages"]
        sources = {p["name"] for p in packages if "sourceInfo" in p}
        assert {"openssl", "curl", "glibc", "systemd"} <= sources
        assert ("grpc" in sources) == (program == "inplaced")
        for source in sources:
            assert (documents / source / "copyright").stat().st_size > 0


def test_licences(packages, kubectl_packages, unpacked):
    """The licences in the agent's bill of materials are the package's; the other program has no more."""
    for program, group in (("inplaced", packages), ("kubectl-inplace", kubectl_packages)):
        for architecture, package in group.items():
            bill = unpacked[architecture] / "usr/share/doc" / program / "sbom.spdx.json"
            declared = {p["licenseDeclared"] for p in json.loads(bill.read_text())["packages"]} - {"NOASSERTION"}
            terms = {term for licence in declared for term in licence.split(" AND ")}
            stated = set(query(package, "--queryformat", "%{LICENSE}").split(" AND "))
            assert terms == stated if program == "inplaced" else terms < stated


def test_scripts(packages):
    """They are shell, and name the units that the package has."""
    said = query(packages["x86_64"], "--scripts")
    scripts = re.split(r"(?m)^\w+ scriptlet \(using /bin/sh\):$", said)[1:]
    assert len(scripts) == 3
    for script in scripts:
        subprocess.run(["sh", "-n"], input=script, text=True, check=True)
        assert "inplaced" in script
