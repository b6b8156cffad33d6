# SPDX-License-Identifier: Apache-2.0
"""Peers that do what a test sets: a runtime and a registry that can fail in every way.

They run inside the test's own process, behave well until a fault is set, and record all that is
asked of them. Real peers are in the package `lab` beside this one.
"""
