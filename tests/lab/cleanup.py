# SPDX-License-Identifier: Apache-2.0
"""Takes down whatever still runs or is mounted for a lab folder, and only that.

A process belongs to a folder if its environment says so (`INPLACED_LAB=FOLDER`, inherited by the
shims that containerd leaves behind), if it descends from such a process, as containers do, or if
it is in a control group of the folder, where a container stays when its shim is gone. So nothing
is ever killed by name, and no other process can be hit.

As a program this file is the guardian of a test run: it reads `add FOLDER` and `drop FOLDER` from
its standard input, and when that ends, however the run died, it sweeps the folders that are left.
It therefore imports nothing but the standard library.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Self

MARKER = "INPLACED_LAB"

# A file with the name of a control group below which a part of the lab has put its own.
CONTROL_GROUP_FILE = "control-group"
GROUP_PREFIX = "inplaced-"

_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_CONTAINER_LOGS = Path("/var/log/containers")
_SHIM_SOCKETS = Path("/run/containerd/s")
_SHIM_FOLDERS = "state/io.containerd.runtime.v2.task/*/*"
_RUNC_STATES = ("runc/*/state.json", "runc/*/*/state.json")  # CRI-O's, and those of a namespace of containerd

# Nothing cleans up after the guardian, which may run on a machine with much else to do.
_GUARDIANS_GRACE_SECONDS = 120

# Where runtimes put the control groups of containers that are in no pod's.
_RUNTIME_GROUPS = ("/k8s.io/", "/crio/")


class Closing(ABC):
    """A `with` block starts it, and closes it at its end."""

    def start(self) -> object:
        """Does nothing: a thing without a start is there once it is made."""
        return None

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def sweep(folder: Path, grace_seconds: float = 30) -> None:
    """Kills the processes of the folder, unmounts what is mounted in it, and removes it."""
    groups = kill_processes(folder, grace_seconds)
    _remove_control_groups(groups)
    unmount_all(folder)
    _remove_shim_sockets(folder)
    _remove_log_links(folder)
    shutil.rmtree(folder, ignore_errors=True)


def kill_processes(folder: Path, grace_seconds: float) -> set[Path]:
    """Kills every process of the folder; returns its control groups, in which none is left."""
    deadline = time.monotonic() + grace_seconds
    groups = _find_control_groups(folder)
    while pids := _find_processes(folder) | _find_members(groups):
        for pid in pids:
            groups |= _container_groups(pid)
        for pid in pids:
            _kill(pid)
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes of {folder} outlive SIGKILL: {sorted(pids)}")
        time.sleep(0.005)
    return groups


def unmount_all(folder: Path) -> None:
    """Unmounts everything at or below the folder, innermost first, or fails.

    Whatever is still mounted there must not be removed with the folder.
    """
    for point in reversed(_mount_points(folder)):
        subprocess.run(["umount", "--lazy", point], check=False, stderr=subprocess.DEVNULL)
    if left := _mount_points(folder):
        raise OSError(f"cannot unmount {', '.join(left)}")


def _find_processes(folder: Path) -> set[int]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    marked = [pid for pid in pids if _belongs(pid, folder)]
    if not marked:
        return set()  # as mostly, and on a machine with hundreds of processes the tree takes a while
    children: dict[int, list[int]] = {}
    for pid in pids:
        if (parent := _living_parent(pid)) is not None:
            children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    while marked:
        pid = marked.pop()
        if pid not in found:
            found.add(pid)
            marked.extend(children.get(pid, ()))
    return found - {os.getpid()}


def _living_parent(pid: int) -> int | None:
    """The parent of the process; None if it is gone or waits to be reaped."""
    try:
        state, parent = _read(pid, "stat").rpartition(b")")[2].split()[:2]
    except (OSError, ValueError):
        return None
    return None if state in (b"Z", b"X") else int(parent)


def _belongs(pid: int, folder: Path) -> bool:
    """A process that waits to be reaped has no environment any more."""
    try:
        environment = _read(pid, "environ")
    except OSError:
        return False
    wanted = os.fsencode(f"\0{MARKER}={folder}")
    entries = b"\0" + environment + b"\0"
    return wanted + b"\0" in entries or wanted + b"/" in entries


def _read(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
        return file.read()


def _container_groups(pid: int) -> set[Path]:
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return set()
    paths = (line.split(":", 2)[2] for line in lines)
    return {group for path in paths if path.startswith(_RUNTIME_GROUPS) for group in _in_hierarchies(path)}


def _in_hierarchies(group: str) -> set[Path]:
    return {Path(f"{hierarchy}{group}") for hierarchy in list_hierarchies()}


def list_hierarchies() -> list[Path]:
    """Where control groups are made: one place, or one for each controller."""
    if (_CONTROL_GROUPS / "cgroup.controllers").exists():
        return [_CONTROL_GROUPS]
    return [path for path in _CONTROL_GROUPS.iterdir() if os.path.ismount(path)]


def _find_control_groups(folder: Path) -> set[Path]:
    """Files in the folder name them: they are known whether or not a process lives in them.

    Each is named after what it is for, so that a file that was cut short names no other one.
    """
    groups = set()
    for depth in ("", "*/", "*/*/"):
        for named in folder.glob(depth + CONTROL_GROUP_FILE):
            group = named.read_text()
            groups |= _in_hierarchies(group) if Path(group).name.startswith(GROUP_PREFIX) else set()
        for pattern in _RUNC_STATES:
            for state in folder.glob(depth + pattern):
                paths = _read_group_paths(state)
                groups |= {path for path in paths if path.name.endswith(state.parent.name)}
    return groups


def _read_group_paths(state: Path) -> list[Path]:
    """The control groups of a container, as runc has written them down; none while it writes or removes the file."""
    with suppress(OSError, ValueError):
        return [Path(path) for path in json.loads(state.read_text())["cgroup_paths"].values()]
    return []


def _find_members(groups: set[Path]) -> set[int]:
    pids = set()
    for group in groups:
        for path, _, _ in os.walk(group):
            with suppress(OSError):
                pids |= {int(pid) for pid in Path(path, "cgroup.procs").read_text().split()}
    return pids - {0}  # 0: one that this process cannot see


def _remove_control_groups(groups: set[Path]) -> None:
    """A container that was killed with its shim leaves empty groups behind."""
    for group in groups:
        # Only an empty group can be removed, so nothing is lost.
        for path, _, _ in os.walk(group, topdown=False):
            with suppress(OSError):
                os.rmdir(path)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _mount_points(folder: Path) -> list[str]:
    """In the order in which they were mounted."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = (line.split()[4].encode().decode("unicode_escape") for line in lines)
    return [point for point in points if point == str(folder) or point.startswith(f"{folder}/")]


def _remove_shim_sockets(folder: Path) -> None:
    """containerd's shims listen outside of its folders; each one's own says where."""
    for depth in ("", "*/", "*/*/"):
        for shim in folder.glob(depth + _SHIM_FOLDERS):
            socket = Path(_read_shim_address(shim).removeprefix("unix://"))
            if socket.parent == _SHIM_SOCKETS:
                socket.unlink(missing_ok=True)


def _read_shim_address(shim: Path) -> str:
    """Reads the address from the file of containerd 2, or from that of an earlier one."""
    with suppress(OSError, ValueError):
        return str(json.loads((shim / "bootstrap.json").read_text())["address"])
    with suppress(OSError):
        return (shim / "address").read_text().strip()
    return ""


def _remove_log_links(folder: Path) -> None:
    """A kubelet links to its containers' logs from outside of its folders."""
    if _CONTAINER_LOGS.is_dir():
        for link in _CONTAINER_LOGS.iterdir():
            with suppress(OSError):  # it is no link, or another kubelet has just removed it
                if os.readlink(link).startswith(f"{folder}/"):
                    link.unlink()


def _guard() -> None:
    """Outlives the test run by as long as it takes to clean up after it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    folders: list[Path] = []
    for line in sys.stdin:
        verb, _, name = line.rstrip("\n").partition(" ")
        if verb == "add":
            folders.append(Path(name))
        elif verb == "drop" and Path(name) in folders:
            folders.remove(Path(name))
    for folder in reversed(folders):
        sweep(folder, _GUARDIANS_GRACE_SECONDS)


if __name__ == "__main__":
    _guard()
