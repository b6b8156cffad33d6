# SPDX-License-Identifier: Apache-2.0
"""The archives of the static kubectl-inplace for systems without a package, and their manifest for krew."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile

import pytest
import yaml

from conftest import NATIVE, build_artifacts

EMULATORS = {"amd64": "qemu-x86_64-static", "arm64": "qemu-aarch64-static"}

_INSIDE = {
    "bin/kubectl-inplace", "bin/kubectl_complete-inplace",
    "share/man/man1/kubectl-inplace.1.gz", "share/man/man1/kubectl_complete-inplace.1.gz",
    "share/bash-completion/completions/kubectl-inplace", "share/zsh/site-functions/_kubectl-inplace",
    "share/fish/vendor_completions.d/kubectl-inplace.fish",
    "share/licenses/kubectl-inplace/LICENSE", "share/doc/kubectl-inplace/sbom.spdx.json",
    "share/doc/kubectl-inplace/openssl/copyright",
}


@pytest.fixture(scope="module")
def archives(artifacts):
    """{architecture: archive}"""
    found = artifacts("archive").glob("kubectl-inplace-*-linux-*.tar.gz")
    return {path.name.removesuffix(".tar.gz").rpartition("-")[2]: path for path in found}


@pytest.fixture(scope="module")
def manifest(artifacts):
    return yaml.safe_load((artifacts("archive") / "kubectl-inplace-krew.yaml").read_text())


def test_contents(archives):
    """Both have the same files, in one folder, and none that another user owns or may write, nor a link: krew
    takes none.
    """
    listed = {}
    for architecture, archive in archives.items():
        folder = archive.name.removesuffix(".tar.gz")
        with tarfile.open(archive) as opened:
            entries = opened.getmembers()
        assert {(e.uid, e.gid) for e in entries} == {(0, 0)}
        assert [e.name for e in entries if e.mode & 0o22] == []
        assert all(e.isfile() or e.isdir() for e in entries)
        assert len({e.mtime for e in entries}) == 1
        listed[architecture] = {e.name.removeprefix(folder).lstrip("/") for e in entries}
        assert {e.name.partition("/")[0] for e in entries} == {folder}
    assert set(listed) == {"amd64", "arm64"}
    assert listed["amd64"] == listed["arm64"] > _INSIDE


@pytest.mark.parametrize("architecture", EMULATORS)
def test_alone(archives, folder, architecture):
    """The program runs where there is nothing but the archive."""
    root = folder / "root"
    with tarfile.open(archives[architecture]) as opened:
        opened.extractall(root)
    program = f"/{archives[architecture].name.removesuffix('.tar.gz')}/bin/kubectl-inplace"
    emulator = []
    if architecture != NATIVE:
        shutil.copy(shutil.which(EMULATORS[architecture]), root / "emulator")
        emulator = ["/emulator"]

    def run(*arguments):
        argv = ["/usr/sbin/chroot", root, *emulator, program, *arguments]
        return subprocess.run(argv, capture_output=True, text=True, timeout=120, env={})

    version = run("version")
    assert version.returncode == 0 and version.stdout.split()[0] == "kubectl-inplace", version
    refused = run("status")
    assert refused.returncode == 1 and "kubeconfig" in refused.stderr, refused


def test_krew(archives, manifest):
    """It has the digest of each archive, and the program's place in it."""
    assert (manifest["kind"], manifest["metadata"]["name"]) == ("Plugin", "inplace")
    platforms = {p["selector"]["matchLabels"]["arch"]: p for p in manifest["spec"]["platforms"]}
    assert set(platforms) == set(archives)
    for architecture, archive in archives.items():
        platform = platforms[architecture]
        assert archive.name.startswith(f"kubectl-inplace-{manifest['spec']['version'].removeprefix('v')}-")
        assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
        assert platform["uri"].rpartition("/")[2] == archive.name
        with tarfile.open(archive) as opened:
            assert opened.getmember(platform["bin"]).mode == 0o755


def test_downloads(archives, folder):
    """The manifest names the place where the archives are, and the archives are the same as without one."""
    place = {"INPLACED_ARCHITECTURES": NATIVE, "INPLACED_DOWNLOADS": "https://downloads.example/inplaced"}
    build_artifacts("archive", folder.path, **place)
    (platform,) = yaml.safe_load((folder / "kubectl-inplace-krew.yaml").read_text())["spec"]["platforms"]
    made = folder / archives[NATIVE].name
    assert platform["uri"] == f"https://downloads.example/inplaced/{made.name}"
    if "INPLACED_ARTIFACTS" not in os.environ:
        assert made.read_bytes() == archives[NATIVE].read_bytes()
    with pytest.raises(subprocess.CalledProcessError):
        build_artifacts("archive", folder.path, INPLACED_DOWNLOADS="downloads: here")
