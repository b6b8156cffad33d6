# SPDX-License-Identifier: Apache-2.0
"""The programs of the Debian package for arm64, run by an emulator where this machine is another one."""

from __future__ import annotations

import subprocess

import pytest

from conftest import NATIVE, REPOSITORY
from lab.version import VERSION

ARCHITECTURE, MACHINE = "arm64", 183

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def programs(packages, session_folder):
    """The folder of both."""
    folder = session_folder / "unpacked-arm64"
    subprocess.run(["dpkg-deb", "--extract", packages[ARCHITECTURE], folder], check=True)
    return folder / "usr/bin"


@pytest.fixture(scope="module")
def emulator():
    """A command that runs such a program with the libraries of Debian's packages for it."""
    if NATIVE == ARCHITECTURE:
        return []
    libraries = subprocess.run([REPOSITORY / "packaging/deb/libraries", ARCHITECTURE], stdout=subprocess.PIPE,
                               text=True, check=True).stdout.strip()
    return ["qemu-aarch64-static", "-L", libraries]


def run(*argv):
    return subprocess.run(argv, capture_output=True, text=True, timeout=120)


def test_it_starts(programs, emulator):
    for name in ("inplaced", "inplacectl"):
        program = programs / name
        assert int.from_bytes(program.read_bytes()[18:20], "little") == MACHINE
        done = run(*emulator, program, "--version")
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{name} {VERSION}\n", "")
        assert run(*emulator, program, "--help").returncode == 0
    wrong = run(*emulator, programs / "inplaced", "--max-parallel-pulls=many")
    assert wrong.returncode == 2
    assert '"many" is not a number from 1 to 1000' in wrong.stderr


def test_it_pulls(programs, emulator, make_agent, runtime, push):
    """Pulls from a real registry into a real runtime, asked by the other machine's inplacectl."""
    agent = make_agent(runtime.endpoint)
    agent.argv[:1] = [*emulator, str(programs / "inplaced")]
    agent.start(120)
    reference = push().reference
    pulled = agent.ctl("pull", "--quiet", reference)
    image = runtime.image_status(reference)
    assert image is not None and image.id in pulled.stdout
    asked = run(*emulator, programs / "inplacectl", "--socket", agent.socket, "-o", "json", "status")
    assert asked.returncode == 0 and reference.partition("/")[2].rpartition(":")[0] in asked.stdout
