# SPDX-License-Identifier: Apache-2.0
"""The flags that make faults of memory harder to use: what the compiler was asked for, and what it has left in the programs."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from conftest import REPOSITORY

_BUILDS = REPOSITORY / "build/packaging"
_FLAGS = {"-O2", "-fPIE", "-fstack-protector-strong", "-fstack-clash-protection"}
_MARKS = {"amd64": ("-fcf-protection", "IBT, SHSTK"), "arm64": ("-mbranch-protection=standard", "BTI, PAC")}
_PROGRAMS = ("inplaced", "inplacectl", "kubectl-inplace")

architectures = pytest.mark.parametrize("architecture", sorted(_MARKS))


def run(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module", params=["deb", "static"])
def kind(request, artifacts):
    """The builds of the Debian packages, and those of image, RPMs and archives, which are made now if need be."""
    artifacts("deb" if request.param == "deb" else "archive")
    return request.param


@architectures
def test_every_object(kind, architecture):
    """The last word about _FORTIFY_SOURCE counts: Debian's own flags have a lower level."""
    commands = json.loads((_BUILDS / f"{kind}-{architecture}/compile_commands.json").read_text())
    assert len(commands) > 200
    for command in commands:
        words = command["command"].split()
        fortified = [word for word in words if re.match(r"-[DU]_FORTIFY_SOURCE", word)]
        assert fortified[-1] == "-D_FORTIFY_SOURCE=3", command["file"]
        assert {*words} >= _FLAGS | {_MARKS[architecture][0]}, command["file"]


@architectures
def test_marks(kind, architecture):
    """Each object is marked for CET or BTI. Debian 12's C library is not, so the linker leaves the programs without."""
    library = _BUILDS / f"{kind}-{architecture}/agent/libbase.a"
    assert run("readelf", "--notes", library).count(_MARKS[architecture][1]) == len(run("ar", "t", library).split()) > 10


@architectures
def test_segments(kind, architecture):
    """The programs are position independent, what the loader has resolved is read-only, and no page is written and run."""
    for program in _PROGRAMS:
        said = run("readelf", "--headers", "--dynamic", "--wide", _BUILDS / f"{kind}-{architecture}/agent" / program)
        assert "Position-Independent Executable" in said and re.search(r"\(FLAGS_1\).*\bNOW\b.*\bPIE\b", said), program
        assert re.search(r"GNU_STACK .* RW +0x", said) and "GNU_RELRO" in said, program
        assert not re.search(r" R?WE +0x|TEXTREL|RPATH|RUNPATH", said), program


def test_symbols(packages, kubectl_packages, session_folder):
    """The programs in the packages call the checked functions of the C library, and its check of the stack."""
    for package in (*packages.values(), *kubectl_packages.values()):
        folder = session_folder / f"hardening-{package.stem}"
        run("dpkg-deb", "--extract", package, folder)
        for program in _PROGRAMS:
            if (folder / "usr/bin" / program).exists():
                names = set(re.findall(r"\b(__\w+_chk|__stack_chk_fail)\b", run("nm", "--dynamic", folder / "usr/bin" / program)))
                assert "__stack_chk_fail" in names and len(names) > 3, (package.name, program, names)
