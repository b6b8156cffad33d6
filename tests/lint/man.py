#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Manual pages are clean for mandoc, refer to pages and sections that there are, and name what the programs know."""

import pathlib
import re
import sys

import lint

HEAD = ".\\\" sample\n.Dd January 1, 2025\n.Dt SAMPLE 8\n.Os\n.Sh NAME\n.Nm sample\n.Nd samples\n"

# Names in the sources, and the entry that the page has for each of them: options, keys, metrics and reasons.
OPTION = r'(?m)^        \{ "([a-z-]+)",'
OPTION_ENTRY = r"(?m)^\.It .*Fl -{}(?![\w-])"
LISTED = {
    "inplaced.8": [
        ("agent/options.c", OPTION, OPTION_ENTRY),
        ("agent/observe/metrics.c", r'"(inplaced_\w+)"', r"(?m)^\.It .*\b{}\b"),
    ],
    "inplaced.yaml.5": [("agent/options.c", r'(?m)^        \{ "[a-z-]+", +"(\w+)",', r"(?m)^\.It Li {}\\&:")],
    "inplaced.images.5": [
        ("agent/image/pull-reason.c", r'\[PULL_REASON_(?!NONE\b)\w+\] = \{ "(\w+)"', r"(?m)^\.It .*\b{}\b"),
    ],
    "inplacectl.1": [("agent/ctl/options.c", OPTION, OPTION_ENTRY)],
    "kubectl-inplace.1": [("agent/kubectl/flags.c", OPTION, OPTION_ENTRY)],
}


def is_page(name):
    return re.search(r"\.\d$", name) is not None


def wants(root, name):
    return name.startswith("packaging/man/") and is_page(name)


def check(root, names):
    """A page that is not installed yet is no fault, nor is one of another package."""
    complaints = []
    for name in filter(is_page, names):
        command = ["mandoc", "-T", "lint", "-W", "style", name]
        found = lint.run_tool(root, command, complaining=range(1, 5))
        own = [line for line in found if f"{name}:" in line]
        complaints += [line for line in own if "referenced manual not found" not in line]
        complaints += find_broken_references(root, name) + find_missing_entries(root, name)
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


def find_missing_entries(root, name):
    """Complains of each name that the sources have and the page does not."""
    page, complaints = (root / name).read_text(), []
    for source, pattern, entry in LISTED.get(pathlib.PurePath(name).name, []):
        if not (root / source).is_file():
            continue  # a sample
        for known in re.findall(pattern, (root / source).read_text()):
            if not re.search(entry.replace("{}", re.escape(known)), page):
                complaints.append(f"{name}: no entry for {known} of {source}")
    return complaints


SEE = HEAD + ".Sh DESCRIPTION\nA sample, see\n{} in\n.Xr {}\n"
REASON = {"agent/image/pull-reason.c": '        [PULL_REASON_NOT_FOUND] = { "NotFound", PULL_REMEDY_CREDENTIALS,\n'}
ENTRY = HEAD.replace("SAMPLE 8", "SAMPLE 5") + ".Sh DESCRIPTION\n.Bl -tag -width Ds\n.It Li {}\nA word.\n.El\n"
BAD = {
    "bad.8": HEAD + ".Sh OPTIONS\n.Bl -tag\n.It one\nUnclosed.\n",
    "inplace-page.8": SEE.format("NAME", "inplacegone 8"),
    "inplace.8": SEE.format("GONE", "inplace 8"),
    "missing": REASON | {"inplaced.images.5": ENTRY.format("Found")},
}
GOOD = {
    "good.8": HEAD + ".Sh DESCRIPTION\nA sample.\n",
    "inplace.8": SEE.format("NAME", "inplace 8"),
    "listed": REASON | {"inplaced.images.5": ENTRY.format("NotFound")},
}

if __name__ == "__main__":
    sys.exit(lint.main(check, wants, BAD, GOOD))
