# SPDX-License-Identifier: Apache-2.0
"""Limits for programs that were built with a sanitizer."""

from __future__ import annotations

import os
import re

from lab.stubs import REPOSITORY

# "address", "thread", "asan"...; empty for an ordinary build.
NAME = os.environ.get("INPLACED_SANITIZER", "")

# Sanitized programs are this much slower.
SLOWNESS = 5 if NAME else 1

_REPORT = re.compile(
    r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|:\d+:\d+: runtime error: |SUMMARY: \w+Sanitizer"
)


def environment() -> dict[str, str]:
    """Options for a sanitized program; variables of the tests' caller win."""
    suppressions = REPOSITORY / "tests" / "tsan.supp"
    options = {
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "TSAN_OPTIONS": f"suppressions={suppressions} ignore_noninstrumented_modules=1",
    }
    return {name: os.environ.get(name, value) for name, value in options.items()}


def find_report(text: str) -> str | None:
    """The first report in a program's output, with some lines that follow it."""
    found = _REPORT.search(text)
    return text[found.start() : found.start() + 4000] if found else None
