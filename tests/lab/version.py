# SPDX-License-Identifier: Apache-2.0
"""The version of this checkout: of programs, image and chart, and as dpkg and rpm have it."""

from lab.stubs import REPOSITORY

VERSION = (REPOSITORY / "VERSION").read_text().strip()
PACKAGE_VERSION = VERSION.replace("-", "~")
