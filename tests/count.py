#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""count.py REPORT STATUS: what a test runner did, from its JUnit report and its exit status.

Prints "PASSED FAILED SKIPPED" and then one line per test that was skipped, with the reason. A runner
that failed without blaming a test, or that ran no test at all, counts as one failure.
"""

import pathlib
import sys
import xml.etree.ElementTree as ET


def verdict(case):
    """ctest says "skipped" also of a test whose program is missing; that is a failure."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    skipped = case.find("skipped")
    if skipped is None:
        return "passed"
    return "failed" if "Unable to find" in skipped.get("message", "") else "skipped"


def read_cases(report):
    try:
        return list(ET.parse(report).iter("testcase"))
    except (OSError, ET.ParseError):
        return []


def main(report, status):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    reasons = []
    for case in read_cases(pathlib.Path(report)):
        what = verdict(case)
        counts[what] += 1
        if what == "skipped":
            message = case.find("skipped").get("message", "no reason given")
            reasons.append(f"{case.get('classname')}: {case.get('name')}: {message}")
    blamed = counts["failed"] > 0
    if not blamed and (status != 0 or counts["passed"] + counts["skipped"] == 0):
        counts["failed"] = 1
    print(*counts.values())
    for reason in reasons:
        print(" ".join(reason.split()))


main(sys.argv[1], int(sys.argv[2]))
