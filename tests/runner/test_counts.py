# SPDX-License-Identifier: Apache-2.0
"""counts.py counts files and lines, and fails only for a cycle, an -internal header and a missing file."""

import pytest

from conftest import REPOSITORY

LONG = "int f(void) {\n" + "        call();\n" * 59 + "}\n"


@pytest.fixture
def count(folder, run):
    """count({FILE: TEXT}): the output of the program about these files, and its exit status."""

    def count_files(files):
        for name, text in files.items():
            path = folder / "tree" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = run("/usr/bin/python3", "-B", REPOSITORY / "tests/lint/counts.py", folder / "tree")
        return done.stdout.splitlines(), done.returncode

    return count_files


def include(*names):
    return "".join(f'#include "{name}"\n' for name in names)


def listed(lines, title):
    """The number behind the title, and the lines below it."""
    start = next(i for i, line in enumerate(lines) if line.startswith(f"{title}: "))
    below = []
    for line in lines[start + 1 :]:
        if not line.startswith("    "):
            break
        below.append(line.strip())
    return int(lines[start].rpartition(" ")[2]), below


def test_files_and_lines(count):
    lines, status = count({"agent/a/x.c": "int a;\n" * 801, "cri/y.h": "int b;\n", "tests/unit/z.c": "int c;\n"})
    assert status == 0
    assert listed(lines, "files") == (
        2, ["agent/a: 1 .c, 0 .h, 801 lines", "all of it: 1 .c, 1 .h, 802 lines", "cri: 0 .c, 1 .h, 1 lines"]
    )
    assert listed(lines, "files longer than 800 lines") == (1, ["agent/a/x.c: 801"])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (LONG, ["agent/x.c:1: 61 lines"]),
        (LONG.replace("f(void)", "f(int a,\n      int b)").replace("        call();\n", "", 1), ["agent/x.c:1: 61 lines"]),
        (LONG.replace("        call();\n", "", 1), []),
        ("static const int t[] = {\n" + "        1,\n" * 70 + "};\n" + LONG, ["agent/x.c:73: 61 lines"]),
        ("typedef struct T {\n" + "        int (*f)(void);\n" * 70 + "} T;\n", []),
    ],
    ids=["long", "wrapped", "just", "after-a-table", "type"],
)
def test_long_functions(count, text, found):
    lines, status = count({"agent/x.c": text})
    assert status == 0
    assert listed(lines, "functions longer than 60 lines, also in tests") == (len(found), found)


def test_headers_with_one_user(count):
    lines, _ = count({
        "agent/one.h": "", "agent/one.c": include("agent/one.h"),
        "agent/tested.h": "", "agent/two.h": "", "agent/none.h": "",
        "agent/a.c": include("agent/one.h", "agent/tested.h", "agent/two.h"),
        "agent/b.c": include("agent/two.h"),
        "tests/unit/test-tested.c": include("agent/tested.h"),
    })
    assert listed(lines, "headers with one user and no test") == (1, ["agent/one.h: agent/a.c"])


def test_internal_headers(count):
    header = """typedef int (*Handler)(void);
typedef struct A {
        int (*f)(void);
} A;

int a_begin(A *a, void (*f)(int number),
            int n);
const char *a_name(const A *a);
static inline int a_size(void);
"""
    lines, status = count({
        "agent/a-internal.h": header, "agent/b.c": include("agent/a-internal.h"), "agent/c.c": include("agent/a-internal.h"),
    })
    assert listed(lines, "-internal headers") == (1, ["agent/a-internal.h: 2 users, 2 functions"])
    assert status == 1


def test_cycle(count):
    lines, status = count({
        "agent/a/x.c": include("agent/a/x.h", "agent/b/y.h"), "agent/a/x.h": "",
        "agent/b/y.h": include("agent/c/z.h"), "agent/c/z.h": include("agent/a/x.h"),
        "agent/d.c": include("agent/a/x.h"),
    })
    assert listed(lines, "cycles between files") == (1, ["agent/a/x, agent/b/y, agent/c/z"])
    assert "a cycle between files: agent/a/x, agent/b/y, agent/c/z" in lines
    assert status == 1


def test_page_names_a_file_that_is_not_there(count):
    files = {"docs/ARCHITECTURE.md": "`a/x.c`, then `x.c` and `gone.c`", "agent/a/x.c": ""}
    lines, status = count(files)
    assert "docs/ARCHITECTURE.md: there is no gone.c" in lines
    assert status == 1
