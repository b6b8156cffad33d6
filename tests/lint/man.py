#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Manual pages are clean for mandoc."""

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
    return complaints


BAD = {"bad.8": HEAD + ".Sh OPTIONS\n.Bl -tag\n.It one\nUnclosed.\n"}
GOOD = {"good.8": HEAD + ".Sh DESCRIPTION\nA sample.\n"}

if __name__ == "__main__":
    sys.exit(lint.main(check, wants, BAD, GOOD))
