#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The service file, as it was configured, is clean for systemd.

unit.py UNIT-FILE PROGRAM: where the program will be installed there is nothing yet, so the copy
that is verified names the one that was built.
"""

import pathlib
import re
import sys
import tempfile

import lint

BAD = "[Service]\nExecStart=/bin/true\nWatchdogSecs=30\n"
GOOD = "[Unit]\nDescription=Sample\n\n[Service]\nExecStart=/bin/true\n"


def verify(text, program):
    with tempfile.TemporaryDirectory(prefix="lint-") as folder:
        path = pathlib.Path(folder) / "inplaced.service"
        path.write_text(re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={program}", text))
        # --recursive-errors=no: the faults of other units on this machine are not ours.
        command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(path)]
        said = lint.run_tool(folder, command)
    return [line for line in said if "inplaced.service" in line] or said


def main(unit, program):
    try:
        if not verify(BAD, "/bin/true") or verify(GOOD, "/bin/true"):
            sys.exit("This lint is broken: it cannot tell its bad sample from the good one.")
        complaints = verify(pathlib.Path(unit).read_text(), program)
    except lint.ToolFailed as failure:
        sys.exit(str(failure))
    print(*complaints, f"{len(complaints)} complaints", sep="\n")
    return bool(complaints)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
