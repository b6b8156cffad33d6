# SPDX-License-Identifier: Apache-2.0
"""A machine of its own, booted by systemd in a container of systemd-nspawn.

It has a file system, a network (loopback only) and processes of its own; its kernel is ours. Programs run
in it with `run`, as root. It ends with its folder.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from compatibility import note
from lab.cleanup import CONTROL_GROUP_FILE, GROUP_PREFIX
from lab.process import Process
from lab.wait import wait_until

_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_numbers = itertools.count(1)

# systemd makes its groups below the one that it is started in, so that is one of its own.
_START = """
for hierarchy in "$@"; do mkdir "$hierarchy$0" && echo $$ >"$hierarchy$0/cgroup.procs" || exit; done
exec systemd-nspawn --quiet --directory "$FOLDER/root" --machine "$NAME" --register=no --keep-unit \\
    --private-network --console=read-only --boot systemd.log_target=console
"""


class Machine:
    """The machine; its files are below `root` before it is booted as well."""

    def __init__(self, folder: Path, archive: Path) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.root.mkdir(parents=True)
        subprocess.run(["tar", "-C", str(self.root), "-xf", str(archive)], check=True)
        self._process: Process | None = None
        self._leader = 0

    def boot(self, timeout: float) -> None:
        """Returns when all services of the machine have been started."""
        name = f"machine-{os.getpid()}-{next(_numbers)}"
        group = f"/{GROUP_PREFIX}{name}"
        (self.folder / CONTROL_GROUP_FILE).write_text(group)
        hierarchies = [_CONTROL_GROUPS / kind for kind in ("systemd", "unified")]
        hierarchies = [path for path in hierarchies if path.is_dir()] or [_CONTROL_GROUPS]
        self._process = Process(
            ["bash", "-c", _START, group, *map(str, hierarchies)],
            self.folder,
            self.folder / "console.log",
            {"FOLDER": str(self.folder), "NAME": name},
        )
        wait_until(self._is_up, timeout, lambda: f"booted machine:\n{self.console()[-5000:]}", 0.1)
        note("Debian", (self.root / "etc/debian_version").read_text().partition(".")[0])
        note("systemd", self.run("systemctl", "--version").split()[1])
        note("containerd", self.run("containerd", "--version").split()[2])

    def _is_up(self) -> bool:
        assert self._process is not None
        self._process.check_alive()
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        self._leader = int((children.read_text().split() or ["0"])[0])
        if not self._leader:
            return False
        said = self.run("systemctl", "is-system-running", check=False)
        return said.strip() in ("running", "degraded")

    def console(self) -> str:
        return (self.folder / "console.log").read_text(errors="replace")

    def run(self, *argv: str, check: bool = True, timeout: float = 60) -> str:
        """Runs a program and returns its output, complaints included; it must end well, unless `check` is false."""
        done = subprocess.run(
            ["nsenter", "--target", str(self._leader), "--all", "--", *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "SYSTEMD_PAGER": "cat",
                 "DEBIAN_FRONTEND": "noninteractive", "COLUMNS": "200"},
        )
        assert not check or done.returncode == 0, f"{argv} ended with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def show(self, unit: str, field: str) -> str:
        """A property of the unit, as in `systemctl show`."""
        return self.run("systemctl", "show", "--value", "--property", field, unit).strip()

    def journal(self, *matches: str) -> list[dict[str, Any]]:
        """The entries with these fields, oldest first."""
        self.run("journalctl", "--sync")
        text = self.run("journalctl", "--output=json", "--quiet", *matches)
        return [json.loads(line) for line in text.splitlines()]
