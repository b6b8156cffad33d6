#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""count.py REPORT STATUS [FOLDER]: what a test runner did, from its JUnit report and its exit status.

FOLDER has reports of single tests: NAME.xml counts in place of the runner's case NAME. REPORT.again, if
there is one, is of tests that failed and ran once more: one that passed then counts as passed, but is
"unsteady".

Prints "PASSED FAILED SKIPPED", then lines of four kinds: "failed TEST: why", "skipped TEST: why",
"unsteady TEST: why it failed" and "took SECONDS TEST". A runner that failed without blaming a test counts as one failure, and so does one
that let no test pass. Where CI runs, which the variable CI says, a skip is a failure unless
expected-skips lists it.

count.py --again REPORT: of a report of pytest the failed tests that may run once more, as pytest calls
them. None if the program ended by itself or a sanitizer found something in any, or if these are many.
"""

import os
import pathlib
import re
import sys
import xml.etree.ElementTree as ET
from typing import NamedTuple

EXPECTED_SKIPS = pathlib.Path(__file__).with_name("expected-skips")

# More failures than so many are no accident.
MOST_AGAIN = 5

# The lab's words about faults that may show themselves only once.
FAULTS = ("a sanitizer found", "ended by itself")

# The words of ctest about tests that are skipped on purpose. It says "skipped" also of a test whose
# program is missing.
CTEST_SKIPS = ("SKIP_RETURN_CODE", "SKIP_REGULAR_EXPRESSION", "Disabled")


class Case(NamedTuple):
    name: str
    verdict: str
    reason: str
    seconds: float


def read_case(element):
    name = f"{element.get('classname')}: {element.get('name')}"
    if element.get("classname") == element.get("name"):
        name = element.get("name")
    seconds = float(element.get("time") or 0)
    for what in ("failure", "error"):
        problem = element.find(what)
        if problem is not None:
            return Case(name, "failed", problem.get("message") or "see above", seconds)
    skipped = element.find("skipped")
    if skipped is None:
        return Case(name, "passed", "", seconds)
    reason = skipped.get("message") or "no reason given"
    is_meant = skipped.get("type") or reason.startswith(CTEST_SKIPS)
    return Case(name, "skipped" if is_meant else "failed", reason, seconds)


def read_cases(report, folder=None):
    """The cases of the report; of what has a report of its own, the single ones."""
    try:
        elements = list(ET.parse(report).iter("testcase"))
    except (OSError, ET.ParseError):
        return []
    cases = []
    for element in elements:
        case = read_case(element)
        path = folder and folder / f"{element.get('name').replace('/', '-')}.xml"
        single = read_cases(path) if path else []
        is_blamed = any(one.verdict == "failed" for one in single)
        cases += single
        if not single or (case.verdict == "failed" and not is_blamed):
            cases.append(case)
    return cases


def plain(name):
    """The name without the group that pytest's workers add to it."""
    return re.sub(r"@[a-z_]+-[0-9]+$", "", name)


def list_again(report):
    """The failed tests, FILE::NAME, unless they must not run once more."""
    failed, names = [], []
    for element in ET.parse(report).iter("testcase"):
        problems = element.findall("failure") + element.findall("error")
        failed += [problem.text or "" for problem in problems]
        if problems:
            names.append(f"{element.get('classname').replace('.', '/')}.py::{plain(element.get('name'))}")
    is_fault = any(fault in text for fault in FAULTS for text in failed)
    names = list(dict.fromkeys(names))
    return [] if is_fault or len(names) > MOST_AGAIN else names


def excuse(cases, again):
    """Makes unsteady tests of those failures that passed in the second report."""
    failed = {plain(case.name) for case in again if case.verdict != "passed"}
    passed = {plain(case.name) for case in again} - failed
    for case in cases:
        is_unsteady = case.verdict == "failed" and plain(case.name) in passed
        yield case._replace(verdict="unsteady") if is_unsteady else case


def read_reasons(text):
    """Maps the names to the reasons, each of which stands in an indented line below its name."""
    expected, name = {}, None
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if not line[0].isspace():
            if name is not None:
                raise ValueError(f"{name}: there is no reason below it")
            name = line.strip()
        else:
            if name is None:
                raise ValueError(f"{line.strip()}: this is a reason without a name")
            expected[name], name = line.strip(), None
    if name is not None:
        raise ValueError(f"{name}: there is no reason below it")
    return expected


def refuse_skips(cases, expected):
    """Makes failures of the skips that are not expected."""
    for case in cases:
        if case.verdict == "skipped" and case.name not in expected:
            yield case._replace(verdict="failed", reason=f"skipped, not expected: {case.reason}")
        else:
            yield case


def judge(cases, status):
    """Returns the runner's own faults, as a list of cases."""
    verdicts = [case.verdict for case in cases]
    if "failed" in verdicts or "unsteady" in verdicts:
        return []
    if status != 0:
        return [Case("the runner", "failed", f"status {status}, though no test failed", 0)]
    if "passed" not in verdicts:
        return [Case("the runner", "failed", f"of {len(cases)} tests none passed", 0)]
    return []


def main(report, status, folder=None):
    cases = read_cases(pathlib.Path(report), folder and pathlib.Path(folder))
    cases = list(excuse(cases, read_cases(pathlib.Path(f"{report}.again"))))
    if os.environ.get("CI", "") not in ("", "false", "0"):
        cases = list(refuse_skips(cases, read_reasons(EXPECTED_SKIPS.read_text())))
    cases += judge(cases, status)

    for counted in (("passed", "unsteady"), ("failed",), ("skipped",)):
        print(sum(case.verdict in counted for case in cases), end="\n" if "skipped" in counted else " ")
    for case in cases:
        if case.verdict != "passed":
            print(" ".join(f"{case.verdict} {case.name}: {case.reason}".split())[:500])
    for case in sorted(cases, key=lambda case: -case.seconds)[:10]:
        print(f"took {case.seconds:.1f} {' '.join(case.name.split())}")


if __name__ == "__main__":
    if sys.argv[1] == "--again":
        print(*list_again(sys.argv[2]), sep="\n", end="")
    else:
        main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
