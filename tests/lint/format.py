#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""C code is laid out as .clang-format says. To fix: clang-format -i FILE...

Each version lays something out in another way, so there is one that counts: Debian 12's.
"""

import pathlib
import re
import shutil
import subprocess
import sys

import lint

VERSION = 14
SKIPPED = 77
STYLE = pathlib.Path(__file__).resolve().parents[2] / ".clang-format"
PLACES = re.compile(r"(agent|cri|tests/(unit|fuzz|fake|bench))/.*\.[ch]")


def wants(root, name):
    return PLACES.fullmatch(name) is not None


def check(root, names):
    if not names:
        return []
    command = ["clang-format", f"--style=file:{STYLE}", "--dry-run", "--Werror", *names]
    said = lint.run_tool(root, command)
    return [line for line in said if "error:" in line] or said


BAD = {"agent/bad.c": "int  f(void) {\n  return 1; }\n"}
GOOD = {"agent/good.c": "int f(void) {\n        return 1;\n}\n"}

if __name__ == "__main__":
    if shutil.which("clang-format"):
        said = subprocess.run(["clang-format", "--version"], capture_output=True, text=True).stdout
        if f" version {VERSION}." not in said:
            print(f"{said.strip()} is here, not version {VERSION}, which decides")
            sys.exit(SKIPPED)
    sys.exit(lint.main(check, wants, BAD, GOOD))
