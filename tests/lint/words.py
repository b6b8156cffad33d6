#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The project works on any machine: it names no home folder, checkout or package archive; its messages have one
style of quotes and are made by text_format(), its files have plain names, and the rows of tables in its pages stand
on lines of their own.

Tests and scripts find their files from where they are, keep scratch files in a folder made for the
run, and install packages from whatever archive the machine is set up with.
"""

import re
import sys

import lint

RULES = [
    (r"(?<![\w$}./)<-])/(home|Users|work|workspace|builds?)/\w", "a path of one machine"),
    (r"(?<![\w$}./)<-])/root/(?!\.docker)\w", "a path of one machine"),
    (r"(?<![\w$}./)<-])/(var/)?tmp/(?!\S*XXXXXX)\w", "a fixed name in a folder that all share; use mktemp -d"),
    (r"https?://[\w.-]*\b(deb|archive|security|snapshot|ports)\.(debian|ubuntu)\.", "an archive"),
    (r"https?://[\w.-]*\b(pypi\.org|pythonhosted\.org|npmjs\.(org|com)|crates\.io)", "an archive"),
    (r"https?://(proxy|sum)\.golang\.org", "an archive"),
]
PLAIN_NAME = re.compile(r"[\w./@+-]+")
# Names in messages of the programs stand between double quotes, as quote() puts them.
PROGRAMS = ("agent/", "cri/")
PROGRAM_RULES = [
    (r"['`](%(\.\*)?s|-%c)", "a name in a message; it stands between double quotes"),
    (r"\bv?asprintf\((?!\))", "glibc's writes behind its room when it has no memory; text_format() does not"),
]
PAGE_RULES = [(r"^[^|].* \| \|", "two rows of a table; each begins a line")]
NOT_TEXT = ("tests/corpus/", "tests/fuzz/corpus/")
OWN_NAME = "tests/lint/words.py"


def wants(root, name):
    return name != OWN_NAME and not name.startswith(NOT_TEXT)


def check(root, names):
    complaints = []
    for name in names:
        if not PLAIN_NAME.fullmatch(name):
            complaints.append(f'"{name}": the name of a file consists of letters, digits and ._@+-')
        rules = RULES + PROGRAM_RULES * name.startswith(PROGRAMS) + PAGE_RULES * name.endswith(".md")
        for number, line in enumerate((root / name).read_text(errors="replace").splitlines(), 1):
            for pattern, reason in rules:
                found = re.search(pattern, line)
                if found:
                    complaints.append(f'{name}:{number}: "{found[0]}": {reason}')
    return complaints


BAD = {
    "home.py": 'open("/home/jo/inplaced")\n',
    "root.sh": "cd /root/inplaced\n",
    "scratch.sh": "touch /tmp/inplaced.log\n",
    "archive.sh": "mmdebstrap bookworm DIR http://deb.debian.org/debian\n",
    "index.txt": "see https://pypi.org/project/x\n",
    "agent/x.c": 'log_info(log, NULL, "Pulled `%s`.", reference);\n',
    "docs/roles.md": "reads pods | all of them | | writes pods | its own |\n",
    "<lab.Folder object>/cache.json": "{}\n",
    "cri/t.c": 'if (asprintf(&text, "%s", name) < 0)\n',
    "cri/y.c": "return error_set(reterr, ERROR_INVALID, \"unknown command '%s'\", name);\n",
}
GOOD = {
    "agent/x.c": 'log_info(log, NULL, "Pulled \\"%s\\".", reference);\n',
    "config.toml": 'root = "$L/root/io" # and {folder}/tmp/x\n',
    "test-x.c": 'strcpy(folder, "/tmp/test-XXXXXX");\n',
    "docs/roles.md": "| reads | all | |\n",
    "README.md": "an image such as docker.io/library/nginx, /root/.docker/config.json, /tmp\n",
}

if __name__ == "__main__":
    sys.exit(lint.main(check, wants, BAD, GOOD))
