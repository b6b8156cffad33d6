# SPDX-License-Identifier: Apache-2.0
"""The bills of materials beside packages and image: valid SPDX 2.3, of this very file, with what is linked."""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import tarfile

import pytest

_FILES = {
    "archive": "kubectl-inplace-*.tar.gz", "deb": "*.deb", "image": "*.oci.tar", "rpm": "*.rpm",
}
_RELATIONS = {"DESCRIBES", "CONTAINS", "STATIC_LINK", "DYNAMIC_LINK"}
_ALWAYS = {"glibc", "curl", "json-c"}
_AGENT_ONLY = {"grpc", "libmicrohttpd"}


@pytest.fixture(scope="module", params=sorted(_FILES))
def bills(request, artifacts):
    """{artifact: its bill}"""
    found = sorted(artifacts(request.param).glob(_FILES[request.param]))
    if request.param == "rpm" and not found:
        pytest.skip("there is no rpmbuild, and so no RPM")
    return {path: json.loads(path.with_name(f"{path.name}.spdx.json").read_text()) for path in found}


def sources(bill):
    """{source package: version}"""
    return {p["name"]: p["versionInfo"] for p in bill["packages"] if "sourceInfo" in p}


def test_valid(bills):
    """Document, packages and relations have what the specification requires; scanners are less strict."""
    assert bills
    for bill in bills.values():
        assert (bill["spdxVersion"], bill["dataLicense"], bill["SPDXID"]) == ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT")
        assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", bill["documentNamespace"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", bill["creationInfo"]["created"])
        assert all(creator.startswith("Tool: ") for creator in bill["creationInfo"]["creators"])
        ids = [package["SPDXID"] for package in bill["packages"]]
        assert len(set(ids)) == len(ids) and all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", one) for one in ids)
        for package in bill["packages"]:
            assert package["name"] and package["versionInfo"] and package["licenseDeclared"]
            assert (package["downloadLocation"], package["filesAnalyzed"]) == ("NOASSERTION", False)
        related = {(r["spdxElementId"], r["relationshipType"], r["relatedSpdxElement"]) for r in bill["relationships"]}
        assert {kind for _, kind, _ in related} <= _RELATIONS
        assert {other for _, _, other in related} == set(ids)
        assert {one for one, _, _ in related} <= {*ids, "SPDXRef-DOCUMENT"}


def test_of_this_file(bills):
    for path, bill in bills.items():
        (described,) = (r["relatedSpdxElement"] for r in bill["relationships"] if r["relationshipType"] == "DESCRIBES")
        (package,) = (p for p in bill["packages"] if p["SPDXID"] == described)
        assert bill["name"] == package["packageFileName"] == path.name
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert package["checksums"] == [{"algorithm": "SHA256", "checksumValue": digest}]


def test_libraries(bills):
    """The plugin has its libraries, and the agent has those in addition that only an agent needs."""
    for path, bill in bills.items():
        agent = path.name.startswith("inplaced")
        assert sources(bill).keys() >= _ALWAYS | (_AGENT_ONLY if agent else set()), path
        assert agent or _AGENT_ONLY.isdisjoint(sources(bill)), path


def test_loaded_libraries(packages, kubectl_packages):
    """A Debian package has each library that it depends on."""
    for package in (*packages.values(), *kubectl_packages.values()):
        depends = subprocess.run(["dpkg-deb", "--field", package, "Depends"], capture_output=True, text=True, check=True)
        names = {entry.split()[0] for entry in depends.stdout.split(",")} - {"systemd"}
        bill = json.loads(package.with_name(f"{package.name}.spdx.json").read_text())
        listed = set()
        for one in bill["packages"]:
            listed.update(re.findall(r"what is linked comes from (.*)", one.get("comment", "")))
        assert {name for names in listed for name in names.split(", ")} == names


def test_the_same_inside(artifacts):
    """A static archive has a bill of its program, with the same libraries."""
    for path in artifacts("archive").glob("kubectl-inplace-*.tar.gz"):
        with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as opened:
            name = f"{path.name.removesuffix('.tar.gz')}/share/doc/kubectl-inplace/sbom.spdx.json"
            inside = json.load(opened.extractfile(name))
        assert sources(inside) == sources(json.loads(path.with_name(f"{path.name}.spdx.json").read_text()))
