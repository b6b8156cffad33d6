#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The file VERSION has the version, and whatever else states it agrees: chart, manifests, pages, changelog.

    /usr/bin/python3 -B tests/lint/version.py --write .

carries a new one to all of these places but the changelog.
"""

import pathlib
import re
import sys

import lint

# As in Semantic Versioning, so that dpkg, rpm, helm and krew sort a pre-release alike.
VERSION = re.compile(r"\d+\.\d+\.\d+(-rc\d+)?")
# A version of ours follows; it ends where no more of a version could stand.
PLACES = re.compile(r"(?m)((?:\binplaced[-:]|\bkubectl-inplace-|\bnewTag: )v?)(\d+\.\d+\.\d+(?:-[a-z]+\d+)?)(?![\w~+])")
CHART_PLACES = re.compile(r"(?m)^((?:version|appVersion): )(\S+)$")
CHART = "packaging/kubernetes/chart/Chart.yaml"
CHANGELOG = "CHANGELOG.md"


def wants(root, name):
    return name in ("VERSION", CHANGELOG) or name.startswith("packaging/") or name.endswith((".md", ".yaml"))


def places_in(name):
    return CHART_PLACES if name == CHART else PLACES


def check(root, names):
    version = (root / "VERSION").read_text()
    if not VERSION.fullmatch(version.removesuffix("\n")) or not version.endswith("\n"):
        return [f'VERSION: "{version.strip()}" is not one line with MAJOR.MINOR.PATCH or MAJOR.MINOR.PATCH-rcN']
    version = version.strip()
    complaints = []
    for name in names:
        text = (root / name).read_text(errors="replace")
        for found in places_in(name).finditer(text):
            if found[2] != version:
                line = text.count("\n", 0, found.start()) + 1
                complaints.append(f'{name}:{line}: "{found[0]}": VERSION has {version}; --write corrects it')
    newest = re.search(r"(?m)^## .*$", (root / CHANGELOG).read_text())
    if not newest or not re.fullmatch(rf"## \[{re.escape(version)}\] - (Unreleased|\d{{4}}-\d\d-\d\d)", newest[0]):
        complaints.append(f"{CHANGELOG}: the newest section is not one of {version}, with a date or Unreleased")
    return complaints


def write(root):
    version = (root / "VERSION").read_text().strip()
    for name in lint.list_files(root):
        if wants(root, name):
            path = root / name
            text = path.read_text(errors="surrogateescape")
            written = places_in(name).sub(rf"\g<1>{version}", text)
            if written != text:
                path.write_text(written, errors="surrogateescape")
                print(name)


def sample(version="1.2.3", place="", chart="1.2.3", heading="## [1.2.3] - Unreleased"):
    return {"VERSION": f"{version}\n", "README.md": f"{place}\n", CHANGELOG: f"# Changelog\n\n{heading}\n",
            CHART: f"version: {chart}\nappVersion: 1.2.3\n"}


BAD = {
    "place": sample(place="see inplaced-1.2.4.oci.tar"),
    "pre-release": sample(place="inplaced:1.2.3-rc1"),
    "chart": sample(chart="1.2.4"),
    "heading": sample(heading="## [1.2.2] - 2026-01-01"),
    "date": sample(heading="## [1.2.3] - soon"),
    "word": sample(version="1.2"),
    "debian": sample(version="1.2.3~rc1"),
}
GOOD = {
    "unreleased": sample(place="registry.internal/inplaced:1.2.3, newTag: 1.2.3, helm 4.0.0"),
    "released": sample(place="kubectl-inplace-1.2.3-linux-amd64.tar.gz", heading="## [1.2.3] - 2026-01-01"),
}

if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        sys.exit(write(pathlib.Path(sys.argv[2])))
    sys.exit(lint.main(check, wants, BAD, GOOD))
