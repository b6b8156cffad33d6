# SPDX-License-Identifier: Apache-2.0
"""The mistakes that tests/mutation/run makes."""

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

import pytest

from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests" / "mutation"))

from mutations import apply, choose, list_mutations  # noqa: E402


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("        if (a < b && c)", {"        if (a <= b && c)", "        if (a < b || c)"}),
        ("        if (!a)", {"        if (a)"}),
        ("        call(a, 1);", {"        call(a, 2);", "        ;"}),
        ("        a->b = c;", {"        ;"}),
        ("        *a = b;", {"        ;"}),
        ("        if (a &&", {"        if (a ||"}),
        ("        return 0;", {"        return -EINVAL;", "        return 1;"}),
        # Neither texts nor comments nor declarations, and no pointers.
        ('        f("a < 1", x) /* 2 */', set()),
        ("        char *a = b;", set()),
        ("        /* a == 1 */", set()),
        ("#define A 1", set()),
    ],
)
def test_kinds(line, after):
    text = f"int f(void) {{\n{line}\n}}\n"
    assert {one.after for one in list_mutations(text)} == after
    for one in list_mutations(text):
        assert apply(text, one) == f"int f(void) {{\n{one.after}\n}}\n"


def test_a_comment_of_several_lines():
    assert list_mutations("        /* a == 1\n         * and b == 2 */\n") == []


def test_the_seed_decides():
    texts = {"a.c": "        a = b + 1;\n        return 0;\n", "b.c": "        c == d;\n"}
    assert list(choose(texts, 7)) == list(choose(texts, 7)) != list(choose(texts, 8))
    assert sorted(choose(texts, 7)) == sorted(choose(texts, 8))


def test_verdicts_are_read_again(tmp_path):
    loader = SourceFileLoader("mutation_run", str(REPOSITORY / "tests" / "mutation" / "run"))
    program = module_from_spec(spec_from_loader(loader.name, loader))
    sys.modules[loader.name] = program
    loader.exec_module(program)
    verdicts = tmp_path / "verdicts"
    assert program.read_verdicts(verdicts) == program.read_verdicts(None) == {}
    verdicts.write_text("missed\ta.c:1: b  ->  c\nnoticed\ta.c:2: d  ->  e\nnoti")
    assert program.read_verdicts(verdicts) == {"a.c:1: b  ->  c": "missed", "a.c:2: d  ->  e": "noticed"}
    assert verdicts.read_text().endswith("e\n")
