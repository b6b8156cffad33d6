#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Shell scripts are clean for shellcheck."""

import sys

import lint


def wants(root, name):
    return name.endswith(".sh") or lint.is_script(root, name, "bash", "sh")


def check(root, names):
    if not names:
        return []
    return lint.run_tool(root, ["shellcheck", "--external-sources", "--format=gcc", *names])


BAD = {"bad.sh": "#!/bin/bash\ncd $1\nrm -r $2/*\n"}
GOOD = {"good.sh": '#!/bin/bash\necho "$1"\n'}

if __name__ == "__main__":
    sys.exit(lint.main(check, wants, BAD, GOOD))
