# SPDX-License-Identifier: Apache-2.0
"""A C test program counts by what cmocka reports."""

import xml.etree.ElementTree as ET

import pytest

from cmocka import Reader
from conftest import REPOSITORY

TWO = ["1..2", "ok 1 - a", "ok 2 - b"]

PROGRAM = r"""
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *mode;

static void test_pass(void **state) {
        printf("a line without its end ");
}

static void test_skip(void **state) {
        skip();
}

static void test_fault(void **state) {
        if (strcmp(mode, "fail") == 0)
                fail();
        if (strcmp(mode, "exit") == 0)
                exit(0);
        if (strcmp(mode, "abort") == 0)
                abort();
}

int main(int argc, char **argv) {
        const struct CMUnitTest first[] = {
                cmocka_unit_test(test_pass),
                cmocka_unit_test(test_fault),
                cmocka_unit_test(test_skip),
        };
        const struct CMUnitTest second[] = { cmocka_unit_test(test_pass) };

        mode = MODE;
        if (strcmp(mode, "none") == 0)
                return 0;
        (void) cmocka_run_group_tests(first, NULL, NULL);
        return cmocka_run_group_tests(second, NULL, NULL);
}
"""


@pytest.mark.parametrize(
    ("lines", "status", "verdicts"),
    [
        (TWO, 0, ["passed", "passed"]),
        (["1..2", "ok 1 - a", "not ok 2 - b"], 1, ["passed", "failed"]),
        (["1..2", "ok 1 - a", "not ok 2 # SKIP b"], 0, ["passed", "skipped"]),
        ([], 0, ["failed"]),
        (["1..0"], 0, ["failed"]),
        (["1..2", "ok 1 - a"], 0, ["passed", "failed"]),
        (["1..2", "ok 1 - a", *TWO], 0, ["passed", "failed", "passed", "passed"]),
        (["1..2", "ok 1 - a", "not ok 2 - b", *TWO], 0, ["passed", "failed", "passed", "passed"]),
        (TWO, 1, ["passed", "passed", "failed"]),
        (TWO, -11, ["passed", "passed", "failed"]),
        (["1..1", "not ok 0 - u [  FAILED  ] GROUP SETUP"], 1, ["failed", "failed"]),
        ([*TWO, "not ok 0 - u [  FAILED  ] GROUP TEARDOWN"], 0, ["passed", "passed", "failed"]),
        (["1..1", "half a line ok 1 - a"], 0, ["passed"]),
        (["1..1", "ok 7 - of another one", "ok 1 - a"], 0, ["passed"]),
    ],
)
def test_verdicts(lines: list[str], status: int, verdicts: list[str]) -> None:
    reader = Reader()
    for line in lines:
        reader.take(line, 0)
    assert [case.verdict for case in reader.end(status)] == verdicts


@pytest.mark.parametrize(
    ("mode", "status", "counts"),
    [
        ("pass", 0, (3, 0, 1)),
        ("fail", 1, (2, 1, 1)),
        ("exit", 1, (1, 1, 0)),
        ("abort", 1, (1, 1, 0)),
        ("none", 1, (0, 1, 0)),
    ],
)
def test_real_program(folder, run, mode, status, counts):
    """A cmocka program's own exit status is 0 but for "abort"."""
    (folder / "test.c").write_text(PROGRAM)
    built = run("gcc", f'-DMODE="{mode}"', "-o", "test-it", "test.c", "-lcmocka")
    assert built.returncode == 0, built.stdout

    done = run(REPOSITORY / "tests/cmocka.py", "unit/it", "./test-it", INPLACED_REPORTS=str(folder))
    assert done.returncode == status, done.stdout
    suite = ET.parse(folder / "unit-it.xml").getroot()
    n_failed, n_skipped = (len(suite.findall(f"*/{tag}")) for tag in ("failure", "skipped"))
    assert (len(suite) - n_failed - n_skipped, n_failed, n_skipped) == counts, done.stdout
