#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the structure of agent/ and cri/, and refuses what only grows unnoticed.

    tests/lint/counts.py .

Files, lines, headers with one user, long files and functions are a report for reviewers: files follow
ideas, not line counts. A complaint is a cycle between files, an -internal header, by which a module is cut
where it is one, and a source that docs/ARCHITECTURE.md names and that is not there.

A file is a node of the include graph together with its own header. Functions are counted from the first
line of the signature to the closing brace. It relies on the layout that format.py enforces: what starts
in the first column is at file level.
"""

import collections
import pathlib
import re
import sys
from typing import NamedTuple

import lint

FUNCTION_LIMIT = 60
FILE_LIMIT = 800
ARCHITECTURE = "docs/ARCHITECTURE.md"
# A header with one user and no test, and why that is right.
ENTRIES = {"agent/agent.h": "main.c starts, reloads and ends the whole agent by it; tests/node and tests/cluster run it"}

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
PROTOTYPE = re.compile(r"^(?!typedef\b|static\b)[A-Za-z_][\w\s*]*?\b\w+\([^;{}()]*(?:\([^;{}()]*\)[^;{}()]*)*\);", re.M)


class Source(NamedTuple):
    lines: list[str]
    includes: set[str]  # files of ours


def wants(root, name):
    return name == ARCHITECTURE or re.fullmatch(r"(agent|cri|tests)/.*\.[ch]", name) is not None


def is_product(name):
    return name.startswith(("agent/", "cri/"))


def read_sources(root, names):
    texts = {n: (root / n).read_text(errors="replace") for n in names if n.endswith((".c", ".h"))}
    return {
        name: Source(text.splitlines(), {i for i in INCLUDE.findall(text) if i in texts})
        for name, text in texts.items()
    }


# Length


def list_functions(lines):
    """Yields the number of the first line and the length of each function."""
    start, head = None, ""
    for number, line in enumerate(lines, 1):
        if start is None:
            if re.match(r"[A-Za-z_]", line) and not re.match(r"\w+:$", line):
                start, head = number, ""
            else:
                continue
        if line == "}" and "(" in head:
            yield start, number - start + 1
            start = None
        elif re.match(r"\}", line) or (not opens_function(head) and line.endswith(";")):
            start = None
        elif not opens_function(head):
            head += line


def opens_function(head):
    return re.search(r"\)[^=;]*\{$", head) is not None


def long_functions(sources):
    for name, source in sources.items():
        for number, length in list_functions(source.lines):
            if length > FUNCTION_LIMIT:
                yield f"{name}:{number}: {length} lines"


def long_files(sources):
    for name, source in sources.items():
        if len(source.lines) > FILE_LIMIT:
            yield f"{name}: {len(source.lines)}"


# Headers


def stem(name):
    return name.rsplit(".", 1)[0]


def users_of(sources, header):
    """The product's files that include it, without its own .c."""
    return [n for n, s in sources.items() if header in s.includes and is_product(n) and stem(n) != stem(header)]


def is_tested(sources, header):
    return any(header in source.includes for name, source in sources.items() if not is_product(name))


def headers_with_one_user(sources):
    for header in sources:
        if is_product(header) and header.endswith(".h") and header not in ENTRIES and not is_tested(sources, header):
            users = users_of(sources, header)
            if len(users) == 1:
                yield f"{header}: {users[0]}"


def internal_headers(sources):
    for header, source in sources.items():
        if is_product(header) and header.endswith("-internal.h"):
            exported = len(PROTOTYPE.findall("\n".join(source.lines)))
            yield f"{header}: {len(users_of(sources, header))} users, {exported} functions"


# Cycles


def include_graph(sources):
    graph = collections.defaultdict(set)
    for name, source in sources.items():
        if is_product(name):
            graph[stem(name)] |= {stem(i) for i in source.includes} - {stem(name)}
    return graph


def reachable(graph, start):
    found, rest = set(), [start]
    while rest:
        for node in graph.get(rest.pop(), ()):
            if node not in found:
                found.add(node)
                rest.append(node)
    return found


def list_cycles(graph):
    """The strongly connected parts of more than one node, sorted."""
    reach = {node: reachable(graph, node) for node in graph}
    circling = {node for node in graph if node in reach[node]}
    parts = {frozenset(m for m in reach[node] if node in reach[m]) for node in circling}
    return sorted(sorted(part) for part in parts)


# The architecture page


def named_sources(text):
    """Files that it names as `file.c`, `file.h`, `folder/file.c`; not patterns."""
    return sorted(set(re.findall(r"`((?:[\w.-]+/)*[\w.-]+\.[ch])`", text)))


def missing_sources(text, sources):
    for named in named_sources(text):
        if not any(f"/{name}".endswith(f"/{named}") for name in sources):
            yield named


def check(root, names):
    sources = read_sources(root, names)
    complaints = [
        f"a cycle between files: {', '.join(cycle)}"
        for cycle in list_cycles(include_graph(sources))
    ]
    complaints += [f"a header of parts of one module: {header}" for header in internal_headers(sources)]
    if ARCHITECTURE in names:
        text = (root / ARCHITECTURE).read_text()
        complaints += [f"{ARCHITECTURE}: there is no {name}" for name in missing_sources(text, sources)]
    return complaints


# The report


def by_folder(sources):
    folders = collections.defaultdict(list)
    for name in sources:
        folders["all of it"].append(name)
        folders[name.rsplit("/", 1)[0]].append(name)
    for folder, names in sorted(folders.items()):
        n_c = sum(name.endswith(".c") for name in names)
        lines = sum(len(sources[name].lines) for name in names)
        yield f"{folder}: {n_c} .c, {len(names) - n_c} .h, {lines} lines"


def report(root, names):
    """Yields titles, each with what it counts."""
    sources = read_sources(root, names)
    product = {name: source for name, source in sources.items() if is_product(name)}
    cycles = list_cycles(include_graph(sources))
    yield "files", product, by_folder(product)
    for title, found in (
        (f"files longer than {FILE_LIMIT} lines", long_files(product)),
        (f"functions longer than {FUNCTION_LIMIT} lines, also in tests", long_functions(sources)),
        ("headers with one user and no test", headers_with_one_user(sources)),
        ("-internal headers", internal_headers(sources)),
        ("cycles between files", (", ".join(cycle) for cycle in cycles)),
    ):
        listed = list(found)
        yield title, listed, listed


def print_report(root):
    names = [name for name in lint.list_files(root) if wants(root, name)]
    for title, counted, lines in report(root, names):
        print(f"{title}: {len(counted)}")
        for line in lines:
            print(f"    {line}")


def sources_in_a_row(*includes):
    """Headers of which each includes the next ones that are given for it."""
    return {name: "".join(f'#include "{i}"\n' for i in more) for name, *more in includes}


BAD = {
    "two": sources_in_a_row(("agent/a/x.h", "agent/a/y.h"), ("agent/a/y.h", "agent/a/x.h")),
    "three": sources_in_a_row(
        ("agent/a/x.c", "agent/b/y.h"), ("agent/b/y.h", "cri/z.h"), ("cri/z.h", "agent/a/x.h"), ("agent/a/x.h",)
    ),
    "private header": sources_in_a_row(
        ("agent/a/x.c", "agent/a/x-internal.h"), ("agent/a/y.c", "agent/a/x-internal.h"), ("agent/a/x-internal.h",)
    ),
    "no file": {ARCHITECTURE: "Open `node/gone.c`.\n", "agent/pod/gone.c": ""},
}
GOOD = {
    "own header": sources_in_a_row(("agent/a/x.c", "agent/a/x.h"), ("agent/a/x.h",)),
    "two ways": sources_in_a_row(("agent/a/x.c", "cri/y.h", "cri/z.h"), ("cri/y.h", "cri/z.h"), ("cri/z.h",)),
    "a file": {ARCHITECTURE: "`a/x.c`, `x.c`, `*-plan.c`, `other.py`\n", "agent/a/x.c": ""},
}

if __name__ == "__main__":
    print_report(pathlib.Path(sys.argv[1]).resolve())
    sys.exit(lint.main(check, wants, BAD, GOOD))
