#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""compatibility.py [--all | --some] [--write] RAN: compares the table of tested versions in docs/COMPATIBILITY.md with what ran.

RAN has lines "STAGE<tab>PART<tab>VERSION<tab>PASSED", which tests/run writes: the lab notes the version that each part
states when it runs. A stage in which no test passed does not count. Rows of stages that did not run are left alone, except
with --all, when every stage did; with --some, when none ran as a whole, all rows are. Prints each row that differs; --write
writes the table of what ran into the page instead.
"""

import fcntl
import os
import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).parents[1] / "docs/COMPATIBILITY.md"
HEAD = "| part | version | stages of `tests/run` |\n| --- | --- | --- |\n"
TABLE = re.compile(re.escape(HEAD) + r"((?:\|.*\n)*)")


def note(part, version):
    """Adds a part that runs, and the version that it states, to the file that INPLACED_PARTS names."""
    path = os.environ.get("INPLACED_PARTS")
    if path:
        with open(path, "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(f"{part}\t{re.search(r'[0-9]+([.][0-9]+)*', version)[0]}\n")


def module_version(program, module):
    """The version of a Go module, as the program that contains it states it."""
    return re.search(rb"\t%s\t(v[0-9.]+)" % module.encode(), pathlib.Path(program).read_bytes())[1].decode()


def read_ran(text):
    fields = [line.split("\t") for line in text.splitlines()]
    return {(part, version, stage) for stage, part, version, passed in fields if int(passed) > 0}


def read_table(page):
    rows = [row.strip("| ").split(" | ") for row in TABLE.search(page)[1].splitlines()]
    return {(part, version, stage) for part, version, stages in rows for stage in stages.split(", ")}


def write_table(rows):
    def order(part):
        return [part[0].lower(), [int(number) for number in part[1].split(".")]]

    parts = sorted({row[:2] for row in rows}, key=order)
    lines = [[*part, ", ".join(sorted(row[2] for row in rows if row[:2] == part))] for part in parts]
    return HEAD + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(flags, ran):
    page = PAGE.read_text()
    rows, tested = read_table(page), read_ran(pathlib.Path(ran).read_text())
    stages = set() if "--some" in flags else {stage for _, _, stage in tested}
    wanted = tested | (set() if "--all" in flags else {row for row in rows if row[2] not in stages})
    if "--write" in flags:
        PAGE.write_text(TABLE.sub(lambda _: write_table(wanted), page))
        return 0
    for what, different in (("lacks", wanted - rows), ("has, but it did not run:", rows - wanted)):
        for part, version, stage in sorted(different):
            print(f"docs/COMPATIBILITY.md {what} {part} {version} in the stage \"{stage}\"")
    return 1 if wanted != rows else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:-1], sys.argv[-1]))
