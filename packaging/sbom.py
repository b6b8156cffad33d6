# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of a program, or of a package or image of programs, in SPDX 2.3: what a scanner has to know to
find the holes.

Debian's advisories name source packages and releases. So each source is a package here, with its name and version
in all the places where scanners look for them: Trivy in `sourceInfo`, and for the distribution in a package whose ID
begins with OperatingSystem; Grype in the package URL.
"""

import datetime
import hashlib
import json
import re
import urllib.parse
import uuid

RELEASE, CODENAME = "12", "bookworm"
# Licences of the parts that are linked, not of all that is in the source.
LICENSES = {
    "abseil": "Apache-2.0",
    "c-ares": "MIT",
    "ca-certificates": "MPL-2.0",
    "curl": "curl",
    "gcc-12": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "glibc": "LGPL-2.1-or-later",
    "grpc": "Apache-2.0 AND BSD-3-Clause",
    "json-c": "MIT",
    "libmicrohttpd": "LGPL-2.1-or-later",
    "libyaml": "MIT",
    "nghttp2": "MIT",
    "openssl": "Apache-2.0",
    "protobuf-c": "BSD-2-Clause",
    "systemd": "LGPL-2.1-or-later",
    "util-linux": "LGPL-2.1-or-later",
    "zlib": "Zlib",
}


def stamp(epoch):
    return datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _package(identity, name, version, license, **more):
    return {
        "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", identity), "name": name, "versionInfo": version,
        "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
        "licenseDeclared": license, "copyrightText": "NOASSERTION", **more,
    }


def _source(name, version, packages):
    if name not in LICENSES:
        raise SystemExit(f"packaging/sbom.py does not have the licence of {name}")
    escaped = urllib.parse.quote(version, safe="")
    return _package(
        f"Package-{name}-{version}", name, version, LICENSES[name],
        supplier="Organization: Debian", sourceInfo=f"built package from: {name} {version}",
        comment=f"what is linked comes from {', '.join(packages)}",
        externalRefs=[{
            "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
            "referenceLocator": f"pkg:deb/debian/{name}@{escaped}?arch=source&distro=debian-{RELEASE}",
        }],
    )


def bill_of_materials(program, version, architecture, epoch, rows, link="STATIC_LINK"):
    """`rows` are (package, version, source, source's version); with the link DYNAMIC_LINK, versions are those that the
    program was built with.
    """
    sources = {}
    for name, _, source, source_version in rows:
        sources.setdefault((source, source_version), []).append(name)
    listed = [_source(*source, packages) for source, packages in sorted(sources.items())]
    root = _package(program, program, version, "Apache-2.0", primaryPackagePurpose="APPLICATION")
    system = _package("OperatingSystem-debian", "debian", RELEASE, "NOASSERTION",
                      primaryPackagePurpose="OPERATING-SYSTEM",
                      comment="the release that the libraries are of")

    def relate(element, kind, other):
        return {"spdxElementId": element["SPDXID"], "relationshipType": kind, "relatedSpdxElement": other["SPDXID"]}

    relations = [relate({"SPDXID": "SPDXRef-DOCUMENT"}, "DESCRIBES", root), relate(root, "CONTAINS", system)]
    for one in listed:
        relations.append(relate(system, "CONTAINS", one))
        relations.append(relate(root, "CONTAINS" if one["name"] == "ca-certificates" else link, one))
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{program}-{version}-{architecture}",
        "creationInfo": {"created": stamp(epoch), "creators": ["Tool: inplaced-packaging"]},
        "packages": [root, system, *listed], "relationships": relations,
    }
    return _with_namespace(document)


def _with_namespace(document):
    """The name of the document follows from what is in it."""
    document.pop("documentNamespace", None)
    return document | {"documentNamespace": uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(document)).urn}


def write_bill_of(artifact, bill, purpose):
    """Writes ARTIFACT.spdx.json: the bill of what is in this package or image, which it names by its digest."""
    bill["packages"][0] |= {
        "primaryPackagePurpose": purpose, "packageFileName": artifact.name,
        "checksums": [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(artifact.read_bytes()).hexdigest()}],
    }
    document = _with_namespace(bill | {"name": artifact.name})
    artifact.with_name(f"{artifact.name}.spdx.json").write_text(json.dumps(document, indent=1))
