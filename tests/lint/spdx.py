#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every source file says its licence, in its first line or right after the #! line."""

import sys

import lint

TAG = "SPDX-License-Identifier: Apache-2.0"
SUFFIXES = (".c", ".h", ".py", ".sh", ".proto", ".8", ".5", ".1", ".rules", ".service.in")


def wants(root, name):
    return name.endswith(SUFFIXES) or lint.is_script(root, name, "bash", "sh", "python3")


def check(root, names):
    complaints = []
    for name in names:
        lines = (root / name).read_text(errors="replace").splitlines()
        first = lines[1:2] if lines and lines[0].startswith("#!") else lines[:1]
        if not first or TAG not in first[0]:
            complaints.append(f"{name}:1: needs a line with {TAG}")
    return complaints


BAD = {"late.c": f"\n/* {TAG} */\n", "none.py": "import sys\n", "other.h": "/* GPL */\n"}
GOOD = {"first.c": f"/* {TAG} */\n", "second": f"#!/bin/bash\n# {TAG}\n"}

if __name__ == "__main__":
    sys.exit(lint.main(check, wants, BAD, GOOD))
