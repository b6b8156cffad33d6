#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Python programs compile, without a warning, for the Python that runs this."""

import sys
import warnings

import lint


def wants(root, name):
    return name.endswith(".py") or lint.is_script(root, name, "python3")


def check(root, names):
    complaints = []
    for name in names:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                compile((root / name).read_text(), name, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            complaints.append(f"{name}:{getattr(error, 'lineno', 1)}: {error}")
    return complaints


BAD = {"syntax.py": "def f(:\n", "escape.py": "pattern = '\\d'\n"}
GOOD = {"good.py": "print(f'{1}')\n"}

if __name__ == "__main__":
    sys.exit(lint.main(check, wants, BAD, GOOD))
