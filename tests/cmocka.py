#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""cmocka.py NAME PROGRAM: runs a C test program, and counts by what cmocka reports of each test.

The exit status of such a program says little: it is 0 also if a group did not run, or ended before its
last test. This one's is 0 only if tests were reported, each that was announced, and none failed. With
INPLACED_REPORTS it leaves a JUnit report of the single tests in that folder, for count.py.
"""

import os
import pathlib
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from typing import NamedTuple

# The output of a test may stand before it in the same line.
PLAN = re.compile(r"(?:^|[^\d.])1\.\.(\d+)$")
RESULT = re.compile(r"(not )?ok (\d+) (- |# SKIP )(.*)$")


class Case(NamedTuple):
    name: str
    verdict: str
    seconds: float = 0


class Reader:
    """Takes the program's output, in TAP, line by line."""

    def __init__(self):
        self.cases = []
        self._n_planned = self._n_reported = 0

    def take(self, line, seconds):
        plan, result = PLAN.search(line), RESULT.search(line)
        if plan:
            self._end_group()
            self._n_planned = int(plan[1])
        elif result and int(result[2]) == 0:
            self._add(result[4], "failed", seconds)
        elif result and int(result[2]) == self._n_reported + 1:
            self._n_reported += 1
            verdict = "failed" if result[1] else "passed"
            self._add(result[4], "skipped" if "SKIP" in result[3] else verdict, seconds)

    def end(self, status):
        self._end_group()
        if not self.cases:
            self._add("no test was reported", "failed")
        if status != 0 and not any(case.verdict == "failed" for case in self.cases):
            self._add(f"status {status}, though no test failed", "failed")
        return self.cases

    def _end_group(self):
        if self._n_reported != self._n_planned:
            self._add(f"{self._n_reported} of {self._n_planned} tests were reported", "failed")
        self._n_planned = self._n_reported = 0

    def _add(self, name, verdict, seconds=0.0):
        self.cases.append(Case(name, verdict, seconds))


def run(program):
    reader = Reader()
    environment = {**os.environ, "CMOCKA_MESSAGE_OUTPUT": "TAP"}
    with subprocess.Popen([program], stdout=subprocess.PIPE, env=environment) as process:
        before = time.monotonic()
        for line in process.stdout:
            sys.stdout.buffer.write(line)
            sys.stdout.flush()
            now = time.monotonic()
            reader.take(line.decode(errors="replace").rstrip("\n"), now - before)
            before = now
    return reader.end(process.returncode)


def write_report(path, suite_name, cases):
    suite = ET.Element("testsuite", name=suite_name)
    for case in cases:
        # Characters that XML cannot hold are in no name that matters.
        name = re.sub(r"[^\x20-\ud7ff\ue000-\ufffd]", "?", case.name)
        element = ET.SubElement(suite, "testcase", classname=suite_name, name=name)
        element.set("time", f"{case.seconds:.3f}")
        if case.verdict == "failed":
            ET.SubElement(element, "failure")
        if case.verdict == "skipped":
            ET.SubElement(element, "skipped", type="cmocka.skip", message="it skips itself")
    ET.ElementTree(suite).write(path)


def main(name, program):
    cases = run(program)
    folder = os.environ.get("INPLACED_REPORTS")
    if folder:
        write_report(pathlib.Path(folder) / f"{name.replace('/', '-')}.xml", name, cases)
    failed = [case.name for case in cases if case.verdict == "failed"]
    for problem in failed:
        print(f"{name}: failed: {problem}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
