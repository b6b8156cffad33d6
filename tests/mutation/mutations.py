# SPDX-License-Identifier: Apache-2.0
"""Small mistakes in C sources, of the kinds that people make. Pure."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
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
# A call or an assignment that fills a line by itself.
_STATEMENT = re.compile(r"^\s+(?!return\b|break;|continue;|goto\b|case\b|cleanup\()[\w*>.\[\]()-]+(\(.*\)| \S?= .*);$")
_DECLARATION = re.compile(r"^\s+(const |static |struct |unsigned |enum )*[A-Za-z_]\w* \**\w+( =|;|,|\[)")
_NOISE = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|/\*.*?\*/')


class Mutation(NamedTuple):
    line: int  # from 1
    before: str
    after: str


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
        for value in _NUMBER.finditer(code):
            changed.append(line[: value.start()] + str(int(value[0]) + 1) + line[value.end() :])
        if _STATEMENT.match(code) and not _DECLARATION.match(code):
            changed.append(line[: len(line) - len(line.lstrip())] + ";")
        found += [Mutation(number, line.strip(), after) for after in changed]
    return found


def apply(text: str, mutation: Mutation) -> str:
    lines = text.splitlines(keepends=True)
    lines[mutation.line - 1] = mutation.after + "\n"
    return "".join(lines)


def choose(texts: dict[str, str], seed: int) -> Iterator[tuple[str, Mutation]]:
    """All mutations of the files, each once, in the order of the seed."""
    everything = [(name, one) for name in sorted(texts) for one in list_mutations(texts[name])]
    random.Random(seed).shuffle(everything)
    yield from everything
