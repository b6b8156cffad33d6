# SPDX-License-Identifier: Apache-2.0
"""The counts that follow from a runner's report and exit status."""

import pytest

from conftest import REPOSITORY
from count import read_reasons

PASS = '<testcase classname="c" name="good" time="1.25"/>'
FAIL = '<testcase classname="c" name="bad"><failure message="why\nnot"/></testcase>'
ERROR = '<testcase classname="c" name="bad"><error/></testcase>'
SKIP = '<testcase classname="c" name="s"><skipped type="pytest.skip" message="no x"/></testcase>'
CTEST = '<testcase classname="unit/x" name="unit/x" status="run" time="2"/>'
CTEST_FAIL = '<testcase classname="unit/x" name="unit/x"><failure message=""/></testcase>'
CTEST_SKIP = (
    '<testcase classname="unit/x" name="unit/x"><skipped message="SKIP_RETURN_CODE=77"/></testcase>'
)
CTEST_MISSING = (
    '<testcase classname="unit/x" name="unit/x"><skipped message="Unable to find executable"/></testcase>'
)


@pytest.fixture
def count(folder, run):
    """count(REPORT, STATUS, single=REPORT of unit/x, NAME=VALUE…): the lines, without the durations."""

    def count_report(report, status, single=None, **environment):
        (folder / "report.xml").write_text(report)
        if single is not None:
            (folder / "unit-x.xml").write_text(f"<testsuite>{single}</testsuite>")
        program = REPOSITORY / "tests/count.py"
        done = run("/usr/bin/python3", "-B", program, "report.xml", status, folder, **environment)
        assert done.returncode == 0, done.stdout
        return [line for line in done.stdout.splitlines() if not line.startswith("took ")]

    return count_report


def suite(*cases):
    return f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>"


@pytest.mark.parametrize(
    ("report", "status", "lines"),
    [
        (suite(PASS), 0, ["1 0 0"]),
        (suite(PASS, FAIL), 1, ["1 1 0", "failed c: bad: why not"]),
        (suite(PASS, FAIL), 0, ["1 1 0", "failed c: bad: why not"]),
        (suite(PASS, ERROR), 1, ["1 1 0", "failed c: bad: see above"]),
        (suite(PASS, SKIP), 0, ["1 0 1", "skipped c: s: no x"]),
        (suite(PASS), 2, ["1 1 0", "failed the runner: status 2, though no test failed"]),
        (suite(), 0, ["0 1 0", "failed the runner: of 0 tests none passed"]),
        (suite(), 5, ["0 1 0", "failed the runner: status 5, though no test failed"]),
        ("", 0, ["0 1 0", "failed the runner: of 0 tests none passed"]),
        ("<testsuites><half", 0, ["0 1 0", "failed the runner: of 0 tests none passed"]),
        (suite(SKIP), 0, ["0 1 1", "skipped c: s: no x", "failed the runner: of 1 tests none passed"]),
        (suite(CTEST_SKIP, PASS), 0, ["1 0 1", "skipped unit/x: SKIP_RETURN_CODE=77"]),
        (suite(CTEST_MISSING, PASS), 0, ["1 1 0", "failed unit/x: Unable to find executable"]),
    ],
    ids=[
        "a pass", "a failure", "a failure, status 0", "an error", "a skip", "only the status",
        "no test", "no test, status 5", "no report", "half a report", "only a skip", "a skip of ctest",
        "no program",
    ],
)
def test_lines(count, report, status, lines):
    assert count(report, status) == lines


@pytest.mark.parametrize(
    ("case", "single", "lines"),
    [
        (CTEST, PASS * 3, ["3 0 0"]),
        (CTEST, PASS + SKIP, ["1 0 1", "skipped c: s: no x"]),
        (CTEST_FAIL, PASS + FAIL, ["1 1 0", "failed c: bad: why not"]),
        (CTEST_FAIL, PASS, ["1 1 0", "failed unit/x: see above"]),
        (CTEST, FAIL, ["0 1 0", "failed c: bad: why not"]),
        (CTEST, "", ["1 0 0"]),
        (CTEST_FAIL, "", ["0 1 0", "failed unit/x: see above"]),
    ],
    ids=[
        "passes", "a skip", "a failure", "a failure that no test reports",
        "a failure, status 0", "no single test", "no single test, a failure",
    ],
)
def test_single_tests(count, case, single, lines):
    assert count(suite(case), 0, single) == lines


def test_skips_where_ci_runs(count):
    refused = ["1 1 0", "failed c: s: skipped, not expected: no x"]
    assert count(suite(PASS, SKIP), 0, CI="true") == refused
    assert count(suite(PASS, SKIP), 0, CI="false")[0] == "1 0 1"


def test_expected_skips():
    assert read_reasons("# why\n\nc: s\n    no x there\nd: t\n\tno y\n") == {
        "c: s": "no x there",
        "d: t": "no y",
    }
    assert read_reasons((REPOSITORY / "tests/expected-skips").read_text()) is not None


@pytest.mark.parametrize("file", ["main", "older", "each-runtime", "unsanitized", "twice", "repeated", "not-on/containerd-2",
                                  "not-on/crio"])
def test_listed_tests_are_there(file):
    """A reader of the list would not know that a test is gone."""
    listed = read_reasons((REPOSITORY / "tests" / file).read_text())
    assert listed
    for name in listed:
        file, _, test = name.partition("::")
        text = (REPOSITORY / "tests" / file).read_text()
        assert not test or f"\ndef {test.partition('[')[0]}(" in text, name


@pytest.mark.parametrize("text", ["c: s\n", "c: s\nd: t\n  why\n", "  why\n"])
def test_unexplained_skips(text):
    with pytest.raises(ValueError, match="reason"):
        read_reasons(text)


AGAIN = '<testcase classname="tests.node.test_x" name="test_a[x@1]@test_x-0"><failure>{}</failure></testcase>'
ALONE = '<testcase classname="tests.node.test_x" name="test_a[x@1]"{}'


@pytest.mark.parametrize(
    ("second", "lines"),
    [
        ("/>", ["2 0 0", "unsteady tests.node.test_x: test_a[x@1]@test_x-0: see above"]),
        ("><failure/></testcase>", ["1 1 0", "failed tests.node.test_x: test_a[x@1]@test_x-0: see above"]),
        ("/>" + ALONE.format("><error/></testcase>"),
         ["1 1 0", "failed tests.node.test_x: test_a[x@1]@test_x-0: see above"]),
    ],
    ids=["passed", "failed again", "failed while it cleaned up"],
)
def test_second_try(count, folder, second, lines):
    (folder / "report.xml.again").write_text(suite(ALONE.format(second)))
    assert count(suite(PASS, AGAIN.format("late")), 1) == lines


@pytest.mark.parametrize(
    ("report", "names"),
    [
        (suite(PASS, AGAIN.format("late")), ["tests/node/test_x.py::test_a[x@1]"]),
        (suite(AGAIN.format("late"), AGAIN.format("also")), ["tests/node/test_x.py::test_a[x@1]"]),
        (suite(AGAIN.format("late"), AGAIN.format("a sanitizer found: …")), []),
        (suite(AGAIN.format("the agent ended by itself with -11")), []),
        (suite(*(AGAIN.format("x").replace("test_a", f"test_{n}") for n in range(6))), []),
        (suite(PASS), []),
    ],
    ids=["one", "twice", "a sanitizer", "a crash", "many", "none"],
)
def test_which_run_once_more(folder, run, report, names):
    (folder / "report.xml").write_text(report)
    done = run("/usr/bin/python3", "-B", REPOSITORY / "tests/count.py", "--again", "report.xml")
    assert (done.returncode, done.stdout.split()) == (0, names)
