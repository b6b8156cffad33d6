# SPDX-License-Identifier: Apache-2.0
"""Proves the lab itself: that real nodes run pods, and that nothing of them is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from lab import runtimes
from lab.control_plane import ControlPlane
from lab.kubelet import Kubelet, is_ready
from lab.wait import wait_until

TESTS = Path(__file__).resolve().parents[1]

# Ends at once on SIGTERM.
SLEEP = ("/bin/sh", "-c", "trap exit TERM; while :; do sleep 3600 & wait; done")

# Serves the pod's name over HTTP, at /hostname.
SERVE = ("/bin/busybox", "httpd", "-f", "-p", "80", "-h", "/etc")

pytestmark = pytest.mark.containers


def traces_of(node: str) -> list[str]:
    """The remains of a node on this machine, by the name of its interface."""
    # Groups of others go away while they are walked through, which only os.walk() does not mind.
    walk = os.walk("/sys/fs/cgroup")
    found = [place for place, _, _ in walk if Path(place).name == f"inplaced-{node}"]
    if Path(f"/sys/class/net/{node}").exists():
        found.append(node)
    return found


def log_links(folder: str) -> list[str]:
    """The links that lead into the folder; links of other nodes come and go meanwhile."""
    logs = Path("/var/log/containers")
    found = []
    for link in logs.iterdir() if logs.is_dir() else ():
        with suppress(FileNotFoundError):
            found.append(os.readlink(link))
    return [target for target in found if target.startswith(folder)]


def hostname_at(address: str) -> str | None:
    """The name of the pod that answers. None without an answer: pods are ready before their servers."""
    try:
        with urllib.request.urlopen(f"http://{address}/hostname", timeout=5) as answer:
            return answer.read().decode().strip()
    except OSError:
        return None


@pytest.mark.parametrize("kind", [runtimes.DEFAULT, "crio"])
def test_two_nodes_run_pods(kube, make_node, push, folder, kind):
    """Two nodes run side by side; each has addresses of its own, and both can be reached from here. CRI-O removes, when it
    starts, what its network had in an earlier life.
    """
    image = push([], busybox=True)
    nodes: list[Kubelet] = []
    addresses: dict[str, str] = {}
    for _ in range(2):
        node = make_node(runtime=kind)
        nodes.append(node)
        pod = node.run_pod(f"on-{node.name}", image.reference, SERVE)
        addresses[pod["status"]["podIP"]] = f"on-{node.name}"
        running = node.runtime.image_status(image.reference)
        assert running.id.removeprefix("sha256:") == image.image_id.removeprefix("sha256:")
        version = kube.get("/version")["gitVersion"]
        assert kube.get(node.path)["status"]["nodeInfo"]["kubeletVersion"] == version
    for address, name in addresses.items():
        found = wait_until(lambda address=address: hostname_at(address), 10, f"answer at {address}")
        assert found == name
        kube.delete(f"/api/v1/namespaces/default/pods/{name}", gracePeriodSeconds="0")
    assert len(addresses) == 2
    for node in nodes:
        node.close()
        wait_until(lambda node=node: not traces_of(node.interface.name), 10, "end of traces")
    assert log_links(str(folder.path)) == []


@pytest.mark.slow
def test_a_whole_cluster(folder, registry, push):
    """Controllers and the scheduler bring a DaemonSet's pod to the node; a dead kubelet comes back."""
    image = push([], busybox=True)
    with ControlPlane(folder / "cp", controllers=True, scheduler=True) as control_plane:
        with Kubelet(folder / "node", control_plane, registry) as node:
            admin = control_plane.admin
            labels = {"app": "sleeper"}
            container = {"name": "main", "image": image.reference, "command": list(SLEEP)}
            admin.create(
                {
                    "apiVersion": "apps/v1",
                    "kind": "DaemonSet",
                    "metadata": {"name": "sleeper"},
                    "spec": {
                        "selector": {"matchLabels": labels},
                        "template": {
                            "metadata": {"labels": labels},
                            "spec": {
                                "containers": [container],
                                "terminationGracePeriodSeconds": 1,
                            },
                        },
                    },
                }
            )
            path = "/apis/apps/v1/namespaces/default/daemonsets/sleeper"
            admin.wait_for(path, lambda daemons: daemons["status"].get("numberReady") == 1, 30)
            node.kubelet.restart()
            admin.wait_for(node.path, is_ready)


KILLED = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from lab import runtimes
from lab.control_plane import ControlPlane
from lab.folder import LabFolder
from lab.kubelet import Kubelet
from lab.registry import Registry

with LabFolder(Path(sys.argv[2])) as folder, Registry(folder / "registry") as registry:
    image = registry.push_image("t/sleeper", "1", busybox=True)
    with ControlPlane(folder / "cp") as control_plane:
        with Kubelet(folder / "node", control_plane, registry) as node:
            node.run_pod("sleeper", image.reference, sys.argv[3:])
            print(node.interface.name, flush=True)
            sys.stdin.read()
"""


@pytest.mark.slow
def test_killed_tests_leave_nothing(folder):
    """A killed lab leaves no processes, mounts, groups, links to logs, or network interfaces."""
    place = folder / "lab"
    with subprocess.Popen(
        [sys.executable, "-B", "-c", KILLED, str(TESTS), str(place), *SLEEP],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        name = child.stdout.readline().strip()
        assert len(traces_of(name)) > 1 and len(log_links(str(place))) == 1
        child.send_signal(signal.SIGKILL)
    wait_until(lambda: not place.exists(), 30, f"end of {place}")
    wait_until(lambda: not traces_of(name), 10, lambda: f"end of {traces_of(name)}")
    assert str(place) not in Path("/proc/mounts").read_text()
    assert log_links(str(place)) == []
