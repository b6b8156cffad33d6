#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Event sources are made by agent/base/loop.h alone, so that a handler that fails ends the program.

sd-event by itself switches the source of a failing handler off, and goes on without it.
"""

import re
import sys

import lint

CONSTRUCTOR = re.compile(r"\bsd_event_add_\w+\s*\(|\bsd_event_source_set_exit_on_failure\s*\(")
HOME = "agent/base/loop.c"


def wants(root, name):
    return re.fullmatch(r"(agent|cri)/.*\.[ch]", name) is not None and name != HOME


def check(root, names):
    complaints = []
    for name in names:
        for number, line in enumerate((root / name).read_text(errors="replace").splitlines(), 1):
            found = CONSTRUCTOR.search(line)
            if found and not line.lstrip().startswith(("*", "/*")):
                complaints.append(f"{name}:{number}: {found[0]}...): use agent/base/loop.h")
    return complaints


BAD = {
    "agent/image/pull.c": "        r = sd_event_add_time_relative(event, &pull->retry, 0, 0, 0, f, p);\n",
    "cri/runtimes.c": "        return sd_event_add_io (event, NULL, fd, EPOLLIN, on_io, NULL);\n",
    "agent/pod/stops.c": "        sd_event_source_set_exit_on_failure(source, false);\n",
}
GOOD = {
    "agent/image/pull.c": "        r = loop_add_time(event, &pull->retry, 0, 0, 0, f, p);\n",
    "agent/base/x.h": "/* Parameters as in sd_event_add_io(3). */\n * see sd_event_add_time(3)\n",
}

if __name__ == "__main__":
    sys.exit(lint.main(check, wants, BAD, GOOD))
