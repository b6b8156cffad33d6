#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""No two libraries of ours define the same name.

symbols.py LIBRARY ... A program that links both, as the static one does, would get either of them, whatever
the header says that the caller has included.
"""

import collections
import subprocess
import sys

import lint

BAD = "libauth.a:a.o:0000 T parse\nlibctl.a:f.o:0010 T parse\n"
GOOD = "libauth.a:a.o:0000 T parse\nlibauth.a:b.o:                 U parse\nlibctl.a:f.o:0010 t parse\n"


def check(listed):
    """`listed` is what nm -A prints of several libraries."""
    places = collections.defaultdict(set)
    for line in listed.splitlines():
        words = line.split()
        if len(words) == 3 and words[1] in "TDBR":
            places[words[2]].add(words[0].rpartition(":")[0])
    return [
        f"{name} is defined in {' and in '.join(sorted(where))}: rename one"
        for name, where in sorted(places.items())
        if len(where) > 1
    ]


def main(libraries):
    if not check(BAD) or check(GOOD):
        print("symbols.py does not find what it should")
        return 1

    nm = ["nm", "-A", "--defined-only", *libraries]
    listed = subprocess.run(nm, check=True, capture_output=True, text=True, timeout=lint.TOOL_SECONDS)
    complaints = check(listed.stdout)
    print("\n".join(complaints))
    return 1 if complaints or not libraries else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
