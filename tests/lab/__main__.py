# SPDX-License-Identifier: Apache-2.0
"""`python3 -m lab`: see up.py."""

from lab.up import main

main()
