#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The units, as they were configured, are clean for systemd, and the service is hardened.

unit.py PROGRAM SERVICE-FILE SOCKET-FILE: where the program will be installed there is nothing yet, so
the copy that is checked names the one that was built.
"""

import pathlib
import re
import sys
import tempfile

import lint

EXPOSURE_MAX = 1.5

SERVICE = "[Unit]\nDescription=Sample\n\n[Service]\nExecStart=/bin/true\n"
SOCKET = "[Socket]\nListenStream=/run/sample.sock\n"
BAD = [
    {"sample.service": SERVICE + "WatchdogSecs=30\n", "sample.socket": SOCKET},
    {"sample.service": SERVICE, "sample.socket": SOCKET.replace("Stream", "Streams")},
]
GOOD = {"sample.service": SERVICE, "sample.socket": SOCKET}


def verify(texts, program):
    """Returns systemd's complaints about these units, which stand in one folder."""
    with tempfile.TemporaryDirectory(prefix="lint-") as folder:
        paths = [pathlib.Path(folder) / name for name in texts]
        for path, text in zip(paths, texts.values()):
            path.write_text(re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={program}", text))
        # --recursive-errors=no: the faults of other units on this machine are not ours.
        command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *map(str, paths)]
        said = lint.run_tool(folder, command)
    return [line for line in said if any(name in line for name in texts)] or said


def exposure(text):
    """The score of `systemd-analyze security`: 10 is a service without any limit."""
    with tempfile.TemporaryDirectory(prefix="lint-") as folder:
        path = pathlib.Path(folder) / "sample.service"
        path.write_text(text)
        command = ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=0", str(path)]
        said = lint.run_tool(folder, command)
    return float(re.search(r"Overall exposure level for sample.service: ([0-9.]+)", said[-1]).group(1))


def prove():
    if not all(verify(texts, "/bin/true") for texts in BAD) or verify(GOOD, "/bin/true"):
        sys.exit("This lint is broken: it does not distinguish its bad samples from the good one.")
    if exposure(SERVICE) < 9:
        sys.exit("This lint is broken: to it, a service without any limit is hardened.")


def main(program, *units):
    paths = [pathlib.Path(unit) for unit in units]
    try:
        prove()
        complaints = verify({path.name: path.read_text() for path in paths}, program)
        score = exposure(paths[0].read_text())
    except lint.ToolFailed as failure:
        sys.exit(str(failure))
    if score > EXPOSURE_MAX:
        complaints.append(f"{paths[0].name}: systemd-analyze security gives it {score}, more than {EXPOSURE_MAX}")
    print(*complaints, f"exposure {score} (at most {EXPOSURE_MAX}), {len(complaints)} complaints", sep="\n")
    return bool(complaints)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
