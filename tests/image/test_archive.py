# SPDX-License-Identifier: Apache-2.0
"""Proves the content of the image, and that its documents list it."""

import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_LABELS = {"created", "description", "licenses", "revision", "title", "version"}
_MEGABYTES_MAX = 20
_BILL = "usr/share/doc/inplaced/sbom.spdx.json"
_CONTROLLER_BILL = "usr/share/doc/kubectl-inplace/sbom.spdx.json"
_PROGRAMS = ["usr/bin/inplaced", "usr/bin/kubectl-inplace"]
_READER = _ROOT / "tests/image/reader/build"


@pytest.fixture(scope="module")
def blobs(archive):
    with tarfile.open(archive) as layout:
        return {
            entry.name.removeprefix("blobs/sha256/"): layout.extractfile(entry).read()
            for entry in layout
            if entry.isfile()
        }


@pytest.fixture(scope="module")
def images(blobs):
    """{architecture: (configuration, layer)}"""

    def blob(descriptor):
        kind, _, digest = descriptor["digest"].partition(":")
        data = blobs[digest]
        assert kind == "sha256" and hashlib.sha256(data).hexdigest() == digest
        assert len(data) == descriptor["size"]
        return data

    (top,) = json.loads(blobs["index.json"])["manifests"]
    found = {}
    for image in json.loads(blob(top))["manifests"]:
        manifest = json.loads(blob(image))
        (layer,) = manifest["layers"]
        config, data = json.loads(blob(manifest["config"])), gzip.decompress(blob(layer))
        assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(data).hexdigest()}"]
        assert config["architecture"] == image["platform"]["architecture"]
        found[config["architecture"]] = config, data
    return found


def files(layer):
    with tarfile.open(fileobj=io.BytesIO(layer)) as opened:
        return {e.name: opened.extractfile(e).read() if e.isfile() else e for e in opened}


def test_architectures(images):
    """The index has both architectures; the programs in each are for that machine, and ask for no loader."""
    machines = {"amd64": 62, "arm64": 183}
    assert set(images) == set(machines)
    for architecture, (_, layer) in images.items():
        for program in map(files(layer).get, _PROGRAMS):
            assert program[:5] == b"\x7fELF\2"
            assert int.from_bytes(program[18:20], "little") == machines[architecture]
            assert b"/ld-linux" not in program


def test_contents(images, record_property):
    """No shell, nothing that another user owns or may write, and little of it."""
    for architecture, (config, layer) in images.items():
        with tarfile.open(fileobj=io.BytesIO(layer)) as opened:
            entries = list(opened)
        programs = [e.name for e in entries if e.isfile() and e.mode & 0o111]
        assert programs == _PROGRAMS
        assert {(e.uid, e.gid) for e in entries} == {(0, 0)}
        assert [e.name for e in entries if e.mode & 0o22 and not e.issym()] == ["tmp"]
        assert files(layer)["etc/ssl/certs/ca-certificates.crt"].count(b"BEGIN CERT") > 100
        labels = config["config"]["Labels"]
        prefix = "org.opencontainers.image."
        assert {name.removeprefix(prefix) for name in labels} >= _LABELS - {"revision"}
        assert labels.get(f"{prefix}vendor") == os.environ.get("INPLACED_MAINTAINER")
        assert len(layer) <= _MEGABYTES_MAX * 1e6
        record_property(f"megabytes-{architecture}", len(layer) / 1e6)
        print(f"{architecture}: {len(layer) / 1e6:.1f} MB")


@pytest.fixture(scope="module")
def versions():
    """The libraries with their versions, as the program lists them."""
    program = Path(os.environ["INPLACED_BUILD_DIR"]) / "agent/inplaced"
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return dict(line.split() for line in said.splitlines()[1:])


def test_bill_of_materials(images, versions):
    """The document lists the same libraries as the program, and each licence is there."""
    for _, layer in images.values():
        inside = files(layer)
        document = json.loads(inside[_BILL])
        sources = {}
        for package in document["packages"]:
            if "sourceInfo" in package:
                name, version = package["sourceInfo"].removeprefix("built package from: ").split()
                assert (package["name"], package["versionInfo"]) == (name, version)
                sources[name] = version
                assert inside[f"usr/share/doc/{name}/copyright"]
        assert sources.pop("ca-certificates")
        assert sources == versions
        assert {"openssl", "curl", "glibc", "grpc", "systemd"} <= set(sources)
        ids = {package["SPDXID"] for package in document["packages"]}
        assert {r["relatedSpdxElement"] for r in document["relationships"]} == ids
        other = {p["name"]: p["versionInfo"] for p in json.loads(inside[_CONTROLLER_BILL])["packages"]}
        assert other.items() >= {name: versions[name] for name in ("openssl", "curl", "glibc", "json-c")}.items()
        assert all(f"usr/share/doc/{name}/copyright" in inside for name in other.keys() & versions.keys())


@pytest.mark.timeout(900)  # the library is compiled once
def test_scanners_read_it(archive, images, versions):
    """The library of the scanner Grype, which looks in its list for the sources of one release; the bill of the whole
    image, which is beside it, has the same.
    """
    beside = Path(f"{archive}.spdx.json").read_bytes()
    built = subprocess.run([_READER], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    for bill in (beside, *(files(layer)[_BILL] for _, layer in images.values())):
        done = subprocess.run([f"{built}/reader"], input=bill, stdout=subprocess.PIPE, check=True)
        found = json.loads(done.stdout)
        assert found["distribution"] == "debian 12"
        assert found["packages"].pop("ca-certificates")
        assert found["packages"] == versions
        assert set(found["licenses"]) == {*versions, "ca-certificates"}
        assert found["licenses"]["openssl"] == "Apache-2.0"


def test_release(images):
    """A scanner of the image finds the release where it looks first; Trivy looks in the document as well."""
    for _, layer in images.values():
        inside = files(layer)
        release = dict(line.split("=", 1) for line in inside["etc/os-release"].decode().splitlines())
        assert (release["ID"], release["VERSION_ID"]) == ("debian", '"12"')
        packages = json.loads(inside[_BILL])["packages"]
        (system,) = [p for p in packages if p["SPDXID"].startswith("SPDXRef-OperatingSystem")]
        assert (system["name"], system["versionInfo"]) == ("debian", "12")
        assert system["primaryPackagePurpose"] == "OPERATING-SYSTEM"


def test_same_again(archive, folder):
    """The writer makes the same file again."""
    builds = sorted(Path(os.environ["INPLACED_BUILD_DIR"]).resolve().parent.glob("static-*"))
    version = archive.name.removeprefix("inplaced-").removesuffix(".oci.tar")
    with tarfile.open(archive) as layout:
        index = json.load(layout.extractfile("index.json"))
        (top,) = index["manifests"]
        labels = json.load(layout.extractfile("blobs/" + top["digest"].replace(":", "/")))
    revision = labels["annotations"].get("org.opencontainers.image.revision", "")
    created = labels["annotations"]["org.opencontainers.image.created"]
    epoch = subprocess.run(["date", "-d", created, "+%s"], capture_output=True, text=True, check=True)
    argv = [_ROOT / "packaging/image/write", "--version", version, "--revision", revision]
    again = folder / archive.name
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch.stdout.strip()}
    subprocess.run([*argv, again, *builds], env=environment, check=True, stdout=subprocess.DEVNULL)
    assert again.read_bytes() == archive.read_bytes()
