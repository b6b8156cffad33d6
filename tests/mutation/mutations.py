# SPDX-License-Identifier: Apache-2.0
"""Small mistakes in C sources, of the kinds that people make. Pure."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

# Each token and its mutations. The spaces belong to it: they tell an operator from a pointer or a sign.
_SWAPS = {
    " < ": " <= ",
    " <= ": " < ",
    " > ": " >= ",
    " >= ": " > ",
    " == ": " != ",
    " != ": " == ",
    " && ": " || ",
    " || ": " && ",
    " + ": " - ",
    " - ": " + ",
    "(!": "(",
    "true": "false",
    "false": "true",
    "continue;": "break;",
    "return 0;": "return -EINVAL;",
    "++": "--",
}
_TOKENS = re.compile("|".join(rf"\b{re.escape(t)}" if t[0].isalpha() else re.escape(t) for t in _SWAPS))
_NUMBER = re.compile(r"(?<![\w.\"'])(\d+)(?![\w.\"'])")
# Numbers that do not matter: of one item more in a buffer, of another item of the same size, or of success where the
# caller asks whether it is negative.
_ANY = re.compile(r"\bsizeof\([^()]*\)|\bchar \w+\[[^]]*\]|\b(malloc|calloc|realloc|reallocarray)\(.*|\breturn \d+;")
# A call or an assignment that fills a line by itself.
_STATEMENT = re.compile(r"^\s+(?!return\b|break;|continue;|goto\b|case\b|cleanup\()[\w*>.\[\]()-]+(\(.*\)| \S?= .*);$")
_DECLARATION = re.compile(r"^\s+(const |static |struct |unsigned |enum )*[A-Za-z_]\w* \**\w+( =|;|,|\[)")
_VOID = re.compile(r"(static |inline )*void \w")
_BODY = re.compile(r"\)( _\w+)* \{$")
# Lines after which a statement can stand.
_LABEL = re.compile(r"\s+(case\b.*|default):")
_END = re.compile(r"[;}]$|^(?!.*\bswitch \().*(\)|\belse|\bdo) \{$")
_NOISE = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|/\*.*?\*/')


class Mutation(NamedTuple):
    line: int  # from 1
    before: str
    after: str


class Function(NamedTuple):
    start: int  # line of its first brace
    end: int
    is_void: bool

    def has(self, line: int) -> bool:
        return self.start < line < self.end


def _blank(found: re.Match[str]) -> str:
    return "\0" * len(found[0])


def _code_lines(text: str) -> Iterator[tuple[int, str, str]]:
    """Number, text, and the text with strings and comments blanked, of the lines inside functions."""
    in_comment = False
    for number, line in enumerate(text.splitlines(), 1):
        code = _NOISE.sub(_blank, line)
        if in_comment:
            in_comment = "*/" not in code
            continue
        if "/*" in code:
            in_comment = True
            continue
        if code.startswith(" ") and not code.lstrip().startswith(("#", "{ ", "[")):
            yield number, line, code


def list_mutations(text: str) -> list[Mutation]:
    """All of them that this knows, of one file."""
    found = []
    for number, line, code in _code_lines(text):
        changed = []
        for token in _TOKENS.finditer(code + " "):  # a condition that goes on below ends with its operator
            changed.append((line[: token.start()] + _SWAPS[token[0]] + line[token.end() :]).rstrip())
        for value in _NUMBER.finditer(_ANY.sub(_blank, code)):
            changed.append(line[: value.start()] + str(int(value[0]) + 1) + line[value.end() :])
        if _STATEMENT.match(code) and not _DECLARATION.match(code) and code.count("{") == code.count("}"):
            changed.append(line[: len(line) - len(line.lstrip())] + ";")
        found += [Mutation(number, line.strip(), after) for after in changed]
    return found


def find_functions(text: str) -> list[Function]:
    found, head, start = [], "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if start > 0 and line.startswith("}"):
            found.append(Function(start, number, _VOID.match(head) is not None))
            head, start = "", 0
        elif start == 0 and (head or line[:1].isalpha() or line.startswith("_")):
            head = line if line[:1].isalpha() or line.startswith("_") else head + line
            if _BODY.search(line) and " = " not in head:
                start = number
            elif line.endswith(("{", ";")):
                head = ""
    return found


def _find_place(lines: list[str], code: dict[int, str], start: int, line: int) -> int:
    """The line after which a statement can stand that is executed whenever the line is; the function's first if none is
    seen, which may be executed more often."""
    if not _LABEL.match(code[line]):
        for above in range(line - 1, start, -1):
            ends = code.get(above, "").rstrip()
            follows = lines[above].strip()
            if (_LABEL.match(ends) and ends.endswith(":")) or (_END.search(ends) and not follows.startswith("else")):
                return above
    return start


def switch(text: str, mistakes: dict[int, Mutation], unsure: Collection[int] = ()) -> tuple[str, dict[int, int]]:
    """The text in which a function makes the mistake of a number if mistake.h says so, and tells of those that it could
    have made; and the number for which a line is there, negative where it tells.

    A function gets its whole body once more for each of its mistakes, so that any of them will do. Of those in `unsure`
    it tells when it begins.
    """
    lines = text.splitlines()
    code = {number: line for number, _, line in _code_lines(text)}
    made: list[str] = []
    owners: dict[int, int] = {}

    def add(line: str, owner: int | None = None) -> None:
        made.append(line)
        if owner is not None:
            owners[len(made)] = owner

    done = 0
    for function in find_functions(text):
        start, end, is_void = function
        for line in lines[done:start]:
            add(line)
        inside = {number: one for number, one in mistakes.items() if function.has(one.line)}
        places: dict[int, list[int]] = {}
        for number, one in inside.items():
            place = start if number in unsure else _find_place(lines, code, start, one.line)
            places.setdefault(place, []).append(number)
        for number, one in inside.items():
            add(f"        if (mistake_is({number})) {{", number)
            for at in range(start + 1, end):
                add(one.after if at == one.line else lines[at - 1], number)
            add("        return; }" if is_void else "        __builtin_trap(); }", number)
        for at in range(start, end):
            if at > start:
                add(lines[at - 1])
            for number in places.get(at, ()):
                add(f"        mistake_executed({number});", -number)
        done = end - 1
    for line in lines[done:]:
        add(line)
    return "\n".join(made) + "\n", owners


def choose(texts: dict[str, str], seed: int) -> Iterator[tuple[str, Mutation]]:
    """All mutations inside functions, each once, in the order of the seed."""
    everything = []
    for name in sorted(texts):
        functions = find_functions(texts[name])
        everything += [(name, one) for one in list_mutations(texts[name]) if any(f.has(one.line) for f in functions)]
    random.Random(seed).shuffle(everything)
    yield from everything
