# SPDX-License-Identifier: Apache-2.0
"""The RPM packages on a machine that systemd has booted: from their installation until they are erased.

Debian's rpm installs them, without what they require: no package here is an RPM. The tests share one machine and
run in this order.
"""

from __future__ import annotations

import re
import shutil

import pytest

from conftest import VERSION_OF_UPGRADE, list_files
from lab.machine import Machine
from lab.version import VERSION
from lab.wait import wait_until

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not shutil.which("rpmbuild"), reason="there is no rpmbuild, and so no RPM"),
]

UNITS = AGENT, SOCKET = "inplaced.service", "inplaced.socket"
CONFIG = "/etc/inplaced/config.yaml"
# Folders of the distribution's own packages, which Debian's do not have.
SYSTEM_FOLDERS = "licenses", "zsh/site-functions", "fish/vendor_completions.d"
FOLDERS = {"/etc/inplaced", "/etc/inplaced/auth.d", "/etc/inplaced/images.d", "/var/lib/inplaced"}


class Node:
    """The machine, with the commands that tests run on it."""

    def __init__(self, machine):
        self.machine = machine
        self.run, self.show = machine.run, machine.show

    def install(self, folder, *arguments):
        """Neither rpm nor a scriptlet complains."""
        packages = [f"/srv/{folder}/{path.name}" for path in (self.machine.root / "srv" / folder).iterdir()]
        said = self.run("rpm", *arguments, "--nodeps", *packages)
        assert not re.search(r"error|warning|fail|cannot|not found", said, re.IGNORECASE), said

    def pid(self):
        return int(self.show(AGENT, "MainPID"))

    def accounts(self):
        return [name for name in ("passwd", "group") if "\ninplaced:" in self.run("getent", name)]


@pytest.fixture(scope="module")
def node(session_folder, machine_archive, rpm_packages, newer_rpm_packages):
    machine = Machine(session_folder / "rpm-machine", machine_archive("12"))
    for folder in SYSTEM_FOLDERS:
        (machine.root / "usr/share" / folder).mkdir(parents=True, exist_ok=True)
    for folder, packages in ("older", rpm_packages), ("newer", newer_rpm_packages):
        target = machine.root / "srv" / folder
        target.mkdir()
        for package in packages:
            shutil.copy(package, target)
    machine.boot(120)
    node = Node(machine)
    node.files_before = list_files(machine)
    yield node


def test_install(node):
    """User, group and folders are there; whether the service is started is left to the administrator."""
    assert node.accounts() == []
    node.install("older", "--install")
    assert node.accounts() == ["passwd", "group"]
    assert node.run("stat", "--format=%U:%G %a", "/etc/inplaced/auth.d").strip() == "root:root 700"
    for unit in UNITS:
        assert node.show(unit, "ActiveState") == "inactive"
        assert node.run("systemctl", "is-enabled", unit).strip() == "enabled"  # by Debian's preset
    assert "inplaced" in node.run("journalctl", "--list-catalog")
    assert node.run("inplacectl", "--version").split()[:2] == ["inplacectl", VERSION]
    assert node.run("kubectl-inplace", "version").strip()


def test_start(node):
    """The static program within the sandbox of its unit."""
    node.run("systemctl", "start", SOCKET, AGENT)
    assert node.pid() != 0
    wait_until(lambda: "is ready" in node.show(AGENT, "StatusText"), 60, "runtime that is ready", 0.1)
    assert "No problem was found." in node.run("inplacectl", "doctor")


def test_upgrade(node):
    """The newer program takes over; the configuration stays as the administrator has it."""
    config = node.machine.root / CONFIG.lstrip("/")
    changed = config.read_text() + "maxParallelPulls: 3\n"
    config.write_text(changed)
    pid = node.pid()
    node.install("newer", "--upgrade")
    assert node.run("rpm", "--query", "inplaced", "--queryformat", "%{VERSION}") == VERSION_OF_UPGRADE
    assert node.pid() not in (0, pid)
    assert config.read_text() == changed
    assert node.accounts() == ["passwd", "group"]


def test_stopped_stays_stopped(node):
    """A package that is installed anew starts nothing that was stopped, and enables nothing that was disabled."""
    node.run("systemctl", "disable", "--now", *UNITS)
    node.install("newer", "--upgrade", "--force")
    for unit in UNITS:
        assert node.show(unit, "ActiveState") == "inactive"
        assert node.run("systemctl", "is-enabled", unit, check=False).strip() == "disabled"
    node.run("systemctl", "enable", "--now", *UNITS)


def test_erase(node):
    """The service ends. RPM keeps the changed configuration, the account, and the files that the service wrote."""
    assert node.pid() != 0
    node.run("rpm", "--erase", "inplaced", "kubectl-inplace")
    for unit in UNITS:
        assert node.show(unit, "LoadState") == "not-found" and node.show(unit, "ActiveState") == "inactive"
    assert node.pid() == 0
    left = list_files(node.machine) - node.files_before
    backups = {path for path in left if re.fullmatch(r"/etc/(passwd|group|shadow|gshadow|sub[ug]id)-", path)}
    state = {path for path in left if path.startswith("/var/lib/inplaced/")}
    assert left - backups - state == FOLDERS | {f"{CONFIG}.rpmsave"}
    assert node.accounts() == ["passwd", "group"]
    assert "inplaced" not in node.run("find", "/etc/systemd", "/var/lib/systemd/deb-systemd-helper-enabled", check=False)
