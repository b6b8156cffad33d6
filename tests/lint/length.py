#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Lists functions of C longer than 60 lines, and files of the product longer than 800.

A report for whoever reads a change, not a test: files follow ideas, not line counts. Functions are
counted from the first line of the signature to the closing brace. It relies on the layout that
format.py enforces: what starts in the first column is at file level.

    tests/lint/length.py .
"""

import re
import sys

import lint

FUNCTION_LIMIT = 60
FILE_LIMIT = 800


def wants(root, name):
    return re.fullmatch(r"(agent|cri|tests)/.*\.[ch]", name) is not None


def list_functions(lines):
    """Yields the number of the first line and the length of each function."""
    start, head = None, ""
    for number, line in enumerate(lines, 1):
        if start is None:
            if re.match(r"[A-Za-z_]", line) and not re.match(r"\w+:$", line):
                start, head = number, ""
            else:
                continue
        if line == "}" and "(" in head:
            yield start, number - start + 1
            start = None
        elif re.match(r"\}", line) or (not opens_function(head) and line.endswith(";")):
            start = None
        elif not opens_function(head):
            head += line


def opens_function(head):
    return re.search(r"\)[^=;]*\{$", head) is not None


def check(root, names):
    complaints = []
    for name in names:
        lines = (root / name).read_text(errors="replace").splitlines()
        if len(lines) > FILE_LIMIT and not name.startswith("tests/"):
            complaints.append(f"{name}: {len(lines)} lines")
        for number, length in list_functions(lines):
            if length > FUNCTION_LIMIT:
                complaints.append(f"{name}:{number}: a function of {length} lines")
    return complaints


def sample(signature, lines):
    return "\n".join([signature, *["        call();"] * lines, "}", ""])


TABLE = "static const int table[] = {\n" + "        1,\n" * 70 + "};\n"
BAD = {
    "agent/long.c": sample("int f(int a) {", 59),
    "agent/wrapped.c": sample("static int *f(int a,\n              int b) {", 59),
    "agent/second.c": TABLE + "int g;\n\n" + sample("int f(void) {", 59),
    "agent/file.c": "int a;\n" * 801,
}
GOOD = {
    "agent/just.c": sample("int f(int a) {", 58),
    "agent/table.c": TABLE + sample("int f(void) {", 10),
    "agent/type.h": "typedef struct T {\n" + "        int (*f)(void);\n" * 70 + "} T;\n",
    "tests/unit/test-x.c": "int a;\n" * 801,
}

if __name__ == "__main__":
    sys.exit(lint.main(check, wants, BAD, GOOD))
