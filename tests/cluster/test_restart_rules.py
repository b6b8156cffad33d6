# SPDX-License-Identifier: Apache-2.0
"""Proves that no restart lets the restart rules of a container end it, or restart other containers of its pod, and that
fields of pods which are newer than the programs survive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lab import sanitizers
from lab.kubelet import is_ready
from lab.pod import Pod, container, from_annotations, shell, until_term
from lab.recreate_request import RecreateRequest

SLOWLY = sanitizers.SLOWNESS

pytestmark = [pytest.mark.containers, pytest.mark.timeout(120 * SLOWLY)]


def rule(action: str, operator: str, code: int) -> dict[str, Any]:
    return {"action": action, "exitCodes": {"operator": operator, "values": [code]}}


_ENDS = {"restartPolicy": "Never", "restartPolicyRules": [rule("Restart", "In", 42)]}
_ALL = {"restartPolicy": "Always", "restartPolicyRules": [rule("RestartAllContainers", "NotIn", 42)]}


@pytest.fixture
def ruled(make_pod, tools) -> Callable[..., Pod]:
    """ruled(fields, …) makes a pod whose container "main" has these fields, beside a container "other"."""

    def make(fields: dict[str, Any], main: dict[str, Any] | None = None, **more: Any) -> Pod:
        first = {**container("main", tools), **fields, **(main or {})}
        pod = make_pod(first, container("other", tools), owner=False, **more)
        if "restartPolicyRules" not in pod.get()["spec"]["containers"][0]:
            pytest.skip("this API server has no restart rules")
        return pod

    return make


@pytest.mark.parametrize("fields", [_ENDS, _ALL], ids=["ends", "all"])
def test_nothing_is_stopped(node_agent, ruled, settle, fields):
    """Neither on the node, nor by a request, nor for metadata; the other container is restarted, and a request with
    force obeyed.
    """
    env = from_annotations(COLOUR="colour")
    marks = {"colour": "red", "inplaced.io/restart-on-metadata-change": "true"}
    pod = ruled(fields, {"env": env}, annotations=marks)
    ran = node_agent.ctl("restart", "--wait", pod.name, timeout=60 * SLOWLY)
    assert ran.returncode == 3 and "restart rules may end it" in ran.stdout + ran.stderr
    pod.wait_restarted("other")

    request = RecreateRequest(pod, "main").create()
    status = request.wait_phase("Completed", 30 * SLOWLY)
    assert "restart rules may end it" in status["containerRecreateStates"][0]["message"]
    request.delete()

    pod.change(annotations={"colour": "blue"})
    event = pod.wait_event("InPlaceRestartSkipped", 20 * SLOWLY)
    assert "restart rules may end it" in event["message"]
    settle()
    assert pod.restarts() == {"main": 0, "other": 1}

    first = pod.status("main")["containerID"]
    request = RecreateRequest(pod, "main", forceRecreate=True, deadline=10).create()
    pod.wait(lambda _: "running" not in pod.status("main")["state"] or pod.status("main")["containerID"] != first, 30)
    request.delete()


def test_the_kubelet_restarts_one_container(inplace, ruled, tools):
    """As its image is spelled otherwise: rules do not count, and what the program does not know stays."""
    prepare = {**container("prepare", tools), "command": shell("echo \"COLOUR='red'\" >/files/env")}
    prepare["volumeMounts"] = [{"name": "files", "mountPath": "/files"}]
    file = {"volumeName": "files", "path": "env", "key": "COLOUR"}
    env = [{"name": "COLOUR", "valueFrom": {"fileKeyRef": file}}]
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "files", "emptyDir": {}}]
    main = {"env": env, "command": until_term("exit 7")}
    pod = ruled(_ALL, main, initContainers=[prepare], volumes=volumes)
    before = pod.get()["spec"]
    ran = inplace.run("restart", f"{pod.name}/main")
    assert ran.code == 0, ran.stderr
    pod.wait(is_ready, 30 * SLOWLY)
    assert pod.restarts()["main"] == 1 and pod.restarts()["other"] == 0
    assert pod.status("main")["lastState"]["terminated"]["exitCode"] == 7
    assert pod.environment("main")["COLOUR"] == "red"
    after = pod.get()["spec"]
    assert after["containers"][0].pop("image") != before["containers"][0].pop("image")
    assert after == before
