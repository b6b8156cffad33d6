#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The service file, as it was configured, is clean for systemd.

unit.py UNIT-FILE PROGRAM: where the program will be installed there is nothing yet, so the copy
that is verified names the one that was built.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

BAD = "[Service]\nExecStart=/bin/true\nWatchdogSecs=30\n"
GOOD = "[Unit]\nDescription=Sample\n\n[Service]\nExecStart=/bin/true\n"


def verify(text, program):
    with tempfile.TemporaryDirectory(prefix="lint-") as folder:
        path = pathlib.Path(folder) / "inplaced.service"
        path.write_text(re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={program}", text))
        # --recursive-errors=no: the faults of other units on this machine are not ours.
        command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(path)]
        done = subprocess.run(command, capture_output=True, text=True)
    said = [line for line in done.stderr.splitlines() if "inplaced.service" in line]
    return said or ([done.stderr] if done.returncode else [])


def main(unit, program):
    if not verify(BAD, "/bin/true") or verify(GOOD, "/bin/true"):
        sys.exit("This lint is broken: it cannot tell its bad sample from the good one.")
    complaints = verify(pathlib.Path(unit).read_text(), program)
    print(*complaints, f"{len(complaints)} complaints", sep="\n")
    return bool(complaints)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
