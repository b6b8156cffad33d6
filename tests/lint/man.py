#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Manual pages are clean for mandoc, and refer to pages and sections that there are."""

import re
import sys

import lint

HEAD = ".\\\" sample\n.Dd January 1, 2025\n.Dt SAMPLE 8\n.Os\n.Sh NAME\n.Nm sample\n.Nd samples\n"


def wants(root, name):
    return re.fullmatch(r"packaging/man/.*\.\d", name) is not None


def check(root, names):
    """A page that is not installed yet is no fault, nor is one of another package."""
    complaints = []
    for name in names:
        command = ["mandoc", "-T", "lint", "-W", "style", name]
        found = lint.run_tool(root, command, complaining=range(1, 5))
        own = [line for line in found if f"{name}:" in line]
        complaints += [line for line in own if "referenced manual not found" not in line]
        complaints += find_broken_references(root, name)
    return complaints


def find_broken_references(root, name):
    """To our own pages, by name, and to their sections, as in "see SECTION in .Xr page 8"."""
    complaints = []
    own = {path.name for path in (root / name).parent.glob("inplace*")}
    text = (root / name).read_text()
    for before, page, section in re.findall(r"(.*\n.*)\n\.Xr (inplace[a-z.]*) (\d)", text):
        target = f"{page}.{section}"
        if target not in own:
            complaints.append(f"{name}: there is no {target}")
            continue
        heading = re.search(r"see ([A-Z][A-Za-z ]+) in$", before.replace("\n", " "))
        headings = re.findall(r"(?m)^\.S[hs] (.*)$", (root / name).with_name(target).read_text())
        if heading and heading[1] not in headings:
            complaints.append(f"{name}: {target} has no section {heading[1]}")
    return complaints


SEE = HEAD + ".Sh DESCRIPTION\nA sample, see\n{} in\n.Xr {}\n"
BAD = {
    "bad.8": HEAD + ".Sh OPTIONS\n.Bl -tag\n.It one\nUnclosed.\n",
    "inplace-page.8": SEE.format("NAME", "inplacegone 8"),
    "inplace.8": SEE.format("GONE", "inplace 8"),
}
GOOD = {"good.8": HEAD + ".Sh DESCRIPTION\nA sample.\n", "inplace.8": SEE.format("NAME", "inplace 8")}

if __name__ == "__main__":
    sys.exit(lint.main(check, wants, BAD, GOOD))
