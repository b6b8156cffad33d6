# SPDX-License-Identifier: Apache-2.0
"""Proves that the agent restarts a container again that a late kubelet has started with its old
environment, and that the agent does not wait for the kubelet to report a container.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from fake.tcp_proxy import TcpProxy
from lab import sanitizers
from lab.kubelet import HASTY
from lab.pod import VERIFIED, Pod, container, from_annotations, until_term
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

pytestmark = [pytest.mark.containers, pytest.mark.timeout(180 * SLOWLY)]


@pytest.fixture
def line(control_plane):
    """A proxy between the kubelet and the API server; the agent has a connection of its own."""
    server = urlsplit(control_plane.url)
    with TcpProxy((server.hostname, server.port)) as proxy:
        yield proxy


@pytest.fixture
def late_node(make_node, line):
    return make_node(config=HASTY, server=f"https://127.0.0.1:{line.port}")


@pytest.fixture
def late_agent(late_node, start_agent, control_plane, folder):
    return start_agent(
        late_node.runtime.endpoint,
        kubeconfig=control_plane.write_agent_kubeconfig(
            folder / "agent.conf", node=late_node.name
        ),
        node_name=late_node.name,
        flags=[f"--kubelet-health-address={late_node.health_address}"],
    )


@pytest.mark.parametrize("is_killed", [False, True], ids=["", "agent-killed"])
def test_a_kubelet_that_learns_of_a_change_too_late(
    late_node, line, late_agent, tools, is_killed
):
    """The successor has the old values; the agent detects that by itself, and the next run of the
    agent knows the number of restarts."""
    main = container("main", tools, env=from_annotations(COLOUR="colour"))
    pod = Pod(late_node, main, annotations={"colour": "red"}).start()
    pod.wait_meta()
    first = pod.runtime_container("main").id

    line.freeze()
    pod.begin_update(annotations={"colour": "blue"})
    wait_until(
        lambda: pod.runtime_container("main").id != first and pod.is_running("main"),
        30 * SLOWLY,
        "second container",
        pause=0.05,
    )
    assert pod.environment("main")["COLOUR"] == "red"
    assert pod.n_late("main") == 1
    line.thaw()
    pod.wait(lambda _: pod.status("main")["restartCount"] >= 1)
    if is_killed:
        late_agent.kill9()
        late_agent.start()

    pod.wait_restarted("main", timeout=60 * SLOWLY)
    assert pod.environment("main")["COLOUR"] == "blue"
    pod.wait_meta(20 * SLOWLY)
    pod.wait_condition(VERIFIED, "True", 20 * SLOWLY)
    assert pod.events("InPlaceRestartFailed") == []
    assert (pod.restarts(), pod.n_late("main"), pod.status("main")["restartCount"]) == ({"main": 1}, 1, 2)
    pod.delete()


def test_the_report_does_not_wait_for_the_kubelet(late_node, line, late_agent, tools):
    """The runtime has the successor; the pod's status still names the one before.

    A volume shows when the kubelet has got the change.
    """
    command = until_term("echo term >>/data/notes; while [ ! -e /data/go ]; do sleep 0.1; done")
    main = container("main", tools, env=from_annotations(COLOUR="colour"), command=command)
    main["volumeMounts"].append({"name": "info", "mountPath": "/info"})
    item = {"path": "colour", "fieldRef": {"fieldPath": "metadata.annotations['colour']"}}
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "info", "downwardAPI": {"items": [item]}}]
    more = {"volumes": volumes, "terminationGracePeriodSeconds": 60}
    pod = Pod(late_node, main, annotations={"colour": "red"}, **more).start()
    (before,) = pod.wait_meta()
    shown = late_node.folder / "kubelet/pods" / pod.uid / "volumes/kubernetes.io~downward-api/info/colour"
    assert shown.read_text() == "red"
    pod.begin_update(annotations={"colour": "blue"})
    wait_until(lambda: pod.lines("notes"), 20 * SLOWLY, "SIGTERM")
    wait_until(lambda: shown.read_text() == "blue", 20 * SLOWLY, "change in the volume")
    line.freeze()
    pod.file("go").touch()

    def is_reported() -> bool:
        (entry,) = pod.meta()["containers"]
        return entry["containerID"] != before["containerID"]

    wait_until(is_reported, 15 * SLOWLY, "report of the successor", pause=0.05)
    assert pod.container_id("main") == before["containerID"]
    assert pod.condition(VERIFIED)["status"] == "True"
    line.thaw()
    pod.wait_restarted("main")
    assert pod.environment("main")["COLOUR"] == "blue"
    pod.wait_meta()
    pod.delete()
