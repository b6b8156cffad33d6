# SPDX-License-Identifier: Apache-2.0
"""The mistakes that tests/mutation/run makes."""

import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

import pytest

from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests" / "mutation"))

from mutations import Mutation, choose, find_functions, list_mutations, switch  # noqa: E402


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("        if (a < b && c)", {"        if (a <= b && c)", "        if (a < b || c)"}),
        ("        if (!a)", {"        if (a)"}),
        ("        call(a, 1);", {"        call(a, 2);", "        ;"}),
        ("        a->b = c;", {"        ;"}),
        ("        *a = b;", {"        ;"}),
        ("        if (a &&", {"        if (a ||"}),
        ("        return 0;", {"        return -EINVAL;"}),
        ("        a = calloc(n + 1, 2);", {"        a = calloc(n - 1, 2);", "        ;"}),
        ("        char text[8 + N]; /* 1 */", {"        char text[8 - N]; /* 1 */"}),
        ("        n = sizeof(a[0]) / b[0];", {"        n = sizeof(a[0]) / b[1];", "        ;"}),
        # An object that ends here began on a line above.
        ("        .b = c };", set()),
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


def test_a_comment_of_several_lines():
    assert list_mutations("        /* a == 1\n         * and b == 2 */\n") == []


def test_the_seed_decides():
    texts = {"a.c": "int f(void) {\n        a = b + 1;\n        return 0;\n}\n", "b.c": "void g(void) {\n        c == d;\n}\n"}
    assert list(choose(texts, 7)) == list(choose(texts, 7)) != list(choose(texts, 8))
    assert sorted(choose(texts, 7)) == sorted(choose(texts, 8))


_PROGRAM = """
#include <errno.h>
#include <stdio.h>

static const int table[] = {
        1,
        2,
};

static int classify(int value,
                    int limit) {
        switch (value) {
        case 1:
                return 10;
        case 3: return 11;
        case 5: break;
        default:
                break;
        }
        if (value > limit)
                return 20;
        else if (value == limit)
                return 30;
        return table[1];
}

static void print(int value) {
        printf("%d\\n", classify(value, 5));
}

int main(void) {
        print(1);
        print(5);
        return 0;
}
"""


def test_each_mistake_can_be_switched_on(tmp_path):
    mistakes = dict(enumerate((one for _, one in choose({"p.c": _PROGRAM}, 1)), 1))
    assert len(mistakes) > 10
    assert [_PROGRAM.splitlines()[one.start - 1].strip() for one in find_functions(_PROGRAM)] == [
        "int limit) {", "static void print(int value) {", "int main(void) {"]
    assert [one.is_void for one in find_functions(_PROGRAM)] == [False, True, False]
    source, program, executed = tmp_path / "p.c", tmp_path / "p", tmp_path / "executed"
    source.write_text(switch(_PROGRAM, mistakes)[0])
    header = REPOSITORY / "tests" / "mutation" / "mistake.h"
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-include", header, "-o", program, source], check=True)

    def run(**environment):
        done = subprocess.run([program], env=environment, stdout=subprocess.PIPE, text=True)
        return done.stdout, done.returncode

    executed.write_bytes(bytes(len(mistakes) + 1))
    assert run(INPLACED_EXECUTED=str(executed)) == ("10\n30\n", 0)
    told = {number for number, byte in enumerate(executed.read_bytes()) if byte}
    for number, one in mistakes.items():
        changed = _PROGRAM.splitlines()
        changed[one.line - 1] = one.after
        source.write_text("\n".join(changed))
        subprocess.run(["gcc", "-w", "-o", tmp_path / "alone", source], check=True)
        alone = subprocess.run([tmp_path / "alone"], stdout=subprocess.PIPE, text=True)
        assert run(INPLACED_MISTAKE=str(number)) == (alone.stdout, alone.returncode), one
        assert number in told or (alone.stdout, alone.returncode) == ("10\n30\n", 0)
    assert {mistakes[number].before for number in mistakes.keys() - told} == {"return table[1];"}


def test_a_mistake_that_does_not_compile_has_its_lines():
    made, owners = switch(_PROGRAM, {3: Mutation(19, "if (value > limit)", "        if (value > )")})
    assert [owners.get(at) for at, line in enumerate(made.splitlines(), 1) if "> )" in line] == [3]
    assert [owners.get(at) for at, line in enumerate(made.splitlines(), 1) if "mistake_executed" in line] == [-3]


def load_program():
    loader = SourceFileLoader("mutation_run", str(REPOSITORY / "tests" / "mutation" / "run"))
    program = module_from_spec(spec_from_loader(loader.name, loader))
    sys.modules[loader.name] = program
    loader.exec_module(program)
    return program


def test_who_judges():
    program = load_program()
    tests = [program.Test(name, 1, executed) for name, executed in (
        ("f[1]", {7, 1, 2, 3}), ("f[2]", {7, 1}), ("f[3]", {1}), ("g", {7, 1, 2}), ("h", {7}))]
    assert [one.name for one in program.select(tests, 7, 3)] == ["h", "f[2]", "g"]
    assert [one.name for one in program.select(tests, 7, 9)] == ["h", "f[2]", "g", "f[1]"]
    assert program.select(tests, 8, 9) == []


@pytest.mark.parametrize(
    ("failures", "verdict"),
    [
        ([None], None),
        (["time limit"], "time limit"),
        (["a", "a"], "a"),
        (["a", None, "c", "c"], "c"),
        (["a", "time limit"], "a"),
        (["b", None, None], None),
        (["c", None], None),
    ],
)
def test_a_test_of_whole_programs_has_to_fail_twice(monkeypatch, failures, verdict):
    program = load_program()
    left = list(failures)
    monkeypatch.setattr(program, "find_failure", lambda *_: left.pop(0))
    tests = [program.Test(name, 1, {7}) for name in "abc"]
    assert program.is_noticed_by_whole(REPOSITORY, 7, tests, {}) == verdict
    assert left == []


def test_verdicts_are_read_again(tmp_path):
    program = load_program()
    verdicts = tmp_path / "verdicts"
    assert program.read_verdicts(verdicts) == program.read_verdicts(None) == {}
    verdicts.write_text("missed\ta.c:1: b  ->  c\nnoticed\ta.c:2: d  ->  e\nnoti")
    assert program.read_verdicts(verdicts) == {"a.c:1: b  ->  c": "missed", "a.c:2: d  ->  e": "noticed"}
    assert verdicts.read_text().endswith("e\n")


def test_what_is_harmless_is_in_the_sources():
    """Each names one mistake, wherever it stands."""
    program = load_program()
    harmless = program.read_harmless()
    names = {line.split(":")[0] for line in harmless}
    every = [(name, one) for name in names for one in list_mutations((REPOSITORY / name).read_text())]
    found = [program.identify(*one) for one in every if program.identify(*one) in harmless]
    assert sorted(found) == sorted(harmless)
