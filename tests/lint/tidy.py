#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy finds nothing in the product's sources, with the checks of the file .clang-tidy.

    tests/lint/tidy.py ROOT BUILD

The build folder has the commands of the compiler, and headers that were generated. A suppression is a comment
NOLINT(CHECK): REASON.
"""

import concurrent.futures
import functools
import os
import pathlib
import re
import sys

import lint

TOOL = "clang-tidy-14"
CONFIGURATION = pathlib.Path(__file__).resolve().parents[2] / ".clang-tidy"
UNEXPLAINED = re.compile(r"NOLINT(?!(NEXTLINE|BEGIN|END)?\([\w.,-]+\): \S)")


def wants(root, name):
    return name.startswith(("agent/", "cri/")) and name.endswith(".c")


def check(build, root, names):
    """`build` is None for samples, which are compiled without options."""
    commands = ["-p", str(build)] if build else []
    options = [] if build else ["--", "-std=c17"]

    def tidy(name):
        text = (root / name).read_text()
        said = [f"{name}: a NOLINT without the name of the check and a reason"] if UNEXPLAINED.search(text) else []
        argv = [TOOL, "--quiet", f"--config-file={CONFIGURATION}", *commands, str(root / name), *options]
        return said + [line for line in lint.run_tool(root, argv) if re.search(r": (warning|error): ", line)]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [line for said in pool.map(tidy, names) for line in said]


BAD = {
    "null.c": "int f(int *p) {\n        return p ? 1 : *p;\n}\n",
    "same.c": "int f(int a) {\n        return a == a;\n}\n",
    "semicolon.c": "int f(int a) {\n        if (a);\n        return a;\n}\n",
    "unexplained.c": "int f(int a) {\n        return a == a; /* NOLINT */\n}\n",
}
GOOD = {
    "good.c": "int f(const int *p) {\n        return p ? *p : 1;\n}\n",
    "explained.c": "int f(int a) {\n        /* NOLINTNEXTLINE(misc-redundant-expression): a sample */\n        return a == a;\n}\n",
}

if __name__ == "__main__":
    if not (pathlib.Path(sys.argv[2]) / "compile_commands.json").is_file():
        sys.exit(f"{sys.argv[2]} has no compile_commands.json")
    lint.prove(functools.partial(check, None), BAD, GOOD)
    sys.exit(lint.main(functools.partial(check, pathlib.Path(sys.argv[2])), wants, {}, {}))
